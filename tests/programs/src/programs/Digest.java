package programs;

/** A checksum of a program's results, printed at the end, so that the output shows a wrong run. */
final class Digest {
    private long value = 0x9e3779b97f4a7c15L;

    synchronized void add(long item) {
        value = (value ^ item) * 0x100000001b3L;
    }

    void add(int item) {
        add((long) item);
    }

    void add(boolean item) {
        add(item ? 1L : 0L);
    }

    void add(double item) {
        add(Double.doubleToRawLongBits(item));
    }

    void add(Object item) {
        add((long) String.valueOf(item).hashCode());
    }

    /** Prints the checksum under the program's name. */
    void print(Class<?> program) {
        System.out.println(program.getSimpleName() + " " + Long.toHexString(value));
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
