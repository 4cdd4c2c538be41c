// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.Opcodes;

/**
 * The bcis of the instructions of each method in a class file. ASM's trees have none. Tree and
 * class file have the same order: the tree's n-th real instruction has the n-th bci of the scan.
 */
final class CodeScan {
    private final ClassReader reader;
    private final char[] buffer;
    private final List<Code> methods = new ArrayList<>();

    /**
     * A method that has code.
     *
     * @param method name and descriptor
     * @param base   offset of its bytecodes in the class file
     * @param bcis   of its instructions, ascending
     */
    record Code(String method, int base, int[] bcis) {}

    private CodeScan(ClassReader reader) {
        this.reader = reader;
        buffer = new char[reader.getMaxStringLength()];
    }

    private void scan() {
        int offset = reader.header + 6;
        int interfaces = u2(offset);
        offset = skipMembers(offset + 2 + 2 * interfaces);
        int count = u2(offset);
        offset += 2;
        for (int i = 0; i < count; i++) {
            offset = scanMethod(offset);
        }
    }

    /** The methods of a class file that have code, in its order. */
    static List<Code> of(ClassReader reader) {
        CodeScan scan = new CodeScan(reader);
        scan.scan();
        return scan.methods;
    }

    private int u2(int offset) {
        return reader.readUnsignedShort(offset);
    }

    /** Steps over a fields table. */
    private int skipMembers(int start) {
        int offset = start + 2;
        for (int i = u2(start); i > 0; i--) {
            int attributes = u2(offset + 6);
            offset += 8;
            for (; attributes > 0; attributes--) {
                offset += 6 + reader.readInt(offset + 2);
            }
        }
        return offset;
    }

    private int scanMethod(int start) {
        String key = reader.readUTF8(start + 2, buffer) + reader.readUTF8(start + 4, buffer);
        int attributes = u2(start + 6);
        int offset = start + 8;
        for (; attributes > 0; attributes--) {
            if (reader.readUTF8(offset, buffer).equals("Code")) {
                int base = offset + 14;
                methods.add(new Code(key, base, scanCode(base, reader.readInt(offset + 10))));
            }
            offset += 6 + reader.readInt(offset + 2);
        }
        return offset;
    }

    private int[] scanCode(int base, int length) {
        int[] bcis = new int[length];
        int count = 0;
        for (int bci = 0; bci < length; bci += length(base, bci)) {
            bcis[count++] = bci;
        }
        return Arrays.copyOf(bcis, count);
    }

    /** Length of the instruction at {@code bci}; its code begins at {@code base} (JVMS 17 §6.5). */
    private int length(int base, int bci) {
        int opcode = reader.readByte(base + bci);
        int operands = base + (bci & ~3) + 4;
        return switch (opcode) {
            case Opcodes.TABLESWITCH -> operands + 12 - base - bci
                    + 4 * (reader.readInt(operands + 8) - reader.readInt(operands + 4) + 1);
            case Opcodes.LOOKUPSWITCH -> operands + 8 - base - bci + 8 * reader.readInt(operands + 4);
            case WIDE -> reader.readByte(base + bci + 1) == Opcodes.IINC ? 6 : 4;
            default -> LENGTHS.charAt(opcode) - '0';
        };
    }

    private static final int WIDE = 196;

    /** Length by opcode, one digit each, twenty per line; the three of variable length have 0. */
    private static final String LENGTHS = ""
            + "11111111111111112323" // 0 nop … ldc_w
            + "32222211111111111111" // 20 ldc2_w …
            + "11111111111111222221" // 40 …
            + "11111111111111111111" // 60 …
            + "11111111111111111111" // 80 …
            + "11111111111111111111" // 100 …
            + "11111111111131111111" // 120 … iinc at 132
            + "11111111111113333333" // 140 … ifeq at 153
            + "33333333320011111133" // 160 … ret at 169, switches at 170, getstatic at 178
            + "33333553231133110433" // 180 … invokeinterface 185, wide 196, ifnonnull 199
            + "55";                  // 200 goto_w, jsr_w
}
