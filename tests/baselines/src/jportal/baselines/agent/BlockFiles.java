// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;
import jportal.baselines.BlockTrace;
import jportal.baselines.Ways;

/** Turns logs of the modes cf and jbi into block traces (docs/block-trace-format.md). */
final class BlockFiles {
    private static final int MARK_LENGTH = 1 << 29 | 2;

    /** A row of {@code methods.tsv}. */
    private record Method(String[] cells, int[][] successors, String opaque) {}

    private static final class Frame {
        final int id;
        final Method method;
        int block;

        Frame(int id, Method method) {
            this.id = id;
            this.method = method;
        }
    }

    private final Path folder;
    private final boolean ways;
    private final List<Method> methods = new ArrayList<>();

    BlockFiles(Path folder) throws IOException {
        this.folder = folder;
        ways = Files.exists(folder.resolve("cf.json"));
        List<String> lines = Files.readAllLines(folder.resolve("methods.tsv"));
        for (String line : lines.subList(1, lines.size())) {
            String[] cells = line.split("\t", -1);
            String[] lists = cells[7].split(" ");
            int[][] successors = new int[lists.length][];
            for (int b = 0; b < lists.length; b++) {
                successors[b] = lists[b].equals("-") ? new int[0]
                        : Stream.of(lists[b].split(",")).mapToInt(Integer::parseInt).toArray();
            }
            int id = Integer.parseInt(cells[0]);
            while (methods.size() <= id) {
                methods.add(null);
            }
            methods.set(id, new Method(cells, successors, cells[9]));
        }
    }

    void write(Path out) throws IOException {
        Files.createDirectories(out);
        StringBuilder table = new StringBuilder("method,loader,class,name,descriptor,blocks\n");
        for (Method method : methods) {
            if (method != null) {
                String[] c = method.cells;
                table.append(String.join(",", c[0], quoted(c[2]), quoted(c[1]), quoted(c[3]), quoted(c[4]), c[6])).append('\n');
            }
        }
        Files.writeString(out.resolve("methods.csv"), table);
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".words")).sorted().toList()) {
                write(Log.read(file), out);
            }
        }
    }

    private static String quoted(String cell) {
        return cell.matches(".*[,\"\r\n].*") ? '"' + cell.replace("\"", "\"\"") + '"' : cell;
    }

    private void write(Log log, Path out) throws IOException {
        Path file = out.resolve("t" + log.tid() + "-" + log.number() + ".events");
        try (OutputStream stream = new BufferedOutputStream(Files.newOutputStream(file), 1 << 16)) {
            ByteBuffer header = ByteBuffer.allocate(48).order(ByteOrder.LITTLE_ENDIAN);
            header.put("JPBLOCKS".getBytes(StandardCharsets.US_ASCII)).putShort((short) 1).put((byte) 4).put((byte) 0);
            header.putInt(ways ? 1 << 5 : 1 << 5 | 1 << 1).putInt(log.tid()).putInt(methods.size()).putLong(log.javaId());
            stream.write(header.array());
            long[] written = {0};
            if (ways) {
                replay(log, stream, written);
            } else {
                for (int i = 0; i < log.length(); i++) {
                    put(stream, log.word(i), written);
                }
            }
            long before = written[0];
            put(stream, MARK_LENGTH, written);
            put(stream, (int) before, written);
            put(stream, (int) (before >>> 32), written);
        }
    }

    private static void put(OutputStream stream, int word, long[] written) throws IOException {
        stream.write(word);
        stream.write(word >>> 8);
        stream.write(word >>> 16);
        stream.write(word >>> 24);
        written[0]++;
    }

    /** Follows the ways of a log. */
    private void replay(Log log, OutputStream stream, long[] written) throws IOException {
        Deque<Frame> frames = new ArrayDeque<>();
        for (int i = 0; i < log.length(); i++) {
            int value = log.word(i) & (1 << Ways.KIND_SHIFT) - 1;
            int kind = log.word(i) >>> Ways.KIND_SHIFT;
            if (kind != Ways.ENTER && frames.isEmpty()) {
                throw new IOException(log.file() + ": word " + i + " belongs to no frame");
            }
            switch (kind) {
                case Ways.ENTER -> {
                    frames.push(new Frame(value, methods.get(value)));
                    put(stream, BlockTrace.START | value << BlockTrace.METHOD_SHIFT, written);
                    reach(frames.peek(), 0, stream, written);
                }
                case Ways.WAY -> {
                    Frame frame = frames.peek();
                    int[] next = frame.method.successors[frame.block];
                    if (value >= next.length) {
                        throw new IOException(log.file() + ": word " + i + ": block " + frame.block + " of "
                                + frame.method.cells[3] + " has no way " + value);
                    }
                    reach(frame, next[value], stream, written);
                }
                case Ways.CATCH -> {
                    drop(frames, log, ++i);
                    reach(frames.peek(), value, stream, written);
                }
                case Ways.END -> put(stream, BlockTrace.END | frames.pop().id << BlockTrace.METHOD_SHIFT, written);
                case Ways.UNWIND -> {
                    drop(frames, log, i);
                    frames.pop();
                }
                default -> throw new IOException(log.file() + ": word " + i + " is of no kind");
            }
        }
    }

    /**
     * Frames end of constructors whose super constructor threw: no probe sees that. Word {@code i}
     * names the method whose frame was next.
     */
    private static void drop(Deque<Frame> frames, Log log, int i) throws IOException {
        int method = log.word(i) & (1 << Ways.KIND_SHIFT) - 1;
        while (!frames.isEmpty() && frames.peek().id != method) {
            if (!frames.pop().method.cells[3].equals("<init>")) {
                throw new IOException(log.file() + ": word " + i + ": an exception left a frame unseen");
            }
        }
        if (frames.isEmpty()) {
            throw new IOException(log.file() + ": word " + i + ": method " + method + " is not on the stack");
        }
    }

    /** A block begins, and those to which only one way leads from it without a word. */
    private static void reach(Frame frame, int block, OutputStream stream, long[] written) throws IOException {
        for (int at = block;;) {
            frame.block = at;
            put(stream, BlockTrace.BLOCK | frame.id << BlockTrace.METHOD_SHIFT | at, written);
            int[] next = frame.method.successors[at];
            if (next.length != 1 || frame.method.opaque.charAt(at) == '1') {
                return;
            }
            at = next[0];
        }
    }
}
