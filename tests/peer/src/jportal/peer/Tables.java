// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.io.PrintWriter;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import jportal.peer.Totals.CallKey;
import jportal.peer.Totals.Cut;
import jportal.peer.Totals.OfMethod;

/** Writes totals as TSV; the README has the columns. */
final class Tables {
    private final PrintWriter out;

    Tables(PrintWriter out) {
        this.out = out;
    }

    private void row(Object... fields) {
        for (int i = 0; i < fields.length; i++) {
            out.print(i == 0 ? "" : "\t");
            out.print(fields[i]);
        }
        out.print('\n');
    }

    void countsHead() {
        row("thread", "kind", "class", "method", "descriptor", "bci", "line", "to", "least", "most");
    }

    void counts(String thread, Totals totals) {
        totals.methods.forEach((method, counts) -> {
            Code code = method.code;
            for (int b = 0; b < code.blocks(); b++) {
                row(thread, "block", method, code.leaderBci(b), code.line[code.first[b]], "", counts.begun[b]);
            }
            Counter[] insns = instructions(code, counts);
            Map<Integer, Counter> lines = new TreeMap<>();
            for (int i = 0; i < insns.length; i++) {
                if (code.blockOf[i] >= 0) {
                    row(thread, "bytecode", method, code.bci[i], code.line[i], "", insns[i]);
                    if (code.line[i] != 0) {
                        Counter line = lines.computeIfAbsent(code.line[i], key -> new Counter());
                        line.least = Math.max(line.least, insns[i].least);
                        line.most = Math.max(line.most, insns[i].most);
                    }
                }
            }
            lines.forEach((line, counter) -> row(thread, "line", method, "", line, "", counter));
            ways(thread, method, counts);
            exceptions(thread, method, counts);
        });
    }

    private static Counter[] instructions(Code code, OfMethod counts) {
        Counter[] insns = new Counter[code.op.length];
        for (int i = 0; i < insns.length; i++) {
            insns[i] = new Counter();
            if (code.blockOf[i] >= 0) {
                insns[i].add(counts.completed[code.blockOf[i]]);
            }
        }
        counts.cuts.forEach((cut, counter) -> {
            int first = cut.insns().get(0);
            int last = cut.insns().get(cut.insns().size() - 1);
            for (int i = code.first[cut.block()]; i <= last; i++) {
                insns[i].least += i <= first ? counter.least : 0;
                insns[i].most += counter.most;
            }
        });
        return insns;
    }

    private void ways(String thread, Method method, OfMethod counts) {
        Code code = method.code;
        for (int b = 0; b < code.blocks(); b++) {
            if (!Code.isConditional(code.lastOp(b)) && !Code.isSwitch(code.lastOp(b))) {
                continue;
            }
            // Where all outcomes lead to one bytecode, there is one way only.
            if (code.successors[b].length < 2) {
                continue;
            }
            for (int next : code.successors[b]) {
                Counter counter = counts.ways.getOrDefault((long) b << 32 | next, new Counter());
                int insn = code.end[b] - 1;
                row(thread, "way", method, code.bci[insn], code.line[insn], code.leaderBci(next), counter);
            }
        }
    }

    private void exceptions(String thread, Method method, OfMethod counts) {
        Code code = method.code;
        Map<List<Integer>, Counter> edges = new TreeMap<>(
                Comparator.comparing((List<Integer> edge) -> edge.get(0)).thenComparing(edge -> edge.get(1)));
        counts.cuts.forEach((cut, counter) -> {
            List<Integer> insns = cut.insns();
            for (int insn : cut.handler() == Cut.OPEN ? insns.subList(0, 1) : insns) {
                Counter edge = edges.computeIfAbsent(List.of(insn, cut.handler()), key -> new Counter());
                edge.least += insns.size() == 1 ? counter.least : 0;
                edge.most += counter.most;
            }
        });
        edges.forEach((edge, counter) -> {
            int insn = edge.get(0);
            boolean isOpen = edge.get(1) == Cut.OPEN;
            Object to = isOpen ? "" : edge.get(1) == Cut.OUT ? "out" : code.leaderBci(edge.get(1));
            row(thread, isOpen ? "open" : "exception", method, code.bci[insn], code.line[insn], to, counter);
        });
    }

    void treeHead() {
        row("thread", "id", "parent", "depth", "class", "method", "descriptor", "calls_least", "calls_most",
                "whole_least", "whole_most", "begun_least", "begun_most");
    }

    private record Place(Node node, int parent, int depth) {}

    /** Nodes in preorder, children by class, name and descriptor. */
    void tree(String thread, Totals totals) {
        Deque<Place> stack = new ArrayDeque<>();
        stack.push(new Place(totals.root, -1, 0));
        for (int id = 0; !stack.isEmpty(); id++) {
            Place place = stack.pop();
            Node node = place.node();
            row(thread, id, place.parent(), place.depth(), node.method == null ? "(root)\t\t" : node.method,
                    node.invocations, node.whole, node.begun);
            List<Node> children = new ArrayList<>(node.children.values());
            for (int i = children.size() - 1; i >= 0; i--) {
                stack.push(new Place(children.get(i), id, place.depth() + 1));
            }
        }
    }

    void pathsHead() {
        row("thread", "class", "method", "descriptor", "kind", "id", "least", "most", "blocks");
    }

    void paths(String thread, Totals totals) {
        totals.methods.forEach((method, counts) -> {
            row(thread, method, "paths", counts.numbers.count, "", "", "");
            counts.paths.forEach((id, counter) -> row(thread, method, "path", id, counter, blocks(counts.numbers, id)));
            counts.cutPaths.entrySet().stream()
                    .sorted(Comparator.comparing((Map.Entry<Totals.CutPath, Counter> e) -> e.getKey().register())
                            .thenComparing(e -> e.getKey().block()))
                    .forEach(e -> row(thread, method, "cut", e.getKey().register(), e.getValue(),
                            method.code.leaderBci(e.getKey().block())));
            if (!counts.unknownPaths.isZero()) {
                row(thread, method, "unknown", "", counts.unknownPaths, "");
            }
        });
    }

    /** Leaders; a last one after {@code >} is where the path's cut edge leads. */
    private static String blocks(BallLarus numbers, long id) {
        int[] blocks = numbers.blocks(id);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < blocks.length - 1; i++) {
            text.append(i == 0 ? "" : " ").append(numbers.code.leaderBci(blocks[i]));
        }
        int last = blocks[blocks.length - 1];
        return last < 0 ? text.toString() : text + " >" + numbers.code.leaderBci(last);
    }

    void callsHead() {
        row("thread", "class", "method", "descriptor", "bci", "callee_class", "callee_method", "callee_descriptor",
                "least", "most");
    }

    void calls(String thread, Totals totals) {
        calls(thread, null, totals.rootCalls);
        totals.methods.forEach((method, counts) -> calls(thread, method, counts.calls));
    }

    private void calls(String thread, Method method, Map<CallKey, Counter> calls) {
        calls.entrySet().stream()
                .sorted(Comparator.comparing((Map.Entry<CallKey, Counter> e) -> e.getKey().insn())
                        .thenComparing(e -> e.getKey().callee()))
                .forEach(e -> {
                    int insn = e.getKey().insn();
                    Object bci = method == null ? "" : insn < 0 ? "?" : method.code.bci[insn];
                    row(thread, method == null ? "(root)\t\t" : method, bci, e.getKey().callee(), e.getValue());
                });
    }

    void traceHead() {
        row("thread", "kind", "how", "depth", "class", "method", "descriptor", "bci");
    }

    void threads(OracleLog log) {
        row("thread", "tid", "start_ns", "probes");
        for (int i = 0; i < log.threads.size(); i++) {
            OracleLog.ThreadLog thread = log.threads.get(i);
            row(i, thread.tid(), thread.start(), thread.ids().length);
        }
    }
}
