/*
 * Copyright (c) 2026, the JPortal authors. All rights reserved.
 * DO NOT ALTER OR REMOVE COPYRIGHT NOTICES OR THIS FILE HEADER.
 *
 * This code is free software; you can redistribute it and/or modify it
 * under the terms of the GNU General Public License version 2 only, as
 * published by the Free Software Foundation.
 *
 * This code is distributed in the hope that it will be useful, but WITHOUT
 * ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License
 * version 2 for more details (a copy is included in the LICENSE file that
 * accompanied this code).
 */

package jportal.test;

import java.util.Objects;

/** Assertions whose message says what was expected and what was seen. */
public final class Check {
    private Check() {}

    public static void that(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    public static void equal(Object expected, Object seen, String what) {
        that(Objects.equals(expected, seen), what + ": expected <" + expected + ">, seen <" + seen + ">");
    }

    public static void contains(String text, String part, String what) {
        that(text.contains(part), what + ": expected to find <" + part + "> in:\n" + text);
    }

    public static void lacks(String text, String part, String what) {
        that(!text.contains(part), what + ": did not expect <" + part + "> in:\n" + text);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
