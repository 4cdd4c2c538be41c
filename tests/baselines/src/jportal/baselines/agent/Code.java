// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.LineNumberNode;
import org.objectweb.asm.tree.LookupSwitchInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TableSwitchInsnNode;
import org.objectweb.asm.tree.TryCatchBlockNode;
import org.objectweb.asm.tree.TypeInsnNode;

/** The instructions and blocks of a method, before instrumentation. */
public final class Code {
    public final MethodNode method;
    /** Without labels, frames and lines. */
    public final AbstractInsnNode[] insns;
    public final int[] bcis;
    /** As in the class file. */
    final byte[] bytes;
    /** Source lines; 0 if unknown. */
    public final int[] lines;
    /** The block of each instruction. */
    public final int[] blockOf;
    /** First and last instruction of each block. */
    public final int[] first;
    public final int[] last;
    /**
     * Without exceptions: the next block, then the target; targets of a switch ascending. Each is
     * there once.
     */
    public final int[][] successors;
    public final BitSet handlers = new BitSet();
    /** Whether there are {@code jsr} or {@code ret}. */
    public final boolean subroutines;
    private final Map<LabelNode, Integer> places = new HashMap<>();

    private Code(MethodNode method, int[] bcis, byte[] bytes) {
        this.method = method;
        this.bcis = bcis;
        this.bytes = bytes;
        int n = bcis.length;
        insns = new AbstractInsnNode[n];
        lines = new int[n];
        int line = 0;
        int count = 0;
        for (AbstractInsnNode insn : method.instructions) {
            if (insn instanceof LabelNode label) {
                places.put(label, count);
            } else if (insn instanceof LineNumberNode number) {
                line = number.line;
            } else if (insn.getOpcode() >= 0) {
                lines[count] = line;
                insns[count++] = insn;
            }
        }
        BitSet leaders = leaders();
        blockOf = new int[n];
        first = leaders.stream().toArray();
        last = new int[first.length];
        boolean hasSubroutines = false;
        for (int b = 0; b < first.length; b++) {
            last[b] = (b + 1 < first.length ? first[b + 1] : n) - 1;
            Arrays.fill(blockOf, first[b], last[b] + 1, b);
            int opcode = insns[last[b]].getOpcode();
            hasSubroutines |= opcode == Opcodes.JSR || opcode == Opcodes.RET;
        }
        subroutines = hasSubroutines;
        method.tryCatchBlocks.forEach(row -> handlers.set(blockOf[at(row.handler)]));
        successors = new int[first.length][];
        for (int b = 0; b < first.length; b++) {
            successors[b] = next(b);
        }
    }

    /** Reads a class with full frames; {@code codes} receives its methods that have code. */
    public static ClassNode read(byte[] classFile, List<Code> codes) {
        ClassReader reader = new ClassReader(classFile);
        ClassNode node = new ClassNode();
        reader.accept(node, ClassReader.EXPAND_FRAMES);
        Offsets offsets = new Offsets(reader);
        for (MethodNode method : node.methods) {
            int[] bcis = offsets.next();
            if (method.instructions.size() > 0) {
                codes.add(new Code(method, bcis, offsets.code()));
            }
        }
        return node;
    }

    public String key() {
        return method.name + method.desc;
    }

    public int blocks() {
        return first.length;
    }

    /** The instruction after a label; the number of instructions for one at the end. */
    public int at(LabelNode label) {
        return places.get(label);
    }

    private BitSet leaders() {
        BitSet leaders = new BitSet();
        leaders.set(0);
        for (int i = 0; i < insns.length; i++) {
            int opcode = insns[i].getOpcode();
            for (LabelNode target : targets(insns[i])) {
                leaders.set(at(target));
            }
            if (insns[i] instanceof JumpInsnNode || ends(opcode) || opcode == Opcodes.RET
                    || opcode == Opcodes.TABLESWITCH || opcode == Opcodes.LOOKUPSWITCH) {
                leaders.set(i + 1);
            }
        }
        for (TryCatchBlockNode row : method.tryCatchBlocks) {
            leaders.set(at(row.handler));
        }
        leaders.clear(insns.length);
        return leaders;
    }

    /** The targets of a jump or a switch, as they are written. */
    static List<LabelNode> targets(AbstractInsnNode insn) {
        List<LabelNode> targets = new ArrayList<>();
        if (insn instanceof JumpInsnNode jump) {
            targets.add(jump.label);
        } else if (insn instanceof TableSwitchInsnNode table) {
            targets.addAll(table.labels);
            targets.add(table.dflt);
        } else if (insn instanceof LookupSwitchInsnNode lookup) {
            targets.addAll(lookup.labels);
            targets.add(lookup.dflt);
        }
        return targets;
    }

    private int[] next(int block) {
        AbstractInsnNode insn = insns[last[block]];
        int opcode = insn.getOpcode();
        if (ends(opcode)) {
            return new int[0];
        }
        if (opcode == Opcodes.RET) {
            return java.util.stream.IntStream.range(1, blocks())
                    .filter(b -> insns[last[b - 1]].getOpcode() == Opcodes.JSR).toArray();
        }
        int[] targets = targets(insn).stream().mapToInt(label -> blockOf[at(label)]).toArray();
        if (opcode == Opcodes.TABLESWITCH || opcode == Opcodes.LOOKUPSWITCH) {
            return Arrays.stream(targets).sorted().distinct().toArray();
        }
        if (opcode == Opcodes.GOTO || opcode == Opcodes.JSR) {
            return targets;
        }
        if (block + 1 == blocks()) {
            return targets;
        }
        return targets.length == 0 || targets[0] == block + 1 ? new int[] {block + 1} : new int[] {block + 1, targets[0]};
    }

    private static boolean ends(int opcode) {
        return opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN || opcode == Opcodes.ATHROW;
    }

    /** Whether a block ends with a return. */
    public boolean returns(int block) {
        return isReturn(last[block]);
    }

    public boolean isReturn(int insn) {
        int opcode = insns[insn].getOpcode();
        return opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN;
    }

    public boolean isCall(int insn) {
        int opcode = insns[insn].getOpcode();
        return opcode >= Opcodes.INVOKEVIRTUAL && opcode <= Opcodes.INVOKEDYNAMIC;
    }

    /** Whether a block ends with a return or {@code athrow}. */
    public boolean exits(int block) {
        return ends(insns[last[block]].getOpcode());
    }

    /** Whether an instruction may throw (JVMS 17 §6.5), and ends a precise block of JP's. */
    public boolean mayThrow(int insn) {
        int opcode = insns[insn].getOpcode();
        return switch (opcode) {
            case Opcodes.ARRAYLENGTH, Opcodes.IDIV, Opcodes.LDIV, Opcodes.IREM, Opcodes.LREM, Opcodes.NEW,
                    Opcodes.NEWARRAY, Opcodes.ANEWARRAY, Opcodes.MULTIANEWARRAY, Opcodes.ATHROW, Opcodes.CHECKCAST,
                    Opcodes.INSTANCEOF, Opcodes.MONITORENTER, Opcodes.MONITOREXIT -> true;
            case Opcodes.LDC -> !(((LdcInsnNode) insns[insn]).cst instanceof Number);
            default -> opcode >= Opcodes.IALOAD && opcode <= Opcodes.SALOAD
                    || opcode >= Opcodes.IASTORE && opcode <= Opcodes.SASTORE
                    || opcode >= Opcodes.GETSTATIC && opcode <= Opcodes.INVOKEDYNAMIC
                    || opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN;
        };
    }

    /**
     * The call of the super constructor, or of another constructor of the class, in a constructor;
     * -1 outside of constructors; -2 if there is not exactly one. A {@code new} is matched with the
     * next call of a constructor of its class, as compilers order them.
     */
    public int superCall() {
        if (!method.name.equals("<init>")) {
            return -1;
        }
        List<String> open = new ArrayList<>();
        int found = -2;
        for (int i = 0; i < insns.length; i++) {
            if (insns[i].getOpcode() == Opcodes.NEW) {
                open.add(((TypeInsnNode) insns[i]).desc);
            } else if (insns[i] instanceof MethodInsnNode call && call.name.equals("<init>")) {
                int top = open.size() - 1;
                if (top >= 0 && open.get(top).equals(call.owner)) {
                    open.remove(top);
                } else if (found >= 0) {
                    return -2;
                } else {
                    found = i;
                }
            }
        }
        return found;
    }

    /** The instructions that may be executed before an instruction {@code end} has been. */
    BitSet before(int end) {
        BitSet seen = new BitSet();
        List<Integer> open = new ArrayList<>(List.of(0));
        while (!open.isEmpty()) {
            int i = open.remove(open.size() - 1);
            if (seen.get(i)) {
                continue;
            }
            seen.set(i);
            for (TryCatchBlockNode row : method.tryCatchBlocks) {
                if (at(row.start) <= i && i < at(row.end)) {
                    open.add(at(row.handler));
                }
            }
            if (i == end) {
                continue;
            }
            int block = blockOf[i];
            if (i < last[block]) {
                open.add(i + 1);
            } else {
                for (int next : successors[block]) {
                    open.add(first[next]);
                }
            }
        }
        return seen;
    }

    /**
     * Segments: parts of blocks between call sites; each call site and each return is a segment of
     * its own. Which sites were executed before is the same for all instructions of a segment.
     */
    public int[] segments() {
        int[] segments = new int[insns.length];
        int segment = -1;
        boolean alone = true;
        for (int i = 0; i < insns.length; i++) {
            boolean site = isCall(i) || isReturn(i);
            if (alone || site || first[blockOf[i]] == i) {
                segment++;
            }
            segments[i] = segment;
            alone = site;
        }
        return segments;
    }
}
