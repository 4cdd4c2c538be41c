// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import org.objectweb.asm.Opcodes;

/**
 * What the output needs of a method's blocks, by number of the block.
 *
 * @param start  bci of the first instruction
 * @param last   bci of the last instruction
 * @param length number of instructions
 * @param ends   whether the block ends with a return
 * @param opaque whether something may happen in the block that the block does not show: a call, an
 *               exception, the initialization of a class
 * @param paths  the numbers of the paths, or null
 */
record Shape(boolean isStatic, int[] start, int[] last, int[] length, int[] firstLine, int[][] successors,
        boolean[] ends, boolean[] opaque, BallLarus paths) {

    static Shape of(Code code, BallLarus paths) {
        int n = code.blocks();
        int[] start = new int[n];
        int[] last = new int[n];
        int[] length = new int[n];
        int[] line = new int[n];
        boolean[] ends = new boolean[n];
        boolean[] opaque = new boolean[n];
        for (int b = 0; b < n; b++) {
            start[b] = code.bcis[code.first[b]];
            last[b] = code.bcis[code.last[b]];
            length[b] = code.last[b] - code.first[b] + 1;
            line[b] = code.lines[code.first[b]];
            ends[b] = code.returns(b);
            for (int i = code.first[b]; i <= code.last[b]; i++) {
                opaque[b] |= code.mayThrow(i);
            }
        }
        boolean isStatic = (code.method.access & Opcodes.ACC_STATIC) != 0;
        return new Shape(isStatic, start, last, length, line, code.successors, ends, opaque, paths);
    }

    int blocks() {
        return start.length;
    }
}
