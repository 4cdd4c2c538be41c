package programs;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Threads that leave their core in every way: preempted, yielding, parked, sleeping, waiting for a
 * lock, short-lived. Each of the former prints its own data: "name id cpu-nanoseconds".
 */
final class Switching {
    private static final AtomicLong SUM = new AtomicLong();
    private static final Object LOCK = new Object();

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        long millis = Long.parseLong(args[1]);
        ThreadMXBean bean = ManagementFactory.getThreadMXBean();
        String[] lines = new String[count];
        CountDownLatch ready = new CountDownLatch(count);
        Thread[] threads = new Thread[count];
        for (int t = 0; t < count; t++) {
            int number = t;
            threads[t] = new Thread(() -> {
                ready.countDown();
                long end = System.nanoTime() + millis * 1_000_000;
                while (System.nanoTime() < end) {
                    round(number);
                }
                Thread self = Thread.currentThread();
                lines[number] = self.getName() + " " + self.getId() + " " + bean.getCurrentThreadCpuTime();
            }, "switcher-" + t);
        }
        for (Thread thread : threads) {
            thread.start();
        }
        ready.await();
        long end = System.nanoTime() + millis * 1_000_000;
        for (int wave = 0; System.nanoTime() < end; wave++) {
            Thread brief = new Thread(() -> SUM.addAndGet(work(100)), "brief-" + wave);
            brief.start();
            brief.join();
            Thread.sleep(1);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (String line : lines) {
            System.out.println(line);
        }
        System.err.println(SUM);
    }

    private static void round(int number) {
        SUM.addAndGet(work(2_000 + 100 * number));
        switch (number % 4) {
            case 0 -> Thread.yield();
            case 1 -> LockSupport.parkNanos(50_000);
            case 2 -> {
                synchronized (LOCK) {
                    SUM.addAndGet(work(500));
                }
            }
            default -> { }
        }
    }

    private static long work(int steps) {
        long state = steps;
        for (int i = 0; i < steps; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
        }
        return state;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
