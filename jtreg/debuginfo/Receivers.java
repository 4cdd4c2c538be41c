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
 * @summary Virtual and interface calls with one, two and many receivers, and a callee that is
 *      replaced.
 * @library /lib
 * @build jportal.test.* Receivers
 * @run driver/timeout=300 jportal.test.DebugInfo c1 Receivers -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Receivers::leaf
 */

/*
 * @test id=c2
 * @summary Virtual and interface calls with one, two and many receivers, and a callee that is
 *      replaced.
 * @library /lib
 * @build jportal.test.* Receivers
 * @run driver/timeout=300 jportal.test.DebugInfo c2 Receivers -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Receivers::leaf
 */

/*
 * @test id=tiered
 * @summary Virtual and interface calls with one, two and many receivers, and a callee that is
 *      replaced.
 * @library /lib
 * @build jportal.test.* Receivers
 * @run driver/timeout=300 jportal.test.DebugInfo tiered Receivers -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Receivers::leaf
 */

// @debuginfo all: wrong = 0
// @debuginfo c1,c2 at one: judged >= 1
// @debuginfo c1,c2 at many: call.right >= 1, call.right times >= 1000
// @debuginfo c1,c2 at interface: call.right >= 1, call.right times >= 1000
// @debuginfo c1,c2 at lambda: call.good >= 1
// @debuginfo tiered at many: c1 call.right >= 1, c2 call.right >= 1
public class Receivers {
    interface Area {
        int of(int n);
    }

    static class A implements Area {
        public int of(int n) {
            return n + leaf(n); // @one
        }
    }

    static class B extends A {
        @Override
        public int of(int n) {
            return n - 1;
        }
    }

    static class C extends A {
        @Override
        public int of(int n) {
            return n ^ 7;
        }
    }

    static class D implements Area {
        @Override
        public int of(int n) {
            return n * 5;
        }
    }

    static int leaf(int n) {
        return n & 255;
    }

    static int one(A a, int n) {
        return a.of(n) + 1;
    }

    static int many(A a, int n) {
        return a.of(n); // @many
    }

    static int through(Area a, int n) {
        return a.of(n); // @interface
    }

    static int lambda(java.util.function.IntUnaryOperator f, int n) {
        return f.applyAsInt(n); // @lambda
    }

    public static void main(String[] args) {
        A a = new A();
        A[] classes = {a, new B(), new C()};
        Area[] areas = {a, new B(), new C(), new D()};
        java.util.function.IntUnaryOperator[] functions = {n -> n + 1, n -> n * 2, n -> n - 3};
        int sum = 0;
        for (int i = 0; i < 6000; i++) {
            sum += one(a, i) + many(classes[i % 3], i) + through(areas[i & 3], i) + lambda(functions[i % 3], i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
