// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import jportal.baselines.Hot;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.InsnList;

/** Mode {@code hm}: calls, bytecodes and time. */
final class HotProbes extends Probes {
    private static final String HOT = "jportal/baselines/Hot";

    private final int id;

    HotProbes(Code code, int id) {
        super(code);
        this.id = id;
    }

    @Override
    List<Object> locals() {
        return List.of(HOT, Opcodes.INTEGER);
    }

    @Override
    InsnList entry() {
        InsnList list = statically(push(list(), id), Hot.class, "enter", "(I)L" + HOT + ";");
        variable(op(list, Opcodes.DUP), Opcodes.ASTORE, local);
        list.add(new FieldInsnNode(Opcodes.GETFIELD, HOT, "depth", "I"));
        return variable(list, Opcodes.ISTORE, local + 1);
    }

    @Override
    InsnList run(int length) {
        return call(push(push(state(), id), length), Hot.class, "add", "(II)V");
    }

    private InsnList own(String name) {
        return call(variable(state(), Opcodes.ILOAD, local + 1), Hot.class, name, "(I)V");
    }

    @Override
    InsnList end(int block) {
        return code.returns(block) ? own("leave") : null;
    }

    @Override
    boolean hasHandlers() {
        return true;
    }

    @Override
    InsnList caught(int segment, int block) {
        return own("resume");
    }

    @Override
    boolean hasUnwinds() {
        return true;
    }

    @Override
    InsnList left(int segment) {
        return own("leave");
    }
}
