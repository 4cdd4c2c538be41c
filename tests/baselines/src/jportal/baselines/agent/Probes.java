// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.IntInsnNode;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.VarInsnNode;

/**
 * What a mode inserts into one method. Each place's instructions may use {@link #STACK} words of
 * the operand stack and must leave it as it was. Null stands for none.
 */
abstract class Probes {
    /** Words of the operand stack that probes may use. */
    static final int STACK = 8;

    final Code code;

    /** First of the local variables that the mode adds. */
    final int local;

    Probes(Code code) {
        this.code = code;
        local = code.method.maxLocals;
    }

    /** Types of the added variables, as in a frame. All are set at the entry. */
    abstract List<Object> locals();

    abstract InsnList entry();

    /** Before the first instruction of a block. */
    InsnList block(int block) {
        return null;
    }

    /** Before instructions of which none but the last may throw. */
    InsnList run(int length) {
        return null;
    }

    /** On the edge between two blocks. */
    InsnList edge(int from, int to) {
        return null;
    }

    /** Whether {@link #edge} may return instructions. */
    boolean hasEdges() {
        return false;
    }

    /** Before the return or {@code athrow} at the end of a block. */
    InsnList end(int block) {
        return null;
    }

    /** Before and after a call. */
    InsnList before(int insn) {
        return null;
    }

    InsnList after(int insn) {
        return null;
    }

    /** Whether handlers differ by the segment that threw. */
    boolean bySegment() {
        return false;
    }

    /** An exception arrives at a handler. */
    InsnList caught(int segment, int block) {
        return null;
    }

    /** Whether {@link #caught} returns instructions. */
    boolean hasHandlers() {
        return false;
    }

    /** An exception leaves the method. */
    InsnList left(int segment) {
        return null;
    }

    /** Whether {@link #left} returns instructions. */
    boolean hasUnwinds() {
        return false;
    }

    static InsnList list() {
        return new InsnList();
    }

    static InsnList push(InsnList list, int value) {
        if (value >= Byte.MIN_VALUE && value <= Byte.MAX_VALUE) {
            list.add(new IntInsnNode(Opcodes.BIPUSH, value));
        } else if (value >= Short.MIN_VALUE && value <= Short.MAX_VALUE) {
            list.add(new IntInsnNode(Opcodes.SIPUSH, value));
        } else {
            list.add(new LdcInsnNode(value));
        }
        return list;
    }

    static InsnList push(InsnList list, long value) {
        list.add(new LdcInsnNode(value));
        return list;
    }

    static InsnList variable(InsnList list, int opcode, int variable) {
        list.add(new VarInsnNode(opcode, variable));
        return list;
    }

    static InsnList op(InsnList list, int... opcodes) {
        for (int opcode : opcodes) {
            list.add(new InsnNode(opcode));
        }
        return list;
    }

    static InsnList call(InsnList list, Class<?> owner, String name, String descriptor) {
        list.add(new MethodInsnNode(Opcodes.INVOKEVIRTUAL, owner.getName().replace('.', '/'), name, descriptor));
        return list;
    }

    static InsnList statically(InsnList list, Class<?> owner, String name, String descriptor) {
        list.add(new MethodInsnNode(Opcodes.INVOKESTATIC, owner.getName().replace('.', '/'), name, descriptor));
        return list;
    }

    /** Pushes the first added variable, an object. */
    InsnList state() {
        return variable(list(), Opcodes.ALOAD, local);
    }
}
