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
 * @summary If the capture cannot be created, the VM stops at start with the path and the reason.
 * @library /lib
 * @build jportal.test.*
 * @run driver UnwritableFile
 */

import java.nio.file.Files;
import java.nio.file.Path;

import jportal.test.Check;
import jportal.test.Vm;

public class UnwritableFile {
    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("unwritable");
        Path aDirectory = Files.createDirectory(directory.resolve("taken.jportal"));
        Path aFile = Files.createFile(directory.resolve("plain"));
        refused(directory, directory.resolve("missing/x.jportal"), "No such file or directory");
        refused(directory, aDirectory, "directory");
        refused(directory, aFile.resolve("x.jportal"), "Not a directory");
        refused(directory, Path.of("/proc/x.jportal"), "/proc/x.jportal");
    }

    private static void refused(Path directory, Path file, String reason) throws Exception {
        Vm.Result result = Vm.java(directory, Vm.withTestClasses("-XX:+JPortal", "-XX:JPortalSource=none",
                "-XX:JPortalFile=" + file, "UnwritableFile$Program")).exits(1);
        Check.lacks(result.out(), "the program ran", "capture " + file);
        Check.contains(result.all(), file.toString(), "path in the message");
        Check.contains(result.all(), reason, "reason in the message");
        Check.lacks(result.all(), "# A fatal error", "capture " + file);
    }

    public static class Program {
        public static void main(String[] args) {
            System.out.println("the program ran");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
