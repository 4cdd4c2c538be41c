package programs;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.util.HashSet;
import java.util.Set;
import java.util.function.IntUnaryOperator;

/**
 * Class loaders written in Java, which run in the middle of the bytecode that needs a class. Some
 * answer at once, some throw the first few times, some never find a class. The VM asks them for the
 * classes that {@link Payload} names in the program and, if it is instrumented, for those that the
 * instrumentation names; the checksum depends on the former only.
 */
final class Resolving {
    private static final Digest DIGEST = new Digest();

    /** Defined by each {@link Asked} loader. No initialiser: a failed one would forbid a retry. */
    public static final class Payload implements IntUnaryOperator {
        @Override
        public int applyAsInt(int n) {
            int sum = 0;
            for (int i = 0; i < n; i++) {
                sum += (i & 3) == 0 ? i : Helper.weight(i);
            }
            return sum;
        }
    }

    /** The class that the payload itself names. */
    public static final class Helper {
        static int weight(int n) {
            return n > 8 ? 2 : 1;
        }
    }

    private static final class Asked extends ClassLoader {
        private final Set<String> own = new HashSet<>();
        private final boolean finds;
        private int refusals;
        private int letters;

        Asked(boolean finds, int refusals) {
            super(Resolving.class.getClassLoader());
            this.finds = finds;
            this.refusals = refusals;
        }

        @Override
        public Class<?> loadClass(String name) throws ClassNotFoundException {
            for (int i = 0; i < name.length(); i++) {
                letters += name.charAt(i) == '.' ? 2 : 1;
            }
            if (name.startsWith("programs.Resolving$") && own.add(name)) {
                byte[] classFile = classFile(name);
                return defineClass(name, classFile, 0, classFile.length);
            }
            if (!name.startsWith("java.") && refusals > 0) {
                refusals--;
                throw new IllegalStateException(name);
            }
            if (!name.startsWith("java.") && !finds) {
                throw new ClassNotFoundException(name);
            }
            return super.loadClass(name);
        }
    }

    public static void main(String[] args) throws Exception {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 30;
        for (int i = 0; i < rounds; i++) {
            DIGEST.add(run(new Asked(true, 0), 20));
            // The number of failures depends on the instrumentation of the payload.
            for (int attempt = 0; attempt < 2; attempt++) {
                attempt(new Asked(true, i % 3), 4);
                attempt(new Asked(false, i % 2), 2);
            }
        }
        DIGEST.print(Resolving.class);
    }

    private static void attempt(Asked loader, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            try {
                run(loader, 3 + i);
            } catch (LinkageError | IllegalStateException refused) {
                // The next attempt may succeed.
            }
        }
    }

    private static int run(Asked loader, int n) throws Exception {
        Class<?> type = Class.forName("programs.Resolving$Payload", true, loader);
        try {
            IntUnaryOperator operator = (IntUnaryOperator) type.getDeclaredConstructor().newInstance();
            return operator.applyAsInt(n) + operator.applyAsInt(2 * n);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            if (error.getCause() instanceof LinkageError cause) {
                throw cause;
            }
            throw error;
        }
    }

    private static byte[] classFile(String name) {
        String file = name.substring(name.indexOf('.') + 1) + ".class";
        try (InputStream in = Resolving.class.getResourceAsStream(file)) {
            return in.readAllBytes();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
