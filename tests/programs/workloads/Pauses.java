import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Checks its own clock. Arguments: seconds, a jar. One thread wakes each millisecond and notes by
 * how much it is late: what stops all threads shows there. The main thread defines and links the
 * classes of the jar in one class loader after another, and notes the time of each class: what
 * stops a thread that has something to record shows there. The first two class loaders are not
 * counted. The only line of output names both in nanoseconds: how many, the longest, and the
 * percentiles 99.9 and 50.
 */
public final class Pauses {
    private Pauses() {}

    /**
     * Loaders that one collection unloads. A pause in which classes are unloaded is as long as they
     * are many; if the VM chose when to collect, their number would differ from run to run.
     */
    private static final int COLLECTED = 8;

    /** Times in nanoseconds. */
    private static final class Times {
        private long[] times = new long[1 << 16];
        private int count;

        void add(long time) {
            if (count == times.length) {
                times = Arrays.copyOf(times, 2 * count);
            }
            times[count++] = time;
        }

        @Override
        public String toString() {
            long[] sorted = Arrays.copyOf(times, count);
            Arrays.sort(sorted);
            return count + " " + sorted[count - 1] + " " + sorted[(int) (count * 0.999)] + " " + sorted[count / 2];
        }
    }

    /** Defines classes from memory. */
    private static final class Loader extends ClassLoader {
        private final Map<String, byte[]> classes;

        Loader(Map<String, byte[]> classes) {
            super(ClassLoader.getPlatformClassLoader());
            this.classes = classes;
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            byte[] bytes = classes.get(name);
            if (bytes == null) {
                throw new ClassNotFoundException(name);
            }
            return defineClass(name, bytes, 0, bytes.length);
        }
    }

    /** The clock: ends with the program. */
    private static final class Clock extends Thread {
        private static final long PERIOD = 1_000_000;
        final Times late = new Times();
        volatile boolean ends;

        @Override
        public void run() {
            while (!ends) {
                long before = System.nanoTime();
                LockSupport.parkNanos(PERIOD);
                late.add(Math.max(0, System.nanoTime() - before - PERIOD));
            }
        }
    }

    public static void main(String[] args) throws Exception {
        long nanos = Long.parseLong(args[0]) * 1_000_000_000;
        Map<String, byte[]> classes = read(args[1]);
        List<String> names = new ArrayList<>(classes.keySet());
        Collections.sort(names);
        load(classes, names, new Times());
        load(classes, names, new Times());
        Times loading = new Times();
        Clock clock = new Clock();
        clock.start();
        long begin = System.nanoTime();
        for (int loaders = 1; System.nanoTime() - begin < nanos; loaders++) {
            load(classes, names, loading);
            if (loaders % COLLECTED == 0) {
                System.gc();
            }
        }
        clock.ends = true;
        clock.join();
        System.out.println("late " + clock.late + " loading " + loading);
    }

    private static Map<String, byte[]> read(String path) throws IOException {
        Map<String, byte[]> classes = new HashMap<>();
        try (JarFile jar = new JarFile(path)) {
            for (JarEntry entry : Collections.list(jar.entries())) {
                String name = entry.getName();
                if (name.endsWith(".class") && !name.startsWith("META-INF/")) {
                    try (InputStream in = jar.getInputStream(entry)) {
                        classes.put(name.substring(0, name.length() - 6).replace('/', '.'), in.readAllBytes());
                    }
                }
            }
        }
        return classes;
    }

    /** Defines and links each class. Those that need classes of another jar are left out. */
    private static void load(Map<String, byte[]> classes, List<String> names, Times times) {
        Loader loader = new Loader(classes);
        for (String name : names) {
            long before = System.nanoTime();
            try {
                Class.forName(name, false, loader).getDeclaredMethods();
            } catch (ClassNotFoundException | LinkageError e) {
                continue;
            }
            times.add(System.nanoTime() - before);
        }
    }
}
