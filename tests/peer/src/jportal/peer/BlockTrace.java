// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.io.PrintWriter;

/** Writes starts and ends of methods, and blocks, in order; the README has the columns. */
final class BlockTrace extends Reader {
    private final PrintWriter out;
    private final String thread;

    BlockTrace(Program program, String thread, PrintWriter out) {
        super(program);
        this.thread = thread;
        this.out = out;
    }

    private void row(String kind, int depth, Activation now, int block) {
        out.print(thread);
        out.print('\t');
        out.print(kind);
        out.print("\t=\t");
        out.print(hidden + depth);
        out.print('\t');
        out.print(now == null ? "\t\t" : now.method);
        out.print('\t');
        out.println(block < 0 ? "" : now.method.code.leaderBci(block));
    }

    /** A row of the frame on top of the stack. */
    private void row(String kind, Activation now, int block) {
        row(kind, stack.size() - 1, now, block);
    }

    @Override
    void enter(Activation caller, Activation callee, Events events, int event) {
        row("s", stack.size(), callee, -1);
        row("b", stack.size(), callee, 0);
    }

    @Override
    void edge(Activation now, int next) {
        row("b", now, next);
    }

    @Override
    void handler(Activation now, int next, int[] throwers) {
        row("b", now, next);
    }

    @Override
    void returns(Activation now) {
        row("e", now, -1);
    }

    @Override
    void thrown(Activation now, int[] throwers) {
        row("x", now, -1);
    }

    @Override
    void open(Activation now, int[] reached) {
        // The thread ends in the block: nothing follows.
    }

    @Override
    void choice(int alternative, int count) {
        row(alternative == 0 ? "<" : alternative < count ? "|" : ">", null, -1);
    }

    @Override
    void join(Activation kept, Activation other) {
        // All rows of the alternatives have been written.
    }
}
