// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.util.Arrays;

/** Mode {@code hm}: calls, bytecodes and time, by method. */
public final class Hot extends PerThread {
    private static final ThreadLocal<Hot> CURRENT = new ThreadLocal<>() {
        @Override
        protected Hot initialValue() {
            return new Hot();
        }
    };

    /** By method: calls, bytecodes, nanoseconds with and without callees, activations now. */
    private volatile long[][] methods = new long[256][];
    private int[] stack = new int[64];
    private long[] begun = new long[64];
    private long[] inCallees = new long[64];
    /** Number of instrumented frames. */
    public int depth;

    /** A method begins. */
    public static Hot enter(int method) {
        Hot hot = CURRENT.get();
        hot.push(method);
        return hot;
    }

    private void push(int method) {
        if (method >= methods.length) {
            methods = Arrays.copyOf(methods, Math.max(method + 1, 2 * methods.length));
        }
        long[] row = methods[method];
        if (row == null) {
            row = methods[method] = new long[5];
        }
        row[0]++;
        row[4]++;
        if (depth == stack.length) {
            stack = Arrays.copyOf(stack, 2 * depth);
            begun = Arrays.copyOf(begun, 2 * depth);
            inCallees = Arrays.copyOf(inCallees, 2 * depth);
        }
        stack[depth] = method;
        inCallees[depth] = 0;
        begun[depth++] = System.nanoTime();
    }

    /** Bytecodes of a method will be executed. */
    public void add(int method, int count) {
        methods[method][1] += count;
    }

    /** The frame that is the {@code own}-th ends, and those above it. */
    public void leave(int own) {
        long now = System.nanoTime();
        while (depth >= own && depth > 0) {
            depth--;
            long[] row = methods[stack[depth]];
            long all = now - begun[depth];
            row[3] += all - inCallees[depth];
            if (--row[4] == 0) {
                row[2] += all;
            }
            if (depth > 0) {
                inCallees[depth - 1] += all;
            }
        }
    }

    /** The frames above the {@code own}-th have ended. */
    public void resume(int own) {
        leave(own + 1);
    }

    /** Calls, bytecodes, nanoseconds with and without callees; or null. */
    public long[] get(int method) {
        return method < methods.length ? methods[method] : null;
    }
}
