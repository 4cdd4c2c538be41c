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
 * @summary Concatenation of strings: chains of StringBuilder that C2 combines, and invokedynamic.
 * @library /lib
 * @build jportal.test.* Concatenation
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Concatenation -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Concatenation::leaf
 */

/*
 * @test id=c2
 * @summary Concatenation of strings: chains of StringBuilder that C2 combines, and invokedynamic.
 * @library /lib
 * @build jportal.test.* Concatenation
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Concatenation -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Concatenation::leaf
 */

/*
 * @test id=tiered
 * @summary Concatenation of strings: chains of StringBuilder that C2 combines, and invokedynamic.
 * @library /lib
 * @build jportal.test.* Concatenation
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Concatenation -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Concatenation::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1 at builder: good >= 1
// @debuginfo c2 in chain: call.right >= 1, wrong = 0
// @debuginfo c1,c2 at dynamic: good >= 1
// @debuginfo c1,c2 at length: call.right >= 1, call.right times >= 1000
// @debuginfo tiered in chain: judged >= 1
public class Concatenation {
    static int leaf(String s) {
        return s.length();
    }

    static int chain(String a, int n, char c) {
        String s = new StringBuilder().append(a).append(n).append(c).toString(); // @builder
        return leaf(s); // @length
    }

    static int dynamic(String a, int n) {
        return leaf(a + ":" + n); // @dynamic
    }

    public static void main(String[] args) {
        int sum = 0;
        for (int i = 0; i < 4000; i++) {
            sum += chain("abc", i, 'x') + dynamic("de", i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
