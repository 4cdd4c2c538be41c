// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import jportal.baselines.Tokens;
import jportal.baselines.casper.Plan;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.InsnList;

/** Mode {@code fi}: a token for each site and for each exception that leaves a method. */
final class FullProbes extends Probes {
    private final Plan.Rows rows;

    FullProbes(Code code, Plan.Rows rows) {
        super(code);
        this.rows = rows;
    }

    @Override
    List<Object> locals() {
        return List.of("jportal/baselines/Tokens");
    }

    @Override
    InsnList entry() {
        InsnList list = list();
        if (code.method.name.equals("<clinit>")) {
            statically(push(list, rows.exit()), Tokens.class, "beginImplicit", "(I)Ljportal/baselines/Tokens;");
        } else {
            statically(list, Tokens.class, "begin", "()Ljportal/baselines/Tokens;");
        }
        return variable(list, Opcodes.ASTORE, local);
    }

    private InsnList site(int id) {
        return call(push(state(), id), Tokens.class, "site", "(I)V");
    }

    @Override
    InsnList before(int insn) {
        return code.isCall(insn) || code.isReturn(insn) ? site(rows.site(insn)) : null;
    }

    @Override
    boolean hasUnwinds() {
        return true;
    }

    @Override
    InsnList left(int segment) {
        return site(rows.exit());
    }
}
