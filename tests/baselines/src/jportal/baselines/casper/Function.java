// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import jportal.baselines.agent.Code;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.MethodInsnNode;

/** An application method with its sites and the edges between them (the paper's CSCFG). */
final class Function {
    final String type;
    final Code code;
    /** By instruction; those that code reaches, and others. */
    final Map<Integer, Site> sites = new TreeMap<>();
    /** Sites that may be first. */
    List<Site> entry = List.of();
    /** Sites that may be first after a handler, by the handler's block. */
    final Map<Integer, List<Site>> handlers = new TreeMap<>();
    /** The row of its exceptional exit. */
    int exit;
    private int[] segments;

    Function(String type, Code code) {
        this.type = type;
        this.code = code;
        for (int i = 0; i < code.insns.length; i++) {
            if (code.isCall(i) || code.isReturn(i)) {
                sites.put(i, new Site(this, i, code.isCall(i)));
            }
        }
        entry = from(0);
        code.handlers.stream().forEach(block -> handlers.put(block, from(code.first[block])));
        for (Site site : sites.values()) {
            if (site.call && site.insn + 1 < code.insns.length) {
                site.next = from(site.insn + 1);
            }
        }
    }

    /** The segments that are reached from an instruction without passing a site. */
    BitSet segmentsFrom(int start) {
        BitSet seen = new BitSet();
        reach(start, new ArrayList<>(), seen);
        BitSet found = new BitSet();
        seen.stream().filter(i -> !sites.containsKey(i)).forEach(i -> found.set(segmentOf(i)));
        return found;
    }

    int segmentOf(int insn) {
        if (segments == null) {
            segments = code.segments();
        }
        return segments[insn];
    }

    /** The sites that are reached from an instruction without passing another one. */
    private List<Site> from(int start) {
        List<Site> found = new ArrayList<>();
        reach(start, found, new BitSet());
        found.sort((a, b) -> Integer.compare(a.insn, b.insn));
        return found;
    }

    private void reach(int start, List<Site> found, BitSet seen) {
        List<Integer> open = new ArrayList<>(List.of(start));
        while (!open.isEmpty()) {
            int i = open.remove(open.size() - 1);
            if (seen.get(i)) {
                continue;
            }
            seen.set(i);
            if (sites.containsKey(i)) {
                found.add(sites.get(i));
            } else if (i < code.last[code.blockOf[i]]) {
                open.add(i + 1);
            } else {
                for (int block : code.successors[code.blockOf[i]]) {
                    open.add(code.first[block]);
                }
            }
        }
    }

    /** All nonterminals: the lists of alternatives. */
    List<List<Site>> alternatives() {
        List<List<Site>> all = new ArrayList<>();
        all.add(entry);
        all.addAll(handlers.values());
        for (Site site : sites.values()) {
            if (site.call) {
                all.add(site.next);
            }
        }
        return all;
    }

    String key() {
        return type + "." + code.key();
    }

    /** The method that a call names, unless it is a dynamic one. */
    static MethodInsnNode named(Site site) {
        return site.function.code.insns[site.insn] instanceof MethodInsnNode call
                && call.getOpcode() != Opcodes.INVOKEDYNAMIC ? call : null;
    }
}
