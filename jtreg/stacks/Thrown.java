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
 * @summary Stacks while exceptions are thrown through several frames, caught, and thrown again.
 * @library /lib
 * @build jportal.test.* Thrown
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Thrown 1500 8000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Thrown::leaf
 *      -XX:CompileCommand=dontinline,Thrown::far*
 */

/*
 * @test id=c1
 * @summary Stacks while exceptions are thrown through several frames, caught, and thrown again.
 * @library /lib
 * @build jportal.test.* Thrown
 * @run driver/timeout=2400 jportal.test.Stacks c1 Thrown 1500 8000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Thrown::leaf -XX:CompileCommand=dontinline,Thrown::far*
 */

/*
 * @test id=c2
 * @summary Stacks while exceptions are thrown through several frames, caught, and thrown again.
 * @library /lib
 * @build jportal.test.* Thrown
 * @run driver/timeout=2400 jportal.test.Stacks c2 Thrown 1500 8000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Thrown::leaf -XX:CompileCommand=dontinline,Thrown::far*
 */

/*
 * @test id=tiered
 * @summary Stacks while exceptions are thrown through several frames, caught, and thrown again.
 * @library /lib
 * @build jportal.test.* Thrown
 * @run driver/timeout=2400 jportal.test.Stacks tiered Thrown 1500 8000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Thrown::leaf -XX:CompileCommand=dontinline,Thrown::far*
 */

// @stacks all: in Thrown.farFall >= 20, in Thrown.handler >= 20, in Thrown.last >= 20
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
/**
 * Exceptions that leave inlined and other frames: thrown by the program and by the VM, caught in
 * the same method, some frames above, and by a `finally` that throws again.
 *
 * <p>Expected: frames that the exception has left are gone, the handler's frame is at its bci.
 * None is broken.
 */
public class Thrown {
    static final class Failure extends Exception {
        private static final long serialVersionUID = 1;
    }

    private static int sum;

    static int leaf(int n) {
        return n * 31 + 7;
    }

    static int near(int n) throws Failure {
        if ((n & 3) == 0) {
            throw new Failure();
        }
        return leaf(n);
    }

    static int nearCaught(int n) {
        try {
            return near(n) + 1;
        } catch (Failure e) {
            return leaf(n);
        }
    }

    static int farFall(int depth) throws Failure {
        if (depth == 0) {
            throw new Failure();
        }
        return farFall(depth - 1) + leaf(depth);
    }

    static int handler(int n) {
        return leaf(n) ^ 5;
    }

    static void last(int n) {
        sum += leaf(n);
    }

    static int farThroughFinally(int n) throws Failure {
        try {
            return farFall(n & 7);
        } finally {
            last(n);
        }
    }

    static int caught(int n) {
        try {
            return farThroughFinally(n);
        } catch (Failure e) {
            return handler(n);
        }
    }

    static int ofTheVm(int[] array, Object object, int n) {
        try {
            return array[n & 15] + object.hashCode() % n;
        } catch (ArrayIndexOutOfBoundsException | NullPointerException | ArithmeticException e) {
            return handler(n);
        }
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        int[] array = new int[12];
        for (int i = 0; i < rounds; i++) {
            sum += nearCaught(i) + caught(i) + ofTheVm(array, (i & 3) == 0 ? null : "text", i & 31);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
