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
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Records a test of {@code jtreg/stacks} with the stacks agent, and judges the stacks by the flow.
 * The program is recorded twice: with probes, in which GetStackTrace, AsyncGetCallTrace,
 * StackWalker and Throwable take stacks in place; and without, while signals and another thread
 * take stacks at any moment. {@code docs/validate-c2.md} has the grammar of the test's
 * expectations.
 *
 * <p>Arguments: the mode ({@code interpreter}, {@code c1}, {@code c2} or {@code tiered}), the
 * test's class, its rounds in the first and in the second recording (0: there is none), further
 * options of the agent ({@code agent:max-depth=2048}) and of the VM.
 */
public final class Stacks {
    /** Interpreted code takes some ten times as long. */
    private static final int INTERPRETER_DIVISOR = 8;
    /** Fewer signals say nothing: another process had the machine. */
    private static final long ENOUGH_SIGNALS = 20;
    private static final int ATTEMPTS = 3;
    private static final Pattern LINE = Pattern.compile("\\s*// @stacks (?<modes>[\\w,]+): (?<counts>.*)");
    private static final Pattern COUNT = Pattern.compile(
            "(?:(?<tier>interpreter|c1|c2|native)(?<inlined> inlined)? frames|in (?<method>[\\w$./<>]+)|(?<depth>deepest)) >= (?<number>\\d+)");
    private static final Pattern ALLOW = Pattern.compile(
            "\\s*// @stacks-allow (?<modes>[\\w,]+) (?<rate>0\\.\\d+): (?<why>.+)");

    private final String mode;
    private final String test;
    private final List<String> agent = new ArrayList<>();
    private final List<String> options = new ArrayList<>();
    private final List<String> source;
    private final Path directory;
    private final List<String> failures = new ArrayList<>();

    private Stacks(String mode, String test, List<String> more) throws IOException {
        this.mode = mode;
        this.test = test;
        for (String word : more) {
            if (word.startsWith("agent:")) {
                agent.add(word.substring("agent:".length()));
            } else {
                options.add(word);
            }
        }
        source = Files.readAllLines(Path.of(System.getProperty("test.src"), test + ".java"));
        directory = Vm.emptyDirectory("stacks");
    }

    public static void main(String[] args) throws Exception {
        Check.that(args.length >= 4 && Program.MODES.containsKey(args[0]),
                "usage: Stacks interpreter|c1|c2|tiered TEST ROUNDS ROUNDS [agent:OPTION ...] [VM OPTION ...]");
        Stacks stacks = new Stacks(args[0], args[1], Arrays.asList(args).subList(4, args.length));
        int divisor = args[0].equals("interpreter") ? INTERPRETER_DIVISOR : 1;
        int inPlace = Integer.parseInt(args[2]);
        int anyMoment = Integer.parseInt(args[3]);
        if (inPlace > 0) {
            stacks.inPlace(inPlace);
        }
        if (anyMoment > 0) {
            stacks.anyMoment(Math.max(anyMoment / divisor, 1));
        }
        if (!stacks.failures.isEmpty()) {
            throw new AssertionError(args[1] + ", " + args[0] + ":\n" + String.join("\n", stacks.failures));
        }
    }

    private void inPlace(int rounds) throws Exception {
        Path log = directory.resolve("place");
        Path prepared = directory.resolve("prepared");
        Path library = agentLibrary();
        String oracle = "-javaagent:" + Vm.root().resolve("build/oracle/jportal-oracle.jar") + "=out=";
        Program program = program(rounds);
        // The agent instruments the classes in a run that is not recorded, because its work is no
        // part of the test.
        List<String> untraced = program.words(List.of(oracle + directory.resolve("unused") + ",save=" + prepared));
        Vm.java(directory, untraced.toArray(String[]::new)).exits(0);
        List<String> with = List.of("-agentpath:" + library + "=" + agentOptions("gst,asgct,walker,throwable,check=0.02"),
                oracle + log + ",library=" + library + ",use=" + prepared);
        Path capture = directory.resolve(test + "-" + mode + "-place.jportal");
        Vm.Result recorded = program.record(capture, List.of("--cores", "3", "--timing", "tsc"), with);
        compareOutput(program, recorded);
        Json report = validate(capture, log, "0");
        long judged = report.get("judged").number();
        long samples = report.get("samples").number();
        if (judged * 10 < samples * 9) {
            failures.add("  in place: only " + judged + " of " + samples + " stacks were judged: " + report.get("not_judged"));
        }
        expect(report, new StacksLog(log).stacks(".stacks"));
        Files.delete(prepared);
        forget(capture);
    }

    private void anyMoment(int rounds) throws Exception {
        for (int attempt = 1; ; attempt++, rounds *= 4) {
            Path log = directory.resolve("any" + attempt);
            Path capture = directory.resolve(test + "-" + mode + "-any.jportal");
            Program program = program(rounds);
            Vm.Result recorded = program.record(capture, List.of("--cores", "3", "--timing", "cyc"),
                    List.of("-agentpath:" + agentLibrary() + "=" + agentOptions("asgct-async,gst-other,interval=300,out=" + log)));
            compareOutput(program, recorded);
            StacksLog taken = new StacksLog(log);
            long own = taken.stacks(".async").stream().filter(s -> s.isOf(test)).count();
            System.out.println("at any moment, " + rounds + " rounds: " + taken.sent() + " signals, " + own + " stacks of " + test);
            if (own == 0 && attempt < ATTEMPTS) {
                continue;
            }
            Json report = validate(capture, log, allowed());
            if (taken.sent() > ENOUGH_SIGNALS) {
                if (report.get("judged").number() == 0) {
                    failures.add("  at any moment: no stack was judged: " + report.get("not_judged"));
                }
                if (own == 0) {
                    failures.add("  at any moment: no stack has a frame of " + test);
                }
            }
            forget(capture);
            return;
        }
    }

    private Program program(int rounds) {
        return new Program(mode, test, options, List.of(Integer.toString(rounds)), directory);
    }

    private static Path agentLibrary() {
        return Vm.root().resolve("build/programs/libjportal_stacks.so");
    }

    private String agentOptions(String first) {
        List<String> all = new ArrayList<>(List.of(first));
        all.addAll(agent);
        return String.join(",", all);
    }

    private void compareOutput(Program program, Vm.Result recorded) throws Exception {
        String expected = program.expected();
        if (!expected.equals(recorded.out())) {
            failures.add("  output: the interpreter printed " + expected + "  the recorded VM printed " + recorded.out());
        }
    }

    /** Judges the stacks of a log. Broken ones are failures. */
    private Json validate(Path capture, Path log, String allow) throws Exception {
        List<String> validate = List.of(Program.jportal(), "validate", "stacks", capture.toString(), "--log", log.toString(),
                "--json", "--allow", allow);
        System.out.println("to look at it: " + String.join(" ", validate.subList(0, 5)));
        Vm.Result judged = Vm.run(directory, validate, Vm.LONG_PATIENCE_SECONDS);
        Json report = Json.parse(judged.out());
        for (Json row : report.get("apis").list()) {
            System.out.println(row.get("api").text() + ": " + row.get("samples") + " stacks, " + row.get("judged") + " judged, "
                    + row.get("broken") + " broken, verdicts " + row.get("verdicts") + ", details " + row.get("details") + ", errors "
                    + row.get("errors"));
        }
        Check.that(report.get("log_errors").list().isEmpty(), "errors of the log: " + report.get("log_errors"));
        Check.that(judged.status() <= 1, "exit status of " + judged);
        if (judged.status() == 1) {
            failures.add("  " + report.get("broken") + " of " + report.get("judged") + " stacks are broken: " + report.get("groups"));
            report.get("findings").list().stream().limit(5).forEach(f -> System.out.println(describe(f)));
        }
        return report;
    }

    /** Compares the stacks in place with the lines of expectations. */
    private void expect(Json report, List<StacksLog.Stack> stacks) {
        int lines = 0;
        for (int i = 0; i < source.size(); i++) {
            if (!source.get(i).contains("// @stacks ")) {
                continue;
            }
            String where = test + ".java:" + (i + 1);
            Matcher line = LINE.matcher(source.get(i));
            Check.that(line.matches(), where + ": not an expectation: " + source.get(i).trim());
            if (!applies(line.group("modes"), where)) {
                continue;
            }
            lines++;
            for (String count : line.group("counts").split(", *")) {
                Matcher m = COUNT.matcher(count);
                Check.that(m.matches(), where + ": not a count: " + count);
                long seen = count(m, report, stacks);
                boolean holds = seen >= Long.parseLong(m.group("number"));
                System.out.println((holds ? "holds: " : "FAILS: ") + where + " " + count + ": seen " + seen);
                if (!holds) {
                    failures.add("  " + where + ": " + count + ": seen " + seen);
                }
            }
        }
        Check.that(lines > 0, test + ".java: nothing is expected of " + mode);
    }

    private static long count(Matcher m, Json report, List<StacksLog.Stack> stacks) {
        if (m.group("depth") != null) {
            return stacks.stream().mapToLong(s -> s.frames().size()).max().orElse(0);
        }
        if (m.group("method") != null) {
            return stacks.stream().filter(s -> s.api() == StacksLog.GST && s.has(m.group("method"))).count();
        }
        long frames = 0;
        for (Json row : report.get("frames").list()) {
            boolean isInlined = row.get("inlined").toString().equals("true");
            if (row.get("api").text().equals("gst") && row.get("tier").text().equalsIgnoreCase(m.group("tier"))
                    && isInlined == (m.group("inlined") != null)) {
                frames += row.get("frames").number();
            }
        }
        return frames;
    }

    /** The part of the stacks taken at any moment that may be broken. */
    private String allowed() {
        String rate = "0";
        for (int i = 0; i < source.size(); i++) {
            if (source.get(i).contains("// @stacks-allow ")) {
                String where = test + ".java:" + (i + 1);
                Matcher line = ALLOW.matcher(source.get(i));
                Check.that(line.matches(), where + ": not an allowance: " + source.get(i).trim());
                rate = applies(line.group("modes"), where) ? line.group("rate") : rate;
            }
        }
        return rate;
    }

    private boolean applies(String modes, String where) {
        Set<String> all = Set.of(modes.split(","));
        for (String name : all) {
            Check.that(Program.MODES.containsKey(name) || name.equals("all"), where + ": no mode " + name);
        }
        return all.contains("all") || all.contains(mode);
    }

    /** Deletes a capture that shows no fault. */
    private void forget(Path capture) throws IOException {
        if (failures.isEmpty()) {
            Files.delete(capture);
        }
    }

    private static String describe(Json f) {
        return f.get("api").text() + " " + f.get("verdict").text() + " " + f.get("tags") + ", thread " + f.get("thread")
                + ", frame " + f.get("at") + "\n  taken " + f.get("taken") + "\n  truth " + f.get("truth") + "\n  see   "
                + f.get("see").text();
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
