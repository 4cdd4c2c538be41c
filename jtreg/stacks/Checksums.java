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
 * @summary Stacks in native methods for which the interpreter has entries of their own.
 * @library /lib
 * @build jportal.test.* Checksums
 * @run driver/timeout=2400 jportal.test.Stacks interpreter Checksums 1000 20000
 */

/*
 * @test id=c1
 * @summary Stacks in native methods for which the interpreter has entries of their own.
 * @library /lib
 * @build jportal.test.* Checksums
 * @run driver/timeout=2400 jportal.test.Stacks c1 Checksums 1000 20000
 */

/*
 * @test id=c2
 * @summary Stacks in native methods for which the interpreter has entries of their own.
 * @library /lib
 * @build jportal.test.* Checksums
 * @run driver/timeout=2400 jportal.test.Stacks c2 Checksums 1000 20000
 */

/*
 * @test id=tiered
 * @summary Stacks in native methods for which the interpreter has entries of their own.
 * @library /lib
 * @build jportal.test.* Checksums
 * @run driver/timeout=2400 jportal.test.Stacks tiered Checksums 1000 20000
 */

// @stacks all: in Checksums.summed >= 5
import java.util.zip.CRC32;

/**
 * Native methods that are intrinsic to the interpreter: where the processor lacks what the
 * intrinsic needs, their entry is that of any native method (`java_util_zip_CRC32_updateBytes`).
 *
 * <p>Expected: the method is the innermost frame, and native. None is broken.
 */
public class Checksums {
    static int summed(CRC32 crc, byte[] data) {
        crc.update(data, 0, data.length);
        return (int) crc.getValue();
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        CRC32 crc = new CRC32();
        byte[] data = new byte[200];
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += summed(crc, data);
        }
        System.out.println(sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
