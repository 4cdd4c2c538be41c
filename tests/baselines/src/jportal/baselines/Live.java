// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.util.ArrayList;
import java.util.List;
import jportal.profile.Completeness;
import jportal.profile.IC;
import jportal.profile.MID;
import jportal.profile.RC;
import jportal.profile.driver.GuardedProfiler;
import jportal.profile.driver.ProfilerError;

/** Mode {@code jp}: drives a profiler in the program itself. */
public final class Live {
    /** Null without a profiler. */
    private static GuardedProfiler profiler;
    /** Set when the profiler is not called any more. */
    private static volatile boolean failed;
    /** By number of the method. */
    private static final List<MID> MIDS = new ArrayList<>();

    private Live() {}

    /** To be called before the first method is instrumented. */
    public static void start(GuardedProfiler guarded) {
        profiler = guarded;
    }

    /** The identifier of a method; null without a profiler. */
    static MID mid(int method) {
        if (profiler == null || failed) {
            return null;
        }
        synchronized (MIDS) {
            while (MIDS.size() <= method) {
                MIDS.add(null);
            }
            MID mid = MIDS.get(method);
            if (mid == null) {
                Registry.Entry entry = Registry.method(method);
                try {
                    mid = profiler.mid(entry.type().replace('/', '.'), entry.loader(),
                            entry.name() + entry.descriptor());
                } catch (ProfilerError error) {
                    fail(error);
                }
                MIDS.set(method, mid);
            }
            return mid;
        }
    }

    private static long fail(ProfilerError error) {
        failed = true;
        System.err.println("jportal-baselines: the profiler is not called any more: " + error.getMessage());
        return Long.MAX_VALUE;
    }

    static long register(RC root) {
        try {
            return failed ? Long.MAX_VALUE : profiler.register(root.thread(), root);
        } catch (ProfilerError error) {
            return fail(error);
        }
    }

    static long report(RC root, IC at) {
        try {
            return failed ? Long.MAX_VALUE : profiler.report(root, at);
        } catch (ProfilerError error) {
            return fail(error);
        }
    }

    static void end(RC root) {
        try {
            if (!failed) {
                profiler.end(root);
            }
        } catch (ProfilerError error) {
            fail(error);
        }
    }

    /** The last reports of all threads, when the virtual machine ends. */
    public static void finish() {
        if (profiler == null) {
            return;
        }
        int running = 0;
        for (PerThread thread : PerThread.ALL) {
            running += ((Tree) thread).finish() ? 1 : 0;
        }
        List<String> reasons = new ArrayList<>();
        if (running > 0) {
            reasons.add(running + " threads still ran");
        }
        if (!Registry.skipped().isEmpty()) {
            reasons.add(Registry.skipped().size() + " classes or methods could not be instrumented");
        }
        try {
            if (!failed) {
                profiler.finish(new Completeness(reasons.isEmpty(), String.join("; ", reasons)));
            }
        } catch (ProfilerError error) {
            fail(error);
        }
    }
}
