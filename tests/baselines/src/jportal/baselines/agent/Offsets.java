// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.Arrays;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.Opcodes;

/** The bcis of the instructions of a class file's methods, one method after the other. */
final class Offsets {
    private static final int WIDE = 196;
    /** Bytes of operands by opcode, as ranges: first opcode, last opcode, bytes. */
    private static final int[][] OPERANDS = {
        {16, 16, 1}, {17, 17, 2}, {18, 18, 1}, {19, 20, 2}, {21, 25, 1}, {54, 58, 1}, {132, 132, 2}, {153, 168, 2},
        {169, 169, 1}, {178, 184, 2}, {185, 186, 4}, {187, 187, 2}, {188, 188, 1}, {189, 189, 2}, {192, 193, 2},
        {197, 197, 3}, {198, 199, 2}, {200, 201, 4},
    };

    private final ClassReader reader;
    private final char[] buffer;
    private int at;
    private byte[] code = {};

    Offsets(ClassReader reader) {
        this.reader = reader;
        buffer = new char[reader.getMaxStringLength()];
        at = reader.header + 8 + 2 * reader.readUnsignedShort(reader.header + 6);
        int fields = reader.readUnsignedShort(at);
        at += 2;
        for (; fields > 0; fields--) {
            next();
        }
        at += 2;
    }

    /** The bcis of the next member; empty without code. */
    int[] next() {
        int[] bcis = {};
        code = new byte[0];
        int attributes = reader.readUnsignedShort(at + 6);
        at += 8;
        for (; attributes > 0; attributes--) {
            if (reader.readUTF8(at, buffer).equals("Code")) {
                bcis = scan(at + 14, reader.readInt(at + 10));
                code = new byte[reader.readInt(at + 10)];
                for (int i = 0; i < code.length; i++) {
                    code[i] = (byte) reader.readByte(at + 14 + i);
                }
            }
            at += 6 + reader.readInt(at + 2);
        }
        return bcis;
    }

    /** The code of the member of which {@link #next} was last. */
    byte[] code() {
        return code;
    }

    private int[] scan(int base, int length) {
        int[] bcis = new int[length];
        int count = 0;
        for (int bci = 0; bci < length; bci += size(base, bci)) {
            bcis[count++] = bci;
        }
        return Arrays.copyOf(bcis, count);
    }

    private int size(int base, int bci) {
        int opcode = reader.readByte(base + bci) & 0xff;
        int aligned = (bci & ~3) + 4;
        if (opcode == Opcodes.TABLESWITCH) {
            int low = reader.readInt(base + aligned + 4);
            return aligned - bci + 12 + 4 * (reader.readInt(base + aligned + 8) - low + 1);
        }
        if (opcode == Opcodes.LOOKUPSWITCH) {
            return aligned - bci + 8 + 8 * reader.readInt(base + aligned + 4);
        }
        if (opcode == WIDE) {
            return (reader.readByte(base + bci + 1) & 0xff) == Opcodes.IINC ? 6 : 4;
        }
        for (int[] range : OPERANDS) {
            if (opcode >= range[0] && opcode <= range[1]) {
                return 1 + range[2];
            }
        }
        return 1;
    }
}
