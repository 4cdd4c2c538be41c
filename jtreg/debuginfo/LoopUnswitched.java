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
 * @summary Both copies of a loop that C2 unswitches, and calls in them.
 * @library /lib
 * @build jportal.test.* LoopUnswitched
 * @run driver/timeout=300 jportal.test.DebugInfo c1 LoopUnswitched -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LoopUnswitched::more
 *      -XX:CompileCommand=dontinline,LoopUnswitched::less
 */

/*
 * @test id=c2
 * @summary Both copies of a loop that C2 unswitches, and calls in them.
 * @library /lib
 * @build jportal.test.* LoopUnswitched
 * @run driver/timeout=300 jportal.test.DebugInfo c2 LoopUnswitched -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LoopUnswitched::more
 *      -XX:CompileCommand=dontinline,LoopUnswitched::less
 */

/*
 * @test id=tiered
 * @summary Both copies of a loop that C2 unswitches, and calls in them.
 * @library /lib
 * @build jportal.test.* LoopUnswitched
 * @run driver/timeout=300 jportal.test.DebugInfo tiered LoopUnswitched -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LoopUnswitched::more
 *      -XX:CompileCommand=dontinline,LoopUnswitched::less
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at true-way: call.right >= 1, call.right times >= 1000
// @debuginfo c1,c2 at false-way: call.right >= 1, call.right times >= 1000
// @debuginfo c1,c2 in run: poll.good >= 1
// @debuginfo tiered in run: call.right >= 2
public class LoopUnswitched {
    static int more(int n) {
        return n + 3;
    }

    static int less(int n) {
        return n - 2;
    }

    static int run(int[] a, int n, boolean way) {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            if (way) {
                sum += more(a[i]); // @true-way
            } else {
                sum ^= less(a[i]); // @false-way
            }
        }
        return sum;
    }

    public static void main(String[] args) {
        int[] a = new int[64];
        int sum = 0;
        for (int i = 0; i < 1500; i++) {
            a[i & 63] = i;
            sum += run(a, 20 + (i & 31), (i & 1) == 0);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
