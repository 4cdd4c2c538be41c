import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Deploys a program again and again, as a server does: a class loader of its own for each
 * deployment, which is dropped afterwards. Arguments: seconds, milliseconds from one deployment to
 * the next, deployments from one System.gc() to the next (0: the collector decides), the jars
 * (path-separated), the class, its arguments. After each deployment a line says how many there
 * were, and how many of their class loaders are gone. The last deployment is over when the program
 * ends.
 */
public final class Redeploy {
    private Redeploy() {}

    public static void main(String[] args) throws Exception {
        long seconds = Long.parseLong(args[0]);
        long period = Long.parseLong(args[1]) * 1_000_000;
        long collect = Long.parseLong(args[2]);
        String[] jars = args[3].split(java.io.File.pathSeparator);
        URL[] urls = new URL[jars.length];
        for (int i = 0; i < jars.length; i++) {
            urls[i] = Path.of(jars[i]).toUri().toURL();
        }
        String[] rest = java.util.Arrays.copyOfRange(args, 5, args.length);
        List<WeakReference<ClassLoader>> loaders = new ArrayList<>();
        long begin = System.nanoTime();
        long gone = 0;
        for (long n = 1; System.nanoTime() - begin < seconds * 1_000_000_000; n++) {
            loaders.add(deploy(urls, args[4], rest));
            if (collect > 0 && n % collect == 0) {
                System.gc();
            }
            int before = loaders.size();
            loaders.removeIf(l -> l.get() == null);
            gone += before - loaders.size();
            System.out.println("deployed " + n + " gone " + gone);
            long left = begin + n * period - System.nanoTime();
            if (left > 0) {
                Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
            }
        }
    }

    private static WeakReference<ClassLoader> deploy(URL[] urls, String main, String[] args) throws Exception {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        try (URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
            thread.setContextClassLoader(loader);
            loader.loadClass(main).getMethod("main", String[].class).invoke(null, (Object) args);
            if (loader.getResource("org/h2/Driver.class") != null) {
                // java.sql.DriverManager keeps the driver, and so its class loader.
                loader.loadClass("org.h2.Driver").getMethod("unload").invoke(null);
            }
            return new WeakReference<>(loader);
        } finally {
            thread.setContextClassLoader(before);
        }
    }
}
