// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The log's tables: probes.tsv, skipped.tsv, agent.tsv. Unbuffered: one call is one write. */
final class Tables {
    private static final int FORMAT_VERSION = 1;

    private final Path directory;
    private final OutputStream probes;
    private final OutputStream skipped;
    private int nextId;

    Tables(Path directory, int firstId) throws IOException {
        this.directory = directory;
        nextId = firstId;
        probes = open("probes.tsv", "id\tclass\tloader\tmethod\tdescriptor\tordinal\tbci\toriginal_bci\tline\n");
        skipped = open("skipped.tsv", "class\tmethod\treason\n");
    }

    private OutputStream open(String name, String head) throws IOException {
        OutputStream stream = new FileOutputStream(directory.resolve(name).toFile());
        stream.write(head.getBytes(StandardCharsets.UTF_8));
        return stream;
    }

    void describe(String arguments) throws IOException {
        String text = "format\t" + FORMAT_VERSION + "\npid\t" + Files.readSymbolicLink(Path.of("/proc/self")) + "\noptions\t"
                + field(arguments) + "\n";
        Files.writeString(directory.resolve("agent.tsv"), text);
    }

    /** Reserves {@code count} consecutive ids and returns the first. */
    synchronized int reserve(int count) {
        if (Integer.MAX_VALUE - nextId < count) {
            throw new IllegalStateException("probe ids are used up");
        }
        int first = nextId;
        nextId += count;
        return first;
    }

    /** A class's lines for probes.tsv. */
    static String probeLines(String type, ClassLoader loader, List<ProbeSite> sites) {
        String loaderName = loader == null ? "boot" : Integer.toHexString(System.identityHashCode(loader));
        StringBuilder text = new StringBuilder();
        for (ProbeSite site : sites) {
            text.append(site.id()).append('\t').append(field(type)).append('\t').append(loaderName)
                    .append('\t').append(field(site.method())).append('\t').append(field(site.descriptor()))
                    .append('\t').append(site.ordinal()).append('\t').append(site.bci())
                    .append('\t').append(site.originalBci()).append('\t').append(site.line()).append('\n');
        }
        return text.toString();
    }

    /** A line for skipped.tsv: a class ({@code method} is "*") or a method without probes. */
    static String skipLine(String type, String method, String reason) {
        return field(type) + '\t' + field(method) + '\t' + field(reason) + '\n';
    }

    void skip(String type, String method, String reason) {
        writeSkipped(utf8(skipLine(type, method, reason)));
    }

    /** Returns after the lines are in the file. */
    synchronized void writeProbes(byte[] lines) {
        write(probes, lines);
    }

    synchronized void writeSkipped(byte[] lines) {
        write(skipped, lines);
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void write(OutputStream stream, byte[] bytes) {
        try {
            stream.write(bytes);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static String field(String text) {
        return text.replace('\t', ' ').replace('\n', ' ');
    }
}
