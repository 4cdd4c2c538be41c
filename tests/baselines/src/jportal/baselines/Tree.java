// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.lang.ref.WeakReference;
import jportal.profile.ProfiledThread;
import jportal.profile.RC;

/** Mode {@code jp}: the call tree of a thread. */
public final class Tree extends PerThread {
    static final ThreadLocal<Tree> CURRENT = new ThreadLocal<>() {
        @Override
        protected Tree initialValue() {
            return new Tree();
        }
    };

    private static final class Root extends Node implements RC {
        private final ProfiledThread thread;

        Root(Tree tree) {
            super(tree, null, -1, null);
            thread = new ProfiledThread(tree.name, tree.javaId, tree.tid);
        }

        @Override
        public ProfiledThread thread() {
            return thread;
        }
    }

    private final Root own = new Root(this);
    /** Of no method. */
    public final Node root = own;
    private final WeakReference<Thread> thread = new WeakReference<>(Thread.currentThread());
    Node current = root;
    /** Bytecodes until the next report. */
    long left;
    private boolean registered;
    /** The profiler is being called, or is not called any more. */
    private boolean busy;

    /** Before the first method is entered. */
    void register() {
        if (!registered) {
            registered = true;
            busy = true;
            left = Live.register(own);
            busy = false;
        }
    }

    /** Calls the profiler. What it calls itself is no reason to call it again. */
    void report(Node at) {
        if (!busy) {
            busy = true;
            left = Live.report(own, at);
            busy = false;
        }
    }

    /** The last report, when the virtual machine ends. Returns whether the thread may still run. */
    boolean finish() {
        if (!registered || busy) {
            return busy;
        }
        busy = true;
        Live.report(own, current);
        Live.end(own);
        Thread alive = thread.get();
        return alive != null && alive.isAlive() && !ends(alive);
    }

    /** Whether a thread waits for the end of the virtual machine, which it asked for. */
    private static boolean ends(Thread thread) {
        for (StackTraceElement frame : thread.getStackTrace()) {
            if (frame.getClassName().equals("java.lang.Shutdown")) {
                return true;
            }
        }
        return false;
    }
}
