package programs;

/** Bytecodes without machine code: branches folded into one path, empty methods, empty loops. */
final class Unknown {
    private static final int ROUNDS = 2000;

    private static int late(int n) {
        return n > 900
            ? 7
            : 9;
    }

    private static int larger(int a, int b) {
        int most = a;
        if (b > most) {
            most = b;
        }
        return most;
    }

    private static void nothing() {
    }

    private static int rounds(int n) {
        for (int i = 0; i < n; i++) {
            nothing();
        }
        return n;
    }

    private static int nested(int n) {
        return n < 0 ? 0 : rounds(n);
    }

    private static void never() {
        System.out.println("never");
    }

    public static void main(String[] arguments) {
        long sum = 0;
        for (int i = 0; i < ROUNDS; i++) {
            sum += late(i % 900) + larger(500, 3);
        }
        int late = 0;
        for (int i = 900; i < 1000; i++) {
            sum += late(i) + larger(500, i);
            late += i > 900 ? 1 : 0;
        }
        int nothing = 0;
        for (int i = 0; i < 60; i++) {
            for (int n = 0; n < 20; n++) {
                sum += nested(n);
                nothing += n;
            }
        }
        if (arguments.length > 7) {
            never();
        }
        System.out.println("late " + late + " nothing " + nothing + " sum " + sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
