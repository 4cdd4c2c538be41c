// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

/**
 * A thread of the profiled program. In a replay it ended long ago, so that a profiler gets no
 * {@link Thread} as in JP.
 *
 * @param name   name of the Java thread: live when it was registered, in a replay its last one
 * @param javaId {@link Thread#getId}; 0 if unknown
 * @param osId   number of the thread in the operating system, which reuses numbers; 0 if unknown
 */
public record ProfiledThread(String name, long javaId, long osId) {}
