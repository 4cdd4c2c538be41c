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
 * @summary Stacks at the beginnings and ends of compiled methods: tiny methods, called and not
 *      inlined.
 * @library /lib
 * @build jportal.test.* TinyMethods
 * @run driver/timeout=2400 jportal.test.Stacks interpreter TinyMethods 3000 120000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,TinyMethods::tiny*
 */

/*
 * @test id=c1
 * @summary Stacks at the beginnings and ends of compiled methods: tiny methods, called and not
 *      inlined.
 * @library /lib
 * @build jportal.test.* TinyMethods
 * @run driver/timeout=2400 jportal.test.Stacks c1 TinyMethods 3000 120000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,TinyMethods::tiny*
 */

/*
 * @test id=c2
 * @summary Stacks at the beginnings and ends of compiled methods: tiny methods, called and not
 *      inlined.
 * @library /lib
 * @build jportal.test.* TinyMethods
 * @run driver/timeout=2400 jportal.test.Stacks c2 TinyMethods 3000 120000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,TinyMethods::tiny*
 */

/*
 * @test id=tiered
 * @summary Stacks at the beginnings and ends of compiled methods: tiny methods, called and not
 *      inlined.
 * @library /lib
 * @build jportal.test.* TinyMethods
 * @run driver/timeout=2400 jportal.test.Stacks tiered TinyMethods 3000 120000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,TinyMethods::tiny*
 */

// @stacks all: in TinyMethods.tiny >= 5, in TinyMethods.tinyTwo >= 5
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
/**
 * Methods of which most instructions build and remove the frame.
 *
 * <p>Expected: taken in place, each stack has its callers. Taken at any moment, a frame that is
 * being built or removed may lack, as docs/stacks.md says (`not-entered`, `removed`). None is
 * broken.
 */
public class TinyMethods {
    private int field = 3;

    static int tiny(int n) {
        return n + 1;
    }

    static long tinyTwo(int n, long m) {
        return n ^ m;
    }

    static void tinyNothing() {}

    int tinyField() {
        return field;
    }

    double tinyDouble(double d) {
        return d + field;
    }

    static int tinyCaller(int n) {
        return tiny(n);
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        TinyMethods object = new TinyMethods();
        long sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += tiny(i) + tinyTwo(i, sum) + object.tinyField() + (long) object.tinyDouble(i) + tinyCaller(i);
            tinyNothing();
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
