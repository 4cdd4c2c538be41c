// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.util.concurrent.atomic.AtomicInteger;

/** Mode {@code jbi}: a thread's blocks as JBInsTrace writes them, in the form {@code jbi32}. */
public final class BlockTrace extends PerThread {
    public static final int START = 1 << 30;
    public static final int END = 2 << 30;
    public static final int BLOCK = 3 << 30;
    public static final int METHOD_SHIFT = 11;

    private static final ThreadLocal<BlockTrace> CURRENT = new ThreadLocal<>() {
        @Override
        protected BlockTrace initialValue() {
            return new BlockTrace();
        }
    };
    private static final AtomicInteger CLASSES = new AtomicInteger();
    private static final ClassValue<Integer> NUMBERS = new ClassValue<>() {
        @Override
        protected Integer computeValue(Class<?> type) {
            return CLASSES.getAndIncrement();
        }
    };

    private final Words words = new Words(this);

    /** A static method or a constructor begins. */
    public static BlockTrace start(int method) {
        BlockTrace trace = CURRENT.get();
        trace.words.put(START | method << METHOD_SHIFT);
        return trace;
    }

    /** A method of an instance begins; the number of the receiver's class follows. */
    public static BlockTrace start(int method, Object receiver) {
        BlockTrace trace = CURRENT.get();
        trace.words.put(START | method << METHOD_SHIFT | 1);
        trace.words.put(NUMBERS.get(receiver.getClass()));
        return trace;
    }

    /** Appends an event. */
    public void put(int event) {
        words.put(event);
    }
}
