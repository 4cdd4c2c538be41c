// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import jportal.baselines.Ways;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.InsnList;

/** Mode {@code cf}: a word for each way out of a block, but where only one is possible. */
final class WayProbes extends Probes {
    private final Shape shape;
    private final int id;

    WayProbes(Code code, Shape shape, int id) {
        super(code);
        this.shape = shape;
        this.id = id;
    }

    @Override
    List<Object> locals() {
        return List.of("jportal/baselines/Ways");
    }

    @Override
    InsnList entry() {
        InsnList list = statically(push(list(), id), Ways.class, "enter", "(I)Ljportal/baselines/Ways;");
        return variable(list, Opcodes.ASTORE, local);
    }

    private InsnList word(int kind, int value) {
        return call(push(state(), kind << Ways.KIND_SHIFT | value), Ways.class, "put", "(I)V");
    }

    @Override
    boolean hasEdges() {
        return true;
    }

    /** What happens in an opaque block may be logged before the way that leads out of it. */
    @Override
    InsnList edge(int from, int to) {
        int[] successors = code.successors[from];
        if (successors.length == 1 && !shape.opaque()[from]) {
            return null;
        }
        int way = 0;
        while (successors[way] != to) {
            way++;
        }
        return word(Ways.WAY, way);
    }

    @Override
    InsnList end(int block) {
        return code.returns(block) ? word(Ways.END, 0) : null;
    }

    @Override
    boolean hasHandlers() {
        return true;
    }

    @Override
    InsnList caught(int segment, int block) {
        InsnList list = word(Ways.CATCH, block);
        list.add(call(push(state(), id), Ways.class, "put", "(I)V"));
        return list;
    }

    @Override
    boolean hasUnwinds() {
        return true;
    }

    @Override
    InsnList left(int segment) {
        return word(Ways.UNWIND, id);
    }
}
