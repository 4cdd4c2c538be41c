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
 * @summary Objects that C2 removes, and makes again when a frame is deoptimised.
 * @library /lib
 * @build jportal.test.* EscapeAnalysis
 * @run driver/timeout=300 jportal.test.DebugInfo c1 EscapeAnalysis -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,EscapeAnalysis::leaf
 */

/*
 * @test id=c2
 * @summary Objects that C2 removes, and makes again when a frame is deoptimised.
 * @library /lib
 * @build jportal.test.* EscapeAnalysis
 * @run driver/timeout=300 jportal.test.DebugInfo c2 EscapeAnalysis -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,EscapeAnalysis::leaf
 */

/*
 * @test id=tiered
 * @summary Objects that C2 removes, and makes again when a frame is deoptimised.
 * @library /lib
 * @build jportal.test.* EscapeAnalysis
 * @run driver/timeout=300 jportal.test.DebugInfo tiered EscapeAnalysis -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,EscapeAnalysis::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c2 at rare: trap.good >= 1, deoptimisation.good >= 1
// @debuginfo c1,c2 at kept: call.right >= 1, call.right times >= 1000
// @debuginfo tiered in shift: judged >= 1
public class EscapeAnalysis {
    static final class Point {
        final int x;
        final int y;

        Point(int x, int y) {
            this.x = x;
            this.y = y;
        }

        Point plus(Point other) {
            return new Point(x + other.x, y + other.y);
        }
    }

    static int leaf(int n) {
        return n ^ 3;
    }

    static int shift(int n, boolean isRare) {
        Point p = new Point(n, n + 1).plus(new Point(3, 4));
        int sum = leaf(p.x); // @kept
        if (isRare) { // @rare
            return new int[] {p.hashCode() & 0, p.x, p.y}.length + p.x + p.y;
        }
        return sum + p.y;
    }

    public static void main(String[] args) {
        int sum = 0;
        for (int i = 0; i < 6000; i++) {
            sum += shift(i, i == 5900);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
