package programs;

import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.function.IntUnaryOperator;

/** One class defined by many loaders, hidden classes, unloading: one name for many methods. */
final class Loaders {
    private static final Digest DIGEST = new Digest();

    /** Defined again by each {@link Copies} loader. */
    public static final class Payload implements IntUnaryOperator {
        private static int instances;

        public Payload() {
            instances++;
        }

        @Override
        public int applyAsInt(int n) {
            int sum = instances;
            for (int i = 0; i < n; i++) {
                sum += (i & 1) == 0 ? i : -1;
            }
            return sum;
        }
    }

    private static final class Copies extends ClassLoader {
        Copies() {
            super(Loaders.class.getClassLoader());
        }

        Class<?> define(byte[] classFile) {
            return defineClass("programs.Loaders$Payload", classFile, 0, classFile.length);
        }
    }

    public static void main(String[] args) throws Exception {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 30;
        byte[] classFile = payload();
        for (int i = 0; i < rounds; i++) {
            DIGEST.add(run(new Copies().define(classFile), 50));
            DIGEST.add(hidden(classFile, 40));
            if (i % 10 == 9) {
                System.gc();
            }
        }
        DIGEST.add(new Payload().applyAsInt(3));
        DIGEST.print(Loaders.class);
    }

    private static byte[] payload() throws IOException {
        try (InputStream in = Loaders.class.getResourceAsStream("Loaders$Payload.class")) {
            return in.readAllBytes();
        }
    }

    private static int run(Class<?> type, int n) throws ReflectiveOperationException {
        IntUnaryOperator operator = (IntUnaryOperator) type.getDeclaredConstructor().newInstance();
        int sum = 0;
        for (int i = 0; i < n; i++) {
            sum += operator.applyAsInt(i);
        }
        return sum;
    }

    private static int hidden(byte[] classFile, int n) throws Exception {
        MethodHandles.Lookup lookup = MethodHandles.lookup().defineHiddenClass(classFile, true);
        try {
            IntUnaryOperator operator = (IntUnaryOperator)
                    lookup.findConstructor(lookup.lookupClass(), MethodType.methodType(void.class)).invoke();
            return operator.applyAsInt(n);
        } catch (Throwable error) {
            throw new IllegalStateException(error);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
