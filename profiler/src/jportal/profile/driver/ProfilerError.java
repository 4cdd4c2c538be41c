// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile.driver;

/**
 * A profiler that cannot be used, or not any more. The message is for people. The cause is what the
 * profiler threw, if it threw something.
 */
public final class ProfilerError extends Exception {
    private static final long serialVersionUID = 1;

    ProfilerError(String message, Throwable cause) {
        super(message, cause);
    }

    /** For what a method threw: what, and where. */
    static ProfilerError thrown(String method, Throwable error) {
        StackTraceElement[] frames = error.getStackTrace();
        String place = frames.length == 0 ? "" : " at " + frames[0];
        String remedy = error instanceof OutOfMemoryError ? "; give java more memory (-Xmx)" : "";
        return new ProfilerError(method + " threw " + error + place + remedy, error);
    }
}
