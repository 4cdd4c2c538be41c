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
 * @summary Loops that C2's superword pass vectorises: main loop, tail, and a call after them.
 * @library /lib
 * @build jportal.test.* Vectorised
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Vectorised -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Vectorised::check
 */

/*
 * @test id=c2
 * @summary Loops that C2's superword pass vectorises: main loop, tail, and a call after them.
 * @library /lib
 * @build jportal.test.* Vectorised
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Vectorised -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Vectorised::check
 */

/*
 * @test id=tiered
 * @summary Loops that C2's superword pass vectorises: main loop, tail, and a call after them.
 * @library /lib
 * @build jportal.test.* Vectorised
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Vectorised -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Vectorised::check
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at after: call.right >= 1, call.right times >= 200
// @debuginfo c1,c2 at add: good >= 1
// @debuginfo tiered in step: judged >= 1
public class Vectorised {
    static int check(int[] a) {
        return a[0] + a[a.length - 1];
    }

    static int step(int[] a, int[] b, int[] c, int n) {
        for (int i = 0; i < n; i++) { // @add
            a[i] = b[i] + c[i] * 3;
        }
        return check(a); // @after
    }

    public static void main(String[] args) {
        int[] a = new int[300];
        int[] b = new int[300];
        int[] c = new int[300];
        int sum = 0;
        for (int i = 0; i < 1500; i++) {
            b[i % 300] = i;
            c[(i * 7) % 300] = i;
            sum += step(a, b, c, 200 + (i & 63));
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
