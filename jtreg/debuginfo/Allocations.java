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
 * @summary Allocations that call the runtime: of objects, arrays, and arrays of arrays.
 * @library /lib
 * @build jportal.test.* Allocations
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Allocations -XX:-UseTLAB
 */

/*
 * @test id=c2
 * @summary Allocations that call the runtime: of objects, arrays, and arrays of arrays.
 * @library /lib
 * @build jportal.test.* Allocations
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Allocations -XX:-UseTLAB
 */

/*
 * @test id=tiered
 * @summary Allocations that call the runtime: of objects, arrays, and arrays of arrays.
 * @library /lib
 * @build jportal.test.* Allocations
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Allocations -XX:-UseTLAB
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at object: runtime-call.good >= 1
// @debuginfo c1,c2 at array: runtime-call.good >= 1
// @debuginfo c1,c2 at matrix: runtime-call.good >= 1
// @debuginfo tiered in make: judged >= 1
public class Allocations {
    static Object kept;

    static int make(int n) {
        Object o = new Object(); // @object
        int[] a = new int[n]; // @array
        int[][] m = new int[2][n & 3]; // @matrix
        kept = (n & 1) == 0 ? o : a;
        return a.length + m.length;
    }

    public static void main(String[] args) {
        int sum = 0;
        for (int i = 0; i < 5000; i++) {
            sum += make(i & 63);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
