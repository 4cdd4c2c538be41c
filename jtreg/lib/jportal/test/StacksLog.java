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
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The log of the stacks agent ({@code tests/stacks-agent/FORMAT.md}). */
final class StacksLog {
    /** Interfaces by their numbers. */
    static final int GST = 1;
    private static final int HEADER = 32;
    private static final int SAMPLE = 40;
    private static final int FRAME = 16;

    /** A stack: the interface, and {@code class.method} of each frame, innermost first. */
    record Stack(int api, List<String> frames) {
        boolean has(String name) {
            return frames.stream().anyMatch(f -> f.equals(name));
        }

        /** Whether a frame is of the class or of one nested in it. */
        boolean isOf(String type) {
            return frames.stream().anyMatch(f -> f.startsWith(type + ".") || f.startsWith(type + "$"));
        }
    }

    private final Map<Long, String> methods = new HashMap<>();
    private final Path directory;

    StacksLog(Path directory) throws IOException {
        this.directory = directory;
        Check.that(!Files.exists(directory.resolve("error.txt")), directory + " is incomplete: see error.txt");
        for (String line : Files.readAllLines(directory.resolve("methods.tsv")).stream().skip(1).toList()) {
            String[] columns = line.split("\t", -1);
            methods.put(Long.parseUnsignedLong(columns[0], 16), columns[1] + "." + columns[3]);
        }
    }

    /** Signals that the agent sent. */
    long sent() throws IOException {
        for (String line : Files.readAllLines(directory.resolve("stacks.tsv"))) {
            if (line.startsWith("sent\t")) {
                return Long.parseLong(line.substring(5));
            }
        }
        throw new AssertionError("no number of signals in " + directory.resolve("stacks.tsv"));
    }

    /** The stacks in the files with an ending: {@code .stacks} or {@code .async}. */
    List<Stack> stacks(String ending) throws IOException {
        List<Stack> all = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*" + ending)) {
            for (Path file : files) {
                read(ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN), all);
            }
        }
        return all;
    }

    private void read(ByteBuffer bytes, List<Stack> all) {
        // A signal at the end of the VM may leave a part of a sample.
        for (int at = HEADER; at + SAMPLE <= bytes.limit(); ) {
            int size = bytes.getInt(at);
            if (size < SAMPLE || at + size > bytes.limit()) {
                return;
            }
            List<String> frames = new ArrayList<>();
            for (int frame = at + SAMPLE; frame + FRAME <= at + size; frame += FRAME) {
                frames.add(methods.getOrDefault(bytes.getLong(frame), "?"));
            }
            all.add(new Stack(bytes.get(at + 4), frames));
            at += size;
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
