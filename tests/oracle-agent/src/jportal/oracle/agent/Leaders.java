// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

import java.util.BitSet;
import java.util.List;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LookupSwitchInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TableSwitchInsnNode;
import org.objectweb.asm.tree.TryCatchBlockNode;

/** Finds the leaders of a method; FORMAT.md has the definition. */
final class Leaders {
    private final InsnList code;
    private final BitSet leaders = new BitSet();

    private Leaders(InsnList code) {
        this.code = code;
    }

    /** The leaders, as indices into {@code method.instructions}; each is a real instruction. */
    static BitSet of(MethodNode method) {
        Leaders finder = new Leaders(method.instructions);
        finder.mark(method.instructions.getFirst());
        for (AbstractInsnNode insn : method.instructions) {
            finder.visit(insn);
        }
        for (TryCatchBlockNode block : method.tryCatchBlocks) {
            finder.mark(block.handler);
        }
        return finder.leaders;
    }

    private void visit(AbstractInsnNode insn) {
        if (insn instanceof JumpInsnNode jump) {
            mark(jump.label);
            if (jump.getOpcode() != Opcodes.GOTO) {
                mark(insn.getNext());
            }
        } else if (insn instanceof TableSwitchInsnNode table) {
            mark(table.dflt);
            markAll(table.labels);
        } else if (insn instanceof LookupSwitchInsnNode lookup) {
            mark(lookup.dflt);
            markAll(lookup.labels);
        }
    }

    private void markAll(List<LabelNode> labels) {
        for (LabelNode label : labels) {
            mark(label);
        }
    }

    /** Marks the first node at or after {@code insn} that is no label, line number or frame. */
    private void mark(AbstractInsnNode insn) {
        AbstractInsnNode leader = insn;
        while (leader != null && leader.getOpcode() < 0) {
            leader = leader.getNext();
        }
        if (leader != null) {
            leaders.set(code.indexOf(leader));
        }
    }
}
