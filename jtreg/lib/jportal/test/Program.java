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


package jportal.test;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The program of a test that judges a capture: a class with a {@code main} that prints a result.
 * It is recorded in one mode of the VM.
 */
final class Program {
    /** The modes, and the VM's options of each. */
    static final Map<String, List<String>> MODES = new LinkedHashMap<>();

    static {
        MODES.put("interpreter", List.of("-Xint"));
        MODES.put("c1", List.of("-XX:TieredStopAtLevel=1"));
        MODES.put("c2", List.of("-XX:-TieredCompilation"));
        MODES.put("tiered", List.of("-XX:+TieredCompilation"));
    }

    private final String test;
    private final List<String> arguments;
    private final List<String> options = new ArrayList<>(List.of("-Xbatch", "-XX:CompileThresholdScaling=0.05"));
    private final Path directory;

    /** {@code options} are further ones of the VM, {@code arguments} those of the program. */
    Program(String mode, String test, List<String> options, List<String> arguments, Path directory) {
        this.test = test;
        this.arguments = arguments;
        this.options.addAll(MODES.get(mode));
        this.options.addAll(options);
        this.directory = directory;
    }

    /** The command {@code jportal}. */
    static String jportal() {
        return Vm.root().resolve("build/bin/jportal").toString();
    }

    /** The program's part of a command line, with more options of the VM. */
    List<String> words(List<String> more) {
        List<String> all = new ArrayList<>(options);
        all.addAll(more);
        all.addAll(List.of(Vm.withTestClasses(test)));
        all.addAll(arguments);
        return all;
    }

    /** Records the program, with more options of {@code jportal record} and of the VM. */
    Vm.Result record(Path capture, List<String> how, List<String> more) throws Exception {
        List<String> record = new ArrayList<>(List.of(jportal(), "record", "--emulate", "--quiet", "--java",
                Vm.jdk().toString(), "-o", capture.toString()));
        record.addAll(how);
        record.add("--");
        record.addAll(words(more));
        return Vm.run(directory, record, Vm.LONG_PATIENCE_SECONDS).exits(0);
    }

    /** What the program prints in the interpreter, without any recording. */
    String expected() throws Exception {
        List<String> words = new ArrayList<>(List.of("-Xint"));
        words.addAll(List.of(Vm.withTestClasses(test)));
        words.addAll(arguments);
        String out = Vm.java(directory, words.toArray(String[]::new)).exits(0).out();
        Check.that(!out.isBlank(), test + " prints no result that could be compared");
        return out;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
