package programs;

import java.util.function.IntConsumer;

/** A thread that another thread stops with ThreadDeath at arbitrary points. */
final class Stopped {
    private static volatile int round = -1;
    private static int caught;

    private static int leaf(int n) {
        return n * 17 + 3;
    }

    /** Stopped at the return of its callee, or at the end of the loop. */
    private static void calls(int n) {
        int sum = n;
        round = n;
        while (true) {
            sum = leaf(sum);
        }
    }

    /** The handler covers the body of the loop, but not the branch back to it. */
    private static void covered(int n) {
        int sum = n;
        round = n;
        while (true) {
            try {
                sum = leaf(sum);
            } catch (ThreadDeath death) {
                throw death;
            }
        }
    }

    /** Stopped in a native method, and in a loop of native methods. */
    private static void asleep(int n) {
        round = n;
        while (true) {
            try {
                Thread.sleep(n % 4 == 2 ? 0 : 10_000);
            } catch (InterruptedException interruption) {
                // Nobody interrupts it.
            }
        }
    }

    /** Stopped in calls into the VM. */
    private static void allocates(int n) {
        round = n;
        Object[] kept = new Object[16];
        for (int i = 0;; i = i + 1 & 15) {
            kept[i] = new int[i + 64];
        }
    }

    private static void attempt(IntConsumer loop, int n) {
        try {
            loop.accept(n);
        } catch (ThreadDeath death) {
            caught++;
        }
    }

    private static void run(int rounds) {
        IntConsumer[] loops = {Stopped::calls, Stopped::covered, Stopped::asleep, Stopped::allocates};
        for (int n = 0; n < rounds; n++) {
            attempt(loops[n % loops.length], n);
        }
        round = rounds;
    }

    @SuppressWarnings("removal")
    public static void main(String[] args) throws InterruptedException {
        int rounds = Integer.parseInt(args[0]);
        Thread thread = new Thread(() -> run(rounds));
        thread.start();
        for (int n = 0; n < rounds; n++) {
            while (round < n) {
                Thread.sleep(1);
            }
            Thread.sleep(3);
            thread.stop();
            while (round == n) {
                Thread.sleep(1);
            }
        }
        thread.join();
        System.out.println("caught " + caught);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
