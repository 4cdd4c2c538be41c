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
 * @summary Stacks below AccessController.doPrivileged, whose inner method is hidden.
 * @library /lib
 * @build jportal.test.* Privileged
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Privileged 3000 20000
 */

/*
 * @test id=c1
 * @summary Stacks below AccessController.doPrivileged, whose inner method is hidden.
 * @library /lib
 * @build jportal.test.* Privileged
 * @run driver/timeout=2400 jportal.test.Stacks c1 Privileged 3000 20000
 */

/*
 * @test id=c2
 * @summary Stacks below AccessController.doPrivileged, whose inner method is hidden.
 * @library /lib
 * @build jportal.test.* Privileged
 * @run driver/timeout=2400 jportal.test.Stacks c2 Privileged 3000 20000
 */

/*
 * @test id=tiered
 * @summary Stacks below AccessController.doPrivileged, whose inner method is hidden.
 * @library /lib
 * @build jportal.test.* Privileged
 * @run driver/timeout=2400 jportal.test.Stacks tiered Privileged 3000 20000
 */

// @stacks all: in Privileged.leaf >= 20, in java/security/AccessController.executePrivileged >= 20
/**
 * Privileged actions. `AccessController.executePrivileged` has the annotation `@Hidden`.
 *
 * <p>Expected: a Throwable leaves out the annotated method, and no other one. None is broken.
 */
public class Privileged {
    static int leaf(int n) {
        return n * 31 + 7;
    }

    @SuppressWarnings("removal")
    static int privileged(int n) {
        java.security.PrivilegedAction<Integer> action = () -> leaf(n);
        return java.security.AccessController.doPrivileged(action, java.security.AccessController.getContext());
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += privileged(i);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
