// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle;

/**
 * The target of probes. It is on the boot class path, so that every class finds it, and native.
 */
public final class Probe {
    private Probe() {}

    /** Appends the probe id {@code (hi << 16) | (lo & 0xffff)} to the log of the calling thread. */
    public static native void hit(int hi, int lo);

    /** Sets the directory of the logs. Must be called once, before the first {@link #hit}. */
    static native void open(String directory);

    /** Loads the library, which registers this class's natives; sets the directory of the logs. */
    public static void start(String library, String directory) {
        System.load(library);
        open(directory);
    }
}
