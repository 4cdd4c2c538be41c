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
 * @summary When the capture cannot grow, recording stops with a reason; the program continues.
 * @library /lib
 * @build jportal.test.*
 * @run driver FileSizeLimit
 */

import java.nio.file.Path;
import java.util.List;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class FileSizeLimit {
    private static final int RECORDER_FAILED = 2;

    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("limit");
        Path file = directory.resolve("small.jportal");
        String java = Vm.jdk().resolve("bin/java") + " -XX:+JPortal -XX:JPortalSource=none -XX:JPortalFile=" + file
                + " -cp " + System.getProperty("test.class.path") + " FileSizeLimit$Program".replace("$", "\\$");
        // In blocks of 1 KB: half of what a starting VM records. The ring file does not fit either,
        // so the ring is anonymous memory.
        Vm.Result result = Vm.run(directory, List.of("bash", "-c", "ulimit -f 1536; exec " + java)).exits(7);
        Check.contains(result.out(), "the program ran to its end", "output of the program");
        Check.contains(result.all(), "small.jportal", "a message says what happened");
        CaptureFile capture = CaptureFile.readWhole(file);
        Check.equal(RECORDER_FAILED, capture.endReason(), "reason of the end chunk");
        Check.that(!capture.endText().isEmpty(), "the end chunk says why");
    }

    public static class Program {
        public static void main(String[] args) {
            System.out.println("the program ran to its end");
            System.exit(7);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
