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
 * @summary Stacks where compiled code calls interpreted code, and the other way round, through
 *      adapters.
 * @library /lib
 * @build jportal.test.* Adapters
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Adapters 3000 20000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=exclude,Adapters::interpreted*
 */

/*
 * @test id=c1
 * @summary Stacks where compiled code calls interpreted code, and the other way round, through
 *      adapters.
 * @library /lib
 * @build jportal.test.* Adapters
 * @run driver/timeout=2400 jportal.test.Stacks c1 Adapters 3000 20000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=exclude,Adapters::interpreted*
 */

/*
 * @test id=c2
 * @summary Stacks where compiled code calls interpreted code, and the other way round, through
 *      adapters.
 * @library /lib
 * @build jportal.test.* Adapters
 * @run driver/timeout=2400 jportal.test.Stacks c2 Adapters 3000 20000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=exclude,Adapters::interpreted*
 */

/*
 * @test id=tiered
 * @summary Stacks where compiled code calls interpreted code, and the other way round, through
 *      adapters.
 * @library /lib
 * @build jportal.test.* Adapters
 * @run driver/timeout=2400 jportal.test.Stacks tiered Adapters 3000 20000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=exclude,Adapters::interpreted*
 */

// @stacks all: in Adapters.interpretedMany >= 20, in Adapters.compiledMany >= 20
// @stacks c1: c1 frames >= 20, interpreter frames >= 20
// @stacks c2,tiered: c2 frames >= 20, interpreter frames >= 20
/**
 * Methods that stay interpreted and methods that are compiled, in turns. Their arguments are in
 * registers and on the stack.
 *
 * <p>Expected: an adapter has no frame of its own, and none next to it is lost. None is broken.
 */
public class Adapters {
    static int interpreted(int n) {
        return n * 31 + 7;
    }

    int interpretedVirtual(int n, String text) {
        return n + text.length();
    }

    static int interpretedMany(int a, long b, double c, Object d, int e, float f, long g, int h, int i, long j) {
        return a + (int) b + (int) c + (d == null ? 0 : 1) + e + (int) f + (int) g + h + i + (int) j + compiled(a);
    }

    static int compiled(int n) {
        return interpreted(n) ^ 5;
    }

    static int compiledMany(int a, long b, double c, Object d, int e, float f, long g, int h, int i, long j) {
        return interpretedMany(a, b + 1, c, d, e, f, g, h, i + 1, j) + 1;
    }

    static int interpretedTurns(int n) {
        return n == 0 ? interpreted(n) : compiledTurns(n - 1) + 1;
    }

    static int compiledTurns(int n) {
        return n == 0 ? compiled(n) : interpretedTurns(n - 1) - 1;
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        Adapters adapters = new Adapters();
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += compiledMany(i, i, i, adapters, 5, 6.0f, 7, 8, 9, 10) + compiledTurns(i & 7) + adapters.interpretedVirtual(i, "ab");
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
