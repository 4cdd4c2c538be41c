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
 * @summary Stacks through lambdas, method references and method handles, with their hidden
 *      frames.
 * @library /lib
 * @build jportal.test.* Lambdas
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Lambdas 1500 20000
 */

/*
 * @test id=c1
 * @summary Stacks through lambdas, method references and method handles, with their hidden
 *      frames.
 * @library /lib
 * @build jportal.test.* Lambdas
 * @run driver/timeout=2400 jportal.test.Stacks c1 Lambdas 1500 20000
 */

/*
 * @test id=c2
 * @summary Stacks through lambdas, method references and method handles, with their hidden
 *      frames.
 * @library /lib
 * @build jportal.test.* Lambdas
 * @run driver/timeout=2400 jportal.test.Stacks c2 Lambdas 1500 20000
 */

/*
 * @test id=tiered
 * @summary Stacks through lambdas, method references and method handles, with their hidden
 *      frames.
 * @library /lib
 * @build jportal.test.* Lambdas
 * @run driver/timeout=2400 jportal.test.Stacks tiered Lambdas 1500 20000
 */

/*
 * @test id=place
 * @summary Stacks through lambdas, method references and method handles, with their hidden
 *      frames.
 * @library /lib
 * @build jportal.test.* Lambdas
 * @run driver/timeout=2400 jportal.test.Stacks tiered Lambdas 1500 0
 */

// @stacks all: in Lambdas.leaf >= 20, in Lambdas.handles >= 20
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;

/**
 * Calls through generated code: hidden classes of lambdas, lambda forms of method handles, and
 * string concatenation.
 *
 * <p>Expected: GetStackTrace, AsyncGetCallTrace and StackWalker show the hidden frames, in their
 * places; a Throwable shows none of them. None is broken.
 */
public class Lambdas {
    static int leaf(int n) {
        return n * 31 + 7;
    }

    static boolean isOdd(int n) {
        return (n & 1) == 1;
    }

    static int composed(IntUnaryOperator[] all, int n) {
        int sum = 0;
        for (IntUnaryOperator one : all) {
            sum += one.applyAsInt(n);
        }
        return sum;
    }

    static int handles(MethodHandle[] all, int n) throws Throwable {
        int sum = 0;
        for (MethodHandle one : all) {
            sum += (int) one.invokeExact(n);
        }
        return sum;
    }

    static int streamed(int n) {
        return IntStream.range(0, n & 7).map(Lambdas::leaf).filter(Lambdas::isOdd).sum();
    }

    static int concatenated(int n) {
        return ("round " + n + ": " + leaf(n)).length();
    }

    public static void main(String[] args) throws Throwable {
        int rounds = Integer.parseInt(args[0]);
        int base = rounds & 3;
        IntUnaryOperator captured = n -> leaf(n) + base;
        IntUnaryOperator[] operators = {Lambdas::leaf, captured, captured.andThen(n -> leaf(n) ^ 5), n -> n + 1};
        MethodHandles.Lookup lookup = MethodHandles.lookup();
        MethodType type = MethodType.methodType(int.class, int.class);
        MethodHandle leaf = lookup.findStatic(Lambdas.class, "leaf", type);
        MethodHandle isOdd = lookup.findStatic(Lambdas.class, "isOdd", type.changeReturnType(boolean.class));
        MethodHandle[] handles = {
            leaf,
            MethodHandles.filterReturnValue(leaf, leaf),
            MethodHandles.guardWithTest(isOdd, leaf, MethodHandles.identity(int.class)),
        };
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += composed(operators, i) + handles(handles, i);
            if ((i & 7) == 0) {
                sum += streamed(i) + concatenated(i);
            }
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
