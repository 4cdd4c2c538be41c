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

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Records a test of {@code jtreg/debuginfo}, judges the debug info of its compiled code, and
 * compares the verdicts with the expectations in comments of the test. {@code docs/validate-c2.md}
 * has the grammar of expectations.
 *
 * <p>Arguments: the mode ({@code c1}, {@code c2} or {@code tiered}), the test's class, further VM
 * options.
 */
public final class DebugInfo {
    private static final Set<String> MODES = Set.of("c1", "c2", "tiered");
    private static final Set<String> KINDS = Set.of("call", "runtime-call", "poll", "implicit-exception", "fault",
            "trap", "deoptimisation", "handler");
    private static final Set<String> WRONG = Set.of("wrong-reexecute", "wrong-bci", "wrong-block", "wrong-method",
            "wrong-chain", "missing");
    private static final Set<String> GOOD = Set.of("right", "fits", "earlier");
    private static final Pattern LINE = Pattern.compile(
            "\\s*// @debuginfo (?<modes>[\\w,]+)(?: in (?<method>[\\w$<>]+))?(?: at (?<tag>[\\w-]+))?(?<osr> osr)?: (?<counts>.*)");
    private static final Pattern COUNT = Pattern.compile(
            "(?:(?<compiler>c1|c2) )?(?:(?<kind>[a-z-]+)\\.)?(?<verdict>[a-z-]+)(?<times> times)? (?<op>=|>=|<=) (?<number>\\d+)");
    private static final Pattern TAG = Pattern.compile("// @([\\w-]+)$");

    private final String mode;
    private final String test;
    private final List<String> source;
    private final List<String> failures = new ArrayList<>();

    private DebugInfo(String mode, String test) throws Exception {
        this.mode = mode;
        this.test = test;
        source = Files.readAllLines(Path.of(System.getProperty("test.src"), test + ".java"));
    }

    public static void main(String[] args) throws Exception {
        Check.that(args.length >= 2 && MODES.contains(args[0]), "usage: DebugInfo c1|c2|tiered TEST [VM OPTION ...]");
        new DebugInfo(args[0], args[1]).run(Arrays.asList(args).subList(2, args.length));
    }

    private void run(List<String> options) throws Exception {
        Path directory = Vm.emptyDirectory("debuginfo");
        Path capture = directory.resolve(test + "-" + mode + ".jportal");
        Program program = new Program(mode, test, options, List.of(), directory);
        Vm.Result recorded = program.record(capture, List.of(), List.of());
        String expected = program.expected();

        List<String> validate = List.of(Program.jportal(), "validate", "debug-info", capture.toString(), "--json",
                "--findings", "100000", "--places", test);
        Vm.Result judged = Vm.run(directory, validate);
        Json report = Json.parse(judged.out());
        Check.equal(report.get("found").number() == 0 ? 0 : 1, judged.status(), "exit status of " + validate);
        expect(report);
        if (!expected.equals(recorded.out())) {
            failures.add("output: the interpreter printed " + expected + "  compiled code printed " + recorded.out());
        }
        System.out.println("to look at it: " + String.join(" ", validate.subList(0, 4)));
        if (!failures.isEmpty()) {
            report.get("findings").list().stream().limit(20).forEach(f -> System.out.println(describe(f)));
            throw new AssertionError(test + ", " + mode + ":\n" + String.join("\n", failures));
        }
        Files.delete(capture);
    }

    /** Compares the report with each line of expectations. */
    private void expect(Json report) {
        Map<String, Integer> lineOf = tags();
        Set<String> used = new HashSet<>();
        int whole = 0;
        int named = 0;
        for (int i = 0; i < source.size(); i++) {
            String text = source.get(i);
            if (!text.contains("@debuginfo")) {
                continue;
            }
            Matcher line = LINE.matcher(text);
            Check.that(line.matches(), test + ".java:" + (i + 1) + ": not an expectation: " + text.trim());
            Set<String> modes = new HashSet<>(List.of(line.group("modes").split(",")));
            for (String name : modes) {
                Check.that(MODES.contains(name) || name.equals("all"), test + ".java:" + (i + 1) + ": no mode " + name);
            }
            String tag = line.group("tag");
            Check.that(tag == null || lineOf.containsKey(tag), test + ".java:" + (i + 1) + ": no line ends with // @" + tag);
            used.add(tag);
            if (!modes.contains("all") && !modes.contains(mode)) {
                continue;
            }
            boolean isNamed = line.group("method") != null || tag != null || line.group("osr") != null;
            whole += isNamed ? 0 : 1;
            named += isNamed ? 1 : 0;
            List<Json> places = new ArrayList<>();
            for (Json place : report.get("places").list()) {
                if (matches(place, line.group("method"), tag == null ? null : lineOf.get(tag), line.group("osr") != null)) {
                    places.add(place);
                }
            }
            for (String count : line.group("counts").split(", *")) {
                Matcher m = COUNT.matcher(count);
                Check.that(m.matches(), test + ".java:" + (i + 1) + ": not a count: " + count);
                check(i + 1, text.trim(), m, isNamed ? places : null, report);
            }
        }
        for (String tag : lineOf.keySet()) {
            Check.that(used.contains(tag), test + ".java: nothing is expected at // @" + tag);
        }
        Check.that(whole > 0 && named > 0, test + ".java: " + mode + " needs an expectation for the whole capture and one for a place");
    }

    private void check(int number, String text, Matcher m, List<Json> places, Json report) {
        String kind = m.group("kind");
        String compiler = m.group("compiler");
        Check.that(kind == null || KINDS.contains(kind), test + ".java:" + number + ": no kind " + kind);
        Set<String> verdicts = verdicts(m.group("verdict"), number);
        boolean times = m.group("times") != null;
        long seen = 0;
        StringBuilder those = new StringBuilder();
        if (places == null) {
            for (Json row : report.get("kinds").list()) {
                if (kind != null && !row.get("kind").text().equals(kind)
                        || compiler != null && !row.get("compiler").text().equalsIgnoreCase(compiler)) {
                    continue;
                }
                for (String verdict : verdicts) {
                    if (row.get("verdicts").has(verdict)) {
                        seen += row.get("verdicts").get(verdict).get(times ? "executions" : "places").number();
                    }
                }
            }
        } else {
            for (Json place : places) {
                if (kind != null && !place.get("kind").text().equals(kind)
                        || compiler != null && !place.get("compiler").text().equalsIgnoreCase(compiler)) {
                    continue;
                }
                those.append("\n      ").append(describePlace(place));
                if (verdicts.contains(place.get("verdict").text())) {
                    seen += times ? place.get("executions").number() : 1;
                }
            }
        }
        long wanted = Long.parseLong(m.group("number"));
        boolean holds = switch (m.group("op")) {
            case "=" -> seen == wanted;
            case ">=" -> seen >= wanted;
            default -> seen <= wanted;
        };
        System.out.println((holds ? "holds: " : "FAILS: ") + test + ".java:" + number + " " + m.group() + ": seen " + seen);
        if (!holds) {
            failures.add("  " + test + ".java:" + number + ": " + text + "\n    " + m.group() + ": seen " + seen + those);
        }
    }

    private Set<String> verdicts(String name, int number) {
        Set<String> all = new HashSet<>(GOOD);
        switch (name) {
            case "judged": all.addAll(WRONG); return all;
            case "good": return all;
            case "wrong": return WRONG;
            default:
                Check.that(GOOD.contains(name) || WRONG.contains(name) || name.equals("not-judged"),
                        test + ".java:" + number + ": no verdict " + name);
                return Set.of(name);
        }
    }

    /** The lines that tags at their ends name. */
    private Map<String, Integer> tags() {
        Map<String, Integer> lines = new HashMap<>();
        for (int i = 0; i < source.size(); i++) {
            Matcher tag = TAG.matcher(source.get(i));
            if (tag.find()) {
                Check.that(lines.put(tag.group(1), i + 1) == null, test + ".java: two lines end with // @" + tag.group(1));
            }
        }
        return lines;
    }

    private static boolean matches(Json place, String method, Integer line, boolean osr) {
        Json frame = place.get("frames").list().get(0);
        if (osr && place.get("osr_bci").isNull()) {
            return false;
        }
        if (method != null && !frame.get("method").text().split("\\(")[0].endsWith("." + method)) {
            return false;
        }
        return line == null || !frame.get("line").isNull() && frame.get("line").number() == line;
    }

    private static String frames(Json frames) {
        List<String> all = new ArrayList<>();
        for (Json f : frames.list()) {
            all.add(f.get("method") + " @" + f.get("bci") + " (line " + f.get("line") + ")");
        }
        return String.join(" in ", all);
    }

    private static String describePlace(Json p) {
        return p.get("compiler") + " " + p.get("kind") + " " + p.get("verdict") + " " + p.get("executions") + " times: "
                + frames(p.get("frames")) + (p.get("osr_bci").isNull() ? "" : ", OSR at " + p.get("osr_bci"));
    }

    private static String describe(Json f) {
        return f.get("verdict") + ": " + f.get("compiler") + " " + f.get("kind") + " at +" + f.get("offset") + " of "
                + f.get("method") + ", compile id " + f.get("compile_id") + ", " + f.get("executions") + " times: "
                + f.get("why") + "\n  debug info " + frames(f.get("debug_info")) + (f.get("reexecute").toString().equals("true") ? ", reexecute" : "")
                + "\n  block      " + frames(f.get("control")) + "\n  control    " + f.get("did") + "\n  see        " + f.get("see");
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
