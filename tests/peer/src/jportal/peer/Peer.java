// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;

/** Computes from the oracle's log what JPortal's clients must say of the same run. */
public final class Peer {
    private static final Set<String> KINDS = Set.of("counts", "tree", "paths", "calls", "trace", "blocks", "threads");
    private static final String USAGE = """
            usage: Peer --oracle DIR --what counts|tree|paths|calls|trace|blocks|threads[,KIND…] --out FILE
                        [--classes PATH:PATH…] [--saved FILE] [--jdk HOME] [--thread NUMBER] [--merge]
                        [--fault drop|twice|swap:NUMBER]""";

    private Path oracle;
    private Path out;
    private List<String> kinds = List.of();
    private final List<Path> classes = new ArrayList<>();
    private Path saved;
    private Path jdk;
    private int thread = -1;
    private boolean merge;
    private String fault;
    private boolean isSound = true;

    private Peer() {}

    /** Exit status: 0, 1 if parts of the log are not explained, 2 for an error. */
    public static void main(String[] arguments) {
        int status;
        try {
            Peer peer = new Peer();
            peer.parse(arguments);
            status = peer.run() ? 0 : 1;
        } catch (IllegalArgumentException error) {
            System.err.println("peer: " + error.getMessage() + "\n" + USAGE);
            status = 2;
        } catch (IOException error) {
            System.err.println("peer: " + error);
            status = 2;
        }
        System.exit(status);
    }

    private void parse(String[] arguments) {
        for (int i = 0; i < arguments.length; i++) {
            String key = arguments[i];
            if (key.equals("--merge")) {
                merge = true;
                continue;
            }
            if (i + 1 == arguments.length) {
                throw new IllegalArgumentException(key + ": unknown, or its value is missing");
            }
            String value = arguments[++i];
            switch (key) {
                case "--oracle" -> oracle = Path.of(value);
                case "--what" -> kinds = List.of(value.split(","));
                case "--out" -> out = Path.of(value);
                case "--classes" -> Arrays.stream(value.split(":")).map(Path::of).forEach(classes::add);
                case "--saved" -> saved = Path.of(value);
                case "--jdk" -> jdk = Path.of(value);
                case "--thread" -> thread = Integer.parseInt(value);
                case "--fault" -> fault = value;
                default -> throw new IllegalArgumentException("unknown option " + key);
            }
        }
        if (oracle == null || out == null || kinds.isEmpty() || !KINDS.containsAll(kinds)) {
            throw new IllegalArgumentException("--oracle, --what and --out are needed");
        }
        if (merge && (kinds.contains("trace") || kinds.contains("blocks"))) {
            throw new IllegalArgumentException("threads have no common trace: no --merge");
        }
    }

    /** A result that is being written. */
    private record Output(String kind, Path file, PrintWriter writer, Tables tables) implements AutoCloseable {
        static Output open(String kind, Path file) throws IOException {
            PrintWriter writer = new PrintWriter(Files.newBufferedWriter(file, StandardCharsets.UTF_8));
            return new Output(kind, file, writer, new Tables(writer));
        }

        void head() {
            switch (kind) {
                case "counts" -> tables.countsHead();
                case "tree" -> tables.treeHead();
                case "paths" -> tables.pathsHead();
                case "calls" -> tables.callsHead();
                default -> tables.traceHead();
            }
        }

        void write(String name, Totals totals) {
            switch (kind) {
                case "counts" -> tables.counts(name, totals);
                case "tree" -> tables.tree(name, totals);
                case "paths" -> tables.paths(name, totals);
                default -> tables.calls(name, totals);
            }
        }

        void finish() throws IOException {
            if (writer.checkError()) {
                throw new IOException(file + ": cannot be written");
            }
        }

        @Override
        public void close() {
            writer.close();
        }
    }

    private boolean run() throws IOException {
        OracleLog log = new OracleLog(oracle);
        List<Output> outputs = new ArrayList<>();
        try {
            for (String kind : kinds) {
                outputs.add(Output.open(kind, kinds.size() == 1 ? out : Path.of(out + "." + kind)));
            }
            List<Output> explained = outputs.stream().filter(output -> !output.kind().equals("threads")).toList();
            outputs.stream().filter(output -> !explained.contains(output)).forEach(output -> output.tables().threads(log));
            if (!explained.isEmpty()) {
                write(log, explained);
            }
            for (Output output : outputs) {
                output.finish();
            }
        } finally {
            outputs.forEach(Output::close);
        }
        return isSound;
    }

    private void write(OracleLog log, List<Output> outputs) throws IOException {
        Program program = new Program(log, new ClassFiles(classes, jdk, saved));
        program.left.forEach((type, reason) -> System.err.println("peer: " + type + " is left out: " + reason));
        Sites sites = new Sites(program, log.partial);
        outputs.forEach(Output::head);
        List<Totals> merged = outputs.stream().map(output -> totals(program, sites, output)).toList();
        for (int i = 0; i < log.threads.size(); i++) {
            if (thread >= 0 && thread != i) {
                continue;
            }
            String name = Integer.toString(i);
            Events events = events(program, sites, log.threads.get(i), i);
            for (int k = 0; k < outputs.size(); k++) {
                Output output = outputs.get(k);
                if (output.kind().equals("trace")) {
                    new Trace(program, sites, name, output.writer()).read(events);
                    continue;
                }
                if (output.kind().equals("blocks")) {
                    new BlockTrace(program, name, output.writer()).read(events);
                    continue;
                }
                Totals totals = merge ? merged.get(k) : totals(program, sites, output);
                totals.read(events);
                if (!merge) {
                    output.write(name, totals);
                }
            }
        }
        for (int k = 0; merge && k < outputs.size(); k++) {
            outputs.get(k).write("*", merged.get(k));
        }
    }

    private static Totals totals(Program program, Sites sites, Output output) {
        return new Totals(program, sites, output.kind().equals("paths"));
    }

    private Events events(Program program, Sites sites, OracleLog.ThreadLog log, int number) {
        int[] ids = fault != null && (number == 0 || number == thread) ? spoil(log.ids()) : log.ids();
        Parser parser = new Parser(program, sites);
        Events events = parser.parse(ids);
        new Narrow(program, sites).read(events);
        System.err.println("peer: thread " + number + " (" + log.tid() + "): " + ids.length + " probes, "
                + parser.left + " left out, " + parser.unexpected + " unexpected calls, "
                + parser.exceptions + " exceptions assumed, "
                + events.choices.size() + " choices, " + parser.lost + " not explained, " + parser.crowded + " crowded");
        isSound &= parser.lost + parser.crowded == 0;
        return events;
    }

    /** Plants a fault into the log of a thread, to show that a comparison turns red. */
    private int[] spoil(int[] ids) {
        String[] parts = fault.split(":");
        int at = parts.length == 2 ? Integer.parseInt(parts[1]) : ids.length / 2;
        if (at < 0 || at + 1 >= ids.length) {
            throw new IllegalArgumentException("--fault " + fault + ": the thread has " + ids.length + " probes");
        }
        int[] spoiled;
        switch (parts[0]) {
            case "drop" -> {
                spoiled = new int[ids.length - 1];
                System.arraycopy(ids, 0, spoiled, 0, at);
                System.arraycopy(ids, at + 1, spoiled, at, ids.length - at - 1);
            }
            case "twice" -> {
                spoiled = new int[ids.length + 1];
                System.arraycopy(ids, 0, spoiled, 0, at + 1);
                System.arraycopy(ids, at, spoiled, at + 1, ids.length - at);
            }
            case "swap" -> {
                spoiled = ids.clone();
                int first = at;
                while (first + 2 < ids.length && ids[first] == ids[first + 1]) {
                    first++;
                }
                spoiled[first] = ids[first + 1];
                spoiled[first + 1] = ids[first];
            }
            default -> throw new IllegalArgumentException("--fault " + fault + ": no such fault");
        }
        return spoiled;
    }
}
