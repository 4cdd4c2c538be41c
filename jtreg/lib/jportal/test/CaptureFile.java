/*
 * Copyright (c) 2026, the JPortal authors. All rights reserved.
 * DO NOT ALTER OR REMOVE COPYRIGHT NOTICES OR THIS FILE HEADER.
 *
 * This code is free software; you can redistribute it and/or modify it
 * under the terms of the GNU General Public License version 2 only, as
 * published by the Free Software Foundation.
 *
 * This code is distributed in the hope that it will be useful, but WITHOUT
 * ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License
 * version 2 for more details (a copy is included in the LICENSE file that
 * accompanied this code).
 */

package jportal.test;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32C;

/**
 * A strict reader of captures, written from {@code rust-core/capture/FORMAT.md}: every deviation is
 * an {@link AssertionError}. It shares no code with the writer, so that each checks the other.
 */
public final class CaptureFile {
    public static final int HEADER = 1;
    public static final int METADATA = 2;
    public static final int PT = 3;
    public static final int SIDEBAND = 4;
    public static final int LOSS = 5;
    public static final int END = 6;

    private static final byte[] MAGIC = {'J', 'P', 'O', 'R', 'T', 'A', 'L', 0};
    private static final int PREAMBLE = 16;
    private static final int HEAD = 32;
    private static final int FRAME = 16;
    private static final int MARKER = 0x4843504a; // "JPCH"
    private static final int MAX_PAYLOAD = 64 << 20;

    public record Chunk(int kind, int aux, long offset, ByteBuffer payload) {}

    /** {@code kind} as in the metadata schema. */
    public record Frame(int kind, long tsc, int length) {}

    /** A record with its body. */
    public record Body(int kind, ByteBuffer bytes) {}

    public final Path path;
    public final List<Chunk> chunks = new ArrayList<>();

    private CaptureFile(Path path) {
        this.path = path;
    }

    /** Reads {@code path}, which must be whole: header first, end chunk last, nothing torn. */
    public static CaptureFile readWhole(Path path) throws IOException {
        Check.that(Files.isRegularFile(path), "no capture at " + path);
        CaptureFile file = new CaptureFile(path);
        file.read(ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN));
        file.checkStreams();
        return file;
    }

    private void read(ByteBuffer bytes) {
        Check.that(bytes.limit() >= PREAMBLE, path + " has no preamble, only " + bytes.limit() + " bytes");
        byte[] magic = new byte[MAGIC.length];
        bytes.get(magic);
        Check.that(java.util.Arrays.equals(MAGIC, magic), path + " does not begin with the magic of a capture");
        Check.equal((short) 3, bytes.getShort(8), "major version");
        int at = PREAMBLE;
        while (at < bytes.limit()) {
            at = readChunk(bytes, at);
        }
        Check.that(chunks.size() >= 2, path + " has " + chunks.size() + " chunks");
        Check.equal(HEADER, chunks.get(0).kind(), "kind of the first chunk");
        Check.equal(END, last().kind(), "kind of the last chunk (a file without an end chunk was cut off)");
    }

    private int readChunk(ByteBuffer bytes, int at) {
        String where = path + " at " + at;
        Check.that(at + HEAD <= bytes.limit(), where + ": torn chunk head");
        Check.equal(MARKER, bytes.getInt(at), where + ": chunk marker");
        Check.equal(bytes.getInt(at + 28), crc(bytes.slice(at, 28)), where + ": CRC of the head");
        int length = bytes.getInt(at + 8);
        Check.that(length >= 0 && length <= MAX_PAYLOAD, where + ": payload length " + length);
        Check.that(at + HEAD + length <= bytes.limit(), where + ": torn payload of " + length + " bytes");
        ByteBuffer payload = bytes.slice(at + HEAD, length).order(ByteOrder.LITTLE_ENDIAN);
        Check.equal(bytes.getInt(at + 24), crc(payload.duplicate()), where + ": CRC of the payload");
        chunks.add(new Chunk(Short.toUnsignedInt(bytes.getShort(at + 4)), bytes.getInt(at + 12),
                bytes.getLong(at + 16), payload));
        return at + HEAD + length;
    }

    /** Offsets of a stream ascend. Metadata is never dropped, so its chunks must be contiguous. */
    private void checkStreams() {
        Map<String, Long> ends = new HashMap<>();
        for (Chunk chunk : chunks) {
            if (chunk.kind() != METADATA && chunk.kind() != PT && chunk.kind() != SIDEBAND) {
                continue;
            }
            String stream = chunk.kind() == METADATA ? "metadata" : chunk.kind() + " of core " + chunk.aux();
            long end = ends.getOrDefault(stream, chunk.kind() == METADATA ? 0L : chunk.offset());
            Check.that(chunk.offset() >= end, "stream " + stream + " steps back to " + chunk.offset());
            if (chunk.kind() == METADATA) {
                Check.equal(end, chunk.offset(), "metadata stream has a hole");
            }
            ends.put(stream, chunk.offset() + chunk.payload().limit());
        }
    }

    private static int crc(ByteBuffer bytes) {
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        return (int) crc.getValue();
    }

    public Chunk last() {
        return chunks.get(chunks.size() - 1);
    }

    public long bytesOf(int kind) {
        return chunks.stream().filter(c -> c.kind() == kind).mapToLong(c -> c.payload().limit()).sum();
    }

    /** {@code reason} of the end chunk. */
    public int endReason() {
        return last().payload().get(0);
    }

    /** {@code text} of the end chunk. */
    public String endText() {
        ByteBuffer payload = last().payload();
        byte[] text = new byte[payload.getInt(1)];
        payload.get(5, text);
        return new String(text, StandardCharsets.UTF_8);
    }

    /** The process id of the last header, which is the valid one. */
    public int pid() {
        Chunk header = null;
        for (Chunk chunk : chunks) {
            header = chunk.kind() == HEADER ? chunk : header;
        }
        return header.payload().getInt(0);
    }

    private ByteBuffer metadata() {
        ByteBuffer stream = ByteBuffer.allocate(Math.toIntExact(bytesOf(METADATA))).order(ByteOrder.LITTLE_ENDIAN);
        chunks.stream().filter(c -> c.kind() == METADATA).forEach(c -> stream.put(c.payload().duplicate()));
        return stream.flip();
    }

    /** The bodies of all records. */
    public List<Body> bodies() {
        ByteBuffer stream = metadata();
        List<Body> bodies = new ArrayList<>();
        int at = 0;
        for (Frame frame : frames()) {
            ByteBuffer bytes = stream.slice(at + FRAME, frame.length() - FRAME).order(ByteOrder.LITTLE_ENDIAN);
            bodies.add(new Body(frame.kind(), bytes));
            at += frame.length();
        }
        return bodies;
    }

    /** All records of the metadata stream; the last one must be whole. */
    public List<Frame> frames() {
        ByteBuffer stream = metadata();
        List<Frame> frames = new ArrayList<>();
        int at = 0;
        while (at < stream.limit()) {
            Check.that(at + FRAME <= stream.limit(), "metadata ends inside a frame head at " + at);
            int length = stream.getInt(at);
            Check.that(length >= FRAME && at + length <= stream.limit(), "frame at " + at + " has length " + length);
            frames.add(new Frame(Short.toUnsignedInt(stream.getShort(at + 4)), stream.getLong(at + 8), length));
            at += length;
        }
        return frames;
    }

    public String permissions() throws IOException {
        return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
