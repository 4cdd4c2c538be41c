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
 * @summary Exceptions that pass compiled frames: thrown here, in an inlined callee, in a called
 *      one; finally, rethrow.
 * @library /lib
 * @build jportal.test.* Exceptions
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Exceptions -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Exceptions::leaf
 *      -XX:CompileCommand=dontinline,Exceptions::plain
 */

/*
 * @test id=c2
 * @summary Exceptions that pass compiled frames: thrown here, in an inlined callee, in a called
 *      one; finally, rethrow.
 * @library /lib
 * @build jportal.test.* Exceptions
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Exceptions -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Exceptions::leaf
 *      -XX:CompileCommand=dontinline,Exceptions::plain
 */

/*
 * @test id=tiered
 * @summary Exceptions that pass compiled frames: thrown here, in an inlined callee, in a called
 *      one; finally, rethrow.
 * @library /lib
 * @build jportal.test.* Exceptions
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Exceptions -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Exceptions::leaf
 *      -XX:CompileCommand=dontinline,Exceptions::plain
 */

// @debuginfo all: wrong = 0
// @debuginfo c1 at caught-from-call: handler.good >= 1
// C2's rows name no handler.
// @debuginfo c2 in called: handler.not-judged >= 1, handler.good = 0
// @debuginfo c1 in local: handler.good >= 1
// @debuginfo all at after-finally: call.right >= 1
// @debuginfo tiered in called: judged >= 1
public class Exceptions {
    static int count;

    static int leaf(int n) {
        if ((n & 15) == 3) {
            throw new IllegalStateException();
        }
        return n + 1;
    }

    static int plain(int n) {
        return n * 3;
    }

    static int called(int n) {
        try {
            return leaf(n) + 1;
        } catch (IllegalStateException e) { // @caught-from-call
            return -1;
        }
    }

    static void check(int n) {
        if ((n & 7) == 5) {
            throw new IllegalArgumentException();
        }
    }

    static int local(int n) {
        try {
            check(n);
            return n;
        } catch (IllegalArgumentException e) {
            return 4;
        }
    }

    static int cleaned(int n) {
        try {
            return called(n) + local(n);
        } finally {
            count += plain(n); // @after-finally
        }
    }

    static int passed(int n) {
        try {
            return cleaned(n) + leaf(n + 1);
        } catch (RuntimeException e) {
            return 9;
        }
    }

    public static void main(String[] args) {
        int sum = 0;
        for (int i = 0; i < 5000; i++) {
            sum += passed(i);
        }
        System.out.println(sum + count);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
