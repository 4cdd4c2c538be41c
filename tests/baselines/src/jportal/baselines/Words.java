// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
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

    /** Null when the log has ended early. */
    private Path file;
    private MappedByteBuffer header;
    private MappedByteBuffer piece;
    private int at = PIECE;
    private long pieceStart = -PIECE;

    Words(PerThread of) {
        // The VM may end at any moment. A file has its name when its header is complete.
        file = folder.resolve("t" + of.number + ".words.new");
        try {
            Files.deleteIfExists(file);
            next();
            header = piece;
            header.putInt(0, MAGIC);
            header.putInt(4, 1);
            header.putInt(8, of.tid);
            header.putInt(12, of.number);
            header.putLong(24, of.javaId);
            at = HEADER;
            header.putLong(LENGTH_AT, at);
            file = Files.move(file, folder.resolve("t" + of.number + ".words"), StandardCopyOption.REPLACE_EXISTING);
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

    /** Maps the next piece. An interrupt closes the thread's channel, and must not end the log. */
    private void next() throws IOException {
        at = 0;
        if (file == null) {
            return;
        }
        pieceStart += PIECE;
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try {
                    piece = piece(pieceStart);
                    return;
                } catch (ClosedByInterruptException error) {
                    interrupted |= Thread.interrupted();
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Writing zeros first makes a full disk an error here, not a signal. */
    private MappedByteBuffer piece(long start) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ,
                StandardOpenOption.WRITE)) {
            ByteBuffer zeros = ByteBuffer.allocate(PIECE);
            long position = start;
            while (zeros.hasRemaining()) {
                position += channel.write(zeros, position);
            }
            MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_WRITE, start, PIECE);
            mapped.order(ByteOrder.LITTLE_ENDIAN);
            return mapped;
        }
    }

    /** The log ends here; the program continues. */
    private void fail(IOException error) {
        header = null;
        file = null;
        at = 0;
        Registry.skip("*", "*", "a log ended early: " + error);
    }
}
