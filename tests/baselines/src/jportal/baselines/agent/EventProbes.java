// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import jportal.baselines.BlockTrace;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.InsnList;

/** Mode {@code jbi}: starts, ends and blocks. */
final class EventProbes extends Probes {
    private final Shape shape;
    private final int id;

    EventProbes(Code code, Shape shape, int id) {
        super(code);
        this.shape = shape;
        this.id = id;
    }

    @Override
    List<Object> locals() {
        return List.of("jportal/baselines/BlockTrace");
    }

    @Override
    InsnList entry() {
        InsnList list = push(list(), id);
        if (shape.isStatic() || code.method.name.equals("<init>")) {
            statically(list, BlockTrace.class, "start", "(I)Ljportal/baselines/BlockTrace;");
        } else {
            variable(list, Opcodes.ALOAD, 0);
            statically(list, BlockTrace.class, "start", "(ILjava/lang/Object;)Ljportal/baselines/BlockTrace;");
        }
        return variable(list, Opcodes.ASTORE, local);
    }

    private InsnList event(int event) {
        return call(push(state(), event), BlockTrace.class, "put", "(I)V");
    }

    @Override
    InsnList block(int block) {
        return event(BlockTrace.BLOCK | id << BlockTrace.METHOD_SHIFT | block);
    }

    @Override
    InsnList end(int block) {
        return code.returns(block) ? event(BlockTrace.END | id << BlockTrace.METHOD_SHIFT) : null;
    }
}
