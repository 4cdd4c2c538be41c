// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.BitSet;
import java.util.List;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.analysis.Analyzer;
import org.objectweb.asm.tree.analysis.AnalyzerException;
import org.objectweb.asm.tree.analysis.BasicInterpreter;
import org.objectweb.asm.tree.analysis.BasicValue;
import org.objectweb.asm.tree.analysis.Frame;

/**
 * Finds instructions whose object is certainly not null: {@code this}, a new object, a constant.
 */
final class Nulls extends BasicInterpreter {
    private static final BasicValue OBJECT = new BasicValue(Type.getObjectType("jportal/NotNull"));

    private Nulls() {
        super(ASM9);
    }

    /**
     * The instructions (numbers of {@link Code}) that get, put or call on an object that is not
     * null.
     */
    static BitSet safe(Code code) {
        ClassNode node = new ClassNode();
        code.file.reader.accept(node, 0);
        BitSet found = new BitSet();
        for (MethodNode method : node.methods) {
            if (method.name.equals(code.member.name()) && method.desc.equals(code.member.descriptor())) {
                try {
                    mark(code, method, new Analyzer<>(new Nulls()).analyze(node.name, method), found);
                } catch (AnalyzerException | RuntimeException error) {
                    // jsr and unusual code: nothing is known.
                    found.clear();
                }
            }
        }
        return found;
    }

    private static void mark(Code code, MethodNode method, Frame<BasicValue>[] frames, BitSet found) {
        int number = 0;
        List<AbstractInsnNode> insns = List.of(method.instructions.toArray());
        for (int i = 0; i < insns.size() && number < code.op.length; i++) {
            AbstractInsnNode insn = insns.get(i);
            if (insn.getOpcode() < 0) {
                continue;
            }
            if (code.file.probed && isProbe(insns, i)) {
                i += 2;
                continue;
            }
            int depth = depthOfObject(insn);
            Frame<BasicValue> frame = frames[i];
            if (depth >= 0 && frame != null && frame.getStack(frame.getStackSize() - 1 - depth) == OBJECT) {
                found.set(number);
            }
            number++;
        }
    }

    private static boolean isProbe(List<AbstractInsnNode> insns, int i) {
        return i + 2 < insns.size() && insns.get(i + 2) instanceof MethodInsnNode call
                && call.owner.equals("jportal/oracle/Probe");
    }

    /** How many values lie on top of the object; -1 for instructions that use none. */
    private static int depthOfObject(AbstractInsnNode insn) {
        int opcode = insn.getOpcode();
        if (insn instanceof MethodInsnNode call && opcode != Opcodes.INVOKESTATIC) {
            return Type.getArgumentTypes(call.desc).length;
        }
        if (insn instanceof FieldInsnNode) {
            return opcode == Opcodes.GETFIELD ? 0 : opcode == Opcodes.PUTFIELD ? 1 : -1;
        }
        return opcode == Opcodes.ARRAYLENGTH || opcode == Opcodes.MONITORENTER ? 0 : -1;
    }

    @Override
    public BasicValue newParameterValue(boolean isInstance, int local, Type type) {
        return isInstance && local == 0 ? OBJECT : super.newParameterValue(isInstance, local, type);
    }

    @Override
    public BasicValue newOperation(AbstractInsnNode insn) throws AnalyzerException {
        BasicValue value = super.newOperation(insn);
        boolean isConstant = insn.getOpcode() == Opcodes.LDC && value.isReference();
        return insn.getOpcode() == Opcodes.NEW || isConstant ? OBJECT : value;
    }

    @Override
    public BasicValue naryOperation(AbstractInsnNode insn, List<? extends BasicValue> values) throws AnalyzerException {
        BasicValue value = super.naryOperation(insn, values);
        return insn instanceof InvokeDynamicInsnNode && value != null && value.isReference() ? OBJECT : value;
    }

    @Override
    public BasicValue merge(BasicValue one, BasicValue two) {
        if (one == OBJECT && two == OBJECT) {
            return OBJECT;
        }
        return super.merge(one == OBJECT ? BasicValue.REFERENCE_VALUE : one, two == OBJECT ? BasicValue.REFERENCE_VALUE : two);
    }
}
