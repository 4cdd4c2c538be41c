// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

/**
 * One probe, as a line of probes.tsv.
 *
 * @param ordinal     its place among the method's probes, in code order, from 0
 * @param bci         bci of its first {@code sipush} in the instrumented code
 * @param originalBci bci of the leader before instrumentation
 * @param line        source line of the leader, 0 if unknown
 */
record ProbeSite(int id, String method, String descriptor, int ordinal, int bci, int originalBci, int line) {}
