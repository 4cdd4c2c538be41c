// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What a thread did, as far as its log says: a sequence of events, each with two numbers. */
final class Events {
    /** A method begins: its definition; the places (of {@link Points}) where the caller then is. */
    static final int ENTER = 0;
    /** The block of the frame on top ran to its end, and another begins: its number. */
    static final int BLOCK = 1;
    /**
     * An exception leaves the block for a handler: its block; the instructions that may have
     * thrown.
     */
    static final int HANDLER = 2;
    /** The block of the frame on top ran to its end and returns. */
    static final int RETURN = 3;
    /** An exception leaves the frame on top: –; the instructions that may have thrown. */
    static final int THROW = 4;
    /**
     * The log ends inside the frame on top: –; the first and the last instruction it may have
     * reached.
     */
    static final int OPEN = 5;
    /**
     * There are several explanations, all with the same end: the number of the list in {@link
     * #choices}.
     */
    static final int CHOICE = 6;
    /** No explanation was found for the next event, a guess. */
    static final int LOST = 7;

    private static final int KINDS = 8;

    final List<List<Events>> choices;
    private final Sets sets;
    private int[] words = new int[16];
    private int size;

    /** Small sets of numbers, each known by a number. */
    static final class Sets {
        private final Map<List<Integer>, Integer> known = new HashMap<>();
        private final List<int[]> all = new ArrayList<>();

        /** The number of a set: the element if there is one only, else a negative number. */
        int put(int[] set) {
            if (set.length == 1 && set[0] >= 0) {
                return set[0];
            }
            List<Integer> key = Arrays.stream(set).boxed().toList();
            Integer number = known.get(key);
            if (number == null) {
                all.add(set);
                number = -all.size();
                known.put(key, number);
            }
            return number;
        }

        int[] get(int number) {
            return number >= 0 ? new int[] {number} : all.get(-number - 1);
        }
    }

    Events() {
        this(new Sets(), new ArrayList<>());
    }

    private Events(Sets sets, List<List<Events>> choices) {
        this.sets = sets;
        this.choices = choices;
    }

    /** An empty sequence that shares the numbering of sets and choices. */
    Events sibling() {
        return new Events(sets, choices);
    }

    int size() {
        return size / 2;
    }

    void add(int kind, int a, int b) {
        if (size == words.length) {
            words = Arrays.copyOf(words, Math.addExact(size, size / 2 & ~1));
        }
        words[size++] = a * KINDS + kind;
        words[size++] = b;
    }

    int kind(int i) {
        return words[2 * i] & KINDS - 1;
    }

    int a(int i) {
        return words[2 * i] >> 3;
    }

    int b(int i) {
        return words[2 * i + 1];
    }

    int[] set(int i) {
        return sets.get(b(i));
    }

    /** Replaces the set of an event. */
    void set(int i, int[] set) {
        words[2 * i + 1] = sets.put(set);
    }

    int number(int[] set) {
        return sets.put(set);
    }

    /** Adds alternatives as one event. */
    void addChoice(List<Events> alternatives) {
        choices.add(alternatives);
        add(CHOICE, choices.size() - 1, 0);
    }
}
