package programs;

/** Deep and mutual recursion, recursion through an interface, stack overflow caught far below. */
final class Recursion {
    private static final Digest DIGEST = new Digest();

    interface Step {
        int run(Step self, int n);
    }

    public static void main(String[] args) throws InterruptedException {
        int depth = args.length > 0 ? Integer.parseInt(args[0]) : 2000;
        for (int i = 0; i < 5; i++) {
            DIGEST.add(sum(depth));
            DIGEST.add(ackermann(2, 9 + i));
            DIGEST.add(ping(depth));
            Step down = (self, n) -> n == 0 ? 1 : self.run(self, n - 1) + 1;
            DIGEST.add(down.run(down, depth / 2));
            DIGEST.add(unwind(depth));
        }
        Thread deep = new Thread(null, () -> DIGEST.add(sum(depth * 5)), "deep", 64 << 20);
        deep.start();
        deep.join();
        Thread shallow = new Thread(null, () -> DIGEST.add(overflow() > 50), "shallow", 256 << 10);
        shallow.start();
        shallow.join();
        DIGEST.print(Recursion.class);
    }

    private static int sum(int n) {
        return n == 0 ? 0 : n + sum(n - 1);
    }

    private static int ackermann(int m, int n) {
        if (m == 0) return n + 1;
        return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
    }

    private static int ping(int n) {
        return n <= 0 ? 0 : pong(n - 1) + 1;
    }

    private static int pong(int n) {
        return n <= 0 ? 1 : ping(n - 2) ^ n;
    }

    private static final class Bottom extends RuntimeException {
        Bottom() {
            super(null, null, false, false);
        }
    }

    private static int unwind(int depth) {
        try {
            return fall(depth);
        } catch (Bottom error) {
            return depth;
        }
    }

    private static int fall(int n) {
        if (n == 0) throw new Bottom();
        return fall(n - 1) + 1;
    }

    private static int deepest;

    private static int overflow() {
        try {
            return descend(0);
        } catch (StackOverflowError error) {
            return deepest;
        }
    }

    private static int descend(int n) {
        deepest = n;
        return descend(n + 1) + 1;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
