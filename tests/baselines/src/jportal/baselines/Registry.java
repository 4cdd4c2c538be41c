// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.util.ArrayList;
import java.util.List;

/** The methods that are instrumented, by number, and what is not instrumented. */
public final class Registry {
    private static final List<Entry> METHODS = new ArrayList<>();
    private static final List<Skipped> SKIPPED = new ArrayList<>();

    private Registry() {}

    /**
     * An instrumented method.
     *
     * @param type   internal name of its class
     * @param detail what the mode needs for its output; null if the method was left alone
     */
    public record Entry(int id, String type, String loader, String name, String descriptor, Object detail) {
        /** Class, name and descriptor, as JPortal's reports write them. */
        public String text() {
            return type.replace('/', '.') + "." + name + descriptor;
        }
    }

    /** A class (method {@code "*"}) or a method that was left alone. */
    public record Skipped(String type, String method, String reason) {}

    /** Reserves numbers; returns the first. */
    public static synchronized int reserve(int count) {
        int first = METHODS.size();
        for (int i = 0; i < count; i++) {
            METHODS.add(null);
        }
        return first;
    }

    /** Describes a method whose number was reserved. */
    public static synchronized void set(Entry entry) {
        METHODS.set(entry.id(), entry);
    }

    /** Lists what is left alone. */
    public static synchronized void skip(String type, String method, String reason) {
        SKIPPED.add(new Skipped(type, method, reason));
    }

    /** An instrumented method. */
    public static synchronized Entry method(int number) {
        return METHODS.get(number);
    }

    /** All methods; null where a number is not used. */
    public static synchronized List<Entry> methods() {
        return new ArrayList<>(METHODS);
    }

    /** All that was left alone. */
    public static synchronized List<Skipped> skipped() {
        return new ArrayList<>(SKIPPED);
    }
}
