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
 * @summary Switches as jump tables, as search trees and over strings: a call in each arm.
 * @library /lib
 * @build jportal.test.* Switches
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Switches -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Switches::leaf
 */

/*
 * @test id=c2
 * @summary Switches as jump tables, as search trees and over strings: a call in each arm.
 * @library /lib
 * @build jportal.test.* Switches
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Switches -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Switches::leaf
 */

/*
 * @test id=tiered
 * @summary Switches as jump tables, as search trees and over strings: a call in each arm.
 * @library /lib
 * @build jportal.test.* Switches
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Switches -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Switches::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at dense-3: call.right >= 1
// @debuginfo c1,c2 at dense-other: call.right >= 1
// @debuginfo c1,c2 at sparse-2: call.right >= 1
// @debuginfo c1,c2 at sparse-other: call.right >= 1
// @debuginfo c1,c2 at string-b: call.right >= 1
// @debuginfo tiered in dense: call.right >= 3
public class Switches {
    static int leaf(int n) {
        return n + 1;
    }

    static int dense(int n) {
        switch (n) {
            case 0: return leaf(10);
            case 1: return leaf(20);
            case 2: return leaf(30);
            case 3: return leaf(40); // @dense-3
            case 4: return leaf(50);
            case 5: n += 2;
            case 6: return leaf(n);
            case 7: return leaf(80);
            case 8: return leaf(90);
            case 9: return leaf(95);
            case 10: return leaf(97);
            default: return leaf(-1); // @dense-other
        }
    }

    static int sparse(int n) {
        switch (n) {
            case -1000: return leaf(1);
            case 2: return leaf(2); // @sparse-2
            case 77: return leaf(3);
            case 900000: return leaf(4);
            default: return leaf(5); // @sparse-other
        }
    }

    static int strings(String s) {
        switch (s) {
            case "a": return leaf(1);
            case "b": return leaf(2); // @string-b
            default: return leaf(3);
        }
    }

    public static void main(String[] args) {
        int[] keys = {-1000, 2, 77, 900000, 5};
        String[] names = {"a", "b", "c"};
        int sum = 0;
        for (int i = 0; i < 6000; i++) {
            sum += dense(i % 13) + sparse(keys[i % 5]) + strings(names[i % 3]);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
