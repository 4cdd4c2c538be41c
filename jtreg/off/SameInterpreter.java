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
 * @summary With JPortal off, the interpreter's codelets have the unmodified VM's names and sizes.
 * @library /lib
 * @build jportal.test.*
 * @run driver SameInterpreter
 */

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.ArrayList;

import jportal.test.Check;
import jportal.test.Vm;

public class SameInterpreter {
    private static final Pattern CODELET =
            Pattern.compile("(?m)^(\\S.*?) +\\[0x[0-9a-f]+, 0x[0-9a-f]+\\] +(\\d+) bytes");

    public static void main(String[] args) throws Exception {
        List<String> unmodified = codelets(peer());
        List<String> ours = codelets(Vm.jdk());
        Check.that(unmodified.size() > 250, "only " + unmodified.size() + " codelets found in the output of -XX:+PrintInterpreter");
        Check.equal(unmodified.size(), ours.size(), "number of codelets");
        for (int i = 0; i < unmodified.size(); i++) {
            Check.equal(unmodified.get(i), ours.get(i), "codelet " + i);
        }
    }

    /** The VM to compare with: Debian's, or the fastdebug build of the tree without the feature. */
    private static Path peer() throws Exception {
        boolean debug = Vm.java(Vm.jdk(), Path.of("."), "-version").exits(0).all().contains("fastdebug");
        if (!debug) {
            return Vm.root().resolve("build/jdk-debian");
        }
        Path peer = Vm.root().resolve("build/jdk-plain-fastdebug");
        Check.that(Files.isDirectory(peer), "nothing to compare a debug VM with in " + peer
                + "; run jdk-build/build.sh --without-jportal --debug-level fastdebug");
        return peer;
    }

    /** "name size" of every codelet, in order. */
    private static List<String> codelets(Path jdk) throws Exception {
        String text = Vm.java(jdk, Path.of("."), "-XX:+UnlockDiagnosticVMOptions", "-XX:+PrintInterpreter", "-version").exits(0).out();
        List<String> found = new ArrayList<>();
        Matcher matcher = CODELET.matcher(text);
        while (matcher.find()) {
            found.add(matcher.group(1) + " " + matcher.group(2));
        }
        return found;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
