// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import jportal.baselines.Counts;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.InsnList;

/** Mode {@code sc}: a counter for each block. */
final class CountProbes extends Probes {
    private final int blocks;
    private final int id;

    CountProbes(Code code, int id) {
        super(code);
        blocks = code.blocks();
        this.id = id;
    }

    @Override
    List<Object> locals() {
        return List.of("[J");
    }

    @Override
    InsnList entry() {
        InsnList list = statically(push(push(list(), id), blocks), Counts.class, "of", "(II)[J");
        return variable(list, Opcodes.ASTORE, local);
    }

    @Override
    InsnList block(int block) {
        return op(push(state(), block), Opcodes.DUP2, Opcodes.LALOAD, Opcodes.LCONST_1, Opcodes.LADD, Opcodes.LASTORE);
    }
}
