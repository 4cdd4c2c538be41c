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
 * @summary %p, %t and %% expand in the file name of -XX:JPortalFile, but not in its folder's name.
 *          A new capture replaces an earlier one of the same name.
 * @library /lib
 * @build jportal.test.*
 * @run driver FileNames
 */

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class FileNames {
    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("names");
        record(directory, "a-%p-%t.jportal");
        Path named = only(directory);
        CaptureFile first = CaptureFile.readWhole(named);
        String name = named.getFileName().toString();
        Check.that(name.matches("a-" + first.pid() + "-\\d{4}-\\d{2}-\\d{2}_\\d{2}-\\d{2}-\\d{2}\\.jportal"), "expanded name " + name);
        Files.delete(named);

        Path odd = Files.createDirectory(directory.resolve("%p-%t-%%"));
        record(directory, odd.getFileName() + "/100%%-%x.jportal");
        record(directory, odd.toAbsolutePath() + "/100%%-%x.jportal");
        Files.delete(odd.resolve("100%-%x.jportal.old"));
        Check.equal("100%-%x.jportal", only(odd).getFileName().toString(), "name in a folder with patterns");
        Files.delete(only(odd));
        Files.delete(odd);

        record(directory, "same.jportal");
        int before = CaptureFile.readWhole(directory.resolve("same.jportal")).pid();
        record(directory, "same.jportal");
        Path kept = directory.resolve("same.jportal.old");
        Check.equal(before, CaptureFile.readWhole(kept).pid(), "the capture that is kept");
        Files.delete(kept);
        int after = CaptureFile.readWhole(only(directory)).pid();
        Check.that(before != after, "the second run did not replace the capture of pid " + before);
    }

    private static void record(Path directory, String file) throws Exception {
        Vm.java(directory, "-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalFile=" + file, "-version").exits(0);
    }

    private static Path only(Path directory) throws Exception {
        try (Stream<Path> files = Files.list(directory)) {
            List<Path> all = files.toList();
            Check.equal(1, all.size(), "files: " + all);
            return all.get(0);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
