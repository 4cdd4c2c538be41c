// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import static org.objectweb.asm.Opcodes.*;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.TreeSet;

/**
 * The code of a method: instructions, basic blocks and the edges between them. Instructions have
 * numbers 0, 1, …; so have blocks, in the order of their leaders. Leaders are those of
 * {@code tests/oracle-agent/FORMAT.md}.
 */
final class Code {
    private static final int WIDE = 196;
    private static final int GOTO_W = 200;
    private static final int JSR_W = 201;
    private static final String PROBE = "jportal/oracle/Probe";
    private static final int PROBE_LENGTH = 9;

    final ClassFile file;
    final ClassFile.Member member;
    /** The bci of each instruction, in the class file without probes. */
    final int[] bci;
    /** Where each instruction is in the class file that was read. */
    final int[] at;
    /** Opcodes; that of {@code wide} instructions is the one that is widened. */
    final int[] op;
    /** Source line of each instruction, 0 if unknown. */
    final int[] line;
    /** The exception table, in its order. */
    final List<Handler> handlers = new ArrayList<>();
    /** The first instruction of each block. */
    final int[] first;
    /** One more than the last instruction of each block. */
    final int[] end;
    /** The block of each instruction, -1 for code that no edge reaches. */
    final int[] blockOf;
    /** Successors without exceptions, each once: next, then taken; of a switch by ascending bci. */
    final int[][] successors;
    /** Which blocks are exception handlers. */
    final BitSet handlerBlocks = new BitSet();

    private final int base;
    private final int[] raw;

    /**
     * A row of the exception table: instructions from, to (exclusive), the handler, its type or
     * null for all.
     */
    record Handler(int from, int to, int target, String type) {
        boolean covers(int insn) {
            return from <= insn && insn < to;
        }

        boolean catchesAll() {
            return type == null || type.equals("java/lang/Throwable");
        }
    }

    Code(ClassFile.Member member) {
        this.member = member;
        file = member.file();
        base = member.code() + 14;
        int length = file.reader.readInt(member.code() + 10);
        int[] starts = new int[length];
        int[] own = new int[length];
        int count = 0;
        int next = 0;
        for (int i = 0; i < length; ) {
            if (file.probed && isProbe(i)) {
                i += PROBE_LENGTH;
                continue;
            }
            starts[count] = i;
            own[count++] = next;
            int size = length(i, i);
            next += length(i, next);
            i += size;
        }
        raw = Arrays.copyOf(starts, count);
        bci = Arrays.copyOf(own, count);
        at = new int[count];
        op = new int[count];
        for (int i = 0; i < count; i++) {
            at[i] = base + raw[i];
            int opcode = file.u1(at[i]);
            op[i] = opcode == WIDE ? file.u1(at[i] + 1) : opcode;
        }
        line = new int[count];
        int tables = readHandlers(length);
        readLines(tables);
        first = leaders();
        end = new int[first.length];
        blockOf = new int[count];
        Arrays.fill(blockOf, -1);
        cutIntoBlocks();
        for (Handler handler : handlers) {
            handlerBlocks.set(blockOf[handler.target]);
        }
        successors = new int[first.length][];
        for (int b = 0; b < first.length; b++) {
            successors[b] = successorsOf(b);
        }
    }

    int blocks() {
        return first.length;
    }

    int leaderBci(int block) {
        return bci[first[block]];
    }

    int size(int block) {
        return end[block] - first[block];
    }

    /** The block that begins at a bci, or -1. */
    int blockAt(int leader) {
        int insn = Arrays.binarySearch(bci, leader);
        return insn < 0 || blockOf[insn] < 0 || first[blockOf[insn]] != insn ? -1 : blockOf[insn];
    }

    int lastOp(int block) {
        return op[end[block] - 1];
    }

    boolean returns(int block) {
        return isReturn(lastOp(block));
    }

    static boolean isReturn(int opcode) {
        return opcode >= IRETURN && opcode <= RETURN;
    }

    static boolean isInvoke(int opcode) {
        return opcode >= INVOKEVIRTUAL && opcode <= INVOKEDYNAMIC;
    }

    static boolean isConditional(int opcode) {
        return opcode >= IFEQ && opcode <= IF_ACMPNE || opcode == IFNULL || opcode == IFNONNULL;
    }

    static boolean isSwitch(int opcode) {
        return opcode == TABLESWITCH || opcode == LOOKUPSWITCH;
    }

    private static boolean isJsr(int opcode) {
        return opcode == JSR || opcode == JSR_W;
    }

    /** Whether control leaves the instruction other than to the next one, calls aside. */
    private static boolean ends(int opcode) {
        return isConditional(opcode) || isSwitch(opcode) || isReturn(opcode) || isJsr(opcode)
                || opcode == GOTO || opcode == GOTO_W || opcode == ATHROW || opcode == RET;
    }

    private boolean isProbe(int i) {
        if (base + i + PROBE_LENGTH > base + file.reader.readInt(member.code() + 10)
                || file.u1(base + i) != SIPUSH
                || file.u1(base + i + 3) != SIPUSH
                || file.u1(base + i + 6) != INVOKESTATIC) {
            return false;
        }
        return file.referenceAt(base + i + 7).owner().equals(PROBE);
    }

    /**
     * The length of the instruction at {@code i}, if it were placed at {@code place} (JVMS 17
     * §6.5).
     */
    private int length(int i, int place) {
        int opcode = file.u1(base + i);
        int operands = base + (i & ~3) + 4;
        int padding = 3 - (place & 3);
        switch (opcode) {
            case TABLESWITCH:
                return 13 + padding + 4 * (file.reader.readInt(operands + 8) - file.reader.readInt(operands + 4) + 1);
            case LOOKUPSWITCH:
                return 9 + padding + 8 * file.reader.readInt(operands + 4);
            case WIDE:
                return file.u1(base + i + 1) == IINC ? 6 : 4;
            case BIPUSH: case LDC: case NEWARRAY: case RET:
                return 2;
            case SIPUSH: case 19: case 20: case IINC: case NEW: case ANEWARRAY: case CHECKCAST: case INSTANCEOF:
                return 3;
            case MULTIANEWARRAY:
                return 4;
            case INVOKEINTERFACE: case INVOKEDYNAMIC: case GOTO_W: case JSR_W:
                return 5;
            default:
                if (opcode >= ILOAD && opcode <= ALOAD || opcode >= ISTORE && opcode <= ASTORE) {
                    return 2;
                }
                boolean wide = opcode >= IFEQ && opcode <= JSR || opcode >= GETSTATIC && opcode <= INVOKESTATIC
                        || opcode == IFNULL || opcode == IFNONNULL;
                return wide ? 3 : 1;
        }
    }

    /** The first instruction at or after a place in the code that was read. */
    private int insnAt(int place) {
        int found = Arrays.binarySearch(raw, place);
        return found < 0 ? -found - 1 : found;
    }

    /** Returns the offset of the attributes of the code. */
    private int readHandlers(int length) {
        int offset = base + length;
        int count = file.u2(offset);
        offset += 2;
        for (; count > 0; count--, offset += 8) {
            handlers.add(new Handler(insnAt(file.u2(offset)), insnAt(file.u2(offset + 2)),
                    insnAt(file.u2(offset + 4)), file.classAt(offset + 6)));
        }
        return offset;
    }

    private void readLines(int start) {
        int[] known = new int[raw.length];
        int offset = start + 2;
        for (int i = file.u2(start); i > 0; i--) {
            if (file.utf8(offset).equals("LineNumberTable")) {
                for (int n = 0; n < file.u2(offset + 6); n++) {
                    int insn = insnAt(file.u2(offset + 8 + 4 * n));
                    if (insn < known.length) {
                        known[insn] = file.u2(offset + 10 + 4 * n);
                    }
                }
            }
            offset += 6 + file.reader.readInt(offset + 2);
        }
        for (int i = 0, now = 0; i < known.length; i++) {
            now = known[i] == 0 ? now : known[i];
            line[i] = now;
        }
    }

    /** The targets of a jump or switch as instructions; a switch's default is the first. */
    private int[] targets(int i) {
        int place = raw[i];
        if (isConditional(op[i]) || op[i] == GOTO || op[i] == JSR) {
            return new int[] {insnAt(place + file.reader.readShort(at[i] + 1))};
        }
        if (op[i] == GOTO_W || op[i] == JSR_W) {
            return new int[] {insnAt(place + file.reader.readInt(at[i] + 1))};
        }
        if (!isSwitch(op[i])) {
            return new int[0];
        }
        int operands = base + (place & ~3) + 4;
        boolean table = op[i] == TABLESWITCH;
        int count = table
                ? file.reader.readInt(operands + 8) - file.reader.readInt(operands + 4) + 1
                : file.reader.readInt(operands + 4);
        int[] found = new int[count + 1];
        found[0] = insnAt(place + file.reader.readInt(operands));
        for (int n = 0; n < count; n++) {
            int jump = table ? operands + 12 + 4 * n : operands + 12 + 8 * n;
            found[n + 1] = insnAt(place + file.reader.readInt(jump));
        }
        return found;
    }

    private int[] leaders() {
        BitSet marks = new BitSet();
        marks.set(0);
        for (int i = 0; i < op.length; i++) {
            for (int target : targets(i)) {
                marks.set(target);
            }
            if (isConditional(op[i]) || isJsr(op[i])) {
                marks.set(i + 1);
            }
        }
        for (Handler handler : handlers) {
            marks.set(handler.target);
        }
        marks.clear(op.length, Math.max(op.length, marks.length()));
        return marks.stream().toArray();
    }

    private void cutIntoBlocks() {
        for (int b = 0; b < first.length; b++) {
            int limit = b + 1 < first.length ? first[b + 1] : op.length;
            int i = first[b];
            do {
                blockOf[i] = b;
            } while (!ends(op[i++]) && i < limit);
            end[b] = i;
        }
    }

    private int[] successorsOf(int block) {
        int last = end[block] - 1;
        int opcode = op[last];
        TreeSet<Integer> ascending = new TreeSet<>();
        List<Integer> found = new ArrayList<>();
        if (opcode == RET) {
            for (int i = 0; i + 1 < op.length; i++) {
                if (isJsr(op[i])) {
                    ascending.add(blockOf[i + 1]);
                }
            }
        } else if (isSwitch(opcode)) {
            for (int target : targets(last)) {
                ascending.add(blockOf[target]);
            }
        } else {
            if ((isConditional(opcode) || !ends(opcode)) && last + 1 < op.length) {
                found.add(blockOf[last + 1]);
            }
            for (int target : targets(last)) {
                if (!found.contains(blockOf[target])) {
                    found.add(blockOf[target]);
                }
            }
        }
        found.addAll(ascending);
        return found.stream().mapToInt(Integer::intValue).toArray();
    }

    boolean follows(int block, int next) {
        for (int successor : successors[block]) {
            if (successor == next) {
                return true;
            }
        }
        return false;
    }
}
