// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

/**
 * Identifies a method in call trees. Trees compare identifiers by reference: methods with the same
 * identifier are one method to them.
 *
 * @see MIDFactory
 */
public interface MID {}
