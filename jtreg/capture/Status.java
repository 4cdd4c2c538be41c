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
 * @summary jcmd PID JPortal.status prints state, source and capture, or that JPortal is off.
 * @library /lib
 * @build jportal.test.*
 * @run driver Status
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class Status {
    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("status");
        Path file = directory.resolve("status.jportal");
        String on = statusOf(directory, "-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalFile=" + file);
        Check.contains(on, "state: recording", "status while recording");
        Check.contains(on, file.toString(), "status names the capture");
        Check.contains(on, "source: none", "status names the source");
        CaptureFile.readWhole(file);
        String off = statusOf(directory, "-XX:-JPortal");
        Check.contains(off, "JPortal is off", "status with recording off");
    }

    /** Returns what jcmd prints while the program waits; the program must then exit with 0. */
    private static String statusOf(Path directory, String... flags) throws Exception {
        List<String> command = new ArrayList<>(List.of(Vm.jdk().resolve("bin/java").toString()));
        command.addAll(List.of(flags));
        command.addAll(List.of(Vm.withTestClasses("Status$Program")));
        Process program = Vm.start(directory, command);
        try {
            BufferedReader out = new BufferedReader(new InputStreamReader(program.getInputStream()));
            Check.equal("ready", out.readLine(), "first line of the program");
            Vm.Result jcmd = Vm.run(directory, List.of(Vm.jdk().resolve("bin/jcmd").toString(),
                    Long.toString(program.pid()), "JPortal.status")).exits(0);
            program.getOutputStream().close();
            Check.that(program.waitFor(60, TimeUnit.SECONDS), "the program does not end");
            Check.equal(0, program.exitValue(), "exit status of the program");
            return jcmd.out();
        } finally {
            program.destroyForcibly();
        }
    }

    public static class Program {
        public static void main(String[] args) throws Exception {
            System.out.println("ready");
            System.in.read();
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
