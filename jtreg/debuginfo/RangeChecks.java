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
 * @summary Range checks that loop predicates and RCE remove, and one that fails.
 * @library /lib
 * @build jportal.test.* RangeChecks
 * @run driver/timeout=300 jportal.test.DebugInfo c1 RangeChecks -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,RangeChecks::leaf
 */

/*
 * @test id=c2
 * @summary Range checks that loop predicates and RCE remove, and one that fails.
 * @library /lib
 * @build jportal.test.* RangeChecks
 * @run driver/timeout=300 jportal.test.DebugInfo c2 RangeChecks -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,RangeChecks::leaf
 */

/*
 * @test id=tiered
 * @summary Range checks that loop predicates and RCE remove, and one that fails.
 * @library /lib
 * @build jportal.test.* RangeChecks
 * @run driver/timeout=300 jportal.test.DebugInfo tiered RangeChecks -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,RangeChecks::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at call: call.right >= 1, call.right times >= 1000
// @debuginfo c1,c2 in sum: good >= 1
// @debuginfo c1 at caught: handler.right >= 1
// @debuginfo c2 in sum: deoptimisation.good >= 1
// @debuginfo tiered in sum: judged >= 1
public class RangeChecks {
    static int leaf(int n) {
        return n & 1023;
    }

    static int sum(int[] a, int from, int to) {
        int sum = 0;
        try {
            for (int i = from; i < to; i++) {
                sum += a[i] + a[i - 1];
            }
        } catch (ArrayIndexOutOfBoundsException e) { // @caught
            sum = -sum;
        }
        return leaf(sum); // @call
    }

    public static void main(String[] args) {
        int[] a = new int[100];
        int total = 0;
        for (int i = 0; i < 4000; i++) {
            a[i % 100] = i;
            total += sum(a, 1 + (i & 7), i > 3900 ? 101 : 60 + (i & 31));
        }
        System.out.println(total);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
