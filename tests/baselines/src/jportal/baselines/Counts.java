// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.util.Arrays;

/** Mode {@code sc}: executions of blocks, by method. */
public final class Counts extends PerThread {
    private static final ThreadLocal<Counts> CURRENT = new ThreadLocal<>() {
        @Override
        protected Counts initialValue() {
            return new Counts();
        }
    };

    private volatile long[][] methods = new long[256][];

    /** The counts of the calling thread for a method with this number of blocks. */
    public static long[] of(int method, int blocks) {
        Counts counts = CURRENT.get();
        long[][] all = counts.methods;
        if (method < all.length) {
            long[] own = all[method];
            if (own != null) {
                return own;
            }
        }
        return counts.add(method, blocks);
    }

    private long[] add(int method, int blocks) {
        if (method >= methods.length) {
            methods = Arrays.copyOf(methods, Math.max(method + 1, 2 * methods.length));
        }
        return methods[method] = new long[blocks];
    }

    /** The counts of a method, or null. */
    public long[] get(int method) {
        return method < methods.length ? methods[method] : null;
    }
}
