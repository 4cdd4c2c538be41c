// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
import java.util.*;
import java.util.concurrent.*;

/** Programs for whole-JVM runs: Work fib|npe|threads N. */
public class Work {
    int value;

    static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    /** In compiled code the null check is implicit: a load that faults. */
    static int read(Work w) {
        try {
            return w.value;
        } catch (NullPointerException e) {
            return -1;
        }
    }

    static long npe(int n) {
        long sum = 0;
        Work w = new Work();
        for (int i = 0; i < n * 2000; i++) {
            sum += read(i % 1000 == 999 && i > n * 1000 ? null : w);
        }
        return sum;
    }

    static long threads(int n) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<Long>> results = new ArrayList<>();
        for (int t = 0; t < 6; t++) {
            int seed = t;
            results.add(pool.submit(() -> {
                Map<Integer, String> map = new HashMap<>();
                Random random = new Random(seed);
                long sum = 0;
                for (int i = 0; i < n * 100; i++) {
                    map.merge(random.nextInt(500), "v" + i, (a, b) -> a.length() > 20 ? b : a + b);
                    sum += map.size();
                }
                return sum;
            }));
        }
        long sum = 0;
        for (Future<Long> f : results) sum += f.get();
        pool.shutdown();
        return sum;
    }

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[1]);
        switch (args[0]) {
            case "fib": System.out.println(fib(n)); break;
            case "npe": System.out.println(npe(n)); break;
            default: System.out.println(threads(n));
        }
    }
}
