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
 * @test id=interpreter
 * @summary Stacks of 1,500 frames.
 * @library /lib
 * @build jportal.test.* Deep
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Deep 12 200 agent:max-depth=2048
 *      agent:check=0.001
 */

/*
 * @test id=c1
 * @summary Stacks of 1,500 frames.
 * @library /lib
 * @build jportal.test.* Deep
 * @run driver/timeout=2400 jportal.test.Stacks c1 Deep 12 200 agent:max-depth=2048
 *      agent:check=0.001
 */

/*
 * @test id=c2
 * @summary Stacks of 1,500 frames.
 * @library /lib
 * @build jportal.test.* Deep
 * @run driver/timeout=2400 jportal.test.Stacks c2 Deep 12 200 agent:max-depth=2048
 *      agent:check=0.001
 */

/*
 * @test id=tiered
 * @summary Stacks of 1,500 frames.
 * @library /lib
 * @build jportal.test.* Deep
 * @run driver/timeout=2400 jportal.test.Stacks tiered Deep 12 200 agent:max-depth=2048
 *      agent:check=0.001
 */

// @stacks all: deepest >= 1500, in Deep.bottom >= 1
// @stacks c1: c1 frames >= 500
// @stacks c2,tiered: c2 frames >= 500
/**
 * A recursion of 1,500 frames of two methods. At its bottom the program runs for a while.
 *
 * <p>Expected: a stack has all frames, or as many as the interface gives, from the innermost one.
 * None is broken.
 */
public class Deep {
    static int leaf(int n) {
        return n * 31 + 7;
    }

    static int bottom(int n) {
        int sum = n;
        for (int i = 0; i < 1500; i++) {
            sum += leaf(sum ^ i);
        }
        return sum;
    }

    static int down(int depth, int n) {
        return depth == 0 ? bottom(n) : (depth & 1) == 0 ? down(depth - 1, n) + 1 : other(depth - 1, n);
    }

    static int other(int depth, int n) {
        return down(depth, n + 1) ^ depth;
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += down(1500, i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
