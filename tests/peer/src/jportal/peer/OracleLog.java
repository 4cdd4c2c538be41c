// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/** The oracle's log of a run, as {@code tests/oracle-agent/FORMAT.md} defines it. */
final class OracleLog {
    private static final long MAGIC = ByteBuffer.wrap("JPPROBE\0".getBytes(StandardCharsets.US_ASCII)).getLong();
    private static final int HEADER = 32;

    final List<Probe> probes = new ArrayList<>();
    /** In order of their first probes. */
    final List<ThreadLog> threads = new ArrayList<>();
    /** Whether a class as a whole was left out although it was wanted, or a filter was set. */
    boolean partial;

    /** A line of probes.tsv. */
    record Probe(int id, String type, String loader, String name, String descriptor, int ordinal, int bci) {}

    /** The probe ids of one thread. */
    record ThreadLog(String tid, long start, int[] ids) {}

    OracleLog(Path folder) throws IOException {
        if (Files.exists(folder.resolve("error.txt"))) {
            throw new IOException(folder + ": the log is incomplete: " + Files.readString(folder.resolve("error.txt")));
        }
        for (String line : Files.readAllLines(folder.resolve("probes.tsv"))) {
            String[] field = line.split("\t", -1);
            if (!field[0].equals("id")) {
                probes.add(new Probe(Integer.parseInt(field[0]), field[1], field[2], field[3], field[4],
                        Integer.parseInt(field[5]), Integer.parseInt(field[7])));
            }
        }
        List<String> skipped = Files.readAllLines(folder.resolve("skipped.tsv"));
        partial = skipped.stream().skip(1).anyMatch(line -> line.split("\t")[1].equals("*"));
        for (String line : Files.readAllLines(folder.resolve("agent.tsv"))) {
            partial |= line.startsWith("options") && (line.contains("include=") || line.contains("exclude="));
        }
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "t*.probes")) {
            for (Path file : files) {
                threads.add(read(file));
            }
        }
        threads.sort(Comparator.comparingLong(ThreadLog::start).thenComparing(ThreadLog::tid));
    }

    private static ThreadLog read(Path file) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file));
        if (bytes.remaining() < HEADER || bytes.getLong(0) != MAGIC) {
            throw new IOException(file + ": no probe log");
        }
        bytes.order(ByteOrder.LITTLE_ENDIAN);
        if (bytes.getInt(8) != 1) {
            throw new IOException(file + ": format version " + bytes.getInt(8) + ", not 1");
        }
        int[] ids = new int[(bytes.limit() - HEADER) / 4];
        int count = 0;
        for (; count < ids.length && bytes.getInt(HEADER + 4 * count) != 0; count++) {
            ids[count] = bytes.getInt(HEADER + 4 * count);
        }
        String name = file.getFileName().toString();
        String tid = name.substring(1, name.length() - ".probes".length());
        return new ThreadLog(tid, bytes.getLong(16), Arrays.copyOf(ids, count));
    }
}
