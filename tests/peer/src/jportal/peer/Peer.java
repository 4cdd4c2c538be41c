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
    private static final Set<String> KINDS = Set.of("counts", "tree", "paths", "calls", "trace", "threads");
    private static final String USAGE = """
            usage: Peer --oracle DIR --what counts|tree|paths|calls|trace|threads --out FILE
                        [--classes PATH:PATH…] [--saved FILE] [--jdk HOME] [--thread NUMBER] [--merge]
                        [--fault drop|twice|swap:NUMBER]""";

    private Path oracle;
    private Path out;
    private String what = "";
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
                case "--what" -> what = value;
                case "--out" -> out = Path.of(value);
                case "--classes" -> Arrays.stream(value.split(":")).map(Path::of).forEach(classes::add);
                case "--saved" -> saved = Path.of(value);
                case "--jdk" -> jdk = Path.of(value);
                case "--thread" -> thread = Integer.parseInt(value);
                case "--fault" -> fault = value;
                default -> throw new IllegalArgumentException("unknown option " + key);
            }
        }
        if (oracle == null || out == null || !KINDS.contains(what)) {
            throw new IllegalArgumentException("--oracle, --what and --out are needed");
        }
        if (merge && what.equals("trace")) {
            throw new IllegalArgumentException("threads have no common trace: no --merge");
        }
    }

    private boolean run() throws IOException {
        OracleLog log = new OracleLog(oracle);
        try (PrintWriter writer = new PrintWriter(Files.newBufferedWriter(out, StandardCharsets.UTF_8))) {
            Tables tables = new Tables(writer);
            if (what.equals("threads")) {
                tables.threads(log);
            } else {
                write(log, tables, writer);
            }
            if (writer.checkError()) {
                throw new IOException(out + ": cannot be written");
            }
        }
        return isSound;
    }

    private void write(OracleLog log, Tables tables, PrintWriter writer) throws IOException {
        Program program = new Program(log, new ClassFiles(classes, jdk, saved));
        program.left.forEach((type, reason) -> System.err.println("peer: " + type + " is left out: " + reason));
        Sites sites = new Sites(program, log.partial);
        switch (what) {
            case "counts" -> tables.countsHead();
            case "tree" -> tables.treeHead();
            case "paths" -> tables.pathsHead();
            case "calls" -> tables.callsHead();
            default -> tables.traceHead();
        }
        Totals merged = new Totals(program, sites, what.equals("paths"));
        for (int i = 0; i < log.threads.size(); i++) {
            if (thread >= 0 && thread != i) {
                continue;
            }
            String name = Integer.toString(i);
            Events events = events(program, sites, log.threads.get(i), i);
            if (what.equals("trace")) {
                new Trace(program, sites, name, writer).read(events);
                continue;
            }
            Totals totals = merge ? merged : new Totals(program, sites, what.equals("paths"));
            totals.read(events);
            if (!merge) {
                write(name, totals, tables);
            }
        }
        if (merge) {
            write("*", merged, tables);
        }
    }

    private void write(String name, Totals totals, Tables tables) {
        switch (what) {
            case "counts" -> tables.counts(name, totals);
            case "tree" -> tables.tree(name, totals);
            case "paths" -> tables.paths(name, totals);
            default -> tables.calls(name, totals);
        }
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
