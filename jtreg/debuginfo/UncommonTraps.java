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
// @debuginfo c1 in leaf: judged >= 0
// @debuginfo c2,tiered in rare: judged >= 1
public class UncommonTraps {
    private static final int RARE = 5900;

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

    static int all(int n) {
        boolean isRare = n == RARE;
        int sum = rare(n) + late(n);
        sum += nullAssert(isRare ? "x" : null, n);
        sum += receiver(isRare ? SQUARE : SHAPE, n);
        return sum;
    }

    static final Shape SHAPE = new Shape();
    static final Shape SQUARE = new Square();
    static final int[] SMALL = {1, 2, 3, 4, 5, 6, 7, 8};

    static int failing(int n, int what) {
        boolean isRare = n == RARE + what;
        try {
            switch (what) {
                case 1: return nullCheck(isRare ? null : SMALL, n) + 1;
                case 2: return cast(isRare ? SHAPE : "abc", n) + 1;
                case 3: return element(SMALL, isRare ? 8 : n & 7) + 1;
                case 4: return quotient(n, isRare ? 0 : 3) + 1;
                case 5:
                    store(isRare ? new Integer[1] : new Object[1], isRare ? SHAPE : "s");
                    return 2;
                default: return exact(isRare ? Integer.MAX_VALUE : n) + 1;
            }
        } catch (RuntimeException e) {
            return -n;
        }
    }

    public static void main(String[] args) {
        int sum = 0;
        for (int i = 0; i < 6000; i++) {
            sum += all(i);
            for (int what = 1; what <= 6; what++) {
                sum += failing(i, what);
            }
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
