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
 * @summary An unusable flag value stops the VM at start; the message names the flag and a remedy.
 * @library /lib
 * @build jportal.test.*
 * @run driver BadArguments
 */

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

import jportal.test.Check;
import jportal.test.Vm;

public class BadArguments {
    public static void main(String[] args) throws Exception {
        refused(List.of("-XX:+JPortal", "-XX:JPortalSource=hardware"), "JPortalSource", "auto", "emulated", "none");
        refused(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalCodeCache=file"), "JPortalCodeCache", "anonymous", "memfd");
        refused(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalRingSize=1k"), "JPortalRingSize");
        refused(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalBufferSize=1k"), "JPortalBufferSize");
        refused(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalPrecision=best"), "JPortalPrecision", "default", "exact");
        refused(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalPrecision=exact", "-XX:-JPortalPathMarkers"),
                "JPortalPrecision", "JPortalPathMarkers");
        refused(List.of("-XX:+JPortal", "-XX:JPortalSource=none", "-XX:JPortalPrecision=exact", "-XX:+UseShenandoahGC"),
                "UseShenandoahGC", "JPortalPathMarkers");
        // No trace source is available: no emulator has started this VM.
        refused(List.of("-XX:+JPortal", "-XX:JPortalSource=emulated"), "JPortal", "jportal run");
        if (!Files.exists(Path.of("/sys/bus/event_source/devices/intel_pt"))) {
            refused(List.of("-XX:+JPortal", "-XX:JPortalSource=perf"), "intel_pt is missing", "jportal run");
            refused(List.of("-XX:+JPortal"), "intel_pt is missing", "with -XX:JPortalSource=emulated only", "jportal run");
        }
    }

    /** The VM exits with 1 before the program runs, prints all {@code words}, leaves no capture. */
    private static void refused(List<String> flags, String... words) throws Exception {
        Path directory = Vm.emptyDirectory("refused");
        List<String> all = new ArrayList<>(List.of("-XX:+UnlockDiagnosticVMOptions"));
        all.addAll(flags);
        all.addAll(List.of(Vm.withTestClasses("BadArguments$Program")));
        Vm.Result result = Vm.java(directory, all.toArray(String[]::new)).exits(1);
        Check.lacks(result.out(), "the program ran", "refusal of " + flags);
        for (String word : words) {
            Check.contains(result.all(), word, "message for " + flags);
        }
        Check.lacks(result.all(), "# A fatal error", "refusal of " + flags);
        try (Stream<Path> left = Files.list(directory)) {
            Check.equal(List.of(), left.toList(), "files left behind by " + flags);
        }
    }

    public static class Program {
        public static void main(String[] args) {
            System.out.println("the program ran");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
