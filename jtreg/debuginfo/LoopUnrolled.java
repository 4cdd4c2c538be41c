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
 * @summary The poll of loops that C2 unrolls, fully and partly.
 * @library /lib
 * @build jportal.test.* LoopUnrolled
 * @run driver/timeout=300 jportal.test.DebugInfo c1 LoopUnrolled -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LoopUnrolled::leaf
 */

/*
 * @test id=c2
 * @summary The poll of loops that C2 unrolls, fully and partly.
 * @library /lib
 * @build jportal.test.* LoopUnrolled
 * @run driver/timeout=300 jportal.test.DebugInfo c2 LoopUnrolled -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LoopUnrolled::leaf
 */

/*
 * @test id=tiered
 * @summary The poll of loops that C2 unrolls, fully and partly.
 * @library /lib
 * @build jportal.test.* LoopUnrolled
 * @run driver/timeout=300 jportal.test.DebugInfo tiered LoopUnrolled -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LoopUnrolled::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at short: call.right >= 1
// @debuginfo c1,c2 at counted: poll.good >= 1
// @debuginfo all in partly: judged >= 1
// @debuginfo c2 in uncounted: poll.good >= 1, poll.good times >= 1000
public class LoopUnrolled {
    static int leaf(int n) {
        return n + 1;
    }

    static int fully(int n) {
        int sum = n;
        for (int i = 0; i < 4; i++) {
            sum += leaf(sum); // @short
        }
        return sum;
    }

    static int partly(int[] a, int n) {
        int sum = 0;
        for (int i = 0; i < n; i++) { // @counted
            sum += a[i] * (sum | 1);
        }
        return sum;
    }

    static int uncounted(int n) {
        int steps = 0;
        while (n != 1) {
            n = (n & 1) == 0 ? n >> 1 : 3 * n + 1;
            steps++;
        }
        return steps;
    }

    public static void main(String[] args) {
        int[] a = new int[400];
        int sum = 0;
        for (int i = 0; i < 3000; i++) {
            a[i % 400] = i;
            sum += fully(i) + partly(a, 50 + (i & 127)) + uncounted(1 + (i & 31));
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
