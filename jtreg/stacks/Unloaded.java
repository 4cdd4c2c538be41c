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
 * @summary Stacks while classes are unloaded, whose code, methods and ids go away.
 * @library /lib
 * @build jportal.test.* Unloaded
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Unloaded 16 120 -XX:+UseSerialGC
 */

/*
 * @test id=c1
 * @summary Stacks while classes are unloaded, whose code, methods and ids go away.
 * @library /lib
 * @build jportal.test.* Unloaded
 * @run driver/timeout=2400 jportal.test.Stacks c1 Unloaded 16 120 -XX:+UseSerialGC
 */

/*
 * @test id=c2
 * @summary Stacks while classes are unloaded, whose code, methods and ids go away.
 * @library /lib
 * @build jportal.test.* Unloaded
 * @run driver/timeout=2400 jportal.test.Stacks c2 Unloaded 16 120 -XX:+UseSerialGC
 */

/*
 * @test id=tiered
 * @summary Stacks while classes are unloaded, whose code, methods and ids go away.
 * @library /lib
 * @build jportal.test.* Unloaded
 * @run driver/timeout=2400 jportal.test.Stacks tiered Unloaded 16 120 -XX:+UseSerialGC
 */

// @stacks all: in Unloaded$Worker.work >= 20, in Unloaded.use >= 20
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
import java.util.function.IntUnaryOperator;

import jportal.test.OwnLoader;

/**
 * Classes that are defined, used until they are compiled, dropped and unloaded, again and again.
 *
 * <p>Expected: what an id, an address of code or a class pointer stood for before does not come
 * back in later stacks. None is broken.
 */
public class Unloaded {
    private static final int CALLS = 700;

    public static final class Worker implements IntUnaryOperator {
        static int leaf(int n) {
            return n * 31 + 7;
        }

        int work(int n) {
            return leaf(n) ^ leaf(n + 1);
        }

        @Override
        public int applyAsInt(int n) {
            return work(n) + 1;
        }
    }

    static int use(IntUnaryOperator worker) {
        int sum = 0;
        for (int i = 0; i < CALLS; i++) {
            sum += worker.applyAsInt(i);
        }
        return sum;
    }

    public static void main(String[] args) throws ReflectiveOperationException {
        int rounds = Integer.parseInt(args[0]);
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            ClassLoader loader = new OwnLoader(Unloaded.class.getClassLoader(), "Unloaded$Worker");
            Class<?> worker = Class.forName("Unloaded$Worker", true, loader);
            sum += use((IntUnaryOperator) worker.getConstructor().newInstance());
            if (i % 4 == 3) {
                worker = null;
                System.gc();
            }
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
