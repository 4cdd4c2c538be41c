// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;

/**
 * Runs another class's main method many times in one VM. Prints the thread's median processor time
 * in the later half of the rounds, in nanoseconds. Arguments: rounds, class, its arguments.
 */
public final class Steady {
    private Steady() {}

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        var main = Class.forName(args[1]).getMethod("main", String[].class);
        Object rest = Arrays.copyOfRange(args, 2, args.length);
        PrintStream out = System.out;
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long[] times = new long[rounds];
        for (int i = 0; i < rounds; i++) {
            long start = threads.getCurrentThreadCpuTime();
            main.invoke(null, rest);
            times[i] = threads.getCurrentThreadCpuTime() - start;
        }
        long[] late = Arrays.copyOfRange(times, rounds / 2, rounds);
        Arrays.sort(late);
        out.println(late[late.length / 2]);
    }
}
