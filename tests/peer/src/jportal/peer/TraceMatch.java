// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Matches a client's call or block trace with the peer's. Calls marked {@code ~} may come earlier,
 * up to the last certain row of the same frame; those marked {@code ?} may be missing; of
 * alternatives one must match. The match follows all ways at a time in which the rows can give the
 * tokens so far, so no way is preferred to another one. Ways that come to the same place are one.
 */
final class TraceMatch {
    private static final int[] NONE = {};
    /** More ways at a time than this are not followed. */
    private static final int MOST = 4096;
    private static final int SHOWN = 3;

    private final Rows peer;
    private final Rows client;
    /**
     * For each row that begins a choice or an alternative: where the next alternative or the end
     * is.
     */
    private final int[] next;
    /** For each row that begins an alternative other than the first: where the choice ends. */
    private final int[] end;
    /** For each row: the least depth of a frame that may be on top of the stack before it. */
    private final int[] top;
    /** The rows that may come earlier, by token, then by depth. */
    private final Map<Integer, Map<Integer, Movable>> movable = new HashMap<>();
    private int matched;

    /** The rows of a trace. */
    static final class Rows {
        private final Map<String, Integer> numbers;
        private final List<String> texts;
        private int[] tokens = new int[1024];
        private int[] depths = new int[1024];
        private byte[] hows = new byte[1024];
        private int size;

        /** {@code other} shares its numbers of tokens; null for the first rows. */
        Rows(Rows other) {
            numbers = other == null ? new HashMap<>() : other.numbers;
            texts = other == null ? new ArrayList<>() : other.texts;
        }

        void add(char kind, char how, int depth, String place) {
            if (size == tokens.length) {
                int longer = Math.addExact(size, size / 2);
                tokens = Arrays.copyOf(tokens, longer);
                depths = Arrays.copyOf(depths, longer);
                hows = Arrays.copyOf(hows, longer);
            }
            boolean isMark = kind == '<' || kind == '|' || kind == '>';
            tokens[size] = isMark ? -kind : number(kind + " " + place);
            depths[size] = Math.max(0, depth);
            hows[size++] = (byte) how;
        }

        private int number(String text) {
            Integer number = numbers.putIfAbsent(text, numbers.size());
            if (number != null) {
                return number;
            }
            texts.add(text);
            return numbers.size() - 1;
        }

        boolean isMark(int row, char mark) {
            return tokens[row] == -mark;
        }

        /** Whether a frame ends with the row. */
        boolean isExit(int row) {
            return "rex".indexOf(texts.get(tokens[row]).charAt(0)) >= 0;
        }

        String text(int row) {
            return row < size ? texts.get(tokens[row]) : "the end";
        }
    }

    /** Rows of one token at one depth that may come earlier, ascending. */
    private static final class Movable {
        private int[] rows = new int[4];
        /** The first row before which each of them, or one that follows it, may come. */
        private int[] earliest = new int[4];
        private int size;

        void add(int row, int first) {
            if (size == rows.length) {
                rows = Arrays.copyOf(rows, 2 * size);
                earliest = Arrays.copyOf(earliest, 2 * size);
            }
            rows[size] = row;
            earliest[size++] = first;
        }

        void close() {
            for (int i = size - 2; i >= 0; i--) {
                earliest[i] = Math.min(earliest[i], earliest[i + 1]);
            }
        }
    }

    /** One way: the row that comes next, and the rows after it that came early, ascending. */
    private record Way(int row, int[] early) {
        @Override
        public boolean equals(Object other) {
            return other instanceof Way way && row == way.row && Arrays.equals(early, way.early);
        }

        @Override
        public int hashCode() {
            return 31 * row + Arrays.hashCode(early);
        }
    }

    TraceMatch(Rows peer, Rows client) {
        this.peer = peer;
        this.client = client;
        next = new int[peer.size];
        end = new int[peer.size];
        top = new int[peer.size];
        findEnds();
        findMovable();
    }

    private void findEnds() {
        List<Integer> open = new ArrayList<>();
        for (int row = peer.size - 1; row >= 0; row--) {
            if (peer.isMark(row, '>')) {
                open.add(row);
                open.add(row);
            } else if (peer.isMark(row, '|') || peer.isMark(row, '<')) {
                next[row] = open.remove(open.size() - 1);
                end[row] = open.get(open.size() - 1);
                if (peer.isMark(row, '<')) {
                    open.remove(open.size() - 1);
                } else {
                    open.add(row);
                }
            }
        }
    }

    /** What precedes a row. Where alternatives differ, a bound that holds for all of them. */
    private static final class Before {
        /** For each depth, the row after the last certain one of the frame. */
        final List<Integer> certain;
        /** The depth of the frame on top. */
        int top;

        Before(List<Integer> certain, int top) {
            this.certain = new ArrayList<>(certain);
            this.top = top;
        }

        Before copy() {
            return new Before(certain, top);
        }

        void pass(Rows rows, int row) {
            int depth = rows.depths[row];
            while (certain.size() > depth + 1) {
                certain.remove(certain.size() - 1);
            }
            while (certain.size() <= depth) {
                certain.add(row);
            }
            if (rows.hows[row] == '=') {
                certain.set(depth, row + 1);
                top = rows.isExit(row) ? depth - 1 : depth;
            } else {
                top = Math.min(top, depth);
            }
        }

        void join(Before other) {
            top = Math.min(top, other.top);
            for (int depth = 0; depth < other.certain.size(); depth++) {
                if (depth < certain.size()) {
                    certain.set(depth, Math.min(certain.get(depth), other.certain.get(depth)));
                } else {
                    certain.add(other.certain.get(depth));
                }
            }
        }
    }

    private void findMovable() {
        Before now = new Before(List.of(), -1);
        // For each open choice: what precedes it, and what the alternatives so far end with.
        List<Before> begins = new ArrayList<>();
        List<Before> ends = new ArrayList<>();
        for (int row = 0; row < peer.size; row++) {
            int last = ends.size() - 1;
            if (peer.isMark(row, '<')) {
                begins.add(now);
                ends.add(null);
                now = now.copy();
            } else if (peer.isMark(row, '|') || peer.isMark(row, '>')) {
                if (ends.get(last) != null) {
                    now.join(ends.get(last));
                }
                if (peer.isMark(row, '|')) {
                    ends.set(last, now);
                    now = begins.get(last).copy();
                } else {
                    ends.remove(last);
                    begins.remove(last);
                }
            } else {
                top[row] = now.top;
                now.pass(peer, row);
                if (peer.hows[row] == '~') {
                    int depth = peer.depths[row];
                    movable.computeIfAbsent(peer.tokens[row], token -> new HashMap<>())
                            .computeIfAbsent(depth, key -> new Movable()).add(row, now.certain.get(depth));
                }
            }
        }
        movable.values().forEach(depths -> depths.values().forEach(Movable::close));
    }

    /** The number of tokens of the client up to the first difference. */
    int matched() {
        return matched;
    }

    /** The first difference, or null. */
    String run() {
        Set<Way> now = new LinkedHashSet<>();
        settle(new Way(0, NONE), now);
        for (; matched < client.size; matched++) {
            Set<Way> after = new LinkedHashSet<>();
            for (Way way : now) {
                step(way, client.tokens[matched], after);
            }
            if (after.isEmpty()) {
                return difference(now);
            }
            if (after.size() > MOST) {
                return "more than " + MOST + " ways to match the first " + matched + " tokens";
            }
            now = after;
        }
        boolean isWhole = now.stream().anyMatch(way -> way.row == peer.size);
        return isWhole ? null : difference(now);
    }

    private String difference(Set<Way> ways) {
        List<String> wanted = ways.stream().map(way -> peer.text(way.row)).distinct().toList();
        String shown = String.join(", or ", wanted.subList(0, Math.min(SHOWN, wanted.size())));
        return "token " + matched + " of the client is " + client.text(matched) + ", which the peer does not have there: "
                + shown + (wanted.size() > SHOWN ? ", …" : "");
    }

    /** Adds the ways that give the token. */
    private void step(Way way, int token, Set<Way> after) {
        if (way.row < peer.size && peer.tokens[way.row] == token) {
            pass(way, after);
        }
        for (Map.Entry<Integer, Movable> entry : movable.getOrDefault(token, Map.of()).entrySet()) {
            // A call of a frame further down cannot come while another frame is on top.
            if (way.row < peer.size && entry.getKey() < top[way.row]) {
                continue;
            }
            Movable rows = entry.getValue();
            int k = Arrays.binarySearch(rows.rows, 0, rows.size, way.row + 1);
            for (k = k < 0 ? -k - 1 : k; k < rows.size && rows.earliest[k] <= way.row; k++) {
                int row = rows.rows[k];
                int at = Arrays.binarySearch(way.early, row);
                boolean isInOrder = at < 0 && (-at - 1 == way.early.length || isAfter(row, way.early, -at - 1));
                if (isInOrder) {
                    int[] early = Arrays.copyOf(way.early, way.early.length + 1);
                    System.arraycopy(way.early, -at - 1, early, -at, way.early.length + at + 1);
                    early[-at - 1] = row;
                    settle(new Way(way.row, early), after);
                }
            }
        }
    }

    /**
     * Whether a row can still come before the early ones from a place on: none of them is of its
     * frame.
     */
    private boolean isAfter(int row, int[] early, int from) {
        for (int i = from; i < early.length; i++) {
            if (peer.depths[early[i]] >= peer.depths[row]) {
                return false;
            }
        }
        return true;
    }

    /** Passes the row of a way, which the client has there. */
    private void pass(Way way, Set<Way> after) {
        if (isAfter(way.row, way.early, 0)) {
            settle(new Way(way.row + 1, way.early), after);
        }
    }

    /** Adds the ways from here to rows that are still to come, or to the end. */
    private void settle(Way way, Set<Way> found) {
        int row = way.row;
        int[] early = way.early;
        while (row < peer.size) {
            if (peer.isMark(row, '<')) {
                for (int mark = row; !peer.isMark(mark, '>'); mark = next[mark]) {
                    if (isInside(early, row, mark, next[mark])) {
                        settle(new Way(mark + 1, early), found);
                    }
                }
                return;
            } else if (peer.isMark(row, '|')) {
                row = end[row];
                if (early.length > 0 && early[0] < row) {
                    return;
                }
            } else if (!peer.isMark(row, '>')) {
                if (early.length == 0 || early[0] != row) {
                    found.add(new Way(row, early));
                    if (peer.hows[row] != '?' || !isAfter(row, early, 0)) {
                        return;
                    }
                } else {
                    early = Arrays.copyOfRange(early, 1, early.length);
                    // A row of a frame further down: frames above it that had rows early begin
                    // later.
                    if (!isAboveAll(row, early)) {
                        return;
                    }
                }
            }
            row++;
        }
        if (early.length == 0) {
            found.add(new Way(row, early));
        }
    }

    /** Whether no early row is of a frame above that of this row. */
    private boolean isAboveAll(int row, int[] early) {
        return Arrays.stream(early).allMatch(other -> peer.depths[other] <= peer.depths[row]);
    }

    /** Whether the early rows of a choice are all of one alternative. */
    private boolean isInside(int[] early, int choice, int from, int to) {
        return Arrays.stream(early).allMatch(row -> row > from && row < to || row > end[choice]);
    }
}
