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
 * @summary Locks of objects that do not escape, nested and coarsened locks, and a trap while they
 *      are held.
 * @library /lib
 * @build jportal.test.* LocksElided
 * @run driver/timeout=300 jportal.test.DebugInfo c1 LocksElided -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LocksElided::leaf
 */

/*
 * @test id=c2
 * @summary Locks of objects that do not escape, nested and coarsened locks, and a trap while they
 *      are held.
 * @library /lib
 * @build jportal.test.* LocksElided
 * @run driver/timeout=300 jportal.test.DebugInfo c2 LocksElided -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LocksElided::leaf
 */

/*
 * @test id=tiered
 * @summary Locks of objects that do not escape, nested and coarsened locks, and a trap while they
 *      are held.
 * @library /lib
 * @build jportal.test.* LocksElided
 * @run driver/timeout=300 jportal.test.DebugInfo tiered LocksElided -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,LocksElided::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at held: call.right >= 1, call.right times >= 1000
// @debuginfo c1,c2 at nested: call.right >= 1
// @debuginfo c2 at rare: deoptimisation.good >= 1
// @debuginfo tiered in local: call.right >= 1
public class LocksElided {
    static final Object GLOBAL = new Object();
    static int total;

    static int leaf(int n) {
        return n + 2;
    }

    static final class Counter {
        int value;

        synchronized int add(int n) {
            value += n;
            return value;
        }
    }

    static int local(int n) {
        Counter counter = new Counter();
        synchronized (counter) {
            counter.add(n);
            n = leaf(n); // @held
            if (n == 5902) { // @rare
                total += 100;
            }
            return counter.add(n);
        }
    }

    static int nested(int n) {
        synchronized (GLOBAL) {
            synchronized (GLOBAL) {
                n = leaf(n); // @nested
            }
        }
        synchronized (GLOBAL) {
            return n + 1;
        }
    }

    public static void main(String[] args) {
        for (int i = 0; i < 6000; i++) {
            total += local(i) + nested(i);
        }
        System.out.println(total);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
