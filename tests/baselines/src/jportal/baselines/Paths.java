// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.util.Arrays;

/** Mode {@code pf}: tables of paths, by method. */
public final class Paths extends PerThread {
    private static final ThreadLocal<Paths> CURRENT = new ThreadLocal<>() {
        @Override
        protected Paths initialValue() {
            return new Paths();
        }
    };

    private volatile PathTable[] methods = new PathTable[256];

    /** A method with this number of paths begins. */
    public static PathTable enter(int method, long paths) {
        Paths all = CURRENT.get();
        PathTable[] tables = all.methods;
        PathTable table = method < tables.length ? tables[method] : null;
        if (table == null) {
            table = all.add(method, paths);
        }
        table.begun++;
        return table;
    }

    private PathTable add(int method, long paths) {
        if (method >= methods.length) {
            methods = Arrays.copyOf(methods, Math.max(method + 1, 2 * methods.length));
        }
        return methods[method] = new PathTable(paths);
    }

    /** The table of a method, or null. */
    public PathTable get(int method) {
        return method < methods.length ? methods[method] : null;
    }
}
