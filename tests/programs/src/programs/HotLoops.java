package programs;

/** Loops that get hot (OSR), whose compiled code then fails: each kind of deoptimisation. */
final class HotLoops {
    private static final Digest DIGEST = new Digest();

    abstract static class Op {
        abstract int apply(int n);
    }

    static final class Inc extends Op {
        @Override
        int apply(int n) {
            return n + 1;
        }
    }

    /** Loaded only by {@link Late}: invalidates an assumption of class hierarchy analysis. */
    static final class Twist extends Op {
        @Override
        int apply(int n) {
            return n ^ 0x55;
        }
    }

    static final class Late {
        static Op make() {
            return new Twist();
        }
    }

    public static void main(String[] args) {
        int size = args.length > 0 ? Integer.parseInt(args[0]) : 20_000;
        DIGEST.add(sieve(size));
        DIGEST.add(nested(size / 40 + 1));
        DIGEST.add(search(size));
        hierarchy(size);
        DIGEST.add(rareBranch(size));
        DIGEST.add(typeChange(size));
        DIGEST.add(nullChange(size));
        DIGEST.add(boundsChange(size));
        DIGEST.add(exceptionsInLoop(size));
        DIGEST.print(HotLoops.class);
    }

    private static int sieve(int n) {
        boolean[] composite = new boolean[n + 1];
        int primes = 0;
        for (int i = 2; i <= n; i++) {
            if (composite[i]) continue;
            primes++;
            for (long k = (long) i * i; k <= n; k += i) {
                composite[(int) k] = true;
            }
        }
        return primes;
    }

    private static int nested(int n) {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < i; j++) {
                int k = i ^ j;
                while (k > 0) {
                    sum += k & 1;
                    k >>= 1;
                }
            }
        }
        return sum;
    }

    private static int search(int n) {
        int found = 0;
        int low = 0;
        for (int target = 0; target < n; target++) {
            int high = n;
            low = 0;
            while (low < high) {
                int middle = low + high >>> 1;
                if (middle * 3 < target) low = middle + 1;
                else high = middle;
            }
            found += low * 3 == target ? 1 : 0;
        }
        return found * 10 + low % 10;
    }

    private static void hierarchy(int size) {
        Op op = new Inc();
        DIGEST.add(run(op, size));
        Op late = Late.make();
        DIGEST.add(run(late, size));
        DIGEST.add(run(op, size));
    }

    private static int run(Op op, int n) {
        int value = 0;
        for (int i = 0; i < n; i++) {
            value = op.apply(value) & 0xffff;
        }
        return value;
    }

    /** A branch that is taken only near the end, after compilation. */
    private static int rareBranch(int n) {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            sum += rare(i, n);
        }
        return sum;
    }

    private static int rare(int i, int n) {
        if (i > n - 5) return i * 3;
        return i & 3;
    }

    private static int typeChange(int n) {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            Object value = i < n - 10 ? "text" : (Object) i;
            sum += describe(value);
        }
        return sum;
    }

    private static int describe(Object value) {
        if (value instanceof String text) return text.length();
        return ((Integer) value) & 1;
    }

    private static int nullChange(int n) {
        int sum = 0;
        int[] array = {1, 2, 3};
        for (int i = 0; i < n; i++) {
            try {
                sum += length(i % 5000 == 4999 ? null : array);
            } catch (NullPointerException error) {
                sum -= 100;
            }
        }
        return sum;
    }

    private static int length(int[] array) {
        return array.length;
    }

    private static int boundsChange(int n) {
        int sum = 0;
        int[] array = new int[16];
        for (int i = 0; i < n; i++) {
            try {
                array[i % (i > n - 50 ? 20 : 16)] += i;
                sum++;
            } catch (ArrayIndexOutOfBoundsException error) {
                sum -= 3;
            }
        }
        return sum;
    }

    private static int exceptionsInLoop(int n) {
        int sum = 0;
        for (int i = 0; i < n / 4; i++) {
            try {
                sum += thrower(i);
            } catch (IllegalStateException error) {
                sum++;
            }
        }
        return sum;
    }

    private static int thrower(int i) {
        if (i % 3 == 0) throw new IllegalStateException();
        return i & 1;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
