// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

/** Mode {@code cf}: a thread's control flow, as the ways that it took out of blocks. */
public final class Ways extends PerThread {
    /**
     * Bits 28 to 31 of a word. The other bits are a method, the number of an edge, nothing, a
     * method, a block. The method of a {@code CATCH} is in a second word.
     */
    public static final int ENTER = 1;
    public static final int WAY = 2;
    public static final int END = 3;
    public static final int UNWIND = 4;
    public static final int CATCH = 5;
    public static final int KIND_SHIFT = 28;

    private static final ThreadLocal<Ways> CURRENT = new ThreadLocal<>() {
        @Override
        protected Ways initialValue() {
            return new Ways();
        }
    };

    private final Words words = new Words(this);

    /** A method begins. */
    public static Ways enter(int method) {
        Ways ways = CURRENT.get();
        ways.words.put(ENTER << KIND_SHIFT | method);
        return ways;
    }

    /** Appends a word. */
    public void put(int word) {
        words.put(word);
    }
}
