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
 * @summary A VM that records can write a static and a dynamic CDS archive with the classes of the
 *          program, and can use any: one that a recording VM wrote, and one that another VM wrote.
 *          A VM that does not record can use those of a VM that did.
 * @library /lib
 * @build jportal.test.*
 * @run driver Archives
 */

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class Archives {
    private static int captures;

    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("archives");
        Path jar = directory.resolve("program.jar");
        Vm.run(directory, List.of(Vm.jdk().resolve("bin/jar").toString(), "--create", "--file", jar.toString(),
                "-C", System.getProperty("test.classes"), "Archives$Program.class")).exits(0);
        for (boolean records : new boolean[] {true, false}) {
            Path dynamic = directory.resolve("dynamic" + records + ".jsa");
            run(directory, records, "-XX:ArchiveClassesAtExit=" + dynamic, "-cp", jar.toString(), "Archives$Program").exits(0);
            uses(directory, dynamic, jar);

            Path classes = directory.resolve("classes" + records);
            run(directory, records, "-XX:DumpLoadedClassList=" + classes, "-cp", jar.toString(), "Archives$Program").exits(0);
            Path fixed = directory.resolve("static" + records + ".jsa");
            run(directory, records, "-Xshare:dump", "-XX:SharedClassListFile=" + classes, "-XX:SharedArchiveFile=" + fixed,
                    "-cp", jar.toString()).exits(0);
            uses(directory, fixed, jar);
        }
    }

    private static void uses(Path directory, Path archive, Path jar) throws Exception {
        Check.that(Files.size(archive) > 0, "an empty archive: " + archive);
        for (boolean records : new boolean[] {true, false}) {
            Vm.Result result = run(directory, records, "-Xshare:on", "-XX:SharedArchiveFile=" + archive,
                    "-Xlog:class+load", "-cp", jar.toString(), "Archives$Program").exits(0);
            String loaded = result.out().lines().filter(line -> line.contains("Archives$Program ")).findFirst().orElse("");
            Check.contains(loaded, "shared objects file", "where " + archive + " gave the class from: " + result.out());
            Check.contains(result.out(), "sum 499500", "output");
        }
    }

    /** Runs a VM. Its capture, if it records, must be whole. */
    private static Vm.Result run(Path directory, boolean records, String... arguments) throws Exception {
        Path capture = directory.resolve(captures++ + ".jportal");
        List<String> command = new ArrayList<>();
        if (records) {
            command.addAll(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalFile=" + capture));
        }
        command.addAll(List.of(arguments));
        Vm.Result result = Vm.java(directory, command.toArray(String[]::new));
        Check.equal(records, Files.exists(capture), "a capture");
        if (records) {
            CaptureFile.readWhole(capture);
        }
        return result;
    }

    public static class Program {
        public static void main(String[] args) {
            int sum = 0;
            for (int i = 0; i < 1000; i++) {
                sum += same(i);
            }
            System.out.println("sum " + sum);
        }

        static int same(int i) {
            return i;
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
