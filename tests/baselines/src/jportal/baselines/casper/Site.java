// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.util.ArrayList;
import java.util.List;

/** A call site or a return site of an application method. */
final class Site {
    final Function function;
    /** The instruction. */
    final int insn;
    /** The row of the plan. */
    int id;
    final boolean call;
    /** Application methods that a call may reach without library code in between. */
    final List<Function> targets = new ArrayList<>();
    /** Whether a call may reach library code, or a receiver of an unknown class. */
    boolean library;
    /** Sites that may be next in the same frame. */
    List<Site> next = List.of();
    boolean logged;

    Site(Function function, int insn, boolean call) {
        this.function = function;
        this.insn = insn;
        this.call = call;
    }

    /** Whether its callees log themselves: library code, or several targets if it is logged. */
    boolean checked() {
        return call && (library || targets.size() > 1 && logged);
    }

    /** Whether the site itself writes a token. */
    boolean writes() {
        return logged && (library || targets.size() <= 1);
    }
}
