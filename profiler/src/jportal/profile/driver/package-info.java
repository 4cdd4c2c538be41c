// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

/** What the live driver and the replay share. Profilers need nothing from here. */
package jportal.profile.driver;
