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
 * @summary -XX:+JPortalVerifyMarkers finds no path marker that the bytecode contradicts, in code of
 *          C1 and of C2, with both precisions.
 * @library /lib
 * @build jportal.test.*
 * @run driver VerifyMarkers
 */

import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import jportal.test.Check;
import jportal.test.Vm;

public class VerifyMarkers {
    private static final Pattern TOTALS =
            Pattern.compile("path markers: (\\d+) compilations, (\\d+) steps checked, (\\d+) impossible");

    public static void main(String[] args) throws Exception {
        Path directory = Vm.emptyDirectory("verify");
        for (String compiler : List.of("-XX:TieredStopAtLevel=1", "-XX:-TieredCompilation")) {
            for (String precision : List.of("default", "exact")) {
                String mode = compiler + ", " + precision;
                Vm.Result result = Vm.java(directory, Vm.withTestClasses(compiler, "-Xcomp",
                        "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,java.util.*::*",
                        "-XX:CompileCommand=compileonly,java.lang.String*::*",
                        "-XX:+UnlockDiagnosticVMOptions", "-XX:+JPortalVerifyMarkers", "-XX:+JPortal",
                        "-XX:JPortalSource=none", "-XX:JPortalPrecision=" + precision, "-Xlog:jportal=info",
                        "-XX:JPortalFile=" + directory.resolve(precision + ".jportal"),
                        "VerifyMarkers$Program")).exits(0);
                Matcher totals = TOTALS.matcher(result.out());
                Check.that(totals.find(), mode + ": no totals in " + result);
                System.out.println(mode + ": " + totals.group());
                Check.that(Integer.parseInt(totals.group(1)) > 50, mode + ": " + totals.group());
                Check.that(Integer.parseInt(totals.group(2)) > 500, mode + ": " + totals.group());
                Check.equal("0", totals.group(3), mode + ": " + result.out());
            }
        }
    }

    public static class Program {
        public static void main(String[] args) {
            System.out.println(String.join(",", "a b c".split(" ")).replace('a', 'd').hashCode());
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
