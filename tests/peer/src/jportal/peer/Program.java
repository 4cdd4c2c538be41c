// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import jportal.peer.OracleLog.Probe;

/** The instrumented classes: their methods, and what each probe id stands for. */
final class Program {
    final ClassFiles files;
    /** By class, then by name and descriptor. */
    final Map<String, Map<String, Method>> methods = new LinkedHashMap<>();
    final List<Method> all = new ArrayList<>();
    /**
     * Classes that cannot be used, with the reason. Their probes are left out: they are library.
     */
    final Map<String, String> left = new TreeMap<>();
    /**
     * For each probe id: the number of the definition (a method in one loader and one version), -1
     * if the probe is left out.
     */
    private final int[] definition;
    private final int[] block;
    private final List<Method> definitions = new ArrayList<>();

    Program(OracleLog log, ClassFiles files) {
        this.files = files;
        int most = log.probes.stream().mapToInt(Probe::id).max().orElse(0);
        definition = new int[most + 1];
        block = new int[most + 1];
        Arrays.fill(definition, -1);
        Map<String, List<List<Probe>>> byClass = new LinkedHashMap<>();
        int last = -2;
        String loader = null;
        for (Probe probe : log.probes) {
            List<List<Probe>> versions = byClass.computeIfAbsent(probe.type(), name -> new ArrayList<>());
            boolean isNext = !versions.isEmpty() && probe.id() == last + 1 && probe.loader().equals(loader)
                    && lastOf(versions).type().equals(probe.type()) && !isBegun(versions.get(versions.size() - 1), probe);
            if (!isNext) {
                versions.add(new ArrayList<>());
            }
            versions.get(versions.size() - 1).add(probe);
            last = probe.id();
            loader = probe.loader();
        }
        byClass.forEach(this::addClass);
    }

    private static Probe lastOf(List<List<Probe>> versions) {
        List<Probe> version = versions.get(versions.size() - 1);
        return version.get(version.size() - 1);
    }

    /** Whether a probe with ordinal 0 is of a method that the version already has. */
    private static boolean isBegun(List<Probe> version, Probe probe) {
        if (probe.ordinal() != 0) {
            return false;
        }
        for (Probe other : version) {
            if (other.ordinal() == 0 && other.name().equals(probe.name()) && other.descriptor().equals(probe.descriptor())) {
                return true;
            }
        }
        return false;
    }

    private void addClass(String type, List<List<Probe>> versions) {
        ClassFile file = files.get(type);
        if (file == null) {
            left.put(type, "no class file");
            return;
        }
        for (List<Probe> version : versions) {
            Map<String, List<Probe>> byMethod = new LinkedHashMap<>();
            for (Probe probe : version) {
                byMethod.computeIfAbsent(probe.name() + probe.descriptor(), key -> new ArrayList<>()).add(probe);
            }
            Map<String, Code> codes = new HashMap<>();
            for (Map.Entry<String, List<Probe>> entry : byMethod.entrySet()) {
                Code code = code(file, entry.getKey());
                String wrong = check(code, entry.getValue());
                if (wrong != null) {
                    left.put(type, entry.getKey() + ": " + wrong);
                    return;
                }
                codes.put(entry.getKey(), code);
            }
            byMethod.forEach((key, probes) -> addMethod(type, key, codes.get(key), probes));
        }
    }

    private Code code(ClassFile file, String key) {
        Method known = methods.getOrDefault(file.name, Map.of()).get(key);
        if (known != null) {
            return known.code;
        }
        ClassFile.Member member = file.methods.get(key);
        return member == null || member.code() < 0 ? null : new Code(member);
    }

    /** Compares leaders with the log's; null if they are the same. */
    private static String check(Code code, List<Probe> probes) {
        if (code == null) {
            return "the class file has no such code";
        }
        if (code.blocks() != probes.size()) {
            return "the class file has " + code.blocks() + " leaders, the log " + probes.size();
        }
        for (Probe probe : probes) {
            if (code.leaderBci(probe.ordinal()) != probe.bci()) {
                return "leader " + probe.ordinal() + " is at " + code.leaderBci(probe.ordinal())
                        + " in the class file and at " + probe.bci() + " in the log";
            }
        }
        return null;
    }

    private void addMethod(String type, String key, Code code, List<Probe> probes) {
        Method method = methods.computeIfAbsent(type, name -> new LinkedHashMap<>()).computeIfAbsent(key, name -> {
            Method made = new Method(all.size(), type, code);
            all.add(made);
            return made;
        });
        definitions.add(method);
        for (Probe probe : probes) {
            definition[probe.id()] = definitions.size() - 1;
            block[probe.id()] = probe.ordinal();
        }
    }

    /** The instrumented method, or null. */
    Method method(String type, String key) {
        Map<String, Method> ofClass = methods.get(type);
        return ofClass == null ? null : ofClass.get(key);
    }

    boolean knows(int probe) {
        return probe > 0 && probe < definition.length && definition[probe] >= 0;
    }

    int definition(int probe) {
        return definition[probe];
    }

    int block(int probe) {
        return block[probe];
    }

    Method defined(int definition) {
        return definitions.get(definition);
    }
}
