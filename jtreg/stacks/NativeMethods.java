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
 * @summary Stacks of threads in native methods, called by interpreted code and through compiled
 *      wrappers.
 * @library /lib
 * @build jportal.test.* NativeMethods
 * @run driver/timeout=2400 jportal.test.Stacks interpreter NativeMethods 3000 4000
 */

/*
 * @test id=c1
 * @summary Stacks of threads in native methods, called by interpreted code and through compiled
 *      wrappers.
 * @library /lib
 * @build jportal.test.* NativeMethods
 * @run driver/timeout=2400 jportal.test.Stacks c1 NativeMethods 3000 4000
 */

/*
 * @test id=c2
 * @summary Stacks of threads in native methods, called by interpreted code and through compiled
 *      wrappers.
 * @library /lib
 * @build jportal.test.* NativeMethods
 * @run driver/timeout=2400 jportal.test.Stacks c2 NativeMethods 3000 4000
 */

/*
 * @test id=tiered
 * @summary Stacks of threads in native methods, called by interpreted code and through compiled
 *      wrappers.
 * @library /lib
 * @build jportal.test.* NativeMethods
 * @run driver/timeout=2400 jportal.test.Stacks tiered NativeMethods 3000 4000
 */

// @stacks all: in NativeMethods.compressed >= 20, in NativeMethods.names >= 20, native frames >= 20
import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/**
 * Native methods of the JDK: short ones, and ones in which the program spends much of its time.
 *
 * <p>Expected: the native method is the innermost frame, is shown as native, and its caller is at
 * the invoke. None is broken.
 */
public class NativeMethods {
    private static final Object LOCK = new Object();

    static int compressed(byte[] data, byte[] to, Deflater deflater) {
        deflater.reset();
        deflater.setInput(data);
        deflater.finish();
        return deflater.deflate(to);
    }

    static int restored(byte[] from, int length, byte[] to, Inflater inflater) throws DataFormatException {
        inflater.reset();
        inflater.setInput(from, 0, length);
        return inflater.inflate(to);
    }

    static int names(int n) {
        String name = ("name " + (n & 15)).intern();
        return name.length() + (Thread.holdsLock(LOCK) ? 1 : 0) + Runtime.version().feature();
    }

    static int yielding(int n) {
        if ((n & 63) == 0) {
            Thread.yield();
        }
        return Runtime.getRuntime().availableProcessors() > 0 ? n : 0;
    }

    public static void main(String[] args) throws DataFormatException {
        int rounds = Integer.parseInt(args[0]);
        byte[] data = new byte[400];
        byte[] packed = new byte[600];
        byte[] again = new byte[400];
        Deflater deflater = new Deflater();
        Inflater inflater = new Inflater();
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            data[i % data.length] += (byte) i;
            int length = compressed(data, packed, deflater);
            sum += length + restored(packed, length, again, inflater) + again[i % again.length] + names(i) + yielding(i);
        }
        deflater.end();
        inflater.end();
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
