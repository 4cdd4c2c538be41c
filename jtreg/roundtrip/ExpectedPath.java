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
 * @summary Records a small program under the emulated PT unit, decodes the capture, and compares
 *          the path with the comment below: with -Xint, and in the VM's default mode.
 * @library /lib
 * @build jportal.test.*
 * @run driver/timeout=300 ExpectedPath
 */

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import jportal.test.CaptureFile;
import jportal.test.Check;
import jportal.test.Vm;

public class ExpectedPath {
    /*
     * The path of the main thread through Program, as the @tags of its lines. A tag appears again
     * when control comes back to its line: after a call in the line, or around a loop.
     * path: main.sum sum.zero sum.while sum.add sum.dec sum.while sum.add sum.dec
     * path: sum.while sum.ret main.sum
     * path: main.sum0 sum.zero sum.while sum.ret main.sum0
     *
     * path: main.kind1 kind.switch kind.one main.kind1
     * path: main.kind2 kind.switch kind.two kind.many main.kind2
     * path: main.kind9 kind.switch kind.many main.kind9
     * If the load succeeds, finally runs before the return; if it throws, after the handler.
     * path: main.load guarded.load guarded.finally guarded.load main.load
     * path: main.miss guarded.load guarded.catch guarded.caught
     * path: guarded.finally guarded.caught main.miss
     * An exception passes two frames that do not handle it.
     * path: main.throw outer.try deep.test deep.call deep.test deep.call deep.test deep.throw
     * path: outer.catch outer.ret main.throw
     * Recursion returns through its callers; each virtual, interface or lambda call finds its body.
     * path: main.fact fact.test fact.call fact.test fact.call
     * path: fact.test fact.one fact.call fact.call main.fact
     * path: main.square shape.area square.area shape.area main.square
     * path: main.line shape.area line.area shape.area main.line
     * path: main.lambda apply.call lambda.body apply.call main.lambda
     * path: main.print main.end
     */
    private static final String EXPECTED_OUTPUT = "3 0 one many many 7 -1 2 6 9 0 42\n";

    public static void main(String[] args) throws Exception {
        roundTrip("-Xint");
        roundTrip("-Xmixed");
    }

    private static void roundTrip(String mode) throws Exception {
        Path directory = Vm.emptyDirectory("roundtrip");
        Path capture = directory.resolve("path.jportal");
        String jportal = Vm.root().resolve("build/bin/jportal").toString();
        List<String> run = new ArrayList<>(List.of(jportal, "run", "--emulate", "--quiet", "--java", Vm.jdk().toString(),
                "-o", capture.toString(), "--"));
        run.addAll(List.of(Vm.withTestClasses(mode, "ExpectedPath$Program")));
        Vm.Result recorded = Vm.run(directory, run).exits(0);
        Check.equal(EXPECTED_OUTPUT, recorded.out(), mode + ": output of the traced program");
        Check.that(CaptureFile.readWhole(capture).bytesOf(CaptureFile.PT) > 0, mode + ": no PT in the capture");

        Vm.Result printed = Vm.run(directory, List.of(jportal, "print", capture.toString(), "--thread", "main",
                "--level", "bytecode", "--json")).exits(0);
        List<String> seen = tags(printed.out());
        List<String> expected = expected();
        for (int i = 0; i < Math.max(expected.size(), seen.size()); i++) {
            String want = i < expected.size() ? expected.get(i) : "(end)";
            String have = i < seen.size() ? seen.get(i) : "(end)";
            Check.equal(want, have, mode + ": step " + i + " of the path, after " + seen.subList(Math.max(0, i - 5), Math.min(i, seen.size())));
        }
    }

    private static List<String> source() throws Exception {
        return Files.readAllLines(Path.of(System.getProperty("test.src"), "ExpectedPath.java"));
    }

    private static List<String> expected() throws Exception {
        List<String> path = new ArrayList<>();
        for (String line : source()) {
            int at = line.indexOf("* path: ");
            if (at >= 0 && line.substring(0, at).isBlank()) {
                path.addAll(Arrays.asList(line.substring(at + 8).trim().split(" +")));
            }
        }
        return path;
    }

    /** Tags of the flow's lines, without repeats in a row; "line N" for a line without a tag. */
    private static List<String> tags(String flow) throws Exception {
        Map<Integer, String> tagOf = new HashMap<>();
        List<String> lines = source();
        for (int i = 0; i < lines.size(); i++) {
            Matcher tag = Pattern.compile("// @([\\w.]+)$").matcher(lines.get(i));
            if (tag.find()) {
                tagOf.put(i + 1, tag.group(1));
            }
        }
        Check.that(tagOf.size() > 25, "only " + tagOf.size() + " tagged lines in the source");
        List<String> seen = new ArrayList<>();
        Pattern methodName = Pattern.compile("\"method\":\"(ExpectedPath\\$[^\"(]*)\\(");
        Pattern lineNumber = Pattern.compile("\"line\":(\\d+)");
        String previous = "";
        for (String event : flow.split("\n")) {
            Check.lacks(event, "\"event\":\"gap\"", "flow of the main thread, after " + seen);
            Matcher method = methodName.matcher(event);
            // Constructors have no tagged lines; the class of a lambda has no lines at all.
            if (!method.find() || method.group(1).endsWith("<init>") || method.group(1).contains("$$Lambda$")) {
                continue;
            }
            if (event.contains("\"event\":\"bytecode\"")) {
                Matcher number = lineNumber.matcher(event);
                Check.that(number.find(), "a bytecode of the program has no line: " + event);
                int line = Integer.parseInt(number.group(1));
                String tag = tagOf.getOrDefault(line, "line " + line);
                if (!tag.equals(previous)) {
                    seen.add(tag);
                }
                previous = tag;
            } else if (event.contains("\"event\":\"enter\"") || event.contains("\"event\":\"leave\"")) {
                previous = ""; // a recursive call or return names the same line again
            } else if (event.contains("\"event\":\"unresolved\"")) {
                seen.add(event);
            }
        }
        return seen;
    }

    public static class Program {
        static int count;

        interface Shape {
            int area();
        }

        static class Square implements Shape {
            @Override
            public int area() {
                return 9; // @square.area
            }
        }

        static class Line implements Shape {
            @Override
            public int area() {
                return 0; // @line.area
            }
        }

        interface Function {
            int of(int x);
        }

        static int sum(int n) {
            int s = 0; // @sum.zero
            while (n > 0) { // @sum.while
                s += n; // @sum.add
                n--; // @sum.dec
            }
            return s; // @sum.ret
        }

        static String kind(int k) {
            switch (k) { // @kind.switch
                case 1:
                    return "one"; // @kind.one
                case 2:
                    k += 1; // @kind.two
                default:
                    return "many"; // @kind.many
            }
        }

        static int guarded(int[] values, int i) {
            try {
                return values[i]; // @guarded.load
            } catch (ArrayIndexOutOfBoundsException e) { // @guarded.catch
                return -1; // @guarded.caught
            } finally {
                count++; // @guarded.finally
            }
        }

        static int outer() {
            try {
                deep(2); // @outer.try
                return 0;
            } catch (IllegalStateException e) { // @outer.catch
                return count; // @outer.ret
            }
        }

        static void deep(int levels) {
            if (levels > 0) { // @deep.test
                deep(levels - 1); // @deep.call
            } else {
                throw new IllegalStateException(); // @deep.throw
            }
        }

        static int fact(int n) {
            if (n > 1) { // @fact.test
                return n * fact(n - 1); // @fact.call
            }
            return 1; // @fact.one
        }

        static int areaOf(Shape shape) {
            return shape.area(); // @shape.area
        }

        static int apply(Function f, int x) {
            return f.of(x); // @apply.call
        }

        public static void main(String[] args) {
            int a = sum(2); // @main.sum
            int b = sum(0); // @main.sum0
            String c = kind(1); // @main.kind1
            String d = kind(2); // @main.kind2
            String e = kind(9); // @main.kind9
            int f = guarded(new int[] {7}, 0); // @main.load
            int g = guarded(new int[] {7}, 1); // @main.miss
            int h = outer(); // @main.throw
            int i = fact(3); // @main.fact
            int j = areaOf(new Square()); // @main.square
            int k = areaOf(new Line()); // @main.line
            int l = apply(x ->  // @main.lambda
                    x * 2, 21); // @lambda.body
            System.out.printf("%d %d %s %s %s %d %d %d %d %d %d %d%n", a, b, c, d, e, f, g, h, i, j, k, l); // @main.print
        } // @main.end
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
