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
 * @summary A class that is unloaded makes one record, which stands for its methods; their entry
 *          stubs are used again, and later calls run the right methods.
 * @library /lib
 * @build jportal.test.*
 * @run driver/timeout=300 Unloading
 */

import java.io.InputStream;
import java.nio.file.Path;
import java.util.List;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class Unloading {
    private static final int CLASS_UNLOADED = 9, METHOD_DEFINED = 10, METHOD_FREED = 12;
    private static final int ROUNDS = 4, LOADERS = 250;

    public static void main(String[] args) throws Exception {
        for (String collector : List.of("-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseG1GC", "-XX:+UseZGC")) {
            Path directory = Vm.emptyDirectory("unloading");
            Path file = directory.resolve("unloading.jportal");
            Vm.Result result = Vm.java(directory, Vm.withTestClasses(collector, "-Xmx256m", "-XX:+JPortal",
                    "-XX:JPortalSource=none", "-XX:JPortalFile=" + file, "Unloading$Program")).exits(0);
            Check.contains(result.out(), "sum " + (long) ROUNDS * LOADERS * 78, collector + ": result of the program");
            long[] counts = new long[64];
            CaptureFile.readWhole(file).frames().forEach(f -> counts[f.kind()]++);
            String seen = collector + ": " + counts[CLASS_UNLOADED] + " classes unloaded, " + counts[METHOD_FREED]
                    + " methods freed, " + counts[METHOD_DEFINED] + " defined";
            System.out.println(seen);
            Check.that(counts[CLASS_UNLOADED] >= (ROUNDS - 1) * LOADERS, seen);
            Check.that(counts[METHOD_DEFINED] > ROUNDS * LOADERS * 12, seen);
            // Only redefinition and failed linking free the methods of classes that stay.
            Check.that(counts[METHOD_FREED] < 10, seen);
        }
    }

    public static class Program {
        public static void main(String[] args) throws Exception {
            byte[] code;
            try (InputStream in = Program.class.getResourceAsStream("Unloading$Payload.class")) {
                code = in.readAllBytes();
            }
            long sum = 0;
            // More methods than free stubs rest unused.
            for (int round = 0; round < ROUNDS; round++) {
                for (int i = 0; i < LOADERS; i++) {
                    sum += (int) new Own(code).type.getMethod("sum").invoke(null);
                }
                System.gc();
            }
            System.out.println("sum " + sum);
        }
    }

    private static final class Own extends ClassLoader {
        final Class<?> type;

        Own(byte[] code) {
            super(null);
            type = defineClass("Unloading$Payload", code, 0, code.length);
        }
    }

    public static class Payload {
        public static int sum() {
            return a() + b() + c() + d() + e() + f() + g() + h() + i() + j() + k() + l();
        }

        static int a() { return 1; }
        static int b() { return 2; }
        static int c() { return 3; }
        static int d() { return 4; }
        static int e() { return 5; }
        static int f() { return 6; }
        static int g() { return 7; }
        static int h() { return 8; }
        static int i() { return 9; }
        static int j() { return 10; }
        static int k() { return 11; }
        static int l() { return 12; }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
