// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

/**
 * Whether the trees counted everything.
 *
 * @param exact  whether all counts are those of the program. Otherwise counts may be too low
 * @param reason why not, for people; empty if exact
 */
public record Completeness(boolean exact, String reason) {}
