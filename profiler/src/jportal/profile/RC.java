// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

/**
 * The root of a thread's call tree: the caller of whatever the virtual machine calls first. It has
 * no method, and nothing to count.
 */
public interface RC extends IC {
    /** Whose tree it is. */
    ProfiledThread thread();
}
