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
 * @summary When the recording has failed, the hooks do no more work.
 * @library /lib
 * @build jportal.test.*
 * @run driver AfterFailure
 */

import java.nio.file.Path;
import java.util.List;

import jportal.test.Check;
import jportal.test.Vm;

public class AfterFailure {
    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("failure");
        String java = Vm.jdk().resolve("bin/java") + " -XX:+JPortal -XX:JPortalSource=none -XX:JPortalFile=small.jportal"
                + " -Xlog:jportal*=debug -cp " + System.getProperty("test.class.path") + " AfterFailure\\$Program";
        // In blocks of 1 KB, as in FileSizeLimit: half of what a starting VM records.
        Vm.Result result = Vm.run(directory, List.of("bash", "-c", "ulimit -f 1536; exec " + java)).exits(0);
        String out = result.out();
        int failed = out.indexOf("recording stopped: ");
        Check.that(failed > 0, "the recording does not fail: " + result);
        Check.that(records(out.substring(0, failed)) > 100, "the log shows no hooks before the failure");
        int main = out.indexOf("main begins");
        Check.that(main > failed, "the program begins before the failure");
        Check.contains(out.substring(main), "the thread is there", "the program continues");
        // The record that finds the recording failed may be the last one before main().
        long after = records(out.substring(main));
        Check.that(after <= 3, after + " hooks work after the failure:\n" + out.substring(main));
    }

    /**
     * Lines of hooks that make records. Path markers are kept, because another recording may
     * follow.
     */
    private static long records(String log) {
        return log.lines().filter(l -> l.contains("jportal,") && !l.contains("path markers") && !l.contains("codecache")).count();
    }

    public static class Program {
        public static void main(String[] args) throws Exception {
            System.out.println("main begins");
            Class.forName("java.util.concurrent.ForkJoinPool", true, null);
            Class.forName("java.text.SimpleDateFormat", true, null);
            Thread thread = new Thread(() -> System.out.println(String.format("%s is there", "the thread")));
            thread.start();
            thread.join();
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
