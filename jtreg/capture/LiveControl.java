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
 * @summary jcmd PID JPortal.start and JPortal.stop, several times in one process. Each capture is
 *          whole and has the metadata of what existed before the recording began.
 * @library /lib
 * @build jportal.test.*
 * @run driver LiveControl
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class LiveControl {
    private static Path directory;
    private static Process program;

    public static void main(String[] args) throws Exception {
        directory = Vm.emptyDirectory("live");
        Path first = directory.resolve("live.jportal");
        start("-XX:+JPortal", "-XX:-JPortalStart", "-XX:JPortalSource=none", "-XX:JPortalFile=" + first);
        Check.contains(jcmd("JPortal.status"), "state: not started", "status before the first recording");
        Check.contains(jcmd("JPortal.stop"), "JPortal does not record", "stop before the first recording");
        Check.that(!Files.exists(first), "a capture nobody asked for");

        Path named = directory.resolve("named.jportal");
        record(null, first);
        record(named, named);
        record(null, directory.resolve("live.jportal.3"));
        // Patterns expand in the file's own name only.
        Path odd = Files.createDirectory(directory.resolve("%p-%t-%%"));
        record(odd.resolve("100%%-%p.jportal"), odd.resolve("100%-" + program.pid() + ".jportal"));
        String refused = jcmd("JPortal.start", "file=/nowhere/a.jportal");
        Check.contains(refused, "JPortal cannot record: cannot open /nowhere/a.jportal", "a file that cannot be made");
        end();

        // JPortal.stop also ends a recording that began at the VM's start.
        Path whole = directory.resolve("whole.jportal");
        start("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalFile=" + whole);
        Check.contains(jcmd("JPortal.stop"), "state: stopped", "stop of the first recording");
        CaptureFile.readWhole(whole);
        Path later = directory.resolve("later.jportal");
        Check.contains(jcmd("JPortal.start", "file=" + later), "state: recording", "start after stop");
        end();
        // The capture is whole even if the VM's exit ends the recording.
        check(later);

        start("-XX:-JPortal");
        Check.contains(jcmd("JPortal.start"), "JPortal is off", "start with JPortal off");
        Check.contains(jcmd("JPortal.stop"), "JPortal is off", "stop with JPortal off");
        end();
    }

    private static void record(Path file, Path expected) throws Exception {
        String started = file == null ? jcmd("JPortal.start") : jcmd("JPortal.start", "file=" + file);
        Check.contains(started, "state: recording", "answer to start");
        Check.contains(started, expected.toString(), "the capture's name");
        Check.contains(jcmd("JPortal.start"), "JPortal records already", "a second start");
        String stopped = jcmd("JPortal.stop");
        Check.contains(stopped, "state: stopped", "answer to stop");
        check(expected);
    }

    /** Record kinds of the metadata schema. */
    private static final int THREAD_STARTED = 1, CLASS_DEFINED = 8, METHOD_DEFINED = 10;
    private static final int INTERPRETER_CODELET = 16, BLOB_DEFINED = 24, NMETHOD_INSTALLED = 25;

    /** The capture must have records of each kind for what existed before the recording began. */
    private static void check(Path file) throws Exception {
        CaptureFile capture = CaptureFile.readWhole(file);
        int[] counts = new int[64];
        for (CaptureFile.Frame frame : capture.frames()) {
            counts[frame.kind()]++;
        }
        for (int kind : List.of(THREAD_STARTED, METHOD_DEFINED, INTERPRETER_CODELET, BLOB_DEFINED, NMETHOD_INSTALLED)) {
            Check.that(counts[kind] > 0, "no record of kind " + kind + " in " + file);
        }
        Check.that(counts[CLASS_DEFINED] > 300, counts[CLASS_DEFINED] + " classes in " + file);
    }

    private static void start(String... flags) throws Exception {
        List<String> command = new ArrayList<>(List.of(Vm.jdk().resolve("bin/java").toString()));
        command.addAll(List.of(flags));
        command.addAll(List.of(Vm.withTestClasses("LiveControl$Program")));
        program = Vm.start(directory, command);
        BufferedReader out = new BufferedReader(new InputStreamReader(program.getInputStream()));
        Check.equal("ready", out.readLine(), "first line of the program");
    }

    private static String jcmd(String... words) throws Exception {
        List<String> command = new ArrayList<>(List.of(Vm.jdk().resolve("bin/jcmd").toString(),
                Long.toString(program.pid())));
        command.addAll(List.of(words));
        return Vm.run(directory, command).exits(0).out();
    }

    private static void end() throws Exception {
        program.getOutputStream().close();
        try {
            Check.that(program.waitFor(60, TimeUnit.SECONDS), "the program does not end");
            Check.equal(0, program.exitValue(), "exit status of the program");
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
