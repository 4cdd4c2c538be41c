// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import static org.objectweb.asm.Opcodes.*;

import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Says which instructions may throw: under the rules of the README, or at all. */
final class Throws {
    private final Sites sites;
    private final Map<Method, BitSet> safe = new HashMap<>();
    /** Classes whose initializer was left by an exception: each later use throws, too. */
    private final Set<String> failed = new HashSet<>();

    Throws(Sites sites) {
        this.sites = sites;
    }

    void fail(Collection<String> types) {
        failed.addAll(types);
    }

    private boolean needsFailed(Method method, int insn) {
        if (failed.isEmpty()) {
            return false;
        }
        Site site = sites.at(method.code, insn);
        return site != null && failed.stream().anyMatch(type -> site.initializes(type, sites.hierarchy));
    }

    /**
     * Whether an instruction may throw when what it calls does not. {@code rare}: errors of the VM
     * and of linking count, too.
     */
    boolean may(Method method, int insn, boolean rare) {
        Code code = method.code;
        int opcode = code.op[insn];
        if (opcode >= IALOAD && opcode <= SALOAD || opcode >= IASTORE && opcode <= SASTORE) {
            return true;
        }
        switch (opcode) {
            case ATHROW: case CHECKCAST: case MONITOREXIT:
                return true;
            case IDIV: case IREM: case LDIV: case LREM:
                return insn == code.first[code.blockOf[insn]] || !isNonZero(code, insn - 1);
            case NEWARRAY: case ANEWARRAY:
                return rare || insn == code.first[code.blockOf[insn]] || !isLength(code, insn - 1);
            case MULTIANEWARRAY:
                return true;
            case GETFIELD: case PUTFIELD: case ARRAYLENGTH: case MONITORENTER:
                return rare || !isSafe(method, insn);
            case INVOKESTATIC:
                return rare || needsFailed(method, insn) || mayCall(method, insn, opcode);
            case INVOKEVIRTUAL: case INVOKESPECIAL: case INVOKEINTERFACE:
                return rare || mayCall(method, insn, opcode);
            case GETSTATIC: case PUTSTATIC: case NEW:
                return rare || needsFailed(method, insn);
            case LDC: case 19: case 20: case INVOKEDYNAMIC: case INSTANCEOF:
                return rare;
            default:
                return rare && Code.isReturn(opcode);
        }
    }

    private boolean mayCall(Method method, int insn, int opcode) {
        ClassFile.Reference reference = method.code.file.referenceAt(method.code.at[insn] + 1);
        ClassFile.Member target = sites.hierarchy.resolve(reference.owner(), reference.key());
        if (opcode != INVOKESTATIC && !isSafe(method, insn)) {
            return true;
        }
        if (target != null && target.file().name.equals("java/lang/Object") && target.name().equals("<init>")) {
            return false;
        }
        if (target != null && sites.leaf.isThrowable(target)) {
            return false;
        }
        Site site = sites.at(method.code, insn);
        // A method that is entered for certain throws by itself, if at all.
        return !site.must;
    }

    private boolean isSafe(Method method, int insn) {
        return safe.computeIfAbsent(method, key -> Nulls.safe(key.code)).get(insn);
    }

    private static boolean isNonZero(Code code, int insn) {
        int opcode = code.op[insn];
        return opcode >= ICONST_1 && opcode <= ICONST_5 || opcode == ICONST_M1 || opcode == LCONST_1
                || opcode == BIPUSH && code.file.u1(code.at[insn] + 1) != 0
                || opcode == SIPUSH && code.file.u2(code.at[insn] + 1) != 0;
    }

    private static boolean isLength(Code code, int insn) {
        int opcode = code.op[insn];
        return opcode >= ICONST_0 && opcode <= ICONST_5
                || opcode == BIPUSH && (byte) code.file.u1(code.at[insn] + 1) >= 0
                || opcode == SIPUSH && code.file.reader.readShort(code.at[insn] + 1) >= 0;
    }
}
