package programs;

import java.util.ArrayList;
import java.util.List;

/**
 * Cases for a flight recorder: four threads that work until the process ends, one slow call among
 * many, an OutOfMemoryError.
 *
 * <p>{@code Flight run SECONDS}; {@code Flight slow CALLS WHICH STEPS}; {@code Flight memory}.
 */
final class Flight {
    private static volatile long sink;

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "run" -> run(Long.parseLong(args[1]));
            case "slow" -> slow(Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]));
            case "memory" -> memory();
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void run(long seconds) throws InterruptedException {
        start();
        System.out.println("running " + ProcessHandle.current().pid() + ".");
        Thread.sleep(1000 * seconds);
        System.exit(0);
    }

    private static void start() {
        for (int t = 0; t < 4; t++) {
            long seed = t + 1;
            Thread thread = new Thread(() -> {
                for (long state = seed; ; state = work(state, 1000)) {
                    sink += state;
                }
            }, "worker-" + t);
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** A computation that branches on data. */
    private static long work(long seed, int steps) {
        long state = seed * 0x9e3779b97f4a7c15L + 1;
        for (int i = 0; i < steps; i++) {
            state = step(state);
        }
        return state;
    }

    private static long step(long state) {
        state ^= state << 13;
        state ^= state >>> 7;
        state ^= state << 17;
        if ((state & 7) == 0) {
            return even(state);
        }
        return (state & 3) == 1 ? Long.rotateLeft(state, 5) : state + 1;
    }

    private static long even(long state) {
        long sum = 0;
        for (long rest = state & 0xfff; rest != 0; rest >>>= 1) {
            sum += rest & 1;
        }
        return state + sum;
    }

    /** Call {@code which} takes {@code steps} steps and sleeps 3 s; the others take 20 to 69. */
    private static void slow(int calls, int which, int steps) throws InterruptedException {
        for (int i = 0; i < calls; i++) {
            sink += answer(i, i == which ? steps : 20 + i % 50, i == which ? 3000 : 0);
        }
        System.out.println("answered " + calls);
    }

    /** The method that the trigger watches. */
    private static long answer(int number, int steps, long rest) throws InterruptedException {
        long first = work(number, steps / 2);
        if (rest > 0) {
            Thread.sleep(rest);
        }
        try {
            return refuse(first, steps - steps / 2);
        } catch (IllegalStateException e) {
            return number;
        }
    }

    private static long refuse(long number, int steps) {
        long state = work(number, steps);
        if ((state & 7) == 0) {
            throw new IllegalStateException();
        }
        return state;
    }

    private static void memory() {
        start();
        List<byte[]> kept = new ArrayList<>();
        try {
            while (true) {
                kept.add(new byte[1 << 20]);
                sink += work(kept.size(), 200);
            }
        } catch (OutOfMemoryError e) {
            int count = kept.size();
            kept.clear();
            System.out.println("out of memory after " + count);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
