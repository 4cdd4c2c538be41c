package programs;

import java.util.Arrays;
import java.util.function.IntUnaryOperator;

/** Native methods and upcalls from C: all types, nested both ways, exceptions, native threads. */
final class Natives {
    private static final Digest DIGEST = new Digest();

    static {
        System.loadLibrary("programs");
    }

    static native int plain(int a, long b, float c, double d, Object e);

    native int instance(int a);

    static native synchronized int locked(int a);

    /** Calls {@code applyAsInt} of {@code operator} for 0 … count-1 and adds the results. */
    static native int upcalls(IntUnaryOperator operator, int count);

    /** Calls {@link #bounce} with depth - 1 while depth is positive. */
    static native int bounceNative(int depth);

    /** Throws IllegalStateException from C. */
    static native void fail(String message);

    /** Calls {@code run}, clears its exception, and returns whether there was one. */
    static native boolean swallow(Runnable runnable);

    /** Builds an object, calls static, virtual and non-virtual methods and reads fields from C. */
    static native int mixed(String text);

    /** Runs {@code runnable} on a thread made by C and attached to the VM, and waits for it. */
    static native void onNativeThread(Runnable runnable, String name);

    private final int base;

    Natives(int base) {
        this.base = base;
    }

    int virtual(int n) {
        return base + n;
    }

    static int bounce(int depth) {
        if (depth < 0) throw new IllegalArgumentException("bottom");
        return depth == 0 ? 1 : bounceNative(depth - 1) + 1;
    }

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 40;
        Natives object = new Natives(5);
        for (int i = 0; i < rounds; i++) {
            DIGEST.add(plain(i, i * 3L, i * 0.5f, i * 0.25, object) + object.instance(i) + locked(i));
            DIGEST.add(upcalls(n -> n % 2 == 0 ? n : -1, i % 7));
            DIGEST.add(bounce(i % 9));
            DIGEST.add(throughC(i));
            DIGEST.add(mixed("text" + i % 10));
            library(i);
        }
        onNativeThread(() -> DIGEST.add(bounce(6)), "made-by-c");
        int[] sum = new int[1];
        DIGEST.add(swallow(() -> onNativeThread(() -> sum[0] = upcalls(n -> n + 1, 10), "second")));
        DIGEST.add(sum[0]);
        DIGEST.print(Natives.class);
    }

    /** Exceptions that pass C frames: thrown in C, thrown in Java under C, swallowed in C. */
    private static int throughC(int i) {
        int result = 0;
        try {
            fail("from C " + i % 2);
        } catch (IllegalStateException error) {
            result += error.getMessage().length();
        }
        try {
            result += upcalls(n -> 10 / (n - i % 4), 6);
        } catch (ArithmeticException error) {
            result += 1000;
        }
        try {
            result += bounceNative(-1 - i % 2);
        } catch (IllegalArgumentException error) {
            result += 100;
        }
        boolean threw = swallow(() -> {
            if (i % 2 == 0) throw new RuntimeException("swallowed");
        });
        return threw ? -result : result;
    }

    /** Java code that the library's intrinsics and natives call back. */
    private static void library(int i) {
        Integer[] values = {i % 5, 3, i % 7, 1, 9, i % 3};
        Arrays.sort(values, (a, b) -> Integer.compare(b, a));
        DIGEST.add(Arrays.toString(values));
        DIGEST.add(System.getProperty("no.such.property", "none"));
        DIGEST.add(Thread.currentThread().getName().length());
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
