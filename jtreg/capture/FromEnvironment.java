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
 * @summary -XX:+JPortal in JAVA_TOOL_OPTIONS, which child processes inherit: a VM that cannot
 *          record warns on standard error and runs; one that can, records.
 * @library /lib
 * @build jportal.test.*
 * @run driver FromEnvironment
 */

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class FromEnvironment {
    public static void main(String[] args) throws Exception {
        goesWithout("JAVA_TOOL_OPTIONS", "-XX:+JPortal -XX:JPortalSource=emulated", "jportal run");
        goesWithout("_JAVA_OPTIONS", "-XX:+JPortal -XX:JPortalSource=emulated", "jportal run");
        goesWithout("JAVA_TOOL_OPTIONS", "-XX:+JPortal -XX:JPortalSource=none -XX:JPortalFile=/nowhere/a.jportal", "/nowhere/a.jportal");

        goesWithout("JDK_JAVA_OPTIONS", "-XX:+JPortal -XX:JPortalSource=emulated", "jportal run");
        // Flags that do not fit together.
        goesWithout("JAVA_TOOL_OPTIONS", "-XX:+JPortal -XX:JPortalSource=none -XX:JPortalTrigger=a.B.c,1", "JPortalSnapshot");
        goesWithout("JAVA_TOOL_OPTIONS", "-XX:+JPortal -XX:JPortalSource=none -XX:JPortalPrecision=exact -XX:+UseShenandoahGC",
                "UseShenandoahGC");
        goesWithout("JAVA_TOOL_OPTIONS", "-XX:+JPortal -XX:JPortalSource=none -XX:JPortalFile=" + "f".repeat(5000), "too long");
        compilesAsWithoutJPortal();

        Path directory = Vm.emptyDirectory("records");
        Vm.Result result = run(directory, "JAVA_TOOL_OPTIONS", "-XX:+JPortal -XX:JPortalSource=none -XX:JPortalFile=%p.jportal").exits(0);
        Check.equal("parent\nchild\n", result.out(), "output of the program and its child");
        try (var files = Files.list(directory)) {
            List<Path> captures = files.toList();
            Check.equal(2, captures.size(), "captures of parent and child: " + captures);
            for (Path capture : captures) {
                CaptureFile.readWhole(capture);
            }
        }
        // On the command line it is an error.
        Vm.java(directory, Vm.withTestClasses("-XX:+JPortal", "-XX:JPortalSource=emulated", "FromEnvironment$Program")).exits(1);
        // A wrong value is an error wherever it stands.
        run(directory, "JAVA_TOOL_OPTIONS", "-XX:+JPortal -XX:JPortalSource=hardware").exits(1);
    }

    private static void goesWithout(String variable, String flags, String remedy) throws Exception {
        Path directory = Vm.emptyDirectory("without");
        Vm.Result result = run(directory, variable, flags).exits(0);
        Check.equal("parent\nchild\n", result.out(), "output of the program and its child");
        Check.contains(result.err(), "does not record", "warning");
        Check.contains(result.err(), remedy, "warning");
        try (var files = Files.list(directory)) {
            Check.equal(List.of(), files.toList(), "files that are left");
        }
    }

    /** Precision "exact" changes compiled code, so code tells whether the whole feature is off. */
    private static void compilesAsWithoutJPortal() throws Exception {
        String exact = "-XX:+JPortal -XX:JPortalPrecision=exact -XX:JPortalSource=";
        String plain = sizeOfCode("-XX:-JPortal");
        Check.that(!plain.equals(sizeOfCode(exact + "none")), "the size of code that exact changes: " + plain);
        Check.equal(plain, sizeOfCode(exact + "emulated"), "size of the code without a source of trace");
    }

    private static String sizeOfCode(String flags) throws Exception {
        Path directory = Vm.emptyDirectory("code");
        run(directory, "JAVA_TOOL_OPTIONS", flags + " -Xcomp -Xbatch -XX:-TieredCompilation"
                + " -XX:CompileCommand=quiet -XX:CompileCommand=compileonly,FromEnvironment$Program::choose"
                + " -XX:+UnlockDiagnosticVMOptions -XX:+LogCompilation -XX:LogFile=%p.xml").exits(0);
        Pattern size = Pattern.compile("<nmethod .* size='(\\d+)'.* method='FromEnvironment.Program choose");
        Set<String> sizes = new TreeSet<>();
        try (var files = Files.newDirectoryStream(directory, "*.xml")) {
            for (Path log : files) {
                size.matcher(Files.readString(log)).results().forEach(m -> sizes.add(m.group(1)));
            }
        }
        Check.equal(1, sizes.size(), "sizes with " + flags + ": " + sizes);
        return sizes.iterator().next();
    }

    private static Vm.Result run(Path directory, String variable, String flags) throws Exception {
        List<String> command = new ArrayList<>(List.of("env", variable + "=" + flags, Vm.jdk().resolve("bin/java").toString()));
        command.addAll(List.of(Vm.withTestClasses("FromEnvironment$Program", "parent")));
        return Vm.run(directory, command);
    }

    public static class Program {
        /** C2 removes the tests, unless it is to be exact. */
        static int choose(int a, int b) {
            return (a > b ? 7 : 7) + (a > 1 ? 7 : 7) + (a > 2 ? 7 : 7) + (a > 3 ? 7 : 7)
                    + (b > 1 ? 7 : 7) + (b > 2 ? 7 : 7) + (b > 3 ? 7 : 7) + (b > 4 ? 7 : 7);
        }

        public static void main(String[] args) throws Exception {
            choose(args.length, 2);
            System.out.println(args[0]);
            if (args[0].equals("parent")) {
                String java = System.getProperty("java.home") + "/bin/java";
                Process child = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"),
                        "FromEnvironment$Program", "child").inheritIO().start();
                System.exit(child.waitFor());
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
