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
 * @summary The poll of the outer loop of a strip mined loop.
 * @library /lib
 * @build jportal.test.* StripMined
 * @run driver/timeout=300 jportal.test.DebugInfo c1 StripMined -XX:LoopStripMiningIter=500
 */

/*
 * @test id=c2
 * @summary The poll of the outer loop of a strip mined loop.
 * @library /lib
 * @build jportal.test.* StripMined
 * @run driver/timeout=300 jportal.test.DebugInfo c2 StripMined -XX:LoopStripMiningIter=500
 */

/*
 * @test id=tiered
 * @summary The poll of the outer loop of a strip mined loop.
 * @library /lib
 * @build jportal.test.* StripMined
 * @run driver/timeout=300 jportal.test.DebugInfo tiered StripMined -XX:LoopStripMiningIter=500
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at loop: poll.good >= 1
// @debuginfo c2 in weigh: poll.good times >= 100
// @debuginfo tiered in weigh: judged >= 1
public class StripMined {
    static long weigh(int[] a, int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) { // @loop
            sum = sum * 3 + a[i];
        }
        return sum;
    }

    public static void main(String[] args) {
        int[] a = new int[2500];
        long sum = 0;
        for (int i = 0; i < 400; i++) {
            a[i] = i * i;
            sum += weigh(a, 2100 + i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
