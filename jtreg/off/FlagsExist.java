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
 * @summary The flags have the documented types and defaults; recording is off by default.
 * @library /lib
 * @build jportal.test.*
 * @run driver FlagsExist
 */

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import jportal.test.Check;
import jportal.test.Vm;

public class FlagsExist {
    private static final Map<String, String> EXPECTED = Map.of(
            "JPortal", "bool = false {product}",
            "JPortalFile", "ccstr =  {product}",
            "JPortalSource", "ccstr = auto {product}",
            "JPortalCodeCache", "ccstr = auto {diagnostic}",
            "JPortalBufferSize", "size_t = 4194304 {product}",
            "JPortalRingSize", "size_t = 524288 {diagnostic}",
            "JPortalMethodStubs", "bool = true {diagnostic}",
            "JPortalPathMarkers", "bool = true {diagnostic}",
            "JPortalVerifyMarkers", "bool = false {diagnostic}",
            "JPortalPrecision", "ccstr = default {product}");

    public static void main(String[] args) throws Exception {
        String flags = Vm.java(Path.of("."), "-XX:+UnlockDiagnosticVMOptions", "-XX:+PrintFlagsFinal", "-version").exits(0).out();
        Map<String, String> seen = new HashMap<>();
        Matcher line = Pattern.compile("(?m)^ *(\\w+) (JPortal\\w*) +=( *\\S*?) +(\\{[^}]*\\}) *\\{default\\}").matcher(flags);
        while (line.find()) {
            seen.put(line.group(2), line.group(1) + " = " + line.group(3).strip() + " " + line.group(4));
        }
        boolean isDebug = System.getProperty("jdk.debug").contains("debug");
        for (Map.Entry<String, String> flag : EXPECTED.entrySet()) {
            // A debug VM verifies markers.
            boolean isTrue = isDebug && flag.getKey().equals("JPortalVerifyMarkers");
            String expected = isTrue ? flag.getValue().replace("false", "true") : flag.getValue();
            Check.equal(expected, seen.get(flag.getKey()), "flag " + flag.getKey());
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
