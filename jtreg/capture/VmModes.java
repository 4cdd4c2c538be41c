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
 * @summary With every collector and compiler mode the program's result is right, the capture whole.
 * @library /lib
 * @build jportal.test.*
 * @run driver/timeout=300 VmModes
 */

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class VmModes {
    private static final List<List<String>> MODES = List.of(
            List.of("-XX:+UseSerialGC"),
            List.of("-XX:+UseParallelGC"),
            List.of("-XX:+UseG1GC"),
            List.of("-XX:+UseShenandoahGC"),
            List.of("-XX:+UseZGC"),
            List.of("-XX:+UnlockExperimentalVMOptions", "-XX:+UseEpsilonGC", "-Xmx512m"),
            List.of("-Xint"),
            List.of("-XX:TieredStopAtLevel=1"),
            List.of("-XX:-TieredCompilation"),
            List.of("-Xshare:off"),
            List.of("-XX:-SegmentedCodeCache"),
            List.of("-XX:+UseLargePages"),
            List.of("-XX:-JPortalMethodStubs"),
            List.of("-XX:-JPortalPathMarkers"),
            List.of("-XX:JPortalPrecision=exact"),
            List.of("-XX:JPortalPrecision=exact", "-XX:TieredStopAtLevel=1"),
            List.of("-XX:JPortalPrecision=exact", "-XX:-TieredCompilation", "-XX:+UseZGC"),
            List.of("-XX:JPortalRingSize=64k"));

    public static void main(String[] args) throws Exception {
        for (List<String> mode : MODES) {
            record(mode);
        }
    }

    private static void record(List<String> mode) throws Exception {
        Path directory = Vm.emptyDirectory("mode");
        Path file = directory.resolve("mode.jportal");
        List<String> arguments = new ArrayList<>(List.of("-XX:+UnlockDiagnosticVMOptions", "-XX:+JPortal",
                "-XX:JPortalSource=none", "-XX:JPortalFile=" + file));
        arguments.addAll(mode);
        arguments.addAll(List.of(Vm.withTestClasses("-Xmx256m", "VmModes$Program")));
        if (mode.contains("-Xmx512m")) {
            arguments.remove("-Xmx256m");
        }
        Vm.Result result = Vm.java(directory, arguments.toArray(String[]::new)).exits(0);
        Check.contains(result.out(), "checksum 429675520", mode + ": result of the program");
        CaptureFile capture = CaptureFile.readWhole(file);
        Check.equal(0, capture.endReason(), mode + ": reason of the end chunk (" + capture.endText() + ")");
        Check.that(capture.frames().size() > 1000, mode + ": only " + capture.frames().size() + " metadata records");
        for (CaptureFile.Frame frame : capture.frames()) {
            Check.that(frame.kind() > 0 && frame.tsc() > 0, mode + ": record " + frame);
        }
    }

    /** Allocates enough to make every collector work, and runs long enough for both compilers. */
    public static class Program {
        public static void main(String[] args) {
            long checksum = 0;
            List<int[]> kept = new ArrayList<>();
            for (int round = 0; round < 2000; round++) {
                int[] block = new int[16 * 1024 / 4];
                for (int i = 0; i < block.length; i++) {
                    block[i] = i % 100 + round % 7;
                }
                if (round % 10 == 0) {
                    kept.add(block);
                }
                if (kept.size() > 100) {
                    kept.remove(0);
                }
                for (int value : block) {
                    checksum += value;
                }
            }
            System.out.println("checksum " + checksum);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
