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

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Runs the JDK under test, or any other program, and keeps its output. */
public final class Vm {
    /** Time limit of a started program. */
    private static final long PATIENCE_SECONDS = 300;
    /** Time limit of one that is recorded or judged. It only catches hangs. */
    static final long LONG_PATIENCE_SECONDS = 1200;

    private Vm() {}

    /** Exit status and output of a finished process. */
    public record Result(List<String> command, int status, String out, String err) {
        public Result exits(int expected) {
            Check.equal(expected, status, "exit status of " + this);
            return this;
        }

        /** Both streams; the VM reports errors in arguments on either. */
        public String all() {
            return out + err;
        }

        @Override
        public String toString() {
            return String.join(" ", command) + "\n--- status " + status + ", out:\n" + out + "--- err:\n" + err + "---\n";
        }
    }

    public static Path jdk() {
        return Path.of(System.getProperty("test.jdk"));
    }

    /** The root of the JPortal checkout whose results are tested: by default the suite's parent. */
    public static Path root() {
        String root = System.getenv("JPORTAL_ROOT");
        return root != null ? Path.of(root) : Path.of(System.getProperty("test.root")).toAbsolutePath().getParent();
    }

    public static String[] withTestClasses(String... arguments) {
        List<String> all = new ArrayList<>(List.of("-cp", System.getProperty("test.class.path")));
        all.addAll(List.of(arguments));
        return all.toArray(String[]::new);
    }

    /** {@code java ARGUMENTS} of the JDK under test in {@code directory}. */
    public static Result java(Path directory, String... arguments) throws Exception {
        return java(jdk(), directory, arguments);
    }

    public static Result java(Path jdk, Path directory, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(jdk.resolve("bin/java").toString()));
        command.addAll(List.of(arguments));
        return run(directory, command);
    }

    public static Result run(Path directory, List<String> command) throws Exception {
        return run(directory, command, PATIENCE_SECONDS);
    }

    static Result run(Path directory, List<String> command, long seconds) throws Exception {
        Process process = start(directory, command);
        CompletableFuture<String> out = text(process.getInputStream());
        CompletableFuture<String> err = text(process.getErrorStream());
        if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new AssertionError("still running after " + seconds + " s: " + String.join(" ", command));
        }
        return new Result(command, process.exitValue(), out.get(), err.get());
    }

    /** Starts a process. Of the environment's VM options, only JPORTAL_CODE_CACHE applies. */
    public static Process start(Path directory, List<String> command) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command).directory(directory.toFile());
        for (String name : List.of("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")) {
            builder.environment().remove(name);
        }
        String codeCache = System.getenv("JPORTAL_CODE_CACHE");
        if (codeCache != null) {
            // Options of the command line come later and win. Debian's VM does not know the flag.
            builder.environment().put("JDK_JAVA_OPTIONS", "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:JPortalCodeCache=" + codeCache);
        }
        return builder.start();
    }

    /** A fresh empty directory below the test's scratch directory. */
    public static Path emptyDirectory(String name) throws IOException {
        return Files.createTempDirectory(Path.of("").toAbsolutePath(), name);
    }

    private static CompletableFuture<String> text(InputStream stream) {
        return CompletableFuture.supplyAsync(() -> {
            try (stream) {
                return new String(stream.readAllBytes());
            } catch (IOException e) {
                return "(unreadable: " + e + ")";
            }
        });
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
