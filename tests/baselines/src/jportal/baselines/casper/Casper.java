// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import jportal.baselines.Tokens;
import jportal.baselines.agent.Log;

/** The commands of Casper. */
public final class Casper {
    private Casper() {}

    /** Writes a plan for all classes of a path. */
    public static void plan(String kind, String path, Path out) throws IOException {
        Program program = Program.read(path);
        Grammar grammar = new Grammar(program.functions());
        Planner planner = new Planner(grammar);
        switch (kind) {
            case "casper" -> planner.casper();
            case "bri" -> planner.branches();
            default -> throw new IllegalArgumentException("kind " + kind + " is neither casper nor bri");
        }
        if (!planner.feasible()) {
            throw new IllegalStateException("the plan is not feasible");
        }
        StringBuilder text = new StringBuilder("id\tkind\tclass\tmethod\tdescriptor\tbci\tline\topcode\tlogged\tchecked\ttargets\n");
        int[] counts = new int[5];
        for (Function function : program.functions()) {
            String method = "\t" + function.type + "\t" + function.code.method.name + "\t" + function.code.method.desc + "\t";
            for (Site site : function.sites.values()) {
                int opcode = function.code.insns[site.insn].getOpcode();
                text.append(site.id).append('\t').append(site.call ? "call" : "return").append(method)
                        .append(function.code.bcis[site.insn]).append('\t').append(function.code.lines[site.insn])
                        .append('\t').append(opcode).append('\t').append(site.writes() ? 1 : site.logged ? 2 : 0)
                        .append('\t').append(site.checked() ? 1 : 0).append('\t');
                site.targets.forEach(target -> text.append(target.exit).append(' '));
                text.append('\n');
                counts[0]++;
                counts[1] += site.library ? 1 : 0;
                counts[2] += site.targets.size() > 1 ? 1 : 0;
                counts[3] += site.writes() ? 1 : 0;
                counts[4] += site.checked() ? 1 : 0;
            }
            text.append(function.exit).append("\texit").append(method).append("\t\t\t\t\t\n");
        }
        Files.writeString(out, text);
        System.out.println(kind + ": " + counts[0] + " sites, " + counts[1] + " library sites, " + counts[2]
                + " virtual sites; " + counts[3] + " log, " + counts[4] + " check");
    }

    /**
     * Plans each small class of a path alone, with both kinds and by trial of all sets. Prints for
     * each class its name and the numbers of sites: all, {@code bri}, {@code casper}, the least.
     * Returns whether all plans are feasible, which {@link Least} judges.
     */
    public static boolean least(String path) throws IOException {
        boolean feasible = true;
        for (Map.Entry<String, Program> entry : Program.each(path).entrySet()) {
            List<Function> functions = List.copyOf(entry.getValue().functions());
            boolean small = functions.stream().mapToInt(f -> f.sites.size()).sum() <= Least.LIMIT
                    && functions.stream().flatMap(f -> f.sites.values().stream()).allMatch(s -> s.targets.size() < 2);
            if (!small) {
                continue;
            }
            Least least = new Least(functions);
            int[] counts = new int[2];
            for (int kind = 0; kind < counts.length; kind++) {
                functions.forEach(f -> f.sites.values().forEach(site -> site.logged = false));
                Planner planner = new Planner(new Grammar(functions));
                if (kind == 0) {
                    planner.branches();
                } else {
                    planner.casper();
                }
                counts[kind] = Long.bitCount(least.logged());
                if (!least.feasible(least.logged())) {
                    System.out.println(entry.getKey() + "\tnot feasible: " + (kind == 0 ? "bri" : "casper"));
                    feasible = false;
                }
            }
            System.out.println(entry.getKey() + "\t" + least.sites() + "\t" + counts[0] + "\t" + counts[1] + "\t"
                    + least.least(counts[1]));
        }
        return feasible;
    }

    /**
     * Plans a path, and judges the greedy covers of functions with few conflicts by all covers.
     * Prints the number of covers, of those judged, of their sites, of the sites of the least
     * covers, and of the covers that are larger than the least. Returns whether all are within the
     * bound of {@link Cover}.
     */
    public static boolean covers(String path) throws IOException {
        Planner planner = new Planner(new Grammar(Program.read(path).functions()));
        planner.covers = new ArrayList<>();
        planner.casper();
        List<Cover> small = planner.covers.stream().filter(Cover::isSmall).toList();
        System.out.println(planner.covers.size() + "\t" + small.size() + "\t"
                + small.stream().mapToInt(cover -> cover.chosen).sum() + "\t"
                + small.stream().mapToInt(Cover::least).sum() + "\t"
                + small.stream().filter(cover -> cover.chosen > cover.least()).count());
        return small.stream().allMatch(Cover::isWithinBound);
    }

    /**
     * Expands the logs of a run and compares them with those of a run in mode {@code fi}. Returns
     * whether they are equal.
     */
    public static boolean compare(String path, Path plan, Path folder, Path full) throws IOException {
        Planned planned = Planned.read(path, plan);
        Map<Integer, Site> sites = planned.sites;
        Map<Integer, Log> ours = logs(folder);
        Map<Integer, Log> theirs = logs(full);
        boolean same = ours.keySet().equals(theirs.keySet());
        if (!same) {
            System.out.println("threads " + ours.keySet() + " and " + theirs.keySet());
        }
        long words = 0;
        long tokens = 0;
        for (int thread : ours.keySet()) {
            if (!theirs.containsKey(thread)) {
                continue;
            }
            Expander expander = planned.expander(ours.get(thread));
            String failure = null;
            try {
                expander.expand();
            } catch (IOException error) {
                failure = error.getMessage();
            }
            List<int[]> expected = split(theirs.get(thread), sites);
            List<int[]> found = new ArrayList<>(List.of(expander.main.all()));
            expander.implicit.forEach(trace -> found.add(trace.all()));
            for (int i = 0; i < Math.max(expected.size(), found.size()); i++) {
                int[] a = i < found.size() ? found.get(i) : new int[0];
                int[] b = i < expected.size() ? expected.get(i) : new int[0];
                int at = Arrays.mismatch(a, b);
                if (at >= 0) {
                    same = false;
                    System.out.println("thread " + thread + ", trace " + i + ": token " + at + " of " + a.length + " and "
                            + b.length + ": " + name(a, at, sites) + ", not " + name(b, at, sites));
                }
                tokens += b.length;
            }
            if (failure != null || expander.truncated) {
                same = false;
                System.out.println(failure != null ? failure : "thread " + thread + ": truncated");
            }
            words += ours.get(thread).length();
        }
        System.out.println((same ? "equal: " : "different: ") + tokens + " tokens from " + words + " words");
        return same;
    }

    /** Expands the logs of a run. Prints the numbers of tokens and words. */
    public static void expand(String path, Path plan, Path folder) throws IOException {
        Planned planned = Planned.read(path, plan);
        long words = 0;
        long tokens = 0;
        for (Log log : logs(folder).values()) {
            Expander expander = planned.expander(log);
            expander.expand();
            tokens += expander.main.all().length;
            tokens += expander.implicit.stream().mapToLong(trace -> trace.all().length).sum();
            words += log.length();
        }
        System.out.println(tokens + " tokens from " + words + " words");
    }

    /** A program and the sites that its logs have. */
    private record Planned(Grammar grammar, Map<Integer, Function> byExit, Map<Integer, Site> sites) {
        static Planned read(String path, Path plan) throws IOException {
            Program program = Program.read(path);
            Map<Integer, Function> byExit = new HashMap<>();
            Map<Integer, Site> sites = new HashMap<>();
            for (Function function : program.functions()) {
                byExit.put(function.exit, function);
                function.sites.values().forEach(site -> sites.put(site.id, site));
            }
            List<String> lines = Files.readAllLines(plan);
            for (String line : lines.subList(1, lines.size())) {
                String[] cells = line.split("\t", -1);
                Site site = sites.get(Integer.parseInt(cells[0]));
                if (site != null) {
                    site.logged = !cells[8].equals("0");
                }
            }
            Grammar grammar = new Grammar(program.functions());
            grammar.order.forEach(grammar::compute);
            return new Planned(grammar, byExit, sites);
        }

        Expander expander(Log log) {
            Expander expander = new Expander(log, grammar, byExit);
            expander.sites = sites;
            return expander;
        }
    }

    private static String name(int[] trace, int at, Map<Integer, Site> sites) {
        if (at >= trace.length) {
            return "the end";
        }
        Site site = sites.get(trace[at]);
        return site == null ? "exit " + trace[at]
                : site.function.key() + "@" + site.function.code.bcis[site.insn];
    }

    private static Map<Integer, Log> logs(Path folder) throws IOException {
        Map<Integer, Log> logs = new TreeMap<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".words")).toList()) {
                Log log = Log.read(file);
                logs.put(log.number(), log);
            }
        }
        return logs;
    }

    /** The main trace, and those of class initializers in order of their beginnings. */
    private static List<int[]> split(Log log, Map<Integer, Site> sites) {
        List<Expander.Trace> traces = new ArrayList<>(List.of(new Expander.Trace()));
        List<Integer> open = new ArrayList<>(List.of(0));
        List<Integer> ends = new ArrayList<>(List.of(-1));
        for (int i = 0; i < log.length(); i++) {
            int word = log.word(i);
            if (word == Tokens.IMPLICIT) {
                open.add(traces.size());
                ends.add(log.word(++i));
                traces.add(new Expander.Trace());
                continue;
            }
            int top = open.size() - 1;
            traces.get(open.get(top)).add(word);
            Site site = sites.get(word);
            boolean leaves = site == null || !site.call;
            int function = site == null ? word : site.function.exit;
            if (leaves && function == ends.get(top)) {
                open.remove(top);
                ends.remove(top);
            }
        }
        return traces.stream().map(Expander.Trace::all).toList();
    }
}
