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
 * @summary Calls at every depth of a chain of inlined frames.
 * @library /lib
 * @build jportal.test.* InlineDepth
 * @run driver/timeout=300 jportal.test.DebugInfo c1 InlineDepth -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,InlineDepth::leaf
 */

/*
 * @test id=c2
 * @summary Calls at every depth of a chain of inlined frames.
 * @library /lib
 * @build jportal.test.* InlineDepth
 * @run driver/timeout=300 jportal.test.DebugInfo c2 InlineDepth -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,InlineDepth::leaf
 */

/*
 * @test id=tiered
 * @summary Calls at every depth of a chain of inlined frames.
 * @library /lib
 * @build jportal.test.* InlineDepth
 * @run driver/timeout=300 jportal.test.DebugInfo tiered InlineDepth -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,InlineDepth::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at deepest: call.good >= 1, call.good times >= 1000
// @debuginfo tiered at deepest: c1 call.good >= 1, c2 call.good >= 1
// @debuginfo all in third at middle: call.good >= 1
// @debuginfo all at after: call.good >= 1
public class InlineDepth {
    static int leaf(int n) {
        return n * 31 + 7;
    }

    static int sixth(int n) {
        return leaf(n) + 1; // @deepest
    }

    static int fifth(int n) {
        return sixth(n) ^ 5;
    }

    static int fourth(int n) {
        return fifth(n + 1) - 3;
    }

    static int third(int n) {
        int sum = fourth(n);
        return sum + leaf(sum); // @middle
    }

    static int second(int n) {
        return third(n) >> 1;
    }

    static int first(int n) {
        int sum = second(n);
        // Control comes from inlined frames back into the caller's block.
        return sum + leaf(n); // @after
    }

    public static void main(String[] args) {
        int sum = 0;
        for (int i = 0; i < 6000; i++) {
            sum += first(i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
