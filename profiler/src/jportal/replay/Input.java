// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.replay;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** Reads the values of the stream. {@code docs/profiler-format.md} defines them. */
final class Input {
    /** Longest text in bytes. */
    static final int LONGEST = 1 << 20;

    private final InputStream in;
    private final byte[] buffer = new byte[1 << 16];
    private int at;
    private int filled;
    private long before;

    Input(InputStream in) {
        this.in = in;
    }

    BadStreamException bad(String fault) {
        return new BadStreamException(before + at, fault);
    }

    /** The next byte; -1 at the end. */
    int next() throws IOException {
        if (at == filled) {
            before += filled;
            at = 0;
            filled = Math.max(in.read(buffer), 0);
            if (filled == 0) {
                return -1;
            }
        }
        return buffer[at++] & 0xff;
    }

    /** A byte within a message. */
    int octet() throws IOException {
        int octet = next();
        if (octet < 0) {
            throw bad("it ends within a message");
        }
        return octet;
    }

    /** A number of 63 bits. */
    long number() throws IOException {
        long value = 0;
        for (int shift = 0; shift < 63; shift += 7) {
            int octet = octet();
            value |= (long) (octet & 0x7f) << shift;
            if (octet < 0x80) {
                return value;
            }
        }
        throw bad("a number has more than 63 bits");
    }

    /** A number that is less than a limit. */
    int below(int limit, String what) throws IOException {
        long value = number();
        if (value >= limit) {
            throw bad(what + " " + value + " does not exist");
        }
        return (int) value;
    }

    /** A number that may be negative. */
    long signed() throws IOException {
        long value = number();
        return value >>> 1 ^ -(value & 1);
    }

    String text() throws IOException {
        long length = number();
        if (length > LONGEST) {
            throw bad("a text has " + length + " bytes");
        }
        byte[] bytes = new byte[(int) length];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) octet();
        }
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
