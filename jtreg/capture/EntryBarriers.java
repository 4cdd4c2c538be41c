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
 * @test
 * @summary A concurrent collector disarms the entry barrier of each nmethod in each cycle. That
 *          makes no records: the number of patches does not grow with that of collections.
 * @library /lib
 * @build jportal.test.*
 * @run driver EntryBarriers
 */

import java.nio.file.Path;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class EntryBarriers {
    private static final int CODE_PATCHED = 26;
    /** Other patches, such as calls that are resolved, differ from run to run. */
    private static final long TOLERANCE = 3000;

    public static void main(String[] args) throws Exception {
        long few = patches(2);
        long many = patches(102);
        Check.that(many - few < TOLERANCE, few + " patches in 2 collections, " + many + " in 102");
    }

    private static long patches(int collections) throws Exception {
        Path directory = Vm.emptyDirectory("barriers");
        Path file = directory.resolve("z.jportal");
        Vm.java(directory, Vm.withTestClasses("-XX:+UseZGC", "-Xmx256m", "-XX:+JPortal", "-XX:JPortalSource=none",
                "-XX:JPortalFile=" + file, "-XX:TieredStopAtLevel=1", "-Xcomp", "EntryBarriers$Program",
                Integer.toString(collections))).exits(0);
        return CaptureFile.readWhole(file).frames().stream().filter(f -> f.kind() == CODE_PATCHED).count();
    }

    public static class Program {
        public static void main(String[] args) {
            for (int n = Integer.parseInt(args[0]); n > 0; n--) {
                System.gc();
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
