// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Matches a client's call trace with the peer's. Calls marked {@code ~} may come earlier, up to the
 * last certain row of the same frame; those marked {@code ?} may be missing; of alternatives one
 * must match.
 */
final class TraceMatch {
    private final List<Row> peer;
    private final List<Row> client;
    /** For each row: the first row before which it may be matched. */
    private final int[] earliest;
    /**
     * For each row that begins a choice or an alternative: where the next alternative or the end
     * is.
     */
    private final int[] next;
    /** The movable rows of each depth, ascending. */
    private final Map<Integer, List<Integer>> movable = new HashMap<>();
    private final boolean[] used;
    private int furthest;

    /** A row of a trace. */
    record Row(char kind, char how, int depth, String place) {
        boolean is(Row other) {
            return kind == other.kind && place.equals(other.place);
        }
    }

    TraceMatch(List<Row> peer, List<Row> client) {
        this.peer = peer;
        this.client = client;
        earliest = new int[peer.size()];
        next = new int[peer.size()];
        used = new boolean[peer.size()];
        List<Integer> open = new ArrayList<>();
        List<Integer> last = new ArrayList<>();
        for (int i = 0; i < peer.size(); i++) {
            Row row = peer.get(i);
            if (isMark(row)) {
                if (row.kind() != '<') {
                    next[open.remove(open.size() - 1)] = i;
                }
                if (row.kind() != '>') {
                    open.add(i);
                }
                continue;
            }
            int depth = Math.max(0, row.depth());
            while (last.size() > depth + 1) {
                last.remove(last.size() - 1);
            }
            while (last.size() <= depth) {
                last.add(i);
            }
            if (row.how() == '~') {
                earliest[i] = last.get(depth);
                movable.computeIfAbsent(depth, key -> new ArrayList<>()).add(i);
            } else {
                earliest[i] = i;
                last.set(depth, i + 1);
            }
        }
    }

    private static boolean isMark(Row row) {
        return row.kind() == '<' || row.kind() == '|' || row.kind() == '>';
    }

    int matched() {
        return furthest;
    }

    /** The first difference, or null. */
    String run() {
        int end = match(0, peer.size(), 0);
        if (end == client.size()) {
            return null;
        }
        String at = furthest < client.size() ? text(client.get(furthest)) : "the end";
        return "token " + furthest + " of the client is " + at + ", which the peer does not have there";
    }

    private static String text(Row row) {
        return row.kind() + " " + row.place();
    }

    /**
     * Matches rows from..to of the peer with the client from a token on; the token after, or -1.
     */
    private int match(int from, int to, int start) {
        int token = start;
        int i = from;
        while (i < to) {
            Row row = peer.get(i);
            furthest = Math.max(furthest, token);
            if (row.kind() == '<') {
                int end = endOf(i);
                token = matchChoice(i, token);
                if (token < 0) {
                    return -1;
                }
                i = end + 1;
            } else if (used[i]) {
                i++;
            } else if (token < client.size() && client.get(token).is(row)) {
                token++;
                i++;
            } else if (token < client.size() && useLater(i, client.get(token))) {
                token++;
            } else if (row.how() == '?') {
                i++;
            } else {
                return -1;
            }
        }
        furthest = Math.max(furthest, token);
        return token;
    }

    private int endOf(int choice) {
        int end = choice;
        while (peer.get(end).kind() != '>') {
            end = next[end];
        }
        return end;
    }

    private int matchChoice(int choice, int token) {
        for (int mark = choice; peer.get(mark).kind() != '>'; mark = next[mark]) {
            int end = match(mark + 1, next[mark], token);
            if (end >= 0) {
                return end;
            }
            for (int i = mark; i < next[mark]; i++) {
                used[i] = false;
            }
        }
        return -1;
    }

    /** Takes a movable row that follows and may come already now. */
    private boolean useLater(int now, Row token) {
        for (List<Integer> rows : movable.values()) {
            int low = 0;
            int high = rows.size();
            while (low < high) {
                int middle = (low + high) / 2;
                if (rows.get(middle) < now) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            for (int k = low; k < rows.size() && earliest[rows.get(k)] <= now; k++) {
                int row = rows.get(k);
                if (!used[row] && peer.get(row).is(token)) {
                    used[row] = true;
                    return true;
                }
            }
        }
        return false;
    }
}
