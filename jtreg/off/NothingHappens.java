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
 * @summary Without -XX:+JPortal there is no file, thread or mapping, whatever the other flags say.
 * @library /lib
 * @build jportal.test.*
 * @run driver NothingHappens
 */

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import jportal.test.Check;
import jportal.test.Vm;

public class NothingHappens {
    public static void main(String[] args) throws Exception {
        String expected = run(Path.of(System.getenv("JPORTAL_ROOT"), "build/jdk-debian"));
        Check.contains(expected, "VM Thread", "the program sees its own VM");
        Check.equal(expected, run(Vm.jdk()), "no flag");
        Check.equal(expected, run(Vm.jdk(), "-XX:-JPortal"), "-XX:-JPortal");
        Check.equal(expected, run(Vm.jdk(), "-XX:-JPortal", "-XX:JPortalFile=off.jportal", "-XX:JPortalSource=none"), "off with a file");
        Check.equal(expected, run(Vm.jdk(), "-XX:JPortalSource=emulated"), "a source without -XX:+JPortal");
    }

    /** Returns the output of Program, which must leave its directory empty. */
    private static String run(Path jdk, String... flags) throws Exception {
        Path directory = Vm.emptyDirectory("off");
        String[] all = Stream.of(flags, Vm.withTestClasses("-XX:+UseSerialGC", "-XX:CICompilerCount=2",
                "-XX:-UseDynamicNumberOfCompilerThreads", "NothingHappens$Program")).flatMap(Stream::of).toArray(String[]::new);
        String out = Vm.java(jdk, directory, all).exits(0).out();
        try (Stream<Path> files = Files.list(directory)) {
            Check.equal(List.of(), files.collect(Collectors.toList()), "files left behind by " + List.of(flags));
        }
        return out;
    }

    /** Prints the names of its threads and of its mappings outside the JDK and /usr. */
    public static class Program {
        public static void main(String[] args) throws Exception {
            try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
                tasks.map(task -> read(task.resolve("comm")).strip()).sorted().forEach(System.out::println);
            }
            String home = System.getProperty("java.home");
            try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
                maps.map(line -> line.split(" +", 6)).filter(f -> f.length == 6).map(f -> f[5])
                    .filter(name -> !name.startsWith(home) && !name.startsWith("/usr/") && !name.contains("hsperfdata"))
                    .distinct().sorted().forEach(System.out::println);
            }
        }

        private static String read(Path path) {
            try {
                return Files.readString(path);
            } catch (java.io.IOException e) {
                return "(gone)";
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
