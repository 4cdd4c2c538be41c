// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import jportal.baselines.PathTable;
import jportal.baselines.Paths;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.InsnList;

/** Mode {@code pf}: the register of a path, and a table of ended paths. */
final class PathProbes extends Probes {
    private final BallLarus paths;
    private final int id;

    PathProbes(Code code, BallLarus paths, int id) {
        super(code);
        this.paths = paths;
        this.id = id;
    }

    @Override
    List<Object> locals() {
        return List.of("jportal/baselines/PathTable", Opcodes.LONG);
    }

    @Override
    InsnList entry() {
        InsnList list = push(push(list(), id), paths.paths);
        statically(list, Paths.class, "enter", "(IJ)Ljportal/baselines/PathTable;");
        return begin(variable(list, Opcodes.ASTORE, local), 0);
    }

    private InsnList begin(InsnList list, int block) {
        return variable(push(list, paths.begin(block)), Opcodes.LSTORE, local + 1);
    }

    private InsnList sum(InsnList list, long value) {
        variable(list, Opcodes.LLOAD, local + 1);
        return value == 0 ? list : op(push(list, value), Opcodes.LADD);
    }

    @Override
    boolean hasEdges() {
        return true;
    }

    @Override
    InsnList edge(int from, int to) {
        if (!paths.reaches(from)) {
            return null;
        }
        long value = paths.value(from, to);
        if (paths.isCut(from, to)) {
            return begin(call(sum(state(), value), PathTable.class, "back", "(J)V"), to);
        }
        return value == 0 ? null : variable(sum(list(), value), Opcodes.LSTORE, local + 1);
    }

    @Override
    InsnList end(int block) {
        return call(sum(state(), 0), PathTable.class, "end", "(J)V");
    }

    @Override
    boolean hasHandlers() {
        return true;
    }

    @Override
    InsnList caught(int segment, int block) {
        return begin(call(state(), PathTable.class, "caught", "()V"), block);
    }
}
