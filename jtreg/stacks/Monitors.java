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
 * @summary Stacks in synchronized methods and blocks: free, entered again, and held by another
 *      thread.
 * @library /lib
 * @build jportal.test.* Monitors
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Monitors 1500 10000
 *      -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Monitors::leaf
 */

/*
 * @test id=c1
 * @summary Stacks in synchronized methods and blocks: free, entered again, and held by another
 *      thread.
 * @library /lib
 * @build jportal.test.* Monitors
 * @run driver/timeout=2400 jportal.test.Stacks c1 Monitors 1500 10000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Monitors::leaf
 */

/*
 * @test id=c2
 * @summary Stacks in synchronized methods and blocks: free, entered again, and held by another
 *      thread.
 * @library /lib
 * @build jportal.test.* Monitors
 * @run driver/timeout=2400 jportal.test.Stacks c2 Monitors 1500 10000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Monitors::leaf
 */

/*
 * @test id=tiered
 * @summary Stacks in synchronized methods and blocks: free, entered again, and held by another
 *      thread.
 * @library /lib
 * @build jportal.test.* Monitors
 * @run driver/timeout=2400 jportal.test.Stacks tiered Monitors 1500 10000 -XX:CompileCommand=quiet
 *      -XX:CompileCommand=dontinline,Monitors::leaf
 */

// @stacks all: in Monitors.locked >= 20, in Monitors.both >= 20, in Monitors.left >= 5
// @stacks c1: c1 frames >= 20
// @stacks c2,tiered: c2 frames >= 20
/**
 * Monitors, entered by methods and by blocks, of two threads; and left by an exception.
 *
 * <p>Expected: a thread that waits for a monitor is at the `monitorenter`, or, of a synchronized
 * method, at its first bytecode. None is broken.
 */
public class Monitors {
    private static final Object LOCK = new Object();
    private static int total;
    private int count;

    static int leaf(int n) {
        return n * 31 + 7;
    }

    synchronized int locked(int n) {
        count += leaf(n) & 1;
        return again(n);
    }

    synchronized int again(int n) {
        return leaf(n) ^ count;
    }

    static synchronized int ofClass(int n) {
        return leaf(n);
    }

    static void both(int n) {
        synchronized (LOCK) {
            total += leaf(n);
            synchronized (Monitors.class) {
                total += ofClass(n);
            }
        }
    }

    synchronized int left(int n) {
        if ((n & 3) == 0) {
            throw new IllegalStateException();
        }
        return leaf(n);
    }

    static int run(int rounds) {
        Monitors own = new Monitors();
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            both(i);
            sum += own.locked(i);
            try {
                sum += own.left(i);
            } catch (IllegalStateException e) {
                sum += leaf(i);
            }
        }
        return sum;
    }

    public static void main(String[] args) throws InterruptedException {
        int rounds = Integer.parseInt(args[0]);
        int[] sum = new int[1];
        Thread other = new Thread(() -> sum[0] = run(rounds));
        other.start();
        int own = run(rounds);
        other.join();
        System.out.println(own + sum[0] + total);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
