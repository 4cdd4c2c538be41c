// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * A thread's log: a mapped file of 32-bit words, little-endian. What was put is in the file even if
 * the VM is killed at once. The file is longer than the log; the header has the log's length.
 */
public final class Words {
    /** Magic, version, tid, number of the thread; 64 bits each: length in bytes, Java thread id. */
    public static final int HEADER = 32;
    public static final int MAGIC = 0x4c42504a; // "JPBL"
    private static final int LENGTH_AT = 16;
    private static final int PIECE = 1 << 20;

    private static volatile Path folder;

    private FileChannel channel;
    private MappedByteBuffer header;
    private MappedByteBuffer piece;
    private int at = PIECE;
    private long pieceStart = -PIECE;

    Words(PerThread of) {
        try {
            Path file = folder.resolve("t" + of.number + ".words");
            channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING,
                    StandardOpenOption.READ, StandardOpenOption.WRITE);
            next();
            header = piece;
            header.putInt(0, MAGIC);
            header.putInt(4, 1);
            header.putInt(8, of.tid);
            header.putInt(12, of.number);
            header.putLong(24, of.javaId);
            at = HEADER;
            header.putLong(LENGTH_AT, at);
        } catch (IOException error) {
            fail(error);
        }
    }

    /** Where logs are written. */
    public static void start(Path out) throws IOException {
        Files.createDirectories(out);
        folder = out;
    }

    /** Appends a word. */
    void put(int word) {
        if (at == PIECE) {
            try {
                next();
            } catch (IOException error) {
                fail(error);
            }
        }
        if (header == null) {
            return;
        }
        piece.putInt(at, word);
        at += 4;
        header.putLong(LENGTH_AT, pieceStart + at);
    }

    /** Maps the next piece. Writing zeros first makes a full disk an error here, not a signal. */
    private void next() throws IOException {
        if (channel == null) {
            at = 0;
            return;
        }
        pieceStart += PIECE;
        ByteBuffer zeros = ByteBuffer.allocate(PIECE);
        long position = pieceStart;
        while (zeros.hasRemaining()) {
            position += channel.write(zeros, position);
        }
        piece = channel.map(FileChannel.MapMode.READ_WRITE, pieceStart, PIECE);
        piece.order(ByteOrder.LITTLE_ENDIAN);
        at = 0;
    }

    /** The log ends here; the program continues. */
    private void fail(IOException error) {
        header = null;
        channel = null;
        at = 0;
        Registry.skip("*", "*", "a log ended early: " + error);
    }
}
