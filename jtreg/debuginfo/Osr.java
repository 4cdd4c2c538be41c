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
 * @summary Loops that are entered by on-stack replacement.
 * @library /lib
 * @build jportal.test.* Osr
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Osr -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Osr::leaf
 */

/*
 * @test id=c2
 * @summary Loops that are entered by on-stack replacement.
 * @library /lib
 * @build jportal.test.* Osr
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Osr -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Osr::leaf
 */

/*
 * @test id=tiered
 * @summary Loops that are entered by on-stack replacement.
 * @library /lib
 * @build jportal.test.* Osr
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Osr -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Osr::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at inner osr: call.right >= 1, call.right times >= 1000
// @debuginfo c1 at outer osr: poll.good >= 1
// @debuginfo tiered at inner osr: c1 call.right >= 1, c2 call.right >= 1
public class Osr {
    static int leaf(int n) {
        return n + 1;
    }

    public static void main(String[] args) {
        int sum = 0;
        int rounds = 0;
        while (rounds < 120) {
            for (int i = 0; i < 300; i++) {
                sum += leaf(sum ^ i); // @inner
            }
            rounds++; // @outer
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
