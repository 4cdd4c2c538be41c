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
 * @summary Stacks at virtual and interface calls with many receivers, which go through stubs.
 * @library /lib
 * @build jportal.test.* Dispatch
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Dispatch 2000 40000
 */

/*
 * @test id=c1
 * @summary Stacks at virtual and interface calls with many receivers, which go through stubs.
 * @library /lib
 * @build jportal.test.* Dispatch
 * @run driver/timeout=2400 jportal.test.Stacks c1 Dispatch 2000 40000
 */

/*
 * @test id=c2
 * @summary Stacks at virtual and interface calls with many receivers, which go through stubs.
 * @library /lib
 * @build jportal.test.* Dispatch
 * @run driver/timeout=2400 jportal.test.Stacks c2 Dispatch 2000 40000
 */

/*
 * @test id=tiered
 * @summary Stacks at virtual and interface calls with many receivers, which go through stubs.
 * @library /lib
 * @build jportal.test.* Dispatch
 * @run driver/timeout=2400 jportal.test.Stacks tiered Dispatch 2000 40000
 */

// @stacks all: in Dispatch$A.of >= 5, in Dispatch$E.of >= 5, in Dispatch$Fifth.size >= 5
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
/**
 * Calls through the stubs that look up a method in the receiver's tables.
 *
 * <p>Expected: a stub has no frame, the caller is at its invoke, and the callee is the receiver's
 * method. None is broken.
 */
public class Dispatch {
    interface Area {
        int of(int n);
    }

    record A(int side) implements Area {
        public int of(int n) {
            return side + leaf(n);
        }
    }

    record B(int side) implements Area {
        public int of(int n) {
            return side * 2 + leaf(n);
        }
    }

    record C(int side) implements Area {
        public int of(int n) {
            return side - leaf(n);
        }
    }

    record D(int side) implements Area {
        public int of(int n) {
            return side ^ leaf(n);
        }
    }

    record E(int side) implements Area {
        public int of(int n) {
            return n == 0 ? side : leaf(side);
        }
    }

    abstract static class Body {
        abstract int size(int n);
    }

    static class First extends Body {
        int size(int n) {
            return leaf(n);
        }
    }

    static class Second extends Body {
        int size(int n) {
            return n + 1;
        }
    }

    static class Third extends First {
        @Override
        int size(int n) {
            return n - 1;
        }
    }

    static class Fourth extends First {
        @Override
        int size(int n) {
            return super.size(n) + 4;
        }
    }

    static class Fifth extends Second {
        @Override
        int size(int n) {
            return leaf(n + 5);
        }
    }

    static int leaf(int n) {
        return n * 31 + 7;
    }

    static int areas(Area[] all, int n) {
        int sum = 0;
        for (Area one : all) {
            sum += one.of(n);
        }
        return sum;
    }

    static int sizes(Body[] all, int n) {
        int sum = 0;
        for (Body one : all) {
            sum += one.size(n);
        }
        return sum;
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        Area[] areas = {new A(1), new B(2), new C(3), new D(4), new E(5)};
        Body[] bodies = {new First(), new Second(), new Third(), new Fourth(), new Fifth()};
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += areas(areas, i) + sizes(bodies, i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
