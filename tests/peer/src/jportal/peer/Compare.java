// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/**
 * Compares a file of the peer with one of a client. The client's file has the same columns, but one
 * column where the peer has {@code …least} and {@code …most}, named without the suffix ({@code
 * count} for plain {@code least}). The README says what must hold.
 */
public final class Compare {
    private static final int SHOWN = 20;
    private int differences;
    private long equal;

    private Compare() {}

    /** Exit status: 0, 1 for a difference, 2 for an error. */
    public static void main(String[] arguments) {
        int status = 2;
        try {
            if (arguments.length != 3) {
                throw new IOException("usage: Compare counts|tree|paths|calls|trace|blocks PEER CLIENT");
            }
            Compare compare = new Compare();
            Path peer = Path.of(arguments[1]);
            Path client = Path.of(arguments[2]);
            if (arguments[0].equals("trace") || arguments[0].equals("blocks")) {
                compare.traces(peer, client);
            } else {
                compare.totals(arguments[0], peer, client);
            }
            System.err.println("compare: " + compare.equal + " equal, " + compare.differences + " different");
            status = compare.differences == 0 ? 0 : 1;
        } catch (IOException | IllegalArgumentException error) {
            System.err.println("compare: " + error.getMessage());
        }
        System.exit(status);
    }

    private void report(String text) {
        if (differences++ < SHOWN) {
            System.out.println(text);
        }
    }

    /** A table: column names and rows. */
    private record Table(List<String> columns, List<String[]> rows) {
        static Table read(Path file) throws IOException {
            List<String[]> rows = new ArrayList<>();
            Table[] table = new Table[1];
            forEach(file, (columns, row) -> rows.add(row), columns -> table[0] = columns);
            return new Table(table[0].columns, rows);
        }

        /**
         * Reads the rows one by one, because a trace has millions. The table passed on has only the
         * columns.
         */
        static void forEach(Path file, BiConsumer<Table, String[]> row, Consumer<Table> first) throws IOException {
            try (BufferedReader reader = Files.newBufferedReader(file)) {
                String line = reader.readLine();
                if (line == null) {
                    throw new IOException(file + " is empty");
                }
                Table columns = new Table(Arrays.asList(line.split("\t", -1)), List.of());
                first.accept(columns);
                while ((line = reader.readLine()) != null) {
                    row.accept(columns, line.split("\t", -1));
                }
            }
        }

        int column(String name) {
            int index = columns.indexOf(name);
            if (index < 0) {
                throw new IllegalArgumentException("a file has no column " + name);
            }
            return index;
        }
    }

    /** Bounds by key and by the name of the value. */
    private static final class Bounds {
        final Map<String, Map<String, long[]>> values = new LinkedHashMap<>();

        void add(String key, String name, long least, long most) {
            Map<String, long[]> ofKey = values.computeIfAbsent(key, k -> new LinkedHashMap<>());
            long[] bounds = ofKey.computeIfAbsent(name, n -> new long[2]);
            bounds[0] += least;
            bounds[1] += most;
        }
    }

    private void totals(String what, Path peerFile, Path clientFile) throws IOException {
        Table peer = Table.read(peerFile);
        Table client = Table.read(clientFile);
        List<String> names = new ArrayList<>();
        for (String column : peer.columns()) {
            if (column.endsWith("least")) {
                names.add(column.equals("least") ? "count" : column.substring(0, column.length() - 6));
            }
        }
        Bounds want = new Bounds();
        Bounds have = new Bounds();
        if (what.equals("counts")) {
            keepKindsOf(client, peer);
        }
        fill(what, peer, names, true, want);
        fill(what, client, names, false, have);
        for (String key : want.values.keySet()) {
            for (String name : names) {
                long[] bounds = want.values.get(key).get(name);
                long[] value = have.values.getOrDefault(key, Map.of()).get(name);
                long count = value == null ? 0 : value[0];
                if (bounds != null && (count < bounds[0] || count > bounds[1])) {
                    report(key.replace('\t', ' ') + ": " + name + " " + count + ", must be " + bounds[0]
                            + (bounds[0] == bounds[1] ? "" : " to " + bounds[1]));
                } else {
                    equal++;
                }
            }
        }
        have.values.forEach((key, values) -> {
            boolean isZero = values.values().stream().allMatch(value -> value[0] == 0);
            if (!isZero && !want.values.containsKey(key)) {
                report(key.replace('\t', ' ') + ": the peer has no such row");
            }
        });
    }

    /** Removes rows of the peer of kinds that the client does not count, and of open blocks. */
    private static void keepKindsOf(Table client, Table peer) {
        int kind = client.column("kind");
        Set<String> kinds = new HashSet<>();
        client.rows().forEach(row -> kinds.add(row[kind]));
        kinds.remove("open");
        peer.rows().removeIf(row -> !kinds.contains(row[peer.column("kind")]));
        client.rows().removeIf(row -> row[kind].equals("open"));
    }

    private static void fill(String what, Table table, List<String> names, boolean isPeer, Bounds bounds) {
        List<String> paths = new ArrayList<>();
        for (String[] row : table.rows()) {
            String key = what.equals("tree") ? path(table, row, paths) : key(what, table, row);
            if (key == null) {
                continue;
            }
            for (String name : names) {
                String prefix = name.equals("count") ? "" : name + "_";
                int least = isPeer ? table.column(prefix + "least") : table.columns().indexOf(name);
                if (least >= 0 && !row[least].isEmpty()) {
                    long most = Long.parseLong(row[isPeer ? table.column(prefix + "most") : least]);
                    bounds.add(key, name, Long.parseLong(row[least]), most);
                }
            }
        }
    }

    /** The methods from the root to a node; rows are in preorder. */
    private static String path(Table table, String[] row, List<String> paths) {
        int parent = Integer.parseInt(row[table.column("parent")]);
        int id = Integer.parseInt(row[table.column("id")]);
        String own = method(table, row, "");
        // Paths are kept as hashes of their parts: deep recursion would make them long.
        String above = parent < 0 ? row[table.column("thread")] : paths.get(parent);
        if (above.length() > 400) {
            above = Integer.toHexString(above.hashCode()) + "…" + above.substring(above.length() - 200);
        }
        String path = above + " > " + own;
        while (paths.size() <= id) {
            paths.add(null);
        }
        paths.set(id, path);
        return path;
    }

    private static String method(Table table, String[] row, String prefix) {
        return row[table.column(prefix + "class")] + '.' + row[table.column(prefix + "method")]
                + row[table.column(prefix + "descriptor")];
    }

    /**
     * What identifies a row; null if it is not compared. Calls are added up over the sites of a
     * caller.
     */
    private static String key(String what, Table table, String[] row) {
        String key = row[table.column("thread")] + '\t' + method(table, row, "");
        return switch (what) {
            case "counts" -> key + '\t' + row[table.column("kind")] + '\t' + row[table.column("bci")] + '\t'
                    + (row[table.column("kind")].equals("line") ? row[table.column("line")] : row[table.column("to")]);
            case "paths" -> row[table.column("kind")].equals("paths") || row[table.column("kind")].equals("unknown")
                    ? null
                    : key + '\t' + row[table.column("kind")] + '\t' + row[table.column("id")]
                            + (row[table.column("kind")].equals("cut") ? "@" + row[table.column("blocks")] : "");
            case "calls" -> key + '\t' + method(table, row, "callee_");
            default -> throw new IllegalArgumentException(what + ": unknown");
        };
    }

    private void traces(Path peerFile, Path clientFile) throws IOException {
        Map<String, TraceMatch.Rows> peer = rows(peerFile, Map.of(), true);
        Map<String, TraceMatch.Rows> client = rows(clientFile, peer, false);
        for (String thread : peer.keySet()) {
            TraceMatch.Rows rows = client.get(thread);
            TraceMatch match = new TraceMatch(peer.get(thread), rows == null ? new TraceMatch.Rows(null) : rows);
            String difference = match.run();
            equal += match.matched();
            if (difference != null) {
                report("thread " + thread + ": " + difference);
            }
        }
        client.keySet().stream().filter(thread -> !peer.containsKey(thread))
                .forEach(thread -> report("thread " + thread + ": the peer has no such thread"));
    }

    private static Map<String, TraceMatch.Rows> rows(Path file, Map<String, TraceMatch.Rows> others, boolean isPeer)
            throws IOException {
        Map<String, TraceMatch.Rows> threads = new LinkedHashMap<>();
        Table.forEach(file, (table, row) -> {
            String place = method(table, row, "") + '@' + row[table.column("bci")];
            threads.computeIfAbsent(row[table.column("thread")], key -> new TraceMatch.Rows(others.get(key)))
                    .add(row[table.column("kind")].charAt(0), isPeer ? row[table.column("how")].charAt(0) : '=',
                            isPeer ? Integer.parseInt(row[table.column("depth")]) : 0, place);
        }, columns -> { });
        return threads;
    }
}
