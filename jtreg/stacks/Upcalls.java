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
 * @summary Stacks of Java code that native code calls: by reflection, in constructors and
 *      initialisers.
 * @library /lib
 * @build jportal.test.* Upcalls
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Upcalls 1000 6000
 *      -Dsun.reflect.inflationThreshold=1000000000
 */

/*
 * @test id=c1
 * @summary Stacks of Java code that native code calls: by reflection, in constructors and
 *      initialisers.
 * @library /lib
 * @build jportal.test.* Upcalls
 * @run driver/timeout=2400 jportal.test.Stacks c1 Upcalls 1000 6000
 *      -Dsun.reflect.inflationThreshold=1000000000
 */

/*
 * @test id=c2
 * @summary Stacks of Java code that native code calls: by reflection, in constructors and
 *      initialisers.
 * @library /lib
 * @build jportal.test.* Upcalls
 * @run driver/timeout=2400 jportal.test.Stacks c2 Upcalls 1000 6000
 *      -Dsun.reflect.inflationThreshold=1000000000
 */

/*
 * @test id=tiered
 * @summary Stacks of Java code that native code calls: by reflection, in constructors and
 *      initialisers.
 * @library /lib
 * @build jportal.test.* Upcalls
 * @run driver/timeout=2400 jportal.test.Stacks tiered Upcalls 1000 6000
 *      -Dsun.reflect.inflationThreshold=1000000000
 */

// @stacks all: in jdk/internal/reflect/NativeMethodAccessorImpl.invoke0 >= 20
// @stacks all: in jdk/internal/reflect/NativeConstructorAccessorImpl.newInstance0 >= 5
// @stacks all: in Upcalls.compared >= 20, in Upcalls$Set.<clinit> >= 1, native frames >= 20
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.Arrays;

/**
 * Java code below native methods. Reflection stays in native code (the threshold after which it
 * generates bytecode is out of reach).
 *
 * <p>Expected: the frames of the native method and of all its callers follow those of the Java
 * code that it calls. None is broken.
 */
public class Upcalls {
    private static Method compare;
    private final int value;

    public Upcalls(Integer value) {
        this.value = leaf(value);
    }

    static int leaf(int n) {
        return n * 31 + 7;
    }

    /** Initialised by the VM, at the first use. */
    static final class Set {
        static final int SIZE = start(4);

        static int start(int n) {
            int sum = 0;
            for (int i = 0; i < 200 * n; i++) {
                sum += leaf(i) & 1;
            }
            return sum;
        }
    }

    public static Integer compared(Integer a, Integer b) {
        return Integer.compare(leaf(a) & 0xff, leaf(b) & 0xff);
    }

    static int byReflection(Integer a, Integer b) {
        try {
            return (Integer) compare.invoke(null, a, b);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    public static void main(String[] args) throws ReflectiveOperationException {
        int rounds = Integer.parseInt(args[0]);
        compare = Upcalls.class.getMethod("compared", Integer.class, Integer.class);
        Constructor<Upcalls> constructor = Upcalls.class.getConstructor(Integer.class);
        int sum = Set.SIZE;
        for (int i = 0; i < rounds; i++) {
            Integer[] numbers = {i, i ^ 5, i * 7, i - 3};
            Arrays.sort(numbers, Upcalls::byReflection);
            sum += numbers[0] + constructor.newInstance(i).value;
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
