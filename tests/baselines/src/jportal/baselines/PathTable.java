// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.util.Arrays;

/** How often each path of one method was executed in one thread. */
public final class PathTable {
    private static final int DENSE = 1024;
    private static final long FREE = -1;

    /** Paths that began. */
    long begun;
    /** Paths that ended. */
    private long done;
    /** By path if there are few, else beside {@code keys}. */
    private long[] times;
    /** Open addressing; null if there are few paths. */
    private long[] keys;
    private int used;

    PathTable(long paths) {
        if (paths <= DENSE) {
            times = new long[(int) paths];
        } else {
            times = new long[64];
            keys = new long[64];
            Arrays.fill(keys, FREE);
        }
    }

    /** A path ended, with a return or {@code athrow}. */
    public void end(long path) {
        done++;
        if (keys == null) {
            times[(int) path]++;
        } else {
            hash(path, 1);
        }
    }

    /** A path ended with a back edge, and another one began. */
    public void back(long path) {
        begun++;
        end(path);
    }

    /** A path began at a handler. */
    public void caught() {
        begun++;
    }

    private void hash(long path, long more) {
        int mask = keys.length - 1;
        int slot = (int) (path ^ path >>> 17) & mask;
        while (keys[slot] != path) {
            if (keys[slot] == FREE) {
                if (2 * used >= keys.length) {
                    grow();
                    hash(path, more);
                    return;
                }
                keys[slot] = path;
                used++;
                break;
            }
            slot = slot + 1 & mask;
        }
        times[slot] += more;
    }

    private void grow() {
        long[] oldKeys = keys;
        long[] oldTimes = times;
        keys = new long[2 * oldKeys.length];
        times = new long[keys.length];
        Arrays.fill(keys, FREE);
        used = 0;
        for (int i = 0; i < oldKeys.length; i++) {
            if (oldKeys[i] != FREE) {
                hash(oldKeys[i], oldTimes[i]);
            }
        }
    }

    /** Paths that began and did not end. */
    public long cut() {
        return begun - done;
    }

    /** The executed paths and their times, alternating. */
    public long[] rows() {
        int count = 0;
        for (long n : times) {
            count += n == 0 ? 0 : 1;
        }
        long[] rows = new long[2 * count];
        int to = 0;
        for (int i = 0; i < times.length && to < rows.length; i++) {
            if (times[i] != 0) {
                rows[to++] = keys == null ? i : keys[i];
                rows[to++] = times[i];
            }
        }
        return rows;
    }
}
