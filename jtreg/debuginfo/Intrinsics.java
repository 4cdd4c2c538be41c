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
 * @summary Calls that the compilers replace by instructions or stubs, and a call in the same block.
 * @library /lib
 * @build jportal.test.* Intrinsics
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Intrinsics -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Intrinsics::leaf
 */

/*
 * @test id=c2
 * @summary Calls that the compilers replace by instructions or stubs, and a call in the same block.
 * @library /lib
 * @build jportal.test.* Intrinsics
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Intrinsics -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Intrinsics::leaf
 */

/*
 * @test id=tiered
 * @summary Calls that the compilers replace by instructions or stubs, and a call in the same block.
 * @library /lib
 * @build jportal.test.* Intrinsics
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Intrinsics -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Intrinsics::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at bits: call.right >= 1, call.right times >= 1000
// @debuginfo c1,c2 at copied: call.right >= 1
// @debuginfo c1,c2 at text: call.right >= 1
// @debuginfo c1,c2 at cas: call.right >= 1
// @debuginfo tiered in bits: call.right >= 1
public class Intrinsics {
    static final java.util.concurrent.atomic.AtomicInteger COUNTER = new java.util.concurrent.atomic.AtomicInteger();

    static int leaf(int n) {
        return n + 1;
    }

    static int bits(int n) {
        return leaf(Integer.bitCount(n) + Math.max(n, 7) + Math.addExact(n, 1) + Long.numberOfTrailingZeros(n | 64)); // @bits
    }

    static int copies(int[] a, int[] b, int n) {
        System.arraycopy(a, 0, b, 1, n);
        int[] c = java.util.Arrays.copyOf(b, n + 1);
        return leaf(c[n] + java.util.Objects.checkIndex(n, 100)); // @copied
    }

    static int texts(String a, String b) {
        return leaf(a.equals(b) ? a.compareTo(b) : a.indexOf(b)); // @text
    }

    static int cas(int n) {
        return leaf(COUNTER.compareAndSet(n, n + 1) ? COUNTER.getAndAdd(2) : COUNTER.get()); // @cas
    }

    public static void main(String[] args) {
        int[] a = new int[64];
        int[] b = new int[64];
        int sum = 0;
        for (int i = 0; i < 5000; i++) {
            a[i & 63] = i;
            sum += bits(i) + copies(a, b, 8 + (i & 31)) + texts("some text", (i & 1) == 0 ? "text" : "some text") + cas(i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
