// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import jportal.baselines.Words;

/** A log of words, see {@link Words}. At most 2³¹ bytes. */
public record Log(Path file, int tid, int number, long javaId, IntBuffer words) {
    public static Log read(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file)) {
            if (channel.size() > Integer.MAX_VALUE) {
                throw new IOException(file + ": more than 2 GiB; not supported");
            }
            ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
            if (bytes.limit() < Words.HEADER || bytes.getInt(0) != Words.MAGIC) {
                throw new IOException(file + ": not a log of the baselines");
            }
            long length = bytes.getLong(16);
            if (length < Words.HEADER || length > bytes.limit()) {
                throw new IOException(file + ": the header's length " + length + " is wrong");
            }
            int tid = bytes.getInt(8);
            int number = bytes.getInt(12);
            long javaId = bytes.getLong(24);
            bytes.position(Words.HEADER).limit((int) length);
            return new Log(file, tid, number, javaId, bytes.slice().order(ByteOrder.LITTLE_ENDIAN).asIntBuffer());
        }
    }

    public int length() {
        return words.limit();
    }

    public int word(int at) {
        return words.get(at);
    }
}
