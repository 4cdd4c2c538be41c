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

/*
 * @test id=c1
 * @summary Assumptions of C2 that fail, each in an inlined callee: a trap for each reason.
 * @library /lib
 * @build jportal.test.* UncommonTraps
 * @run driver/timeout=300 jportal.test.DebugInfo c1 UncommonTraps
 */

/*
 * @test id=c2
 * @summary Assumptions of C2 that fail, each in an inlined callee: a trap for each reason.
 * @library /lib
 * @build jportal.test.* UncommonTraps
 * @run driver/timeout=300 jportal.test.DebugInfo c2 UncommonTraps
 */

/*
 * @test id=tiered
 * @summary Assumptions of C2 that fail, each in an inlined callee: a trap for each reason.
 * @library /lib
 * @build jportal.test.* UncommonTraps
 * @run driver/timeout=300 jportal.test.DebugInfo tiered UncommonTraps
 */

// @debuginfo all: wrong = 0
// @debuginfo c2 at unstable-if: trap.good >= 1, deoptimisation.good >= 1
// @debuginfo c2 at null-check: deoptimisation.good >= 1
// @debuginfo c2 at null-assert: deoptimisation.good >= 1
// @debuginfo c2 at class-check: deoptimisation.good >= 1
// @debuginfo c2 at receiver: deoptimisation.good >= 1
// @debuginfo c2 at range-check: deoptimisation.good >= 1
// @debuginfo c2 at division: deoptimisation.good >= 1
// @debuginfo c2 at array-store: deoptimisation.good >= 1
// @debuginfo c2 at unloaded: trap.good >= 1
// @debuginfo c2 at overflow: deoptimisation.good >= 1
// @debuginfo c1 in throughStore: judged >= 1
// @debuginfo tiered in main: judged >= 1
public class UncommonTraps {
    private static final int RARE = 5800;

    static class Shape {
        int area(int n) {
            return n;
        }
    }

    static final class Square extends Shape {
        @Override
        int area(int n) {
            return n * n;
        }
    }

    /** Not loaded before it is needed. */
    static final class Late {
        static int value(int n) {
            return n + 99;
        }
    }

    static int rare(int n) {
        return n == RARE ? n * 31 : n ^ 5; // @unstable-if
    }

    static int nullCheck(int[] a, int n) {
        return a.length + n; // @null-check
    }

    static int nullAssert(Object o, int n) {
        return o == null ? n : o.hashCode() & 0; // @null-assert
    }

    static int cast(Object o, int n) {
        return ((String) o).length() + n; // @class-check
    }

    static int receiver(Shape s, int n) {
        return s.area(n); // @receiver
    }

    static int element(int[] a, int at) {
        return a[at]; // @range-check
    }

    static int quotient(int a, int b) {
        return a / b; // @division
    }

    static void store(Object[] a, Object o) {
        a[0] = o; // @array-store
    }

    static int late(int n) {
        return n == RARE ? Late.value(n) : n; // @unloaded
    }

    static int exact(int n) {
        return Math.addExact(n, 1); // @overflow
    }

    private static final int ROUNDS = 6000;
    private static final Shape SHAPE = new Shape();
    private static final int[] SMALL = {1, 2, 3, 4, 5, 6, 7, 8};

    /** Arguments: only those of the rounds from RARE on are rare, and no branch asks for them. */
    private static final int[][] ARRAYS = new int[ROUNDS][];
    private static final Object[] NULLS = new Object[ROUNDS];
    private static final Object[] STRINGS = new Object[ROUNDS];
    private static final Shape[] SHAPES = new Shape[ROUNDS];
    private static final int[] INDICES = new int[ROUNDS];
    private static final int[] DIVISORS = new int[ROUNDS];
    private static final Object[][] STORES = new Object[ROUNDS][];
    private static final int[] ADDENDS = new int[ROUNDS];

    static {
        for (int i = 0; i < ROUNDS; i++) {
            ARRAYS[i] = SMALL;
            STRINGS[i] = "abc";
            SHAPES[i] = SHAPE;
            INDICES[i] = i & 7;
            DIVISORS[i] = 3;
            STORES[i] = new Object[1];
            ADDENDS[i] = i;
        }
        ARRAYS[RARE + 10] = null;
        NULLS[RARE + 20] = "x";
        STRINGS[RARE + 30] = SHAPE;
        SHAPES[RARE + 40] = new Square();
        INDICES[RARE + 50] = 8;
        DIVISORS[RARE + 60] = 0;
        STORES[RARE + 70] = new Integer[1];
        ADDENDS[RARE + 80] = Integer.MAX_VALUE;
    }

    static int throughNullCheck(int n) {
        try {
            return nullCheck(ARRAYS[n], n) + 1;
        } catch (NullPointerException e) {
            return -1;
        }
    }

    static int throughCast(int n) {
        try {
            return cast(STRINGS[n], n) + 1;
        } catch (ClassCastException e) {
            return -2;
        }
    }

    static int throughElement(int n) {
        try {
            return element(SMALL, INDICES[n]) + 1;
        } catch (ArrayIndexOutOfBoundsException e) {
            return -3;
        }
    }

    static int throughQuotient(int n) {
        try {
            return quotient(n, DIVISORS[n]) + 1;
        } catch (ArithmeticException e) {
            return -4;
        }
    }

    static int throughStore(int n) {
        try {
            store(STORES[n], "s");
            return 1;
        } catch (ArrayStoreException e) {
            return -5;
        }
    }

    static int throughExact(int n) {
        try {
            return exact(ADDENDS[n]) + 1;
        } catch (ArithmeticException e) {
            return -6;
        }
    }

    public static void main(String[] args) {
        int sum = 0;
        for (int i = 0; i < ROUNDS; i++) {
            sum += rare(i) + late(i) + nullAssert(NULLS[i], i) + receiver(SHAPES[i], i);
            sum += throughNullCheck(i) + throughCast(i) + throughElement(i) + throughQuotient(i);
            sum += throughStore(i) + throughExact(i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
