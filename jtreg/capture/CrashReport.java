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
 * @summary A crash of a recording VM is reported as without recording, and not later.
 * @library /lib
 * @build jportal.test.*
 * @run driver CrashReport
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import jportal.test.Check;
import jportal.test.Vm;

public class CrashReport {
    private static final int RUNS = 5;
    /** What recording may add, and what a busy machine may. */
    private static final long LIMIT_MS = 100 + 150;
    /** Steps of the report that fail without recording as well. */
    private static final Set<String> FAULTS = new HashSet<>();

    public static void main(String[] args) throws Exception {
        long[] plain = new long[RUNS];
        long[] recorded = new long[RUNS];
        for (int run = 0; run < RUNS; run++) {
            plain[run] = crash("-XX:-JPortal", "-XX:-SuppressFatalErrorMessage");
            recorded[run] = crash("-XX:+JPortal", "-XX:-SuppressFatalErrorMessage");
        }
        Arrays.sort(plain);
        Arrays.sort(recorded);
        long added = recorded[RUNS / 2] - plain[RUNS / 2];
        System.out.println("ms from the signal to the end: " + Arrays.toString(plain) + ", recording " + Arrays.toString(recorded));
        Check.that(added < LIMIT_MS, "recording adds " + added + " ms to a crash");
        crash("-XX:+JPortal", "-XX:+SuppressFatalErrorMessage");
    }

    /** Returns the time from the signal to the end of the VM, in ms. */
    private static long crash(String recording, String report) throws Exception {
        Path directory = Vm.emptyDirectory("crash");
        Process program = Vm.start(directory, List.of(Vm.jdk().resolve("bin/java").toString(), recording, report,
                "-XX:JPortalSource=none", "-XX:JPortalFile=crash.jportal", "-XX:ErrorFile=hs_err", "-XX:-CreateCoredumpOnCrash",
                "-cp", System.getProperty("test.class.path"), "CrashReport$Program"));
        BufferedReader out = new BufferedReader(new InputStreamReader(program.getInputStream()));
        Check.equal("ready", out.readLine(), "first line of the program");
        long begin = System.nanoTime();
        Vm.run(directory, List.of("kill", "-SEGV", Long.toString(program.pid()))).exits(0);
        // The report must not wait for its reader.
        out.lines().forEach(line -> {});
        Check.that(program.waitFor(60, TimeUnit.SECONDS), "the VM does not end");
        long ms = (System.nanoTime() - begin) / 1_000_000;
        Path file = directory.resolve("hs_err");
        if (report.startsWith("-XX:+")) {
            Check.that(!Files.exists(file), "there is a report, which was not wanted");
            return ms;
        }
        String text = Files.readString(file);
        Check.contains(text, "SIGSEGV (0xb) at pc=", "what happened");
        Check.contains(text, "siginfo: si_signo: 11 (SIGSEGV)", "the signal");
        Check.contains(text, "Registers:", "the context");
        Check.contains(text, "\nEND.\n", "the report is complete");
        // A debug VM cannot print the heap from a thread that it does not know, such as this one.
        Matcher again = Pattern.compile("error occurred during error reporting \\(([^)]*)\\)").matcher(text);
        while (again.find()) {
            String step = again.group(1);
            if (recording.startsWith("-XX:-")) {
                FAULTS.add(step);
            }
            Check.that(FAULTS.contains(step), "a second fault while " + step);
        }
        return ms;
    }

    public static class Program {
        public static void main(String[] args) throws Exception {
            System.out.println("ready");
            Thread.sleep(60_000);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
