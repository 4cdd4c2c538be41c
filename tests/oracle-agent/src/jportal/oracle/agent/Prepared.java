// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.CRC32;

/**
 * Classes instrumented by an earlier run. Without them, a traced run would trace all the work of
 * instrumentation; with them the agent only looks them up. File format: see {@link Entry#write}.
 */
final class Prepared {
    /** Entries not taken, by class name. Other definitions of a name are instrumented anew. */
    private final Map<String, Entry> entries = new HashMap<>();
    private final int firstFreeId;
    private final OutputStream save;

    /**
     * One instrumented class.
     *
     * @param length  of the class file before instrumentation
     * @param crc     of the class file before instrumentation
     * @param nextId  one more than its highest probe id
     * @param probes  its lines for probes.tsv
     * @param skipped its lines for skipped.tsv
     */
    record Entry(String name, int length, long crc, int nextId, byte[] classFile, byte[] probes, byte[] skipped) {

        private void write(DataOutputStream out) throws IOException {
            out.writeUTF(name);
            out.writeInt(length);
            out.writeLong(crc);
            out.writeInt(nextId);
            for (byte[] bytes : new byte[][] {classFile, probes, skipped}) {
                out.writeInt(bytes.length);
                out.write(bytes);
            }
        }

        private static Entry read(DataInputStream in) throws IOException {
            return new Entry(in.readUTF(), in.readInt(), in.readLong(), in.readInt(), bytes(in), bytes(in), bytes(in));
        }

        private static byte[] bytes(DataInputStream in) throws IOException {
            byte[] bytes = new byte[in.readInt()];
            in.readFully(bytes);
            return bytes;
        }

        private boolean isOf(byte[] original) {
            return original.length == length && checksum(original) == crc;
        }
    }

    /** Reads {@code use} and will write {@code save}; both may be null. */
    Prepared(Path use, Path save) throws IOException {
        this.save = save == null ? null : new FileOutputStream(save.toFile());
        int free = 1;
        if (use != null) {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(Files.readAllBytes(use)));
            while (in.available() > 0) {
                Entry entry = Entry.read(in);
                entries.putIfAbsent(entry.name, entry);
                free = Math.max(free, entry.nextId);
            }
        }
        firstFreeId = free;
    }

    /** The first id that no prepared class has. */
    int firstFreeId() {
        return firstFreeId;
    }

    /** The prepared form of this class file, or null; each is returned once. */
    synchronized Entry take(String name, byte[] original) {
        Entry entry = entries.get(name);
        if (entry == null || !entry.isOf(original)) {
            return null;
        }
        return entries.remove(name);
    }

    boolean saves() {
        return save != null;
    }

    /** Adds a class to the file that is being written. */
    synchronized void save(String name, byte[] original, int nextId, byte[] classFile, String probes, String skipped) {
        Entry entry = new Entry(name, original.length, checksum(original), nextId, classFile,
                Tables.utf8(probes), Tables.utf8(skipped));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try {
            entry.write(new DataOutputStream(bytes));
            save.write(bytes.toByteArray());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static long checksum(byte[] bytes) {
        CRC32 crc = new CRC32();
        crc.update(bytes);
        return crc.getValue();
    }
}
