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
 * @summary Stacks in stubs of the runtime: allocation, checks of types, copying, filling.
 * @library /lib
 * @build jportal.test.* RuntimeStubs
 * @run driver/timeout=2400 jportal.test.Stacks interpreter RuntimeStubs 2000 8000 -XX:-UseTLAB
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,RuntimeStubs::small*
 */

/*
 * @test id=c1
 * @summary Stacks in stubs of the runtime: allocation, checks of types, copying, filling.
 * @library /lib
 * @build jportal.test.* RuntimeStubs
 * @run driver/timeout=2400 jportal.test.Stacks c1 RuntimeStubs 2000 8000 -XX:-UseTLAB
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,RuntimeStubs::small*
 */

/*
 * @test id=c2
 * @summary Stacks in stubs of the runtime: allocation, checks of types, copying, filling.
 * @library /lib
 * @build jportal.test.* RuntimeStubs
 * @run driver/timeout=2400 jportal.test.Stacks c2 RuntimeStubs 2000 8000 -XX:-UseTLAB
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,RuntimeStubs::small*
 */

/*
 * @test id=tiered
 * @summary Stacks in stubs of the runtime: allocation, checks of types, copying, filling.
 * @library /lib
 * @build jportal.test.* RuntimeStubs
 * @run driver/timeout=2400 jportal.test.Stacks tiered RuntimeStubs 2000 8000 -XX:-UseTLAB
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,RuntimeStubs::small*
 */

/*
 * @test id=place
 * @summary Stacks in stubs of the runtime: allocation, checks of types, copying, filling.
 * @library /lib
 * @build jportal.test.* RuntimeStubs
 * @run driver/timeout=2400 jportal.test.Stacks tiered RuntimeStubs 2000 0 -XX:-UseTLAB
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,RuntimeStubs::small*
 */

// @stacks all: in RuntimeStubs.made >= 20, in RuntimeStubs.copied >= 20
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
import java.util.Arrays;

/**
 * Compiled code that calls stubs all the time. Without thread-local buffers each allocation calls
 * one.
 *
 * <p>Expected: a stub has no frame of its own, and its caller is there. None is broken. A VM with
 * the fault of JDK-8303444 (hotspot-patches/planted/safe-for-sender.patch) gives broken stacks
 * here: scripts/planted-bugs.
 */
public class RuntimeStubs {
    private static Object kept;

    static int leaf(int n) {
        return n * 31 + 7;
    }

    static Object smallObject() {
        return new Object();
    }

    static int[] smallArray(int n) {
        return new int[n];
    }

    static Object[] smallPair(Object first, Object second) {
        return new Object[] {first, second};
    }

    static int small(int n) {
        return smallPair(smallObject(), smallArray(n & 7)).length;
    }

    static int made(int n) {
        Object object = new Object();
        int[] numbers = new int[n & 15];
        int[][] matrix = new int[2][n & 3];
        kept = (n & 1) == 0 ? object : numbers;
        return leaf(numbers.length + matrix.length);
    }

    static int copied(int[] from, int[] to, int n) {
        System.arraycopy(from, 0, to, n & 7, 40);
        Arrays.fill(from, n & 7, 50, n);
        return leaf(to[n & 31]) + Arrays.hashCode(Arrays.copyOf(to, 5));
    }

    static int checked(Object[] all, Object one, int n) {
        all[n & 3] = one;
        return leaf(one instanceof Comparable ? 1 : one instanceof Runnable ? 2 : 3);
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        int[] from = new int[64];
        int[] to = new int[64];
        Object[] objects = new CharSequence[4];
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += made(i) + copied(from, to, i) + checked(objects, (i & 1) == 0 ? "text" : new StringBuilder(), i);
            sum += small(i);
        }
        System.out.println(sum + (kept == null ? 1 : 0));
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
