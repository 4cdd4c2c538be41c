// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.TreeSet;

/**
 * The numbers of a method's acyclic paths (Ball and Larus 1996). An edge to a block that is being
 * searched is a back edge. It ends a path, and another path begins at its target. The edges from
 * ENTRY lead to block 0, to heads of loops and to handlers, in this order and ascending, each once.
 */
final class BallLarus {
    private static final long MOST = 1L << 31;

    private static final class Edge {
        final int to;
        long value;
        boolean cut;

        Edge(int to) {
            this.to = to;
        }
    }

    /** A block on the stack of the search, and its next edge. */
    private static final class Visit {
        final int block;
        int next;

        Visit(int block) {
            this.block = block;
        }
    }

    private final Code code;
    private final Edge[][] edges;
    private final long[] count;
    private final long[] begin;
    private final BitSet begun = new BitSet();
    private final BitSet searching = new BitSet();
    private final BitSet heads = new BitSet();
    private final List<Integer> entries = new ArrayList<>();
    /** The number of paths. */
    final long paths;

    BallLarus(Code code) {
        this.code = code;
        edges = new Edge[code.blocks()][];
        for (int b = 0; b < edges.length; b++) {
            edges[b] = Arrays.stream(code.successors[b]).mapToObj(Edge::new).toArray(Edge[]::new);
        }
        count = new long[edges.length];
        begin = new long[edges.length];
        search(0);
        code.handlers.stream().forEach(this::search);
        TreeSet<Integer> others = new TreeSet<>();
        heads.stream().forEach(others::add);
        entries.add(0);
        entries.addAll(others);
        code.handlers.stream().forEach(entries::add);
        long sum = 0;
        BitSet placed = new BitSet();
        for (int i = 0; i < entries.size(); i++) {
            int block = entries.get(i);
            if (placed.get(block)) {
                entries.remove(i--);
                continue;
            }
            placed.set(block);
            begin[block] = sum;
            sum += count[block];
        }
        paths = sum;
    }

    private void search(int root) {
        if (begun.get(root)) {
            return;
        }
        List<Visit> stack = new ArrayList<>();
        stack.add(open(root));
        while (!stack.isEmpty()) {
            Visit visit = stack.get(stack.size() - 1);
            if (visit.next == edges[visit.block].length) {
                searching.clear(visit.block);
                close(visit.block);
                stack.remove(stack.size() - 1);
                continue;
            }
            Edge edge = edges[visit.block][visit.next++];
            if (searching.get(edge.to)) {
                edge.cut = true;
                heads.set(edge.to);
            } else if (!begun.get(edge.to)) {
                stack.add(open(edge.to));
            }
        }
    }

    private Visit open(int block) {
        begun.set(block);
        searching.set(block);
        return new Visit(block);
    }

    private void close(int block) {
        long sum = value(block);
        if (sum > MOST) {
            for (Edge edge : edges[block]) {
                edge.cut = true;
                heads.set(edge.to);
            }
            sum = value(block);
        }
        count[block] = Math.max(sum, 1);
    }

    private long value(int block) {
        long sum = 0;
        for (Edge edge : edges[block]) {
            edge.value = sum;
            sum += edge.cut ? 1 : count[edge.to];
        }
        return sum;
    }

    private Edge edge(int from, int to) {
        for (Edge edge : edges[from]) {
            if (edge.to == to) {
                return edge;
            }
        }
        throw new IllegalArgumentException("no edge from " + from + " to " + to);
    }

    /** Whether code reaches the block. */
    boolean reaches(int block) {
        return begun.get(block);
    }

    long begin(int block) {
        return begin[block];
    }

    boolean isCut(int from, int to) {
        return edge(from, to).cut;
    }

    long value(int from, int to) {
        return edge(from, to).value;
    }

    /** The blocks of a path. */
    List<Integer> blocks(long path) {
        int block = 0;
        for (int entry : entries) {
            if (begin[entry] <= path) {
                block = entry;
            }
        }
        long rest = path - begin[block];
        List<Integer> blocks = new ArrayList<>();
        while (true) {
            blocks.add(block);
            Edge taken = null;
            for (Edge edge : edges[block]) {
                if (edge.value <= rest) {
                    taken = edge;
                }
            }
            if (taken == null || taken.cut) {
                return blocks;
            }
            rest -= taken.value;
            block = taken.to;
        }
    }

    Code code() {
        return code;
    }
}
