package programs;

/** The program that {@code Debugger} stops, and whose frames it pops. */
final class Debugged {
    static final RuntimeException OUTSIDE = new RuntimeException("from outside");
    static volatile boolean go;
    /** Round of {@code spin}, from 1; 0 before the first round and before class initialisation. */
    static volatile int spinning;
    static int entered;
    static int caught;

    /** The debugger's breakpoint is at the beginning of this method. */
    static int pause(int n) {
        entered++;
        return n + 1;
    }

    static int middle(int n) {
        return pause(n) * 3;
    }

    static int outer(int n) {
        int sum = 0;
        for (int i = 0; i < 50; i++) {
            sum += quick(i);
        }
        try {
            sum += middle(n);
        } catch (RuntimeException e) {
            caught++;
        }
        return sum;
    }

    static int quick(int n) {
        return n * 31 ^ n >> 2;
    }

    /** Compiled code runs this loop; the debugger pops its frame or forces its return. */
    static int spin(int round) {
        int sum = round;
        spinning = round + 1;
        while (!go) {
            sum = quick(sum);
        }
        go = false;
        return sum;
    }

    public static void main(String[] args) throws InterruptedException {
        int rounds = Integer.parseInt(args[0]);
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            for (int j = 0; j < 20; j++) {
                sum += outer(j);
            }
        }
        for (int i = 0; i < 4; i++) {
            sum += spin(i);
        }
        System.out.println("entered " + entered + ", caught " + caught + ", " + (sum != 0));
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
