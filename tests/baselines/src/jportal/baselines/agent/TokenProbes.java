// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import jportal.baselines.Tokens;
import jportal.baselines.casper.Plan;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.InsnList;

/** Modes {@code bri} and {@code casper}: tokens of the plan's sites, callbacks, exceptions. */
final class TokenProbes extends Probes {
    private static final String TOKENS = "jportal/baselines/Tokens";

    private final Plan.Rows rows;
    private final boolean implicit;

    TokenProbes(Code code, Plan.Rows rows) {
        super(code);
        this.rows = rows;
        implicit = code.method.name.equals("<clinit>");
    }

    @Override
    List<Object> locals() {
        return List.of(TOKENS, Opcodes.INTEGER, Opcodes.INTEGER);
    }

    @Override
    InsnList entry() {
        InsnList list = push(list(), rows.exit());
        statically(list, Tokens.class, implicit ? "enterImplicit" : "enter", "(I)L" + TOKENS + ";");
        variable(op(list, Opcodes.DUP, Opcodes.DUP), Opcodes.ASTORE, local);
        list.add(new FieldInsnNode(Opcodes.GETFIELD, TOKENS, "depth", "I"));
        variable(list, Opcodes.ISTORE, local + 1);
        list.add(new FieldInsnNode(Opcodes.GETFIELD, TOKENS, "top", "I"));
        return variable(list, Opcodes.ISTORE, local + 2);
    }

    @Override
    InsnList before(int insn) {
        if (!code.isCall(insn) && !code.isReturn(insn)) {
            return null;
        }
        InsnList list = list();
        int site = rows.site(insn);
        if (rows.logged(insn)) {
            call(push(variable(list, Opcodes.ALOAD, local), site), Tokens.class, "site", "(I)V");
        }
        if (rows.checked(insn)) {
            call(push(variable(list, Opcodes.ALOAD, local), site), Tokens.class, "push", "(I)V");
        }
        return list;
    }

    @Override
    InsnList after(int insn) {
        return code.isCall(insn) && rows.checked(insn) ? call(state(), Tokens.class, "pop", "()V") : null;
    }

    private InsnList leave(InsnList list, String name) {
        variable(variable(list, Opcodes.ALOAD, local), Opcodes.ILOAD, local + 1);
        return call(list, Tokens.class, name, "(I)V");
    }

    @Override
    InsnList end(int block) {
        return code.returns(block) ? leave(list(), implicit ? "returnImplicit" : "leave") : null;
    }

    private InsnList where(int segment) {
        return push(push(state(), rows.exit()), segment);
    }

    private InsnList own(InsnList list) {
        return variable(variable(list, Opcodes.ILOAD, local + 1), Opcodes.ILOAD, local + 2);
    }

    @Override
    boolean bySegment() {
        return true;
    }

    @Override
    boolean hasHandlers() {
        return true;
    }

    @Override
    InsnList caught(int segment, int block) {
        return call(own(push(where(segment), block)), Tokens.class, "caught", "(IIIII)V");
    }

    @Override
    boolean hasUnwinds() {
        return true;
    }

    @Override
    InsnList left(int segment) {
        InsnList list = call(own(where(segment)), Tokens.class, "left", "(IIII)V");
        return implicit ? leave(list, "leaveImplicit") : list;
    }
}
