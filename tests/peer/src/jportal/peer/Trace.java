// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.io.PrintWriter;

/** Writes the call trace: call sites, returns, exceptional exits; the README has the columns. */
final class Trace extends Reader {
    private final Sites sites;
    private final PrintWriter out;
    private final String thread;

    Trace(Program program, Sites sites, String thread, PrintWriter out) {
        super(program);
        this.sites = sites;
        this.thread = thread;
        this.out = out;
    }

    private void row(String kind, String how, Activation now, int insn) {
        out.print(thread);
        out.print('\t');
        out.print(kind);
        out.print('\t');
        out.print(how);
        out.print('\t');
        out.print(hidden + stack.size() - 1);
        out.print('\t');
        out.print(now == null ? "\t\t" : now.method);
        out.print('\t');
        out.println(insn < 0 ? "" : now.method.code.bci[insn]);
    }

    /** Writes the calls of the block up to an instruction. */
    private void calls(Activation now, int last, String how) {
        Code code = now.method.code;
        for (; now.next <= last; now.next++) {
            if (Code.isInvoke(code.op[now.next])) {
                row("c", now.next <= now.unordered && how.equals("=") ? "~" : how, now, now.next);
            }
        }
    }

    @Override
    void enter(Activation caller, Activation callee, Events events, int event) {
        if (caller == null) {
            return;
        }
        Points points = caller.method.points(caller.block, sites);
        int[] places = events.set(event);
        calls(caller, points.insn(places[0]), "=");
        caller.unordered = Math.max(caller.unordered, points.insn(places[places.length - 1]));
    }

    private void complete(Activation now) {
        calls(now, now.method.code.end[now.block] - 1, "=");
    }

    @Override
    void edge(Activation now, int next) {
        complete(now);
    }

    @Override
    void returns(Activation now) {
        complete(now);
        row("r", "=", now, now.method.code.end[now.block] - 1);
    }

    private void cut(Activation now, int[] insns) {
        calls(now, insns[0], "=");
        calls(now, insns[insns.length - 1], "?");
    }

    @Override
    void handler(Activation now, int next, int[] throwers) {
        cut(now, throwers);
    }

    @Override
    void thrown(Activation now, int[] throwers) {
        cut(now, throwers);
        row("x", "=", now, -1);
    }

    @Override
    void open(Activation now, int[] reached) {
        cut(now, reached);
    }

    @Override
    void choice(int alternative, int count) {
        row(alternative == 0 ? "<" : alternative < count ? "|" : ">", "=", null, -1);
    }

    @Override
    void join(Activation kept, Activation other) {
        // Both have written the same of the block, or the order is marked as unknown.
        kept.unordered = Math.max(kept.unordered, other.unordered);
        kept.next = Math.max(kept.next, other.next);
    }
}
