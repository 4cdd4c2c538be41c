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
 * @summary Stacks inside chains of inlined calls: below them, between two, and in a recursion.
 * @library /lib
 * @build jportal.test.* InlinedChains
 * @run driver/timeout=2400 jportal.test.Stacks interpreter InlinedChains 3000 60000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,InlinedChains::leaf
 */

/*
 * @test id=c1
 * @summary Stacks inside chains of inlined calls: below them, between two, and in a recursion.
 * @library /lib
 * @build jportal.test.* InlinedChains
 * @run driver/timeout=2400 jportal.test.Stacks c1 InlinedChains 3000 60000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,InlinedChains::leaf
 */

/*
 * @test id=c2
 * @summary Stacks inside chains of inlined calls: below them, between two, and in a recursion.
 * @library /lib
 * @build jportal.test.* InlinedChains
 * @run driver/timeout=2400 jportal.test.Stacks c2 InlinedChains 3000 60000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,InlinedChains::leaf
 */

/*
 * @test id=tiered
 * @summary Stacks inside chains of inlined calls: below them, between two, and in a recursion.
 * @library /lib
 * @build jportal.test.* InlinedChains
 * @run driver/timeout=2400 jportal.test.Stacks tiered InlinedChains 3000 60000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,InlinedChains::leaf
 */

/*
 * @test id=place
 * @summary Stacks inside chains of inlined calls: below them, between two, and in a recursion.
 * @library /lib
 * @build jportal.test.* InlinedChains
 * @run driver/timeout=2400 jportal.test.Stacks tiered InlinedChains 3000 0
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,InlinedChains::leaf
 */

// @stacks all: in InlinedChains.sixth >= 20, in InlinedChains.down >= 20
// @stacks c1: c1 inlined frames >= 20
// @stacks c2,tiered: c2 inlined frames >= 20
/**
 * Calls that the compilers inline, several levels deep.
 *
 * <p>Expected: each stack has all frames of the chain, those that are inlined too, each caller at
 * its invoke. None is broken.
 */
public class InlinedChains {
    static int leaf(int n) {
        return n * 31 + 7;
    }

    static int sixth(int n) {
        return (n & 1) == 0 ? leaf(n) + 1 : n;
    }

    static int fifth(int n) {
        return sixth(n) ^ sixth(n + 1);
    }

    static int fourth(int n) {
        return fifth(n + 1) - 3;
    }

    static int third(int n) {
        int sum = fourth(n);
        return sum + leaf(sum);
    }

    static int second(int n) {
        return third(n) >> 1;
    }

    static int first(int n) {
        int sum = second(n);
        return sum + fourth(n);
    }

    /** C2 inlines one level of a recursion. */
    static int down(int n) {
        return n == 0 ? leaf(n) : down(n - 1) + 1;
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += first(i) + down(i & 7);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
