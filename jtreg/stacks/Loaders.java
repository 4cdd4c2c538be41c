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
 * @summary Stacks through classes of one name, which different class loaders have defined.
 * @library /lib
 * @build jportal.test.* Loaders
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Loaders 1500 20000
 */

/*
 * @test id=c1
 * @summary Stacks through classes of one name, which different class loaders have defined.
 * @library /lib
 * @build jportal.test.* Loaders
 * @run driver/timeout=2400 jportal.test.Stacks c1 Loaders 1500 20000
 */

/*
 * @test id=c2
 * @summary Stacks through classes of one name, which different class loaders have defined.
 * @library /lib
 * @build jportal.test.* Loaders
 * @run driver/timeout=2400 jportal.test.Stacks c2 Loaders 1500 20000
 */

/*
 * @test id=tiered
 * @summary Stacks through classes of one name, which different class loaders have defined.
 * @library /lib
 * @build jportal.test.* Loaders
 * @run driver/timeout=2400 jportal.test.Stacks tiered Loaders 1500 20000
 */

// @stacks all: in Loaders$Worker.work >= 20, in Loaders$Worker.leaf >= 5
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
import java.util.function.IntBinaryOperator;

import jportal.test.OwnLoader;

/**
 * A class that several loaders define from the same bytes. Their methods call each other.
 *
 * <p>Expected: each frame has a method, and its method is that of the right class; classes of one
 * name do not share a method id. None is broken.
 */
public class Loaders {
    public static final class Worker implements IntBinaryOperator {
        private final IntBinaryOperator next;

        public Worker(IntBinaryOperator next) {
            this.next = next;
        }

        static int leaf(int n) {
            return n * 31 + 7;
        }

        int work(int n, int depth) {
            return next == null || depth == 0 ? leaf(n) : next.applyAsInt(n + 1, depth - 1) ^ leaf(n);
        }

        @Override
        public int applyAsInt(int n, int depth) {
            return work(n, depth) + 1;
        }
    }

    public static void main(String[] args) throws ReflectiveOperationException {
        int rounds = Integer.parseInt(args[0]);
        IntBinaryOperator chain = null;
        for (int i = 0; i < 5; i++) {
            ClassLoader loader = new OwnLoader(Loaders.class.getClassLoader(), "Loaders$Worker");
            Class<?> worker = Class.forName("Loaders$Worker", true, loader);
            chain = (IntBinaryOperator) worker.getConstructor(IntBinaryOperator.class).newInstance(chain);
        }
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += chain.applyAsInt(i, i % 6);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
