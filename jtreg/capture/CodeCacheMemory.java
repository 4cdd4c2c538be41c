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
 * @summary With -XX:JPortalCodeCache=memfd the code cache is one mapping of a memfd in each mode of
 *          the VM. It grows, is flushed, and works with forked children. If a memfd cannot be used,
 *          the VM prints a warning and continues without it.
 * @library /lib
 * @modules java.compiler java.management jdk.compiler
 * @build jportal.test.*
 * @run driver/timeout=900 CodeCacheMemory
 */

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class CodeCacheMemory {
    private static final long M = 1 << 20;
    private static final int CODE_FREED = 28;
    private static final String MEMFD = "/memfd:jportal-code-cache (deleted)";
    private static final String WARNING = "the code cache cannot be the memory of a file";

    public static void main(String[] args) throws Exception {
        whatItIsMadeOf();
        modes();
        whereItCannotBe();
    }

    /** All values of {@code -XX:JPortalCodeCache}. Without a trace to filter, auto is anonymous. */
    private static void whatItIsMadeOf() throws Exception {
        List<String> memfd = List.of("-XX:JPortalCodeCache=memfd");
        Check.equal(1, mappings(record(memfd), 240 * M), "mappings of the code cache");
        // The VM decides at start: a recording that begins later cannot change the memory.
        Check.equal(1, mappings(record(List.of("-XX:JPortalCodeCache=memfd", "-XX:-JPortalStart")), 240 * M), "without a recording");
        for (List<String> flags : List.of(List.of("-XX:JPortalCodeCache=anonymous"), List.of("-XX:JPortalCodeCache=auto"),
                List.of("-XX:JPortalCodeCache=memfd", "-XX:-JPortal"))) {
            Run run = record(flags);
            Check.lacks(run.out(), MEMFD, "mappings with " + flags);
            Check.that(run.out().contains(" rwxp "), "the code cache is nowhere: " + run.out());
        }
    }

    private static void modes() throws Exception {
        for (List<String> mode : List.of(
                List.of("-XX:-SegmentedCodeCache"),
                List.of("-XX:TieredStopAtLevel=1"),
                List.of("-XX:-TieredCompilation"),
                List.of("-XX:+UseTransparentHugePages"),
                List.of("-XX:+UseZGC"))) {
            List<String> flags = new ArrayList<>(List.of("-XX:JPortalCodeCache=memfd", "-XX:ReservedCodeCacheSize=64m",
                    "-XX:InitialCodeCacheSize=512k"));
            flags.addAll(mode);
            Run run = record(flags, "2");
            Check.equal(1, mappings(run, 64 * M), "mappings of the code cache with " + mode);
            Check.that(run.committed() > 2 * M, "the code cache has grown to " + run.committed() + " only, with " + mode);
        }
        Run interpreter = record(List.of("-XX:JPortalCodeCache=memfd", "-Xint", "-XX:ReservedCodeCacheSize=48m"));
        Check.equal(1, mappings(interpreter, 48 * M), "mappings of the code cache with -Xint");

        Run flushed = record(List.of("-XX:JPortalCodeCache=memfd", "-XX:ReservedCodeCacheSize=4m", "-XX:InitialCodeCacheSize=1m"), "4");
        Check.equal(1, mappings(flushed, 4 * M), "mappings of a small code cache");
        long freed = flushed.capture().frames().stream().filter(f -> f.kind() == CODE_FREED).count();
        Check.that(freed > 100, "of a small code cache " + freed + " blobs only were freed");

        Run tracked = record(List.of("-XX:JPortalCodeCache=memfd", "-XX:ReservedCodeCacheSize=64m", "-XX:NativeMemoryTracking=summary",
                "-XX:+UnlockDiagnosticVMOptions", "-XX:+PrintNMTStatistics"));
        Matcher code = Pattern.compile("Code \\(reserved=(\\d+), committed=(\\d+)\\)").matcher(tracked.out());
        Check.that(code.find() && Long.parseLong(code.group(2)) >= 64 * M, "native memory tracking: " + tracked.out());
    }

    private static void whereItCannotBe() throws Exception {
        // In blocks of 1 KB: enough for the capture, too little for a code cache of 240 MB.
        Run limited = run(List.of("bash", "-c", "ulimit -f 102400; exec \"$0\" \"$@\""), List.of("-XX:JPortalCodeCache=memfd"), "0");
        Check.contains(limited.out(), WARNING, "warning");
        Check.contains(limited.out(), "ulimit -f", "warning");
        Check.lacks(limited.out(), MEMFD, "mappings under a limit");
        Check.contains(limited.out(), " rwxp ", "mappings under a limit");
        Check.contains(record(List.of("-XX:JPortalCodeCache=memfd", "-XX:+UseOprofile")).out(), WARNING, "warning");
    }

    /** Number of mappings of the memfd; each must be rwxs, at offset 0, {@code size} bytes long. */
    private static int mappings(Run run, long size) {
        Check.lacks(run.out(), WARNING, "memory of a file");
        Check.lacks(run.out(), " rwxp ", "other code that can be written");
        int found = 0;
        for (String line : run.out().lines().filter(l -> l.endsWith(MEMFD)).toList()) {
            Matcher map = Pattern.compile("(\\w+)-(\\w+) rwxs 0+ .*").matcher(line);
            Check.that(map.matches(), "another mapping of the code cache: " + line);
            long length = Long.parseUnsignedLong(map.group(2), 16) - Long.parseUnsignedLong(map.group(1), 16);
            Check.equal(size, length, "bytes of the code cache");
            found++;
        }
        return found;
    }

    private record Run(String out, CaptureFile capture) {
        /** Committed bytes of the code heaps. */
        long committed() {
            Matcher line = Pattern.compile("(?m)^committed (\\d+)$").matcher(out);
            Check.that(line.find(), "no figure in " + out);
            return Long.parseLong(line.group(1));
        }
    }

    private static Run record(List<String> flags) throws Exception {
        return record(flags, "0");
    }

    private static Run record(List<String> flags, String rounds) throws Exception {
        return run(List.of(), flags, rounds);
    }

    private static Run run(List<String> before, List<String> flags, String rounds) throws Exception {
        Path directory = Vm.emptyDirectory("memory");
        Path file = directory.resolve("memory.jportal");
        List<String> command = new ArrayList<>(before);
        command.addAll(List.of(Vm.jdk().resolve("bin/java").toString(), "-XX:+UnlockDiagnosticVMOptions", "-XX:+JPortal",
                "-XX:JPortalSource=none", "-XX:JPortalFile=" + file));
        command.addAll(flags);
        command.addAll(List.of(Vm.withTestClasses("-Xmx256m", "CodeCacheMemory$Program", rounds)));
        Vm.Result result = Vm.run(directory, command).exits(0);
        Check.contains(result.out(), "the program ran to its end", flags + ": output");
        if (!Files.exists(file)) {
            return new Run(result.all(), null);
        }
        CaptureFile capture = CaptureFile.readWhole(file);
        Check.equal(0, capture.endReason(), flags + ": reason of the end chunk (" + capture.endText() + ")");
        return new Run(result.all(), capture);
    }

    /** Runs javac as often as the argument says, to make the VM compile; then prints its memory. */
    public static class Program {
        public static void main(String[] args) throws Exception {
            for (int round = 0; round < Integer.parseInt(args[0]); round++) {
                compile(round);
            }
            // A forked child shares the code cache with its parent until it calls exec.
            System.setProperty("jdk.lang.Process.launchMechanism", "FORK");
            for (int i = 0; i < 20; i++) {
                Check.equal(0, new ProcessBuilder("true").start().waitFor(), "exit status of a child");
            }
            for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
                if (line.contains(" rwx") || line.endsWith(MEMFD)) {
                    System.out.println(line);
                }
            }
            long committed = 0;
            for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
                if (pool.getName().startsWith("Code")) {
                    committed += pool.getUsage().getCommitted();
                }
            }
            System.out.println("committed " + committed);
            System.out.println("the program ran to its end");
        }

        private static void compile(int round) throws Exception {
            StringBuilder text = new StringBuilder("class Generated" + round + " {\n");
            for (int i = 0; i < 150; i++) {
                text.append("  static <T extends Comparable<T>> int m" + i + "(java.util.List<T> list, T x) {\n"
                        + "    int n = " + i + ";\n"
                        + "    for (T t : list) { if (t.compareTo(x) < 0) n += t.hashCode() % 7; else switch (n % 3) {\n"
                        + "      case 0: n++; break; case 1: n = list.stream().mapToInt(Object::hashCode).sum(); break;\n"
                        + "      default: try { n = Integer.parseInt(\"\" + n); } catch (NumberFormatException e) { return -1; } } }\n"
                        + "    return n;\n  }\n");
            }
            String source = text.append("}\n").toString();
            JavaFileObject unit = new SimpleJavaFileObject(URI.create("string:///Generated" + round + ".java"), JavaFileObject.Kind.SOURCE) {
                @Override
                public CharSequence getCharContent(boolean ignoreEncodingErrors) {
                    return source;
                }
            };
            JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
            boolean done = compiler.getTask(null, null, null, List.of("-d", "."), null, List.of(unit)).call();
            Check.that(done, "the generated class does not compile");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
