// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

/**
 * Is called periodically while call trees grow. A profiler has a public constructor without
 * parameters.
 *
 * <p>The results of {@link #register} and {@link #report} are granularities, from 1 to {@link
 * Integer#MAX_VALUE}. Each bytecode of the thread that its tree counts lowers a counter that begins
 * with the granularity. When the counter is 0 or less at a <em>check point</em>, before the
 * bytecode there, the profiler is called. Check points are the first bytecode of a method, and a
 * bytecode that a backward jump leads to. So an interval has at least as many bytecodes as asked
 * for, and the few more up to the next check point.
 *
 * <p>Threads are independent. A live driver calls a profiler from the threads of the program, at
 * the same time if it happens so; a profiler synchronizes itself. A replay calls it from one
 * thread, and the order of calls for different threads is that of decoding. The result of a
 * profiler must not depend on that order. Whatever a method here throws ends the profile.
 */
public interface Profiler {
    /**
     * A thread begins: its first method is about to be entered, and its tree is empty.
     *
     * @return after how many bytecodes to report
     */
    int register(ProfiledThread thread, RC root);

    /**
     * It is time to look at the tree of a thread. This is called once more for each thread,
     * whatever its granularity, when no thread executes any more. So all counts are seen, and if
     * each report resets what it has read, the sum over all reports is the tree.
     *
     * @param root    of the thread
     * @param current node of the method on top of the thread's stack
     * @return after how many bytecodes to report again
     */
    int report(RC root, IC current);

    /** There will be no more reports for a thread. Its tree is not changed any more. */
    default void end(RC root) {}

    /**
     * All threads have ended for the profiler: the place to write results. Called once, at last.
     */
    default void finish(Completeness completeness) {}
}
