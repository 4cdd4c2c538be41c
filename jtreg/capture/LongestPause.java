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
 * @summary A stopped drain, a file system that hangs, a full disk: the program runs on, and its
 *          longest pause is that of a run without recording and little more.
 * @library /lib
 * @build jportal.test.*
 * @run driver LongestPause
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

import jportal.test.Check;
import jportal.test.Vm;

public class LongestPause {
    /** What recording may add to the longest pause, in ms. */
    private static final long LIMIT_MS = 50;
    /**
     * Runs of which one must keep to the limit. On a busy machine, the scheduler causes long pauses
     * now and then; a thread that waits for the recorder has one in every run.
     */
    private static final int TRIES = 6;
    /** How long the program measures, in ms. */
    private static final long TIME_MS = 1500;

    public static void main(String[] args) throws Exception {
        long first = run("without recording", false, null, null);
        long plain = Math.min(first, run("without recording", false, null, null));
        Path library = library();
        hold(plain, "recording", null, null);
        hold(plain, "each write takes 200 ms", library, "sleep=200");
        hold(plain, "writes hang", library, "hang");
        hold(plain, "the disk is full", library, "full");
    }

    private static void hold(long plain, String what, Path library, String mode) throws Exception {
        long least = Long.MAX_VALUE;
        for (int i = 0; i < TRIES && least - plain >= LIMIT_MS; i++) {
            least = Math.min(least, run(what, true, library, mode));
        }
        Check.that(least - plain < LIMIT_MS, what + ": in each of " + TRIES + " runs a pause of at least " + least
                + " ms, without recording " + plain + " ms");
    }

    /** A library that stands for a file system: it slows the writes of the recorder's threads. */
    private static Path library() throws Exception {
        Path directory = Vm.emptyDirectory("slow");
        Path source = directory.resolve("slow.c");
        Files.writeString(source, String.join("\n",
                "#define _GNU_SOURCE",
                "#include <errno.h>", "#include <fcntl.h>", "#include <stdlib.h>", "#include <string.h>",
                "#include <sys/prctl.h>", "#include <sys/syscall.h>", "#include <unistd.h>",
                "ssize_t write(int fd, const void* bytes, size_t n) {",
                "  char name[17] = \"\"; const char* mode = getenv(\"SLOW\"); const char* from = getenv(\"SLOW_FROM\");",
                "  prctl(PR_GET_NAME, name);",
                "  if (mode && strncmp(name, \"jportal-\", 8) == 0 && access(from, F_OK) == 0) {",
                "    if (strcmp(mode, \"full\") == 0) { errno = ENOSPC; return -1; }",
                "    if (strcmp(mode, \"hang\") == 0) while (access(from, F_OK) == 0) usleep(1000);",
                "    else usleep(1000 * atoi(mode + 6));",
                "  }",
                "  return syscall(SYS_write, fd, bytes, n);",
                "}", ""));
        Path library = directory.resolve("slow.so");
        Vm.run(directory, List.of("cc", "-shared", "-fPIC", "-O1", "-o", library.toString(), source.toString())).exits(0);
        return library;
    }

    /** Runs the program and returns its longest pause in ms. */
    private static long run(String what, boolean recording, Path library, String mode) throws Exception {
        Path directory = Vm.emptyDirectory("pause");
        Path from = directory.resolve("from");
        List<String> command = new ArrayList<>(List.of("env", "SLOW_FROM=" + from));
        if (library != null) {
            command.addAll(List.of("LD_PRELOAD=" + library, "SLOW=" + mode));
        }
        command.add(Vm.jdk().resolve("bin/java").toString());
        if (recording) {
            command.addAll(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalFile=" + directory.resolve("a.jportal"),
                    "-Xlog:disable", "-Xlog:jportal*=info:file=" + directory.resolve("log")));
        }
        command.addAll(List.of("-cp", System.getProperty("test.class.path"), "LongestPause$Program", Long.toString(TIME_MS)));
        Process program = Vm.start(directory, command);
        BufferedReader out = new BufferedReader(new InputStreamReader(program.getInputStream()));
        Check.equal("ready", out.readLine(), what + ": first line of the program");
        // From here on, the file system is slow.
        Files.createFile(from);
        new PrintStream(program.getOutputStream(), true).println("measure");
        String[] figures = out.readLine().split(" ");
        Check.equal("longest", figures[0], what + ": last line of the program");
        if ("hang".equals(mode)) {
            // It took nothing while the program measured. What follows is the end of the VM.
            Files.delete(from);
        }
        Check.that(program.waitFor(60, TimeUnit.SECONDS), what + ": the VM does not end");
        Check.equal(0, program.exitValue(), what + ": exit status");
        long pause = Long.parseLong(figures[1]) / 1000;
        System.out.println(what + ": longest pause " + pause + " ms, " + figures[2] + " classes");
        Check.that(Integer.parseInt(figures[2]) > 20, what + ": too few classes were loaded to test anything");
        if ("full".equals(mode)) {
            Check.contains(Files.readString(directory.resolve("log")), "recording stopped", what + ": log");
        }
        return pause;
    }

    /**
     * One thread looks at the clock all the time. Another makes metadata: it loads a class again
     * and again, with a new loader each time, and runs it until it is compiled.
     */
    public static class Program {
        private static volatile boolean ends;
        private static volatile int classes;

        public static void main(String[] args) throws Exception {
            byte[] bytes = Program.class.getResourceAsStream("LongestPause$Work.class").readAllBytes();
            Thread maker = new Thread(() -> make(bytes));
            maker.start();
            long warm = System.nanoTime() + 500_000_000L;
            longest(warm);
            System.out.println("ready");
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            int before = classes;
            long longest = longest(System.nanoTime() + Long.parseLong(args[0]) * 1_000_000L);
            System.out.println("longest " + longest / 1000 + " " + (classes - before));
            ends = true;
            maker.join();
        }

        /** The longest time between two looks at the clock, in ns. */
        private static long longest(long until) {
            long longest = 0, last = System.nanoTime();
            while (last < until) {
                long now = System.nanoTime();
                longest = Math.max(longest, now - last);
                last = now;
            }
            return longest;
        }

        private static void make(byte[] bytes) {
            while (!ends) {
                try {
                    Class<?> work = new ClassLoader(null) {
                        @Override
                        protected Class<?> findClass(String name) {
                            return defineClass(name, bytes, 0, bytes.length);
                        }
                    }.loadClass("LongestPause$Work");
                    ((Runnable) work.getDeclaredConstructor().newInstance()).run();
                    classes++;
                } catch (ReflectiveOperationException e) {
                    throw new AssertionError(e);
                }
            }
        }
    }

    public static class Work implements Runnable {
        private int sum;

        @Override
        public void run() {
            for (int i = 0; i < 20_000; i++) {
                sum += step(i);
            }
        }

        private static int step(int i) {
            return i % 3 == 0 ? i : -i;
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
