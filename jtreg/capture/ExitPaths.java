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
 * @summary However the program ends, recording keeps its status and output; the capture is whole.
 * @library /lib
 * @build jportal.test.*
 * @run driver ExitPaths
 */

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class ExitPaths {
    private static final int VM_EXITED = 0;

    public static void main(String[] args) throws Exception {
        ends("return", 0);
        ends("exit", 3);
        ends("halt", 4);
        ends("uncaught", 1);
        ends("daemon", 0);
        ends("hook", 5);
    }

    private static void ends(String how, int status) throws Exception {
        Path directory = Vm.emptyDirectory(how);
        Vm.Result plain = Vm.java(directory, Vm.withTestClasses("-XX:-JPortal", "ExitPaths$Program", how)).exits(status);
        Vm.Result recorded = Vm.java(directory, Vm.withTestClasses("-XX:+JPortal", "-XX:JPortalSource=none",
                "ExitPaths$Program", how)).exits(status);
        Check.equal(plain.out(), recorded.out(), how + ": standard output");
        Check.equal(plain.err(), recorded.err(), how + ": standard error");
        Path path = onlyFile(directory);
        Check.that(path.getFileName().toString().matches("hs_jportal_pid[0-9]+\\.jportal"), how + ": default name, seen " + path);
        CaptureFile capture = CaptureFile.readWhole(path);
        Check.equal("rw-------", capture.permissions(), how + ": mode of the capture");
        Check.equal("hs_jportal_pid" + capture.pid() + ".jportal", path.getFileName().toString(), how + ": pid in the header");
        Check.equal(VM_EXITED, capture.endReason(), how + ": reason of the end chunk (" + capture.endText() + ")");
        // The boot layer alone has about 600 classes with thousands of methods.
        Check.that(capture.frames().size() > 1000, how + ": only " + capture.frames().size() + " metadata records");
        Check.equal(0L, capture.bytesOf(CaptureFile.PT), how + ": PT bytes with source none");
    }

    private static Path onlyFile(Path directory) throws Exception {
        try (Stream<Path> files = Files.list(directory)) {
            List<Path> all = files.toList();
            Check.equal(1, all.size(), "files beside the capture: " + all);
            return all.get(0);
        }
    }

    public static class Program {
        public static void main(String[] args) throws Exception {
            System.out.println("begin " + args[0]);
            switch (args[0]) {
                case "return" -> System.err.println("to the other stream");
                case "exit" -> System.exit(3);
                case "halt" -> Runtime.getRuntime().halt(4);
                case "uncaught" -> deep(20);
                case "daemon" -> daemon();
                case "hook" -> {
                    Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook ran")));
                    new Thread(() -> System.exit(5)).start();
                    Thread.sleep(60_000);
                }
                default -> throw new AssertionError(args[0]);
            }
        }

        private static void deep(int levels) {
            if (levels == 0) {
                throw new IllegalStateException("thrown on purpose");
            }
            deep(levels - 1);
        }

        /** Leaves a thread that runs bytecode while the VM exits. */
        private static void daemon() throws InterruptedException {
            Thread spinner = new Thread(() -> {
                long n = 0;
                while (true) {
                    n = n * 31 + Thread.currentThread().getId();
                }
            });
            spinner.setDaemon(true);
            spinner.start();
            Thread.sleep(50);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
