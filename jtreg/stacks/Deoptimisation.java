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
 * @summary Stacks while compiled code is given up: at traps, and below frames that are invalid
 *      already.
 * @library /lib
 * @build jportal.test.* Deoptimisation
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Deoptimisation 4 30
 */

/*
 * @test id=c1
 * @summary Stacks while compiled code is given up: at traps, and below frames that are invalid
 *      already.
 * @library /lib
 * @build jportal.test.* Deoptimisation
 * @run driver/timeout=2400 jportal.test.Stacks c1 Deoptimisation 4 30
 */

/*
 * @test id=c2
 * @summary Stacks while compiled code is given up: at traps, and below frames that are invalid
 *      already.
 * @library /lib
 * @build jportal.test.* Deoptimisation
 * @run driver/timeout=2400 jportal.test.Stacks c2 Deoptimisation 4 30
 */

/*
 * @test id=tiered
 * @summary Stacks while compiled code is given up: at traps, and below frames that are invalid
 *      already.
 * @library /lib
 * @build jportal.test.* Deoptimisation
 * @run driver/timeout=2400 jportal.test.Stacks tiered Deoptimisation 4 30
 */

// @stacks all: in Deoptimisation$Generation.inner >= 20
// @stacks all: in Deoptimisation$GenerationShape.area >= 20
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
import java.util.function.IntUnaryOperator;

import jportal.test.OwnLoader;

/**
 * Compiled code that is given up, anew in each round, because each round has new classes. A branch
 * that was never taken is (a trap, in three inlined frames). A class is loaded that overrides what
 * is inlined, while compiled frames that rely on it are on the stack.
 *
 * <p>Expected: before, during and after each deoptimisation the stack has the same frames; those
 * of an invalid frame are at its call. None is broken.
 */
public class Deoptimisation {
    private static final int CALLS = 1200;

    static class GenerationShape {
        int area(int n) {
            return n + Generation.leaf(n);
        }
    }

    /** Not loaded before it is needed. */
    static final class GenerationLate extends GenerationShape {
        @Override
        int area(int n) {
            return n * n + Generation.leaf(n);
        }
    }

    public static final class Generation implements IntUnaryOperator {
        private GenerationShape shape = new GenerationShape();

        static int leaf(int n) {
            return n * 31 + 7;
        }

        static int inner(int n, int rare) {
            return n == rare ? leaf(leaf(n)) : leaf(n) ^ 5;
        }

        static int middle(int n, int rare) {
            return inner(n, rare) + 1;
        }

        static int outer(int n, int rare) {
            return middle(n, rare) - 3;
        }

        int grown(int n, int late) {
            return shape.area(n) + (n == late ? replace(n) : 1) + shape.area(n + 1);
        }

        int replace(int n) {
            shape = new GenerationLate();
            return leaf(n);
        }

        @Override
        public int applyAsInt(int rounds) {
            int sum = 0;
            for (int i = 0; i < rounds; i++) {
                sum += outer(i, rounds - 100) + grown(i, rounds - 200);
            }
            return sum;
        }
    }

    public static void main(String[] args) throws ReflectiveOperationException {
        int rounds = Integer.parseInt(args[0]);
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            ClassLoader loader = new OwnLoader(Deoptimisation.class.getClassLoader(), "Deoptimisation$Generation");
            Class<?> generation = Class.forName("Deoptimisation$Generation", true, loader);
            sum += ((IntUnaryOperator) generation.getConstructor().newInstance()).applyAsInt(CALLS);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
