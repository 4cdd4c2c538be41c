// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

/** A count, as bounds: they are equal if the log determines it. */
final class Counter {
    long least;
    long most;

    boolean isZero() {
        return most == 0;
    }

    void add(Counter other) {
        least += other.least;
        most += other.most;
    }

    @Override
    public String toString() {
        return least + "\t" + most;
    }
}
