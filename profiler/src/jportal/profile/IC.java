// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

import java.util.Collection;

/**
 * An invocation context: a method in its whole calling context, a node of a thread's call tree. It
 * counts what its activations do themselves, without their callees.
 *
 * <p>Only the thread of the tree changes the counters, and a profiler may read and reset them only
 * in {@link Profiler#report} for that thread. Callees are never removed.
 */
public interface IC {
    /** The method; null for a root. */
    MID mid();

    /** The caller's node; null for a root. */
    IC caller();

    /**
     * Invocations since the last {@link #reset}. Less than 0 if one that counted before did not
     * begin.
     */
    long getInvoc();

    /** Bytecodes that began since the last {@link #reset}. */
    long getInstr();

    /** The nodes of the callees, in the order of their first calls. Cannot be modified. */
    Collection<IC> callees();

    /** Both counters begin at 0 again. Has no effect on other nodes. */
    void reset();
}
