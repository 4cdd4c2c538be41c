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
 * @summary Stacks of methods that are called once and run long: compiled code takes over in a
 *      loop.
 * @library /lib
 * @build jportal.test.* OnStackReplacement
 * @run driver/timeout=2400 jportal.test.Stacks interpreter OnStackReplacement 400 8000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,OnStackReplacement::leaf
 */

/*
 * @test id=c1
 * @summary Stacks of methods that are called once and run long: compiled code takes over in a
 *      loop.
 * @library /lib
 * @build jportal.test.* OnStackReplacement
 * @run driver/timeout=2400 jportal.test.Stacks c1 OnStackReplacement 400 8000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,OnStackReplacement::leaf
 */

/*
 * @test id=c2
 * @summary Stacks of methods that are called once and run long: compiled code takes over in a
 *      loop.
 * @library /lib
 * @build jportal.test.* OnStackReplacement
 * @run driver/timeout=2400 jportal.test.Stacks c2 OnStackReplacement 400 8000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,OnStackReplacement::leaf
 */

/*
 * @test id=tiered
 * @summary Stacks of methods that are called once and run long: compiled code takes over in a
 *      loop.
 * @library /lib
 * @build jportal.test.* OnStackReplacement
 * @run driver/timeout=2400 jportal.test.Stacks tiered OnStackReplacement 400 8000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,OnStackReplacement::leaf
 */

// @stacks all: in OnStackReplacement.nested >= 20, in OnStackReplacement.level >= 20
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
/**
 * On-stack replacement of a loop, of a loop in a loop, and of several activations of one method.
 *
 * <p>Expected: the frame of a replaced activation is there once, at the bci where the compiled
 * loop is. None is broken.
 */
public class OnStackReplacement {
    static int leaf(int n) {
        return n * 31 + 7;
    }

    static int step(int n) {
        return leaf(n) ^ 5;
    }

    static int single(int n) {
        int sum = 0;
        for (int i = 0; i < n * 8; i++) {
            sum += step(sum ^ i);
        }
        return sum;
    }

    static int nested(int n) {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < 8; j++) {
                sum += step(i ^ j);
            }
            sum = leaf(sum);
        }
        return sum;
    }

    /** Each activation loops before it calls the next one, and afterwards. */
    static int level(int depth, int n) {
        int sum = depth;
        for (int i = 0; i < n; i++) {
            sum += step(i);
        }
        if (depth > 0) {
            sum += level(depth - 1, n);
        }
        for (int i = 0; i < n; i++) {
            sum ^= leaf(sum + i);
        }
        return sum;
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        System.out.println(single(rounds) + nested(rounds) + level(3, rounds));
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
