package programs;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Eight busy threads, waves of short-lived threads, a pool, an uncaught exception, a daemon. */
final class Threads {
    private static final Digest DIGEST = new Digest();
    private static final ThreadLocal<Integer> LOCAL = ThreadLocal.withInitial(() -> 5);

    public static void main(String[] args) throws Exception {
        int size = args.length > 0 ? Integer.parseInt(args[0]) : 300;
        eight(size);
        waves(size / 20);
        pool(size);
        uncaught();
        interrupted();
        daemon();
        DIGEST.print(Threads.class);
    }

    /** Work that branches on data, so that two threads never take the same path for long. */
    private static long work(int seed, int steps) {
        long state = seed * 0x9e3779b97f4a7c15L + 1;
        for (int i = 0; i < steps; i++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            if ((state & 7) == 0) {
                state += fibonacci((int) (state >>> 60));
            } else if ((state & 3) == 1) {
                state ^= Long.toString(state, 16).hashCode();
            }
        }
        return state;
    }

    private static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }

    private static void eight(int size) throws InterruptedException {
        Thread[] threads = new Thread[8];
        long[] results = new long[threads.length];
        for (int t = 0; t < threads.length; t++) {
            int seed = t;
            threads[t] = new Thread(() -> {
                LOCAL.set(LOCAL.get() + seed);
                results[seed] = work(seed, size) + LOCAL.get();
            }, "worker-" + t);
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (int t = 0; t < threads.length; t++) {
            threads[t].join();
            DIGEST.add(results[t]);
        }
    }

    private static void waves(int count) throws InterruptedException {
        for (int wave = 0; wave < count; wave++) {
            long[] result = new long[2];
            int seed = wave;
            Thread first = new Thread(() -> result[0] = work(seed, 20));
            Thread second = new Thread(() -> result[1] = work(-seed, 10));
            first.start();
            second.start();
            first.join();
            second.join();
            DIGEST.add(result[0] ^ result[1]);
        }
    }

    private static void pool(int size) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<Long>> futures = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            int seed = i;
            futures.add(pool.submit(() -> work(seed, size / 10)));
        }
        for (Future<Long> future : futures) {
            DIGEST.add(future.get());
        }
        pool.shutdown();
    }

    /** Dies without a handler: the VM prints the trace to standard error. */
    private static void uncaught() throws InterruptedException {
        Thread thread = new Thread(() -> {
            throw new IllegalStateException("this thread is meant to die");
        }, "uncaught");
        thread.start();
        thread.join();
        DIGEST.add(thread.isAlive());
    }

    private static void interrupted() throws InterruptedException {
        Thread thread = new Thread(() -> {
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException error) {
                DIGEST.add("interrupted");
            }
        }, "sleeper");
        thread.start();
        thread.interrupt();
        thread.join();
    }

    /** Still runs when main ends. */
    private static void daemon() {
        Thread thread = new Thread(() -> {
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }, "daemon");
        thread.setDaemon(true);
        thread.start();
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
