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
 * @summary Clones of arrays and objects: an allocation inside of a call that does not happen.
 * @library /lib
 * @build jportal.test.* Clone
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Clone -XX:-UseTLAB
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Clone::leaf
 */

/*
 * @test id=c2
 * @summary Clones of arrays and objects: an allocation inside of a call that does not happen.
 * @library /lib
 * @build jportal.test.* Clone
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Clone -XX:-UseTLAB
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Clone::leaf
 */

/*
 * @test id=tiered
 * @summary Clones of arrays and objects: an allocation inside of a call that does not happen.
 * @library /lib
 * @build jportal.test.* Clone
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Clone -XX:-UseTLAB
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Clone::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c2 at array: runtime-call.good >= 1
// @debuginfo c2 at objects: runtime-call.good >= 1
// @debuginfo c2 in copied: judged >= 1
// @debuginfo c1 at array: judged >= 1
// @debuginfo c1 at objects: judged >= 1
// @debuginfo tiered in numbers: judged >= 1
/**
 * C2 replaces {@code Object.clone} by an allocation and a copy. Where the allocation calls the
 * runtime, the interpreter would have to execute the invoke anew: the state before it, with the
 * reexecute bit (`LibraryCallKit::inline_native_clone`). C1 calls the method.
 */
public class Clone implements Cloneable {
    private int value;

    static int leaf(int n) {
        return n * 31 + 7;
    }

    static int numbers(int[] all, int n) {
        int[] copy = all.clone(); // @array
        copy[n & 7] += n;
        return leaf(copy[n & 7]) + all.length;
    }

    static int texts(Object[] all, int n) {
        Object[] copy = all.clone(); // @objects
        return leaf(copy.length) + (copy[n & 3] == null ? 1 : 2);
    }

    int copied(int n) throws CloneNotSupportedException {
        Clone copy = (Clone) clone();
        copy.value += n;
        return leaf(copy.value) + value;
    }

    public static void main(String[] args) throws CloneNotSupportedException {
        int[] all = {1, 2, 3, 4, 5, 6, 7, 8};
        Object[] texts = {"a", null, "c", null};
        Clone object = new Clone();
        int sum = 0;
        for (int i = 0; i < 5000; i++) {
            object.value = i;
            sum += numbers(all, i) + texts(texts, i) + object.copied(i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
