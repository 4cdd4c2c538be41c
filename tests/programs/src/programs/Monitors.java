package programs;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

/** Synchronized methods, blocks: recursive, contended, left by exception, static; wait, notify. */
final class Monitors {
    private static final Digest DIGEST = new Digest();
    private int value;
    private boolean ready;

    synchronized int recursive(int n) {
        return n == 0 ? value++ : recursive(n - 1) + nestedBlock(n);
    }

    private int nestedBlock(int n) {
        synchronized (this) {
            synchronized (DIGEST) {
                synchronized (this) {
                    return n & 1;
                }
            }
        }
    }

    synchronized int failing(int n) {
        if (n % 2 == 0) throw new IllegalStateException();
        return n;
    }

    private int failingBlock(int n) {
        synchronized (this) {
            if (n % 3 == 0) throw new IllegalStateException();
            if (n % 3 == 1) return 1;
            n++;
        }
        return n;
    }

    static synchronized int counted(int n) {
        return n + 1;
    }

    synchronized void await() throws InterruptedException {
        while (!ready) {
            wait();
        }
        ready = false;
        notifyAll();
    }

    synchronized void signal() throws InterruptedException {
        while (ready) {
            wait();
        }
        ready = true;
        notifyAll();
    }

    public static void main(String[] args) throws Exception {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 60;
        Monitors monitors = new Monitors();
        for (int i = 0; i < rounds; i++) {
            DIGEST.add(monitors.recursive(i % 8));
            DIGEST.add(attempt(monitors, i));
            DIGEST.add(counted(i));
        }
        DIGEST.add(contended(rounds * 20));
        handOver(rounds);
        queue(rounds);
        timedWait(monitors);
        DIGEST.print(Monitors.class);
    }

    private static int attempt(Monitors monitors, int i) {
        int result = 0;
        try {
            result += monitors.failing(i);
        } catch (IllegalStateException error) {
            result -= 1;
        }
        try {
            result += monitors.failingBlock(i);
        } catch (IllegalStateException error) {
            result -= 10;
        }
        return result;
    }

    private static int contended(int rounds) throws InterruptedException {
        int[] total = new int[1];
        Object lock = new Object();
        Thread[] threads = new Thread[3];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> {
                for (int i = 0; i < rounds; i++) {
                    synchronized (lock) {
                        total[0] += counted(i) & 3;
                    }
                }
            }, "contender-" + t);
            threads[t].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return total[0];
    }

    private static void handOver(int rounds) throws InterruptedException {
        Monitors baton = new Monitors();
        Thread other = new Thread(() -> {
            try {
                for (int i = 0; i < rounds; i++) {
                    baton.signal();
                }
            } catch (InterruptedException error) {
                DIGEST.add(error);
            }
        }, "signaller");
        other.start();
        for (int i = 0; i < rounds; i++) {
            baton.await();
        }
        other.join();
    }

    private static void queue(int rounds) throws InterruptedException {
        BlockingQueue<Integer> queue = new ArrayBlockingQueue<>(2);
        Thread producer = new Thread(() -> {
            try {
                for (int i = 0; i < rounds; i++) {
                    queue.put(i);
                }
            } catch (InterruptedException error) {
                DIGEST.add(error);
            }
        }, "producer");
        producer.start();
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += queue.take();
        }
        producer.join();
        DIGEST.add(sum);
    }

    private static void timedWait(Monitors monitors) throws InterruptedException {
        synchronized (monitors) {
            monitors.wait(2);
        }
        Thread.sleep(1);
        Thread.yield();
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
