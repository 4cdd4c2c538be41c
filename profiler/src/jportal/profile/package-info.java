// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

/**
 * Profilers that see call trees grow: the interfaces of the exact profiler JP (Binder, 2005), with
 * 64-bit counters.
 *
 * <p>Each thread has a call tree. A node ({@link jportal.profile.IC}) is a method in its whole
 * calling context, and counts invocations and bytecodes. A {@link jportal.profile.Profiler} is
 * called when a thread begins, and then after as many bytecodes of this thread as it asks for.
 *
 * <p>The same class runs with a recorded program ({@code jportal replay}) and inside of a running
 * one (mode {@code jp} of {@code tests/baselines}).
 */
package jportal.profile;
