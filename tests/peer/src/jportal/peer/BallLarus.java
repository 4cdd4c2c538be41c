// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import org.objectweb.asm.Opcodes;

/** The numbers of a method's acyclic paths (Ball and Larus 1996); the README has the rules. */
final class BallLarus {
    private static final long MOST_PATHS = 1L << 31;

    final Code code;
    /**
     * For each block and successor: what the edge adds; of a cut edge, what its way to the exit
     * adds.
     */
    private final long[][] value;
    private final boolean[][] cut;
    /** What the edge of a returning or throwing block to the exit adds. */
    private final long[] toExit;
    private final long[] paths;
    /** Blocks at which paths begin, in order. */
    private final List<Integer> entries = new ArrayList<>();
    private final long[] entryValue;
    /** The number of paths of the method. */
    final long count;
    private final int[] state;
    /** Blocks after all their successors. */
    private final List<Integer> finished = new ArrayList<>();

    BallLarus(Code code) {
        this.code = code;
        int blocks = code.blocks();
        value = new long[blocks][];
        cut = new boolean[blocks][];
        toExit = new long[blocks];
        paths = new long[blocks];
        entryValue = new long[blocks];
        state = new int[blocks];
        for (int b = 0; b < blocks; b++) {
            value[b] = new long[code.successors[b].length];
            cut[b] = new boolean[code.successors[b].length];
        }
        search(0);
        code.handlerBlocks.stream().forEach(this::search);
        TreeSet<Integer> heads = new TreeSet<>();
        finished.forEach(block -> number(block, heads));
        entries.add(0);
        heads.stream().filter(block -> block != 0).forEach(entries::add);
        code.handlerBlocks.stream().filter(block -> !entries.contains(block)).forEach(entries::add);
        long sum = 0;
        for (int block : entries) {
            entryValue[block] = sum;
            sum += paths[block];
        }
        count = sum;
    }

    /** Depth first, without recursion; an edge to a block that is being searched is a back edge. */
    private void search(int start) {
        if (state[start] != 0) {
            return;
        }
        int[] stack = new int[code.blocks() + 1];
        int[] edge = new int[code.blocks() + 1];
        int depth = 0;
        stack[0] = start;
        state[start] = 1;
        while (depth >= 0) {
            int block = stack[depth];
            if (edge[depth] == code.successors[block].length) {
                state[block] = 2;
                finished.add(block);
                depth--;
                continue;
            }
            int n = edge[depth]++;
            int next = code.successors[block][n];
            if (state[next] == 1) {
                cut[block][n] = true;
            } else if (state[next] == 0) {
                state[next] = 1;
                stack[++depth] = next;
                edge[depth] = 0;
            }
        }
    }

    private void number(int block, TreeSet<Integer> heads) {
        int[] successors = code.successors[block];
        long sum = sum(block);
        if (sum > MOST_PATHS) {
            Arrays.fill(cut[block], true);
            sum = sum(block);
        }
        for (int n = 0; n < successors.length; n++) {
            if (cut[block][n]) {
                heads.add(successors[n]);
            }
        }
        paths[block] = sum;
    }

    private long sum(int block) {
        long sum = 0;
        for (int n = 0; n < code.successors[block].length; n++) {
            value[block][n] = sum;
            sum += cut[block][n] ? 1 : paths[code.successors[block][n]];
        }
        toExit[block] = sum;
        return exits(block) ? sum + 1 : sum;
    }

    private boolean exits(int block) {
        return code.returns(block) || code.lastOp(block) == Opcodes.ATHROW;
    }

    long begin(int block) {
        return entryValue[block];
    }

    private int edge(int block, int next) {
        for (int n = 0; n < code.successors[block].length; n++) {
            if (code.successors[block][n] == next) {
                return n;
            }
        }
        throw new IllegalArgumentException("no edge");
    }

    boolean isCut(int block, int next) {
        return cut[block][edge(block, next)];
    }

    /** What an edge adds to the register. */
    long value(int block, int next) {
        return value[block][edge(block, next)];
    }

    /** What the end of a method in this block adds. */
    long exit(int block) {
        return toExit[block];
    }

    /** The path of a number: its blocks, then the block to which a cut edge leads, or -1. */
    int[] blocks(long id) {
        long rest = id;
        int block = 0;
        for (int entry : entries) {
            if (entryValue[entry] <= rest && rest < entryValue[entry] + paths[entry]) {
                block = entry;
            }
        }
        rest -= entryValue[block];
        List<Integer> found = new ArrayList<>();
        while (true) {
            found.add(block);
            int[] successors = code.successors[block];
            int n = successors.length - 1;
            while (n >= 0 && value[block][n] > rest) {
                n--;
            }
            if (n < 0 || exits(block) && rest == toExit[block]) {
                found.add(-1);
                break;
            }
            rest -= value[block][n];
            block = successors[n];
            if (cut[found.get(found.size() - 1)][n]) {
                found.add(block);
                break;
            }
        }
        return found.stream().mapToInt(Integer::intValue).toArray();
    }

    boolean isHandler(int block) {
        return code.handlerBlocks.get(block);
    }
}
