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
 * @summary Another process deletes or truncates the files of a recording: it ends with a reason,
 *          which the log names once, and the program continues.
 * @library /lib
 * @build jportal.test.*
 * @run driver FilesRemoved
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import jportal.test.Check;
import jportal.test.Vm;

public class FilesRemoved {
    private static final int STATUS = 7;

    private interface Attack {
        void on(Path capture, long pid) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        attack("the file was deleted while it was written", (capture, pid) -> Files.delete(capture));
        attack("the file was cut to 0 of", (capture, pid) -> truncate(capture));
        attack("has truncated the ring file", (capture, pid) -> truncate(ring(pid)));
    }

    private static void truncate(Path file) throws Exception {
        FileChannel.open(file, StandardOpenOption.WRITE).truncate(0).close();
    }

    /** The ring file of a VM: its name begins with the process id. */
    private static Path ring(long pid) throws Exception {
        Object user = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        try (Stream<Path> files = Files.list(Path.of("/dev/shm/jportal-" + user))) {
            List<Path> own = files.filter(f -> f.getFileName().toString().startsWith("ring-" + pid + "-")).collect(Collectors.toList());
            Check.equal(1, own.size(), "ring files of the VM");
            return own.get(0);
        }
    }

    private static void attack(String reason, Attack attack) throws Exception {
        Path directory = Vm.emptyDirectory("removed");
        Path capture = directory.resolve("a.jportal");
        Process program = Vm.start(directory, List.of(Vm.jdk().resolve("bin/java").toString(), "-XX:+JPortal",
                "-XX:JPortalSource=none", "-XX:JPortalFile=" + capture, "-Xlog:disable", "-Xlog:jportal*=warning:file=log",
                "-cp", System.getProperty("test.class.path"), "FilesRemoved$Program"));
        BufferedReader out = new BufferedReader(new InputStreamReader(program.getInputStream()));
        Check.equal("ready", out.readLine(), "first line of the program");
        attack.on(capture, program.pid());
        Path log = directory.resolve("log");
        for (int i = 0; i < 600 && !Files.readString(log).contains(reason); i++) {
            Thread.sleep(50);
        }
        // The program defines classes and compiles methods, each of which would be a record.
        PrintStream in = new PrintStream(program.getOutputStream(), true);
        in.println("go on");
        Check.equal("went on", out.readLine(), "last line of the program");
        Check.that(program.waitFor(60, TimeUnit.SECONDS), "the VM does not end");
        Check.equal(STATUS, program.exitValue(), "exit status");
        String text = Files.readString(log);
        Check.equal(2, text.split("recording stopped", -1).length, "parts around the reason in " + text);
        Check.contains(text, reason, "the reason");
    }

    public static class Program {
        public static void main(String[] args) throws Exception {
            System.out.println("ready");
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            int sum = 0;
            for (int i = 0; i < 50_000; i++) {
                sum += List.of(i, i + 1).stream().map(n -> n + 1).collect(Collectors.summingInt(n -> n));
            }
            System.out.println(sum == 0 ? "?" : "went on");
            System.exit(STATUS);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
