// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import jportal.baselines.agent.Code;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.MethodInsnNode;

/**
 * The application: all classes of some folders and jars, as a closed world. Targets of virtual
 * calls follow from the hierarchy of classes alone. A call through an interface may reach an
 * unknown class, such as a lambda's.
 */
final class Program {
    private final Map<String, ClassNode> classes = new TreeMap<>();
    private final Map<String, List<String>> subclasses = new HashMap<>();
    private final Map<String, Function> functions = new TreeMap<>();

    static Program read(String path) throws IOException {
        Program program = new Program();
        classFiles(path).forEach(program::add);
        program.link();
        return program;
    }

    /** Each class of a path as a program of its own. */
    static Map<String, Program> each(String path) throws IOException {
        Map<String, Program> programs = new TreeMap<>();
        for (byte[] classFile : classFiles(path)) {
            Program program = new Program();
            program.add(classFile);
            program.link();
            programs.putIfAbsent(program.classes.keySet().iterator().next(), program);
        }
        return programs;
    }

    private static List<byte[]> classFiles(String path) throws IOException {
        List<byte[]> all = new ArrayList<>();
        for (String part : path.split(":")) {
            if (part.endsWith(".jar")) {
                try (JarFile jar = new JarFile(part)) {
                    for (var entry : jar.stream().filter(e -> isClass(e.getName())).toList()) {
                        try (InputStream in = jar.getInputStream(entry)) {
                            all.add(in.readAllBytes());
                        }
                    }
                }
            } else {
                try (Stream<Path> files = Files.walk(Path.of(part))) {
                    for (Path file : files.filter(f -> isClass(f.toString())).sorted().toList()) {
                        all.add(Files.readAllBytes(file));
                    }
                }
            }
        }
        return all;
    }

    private static boolean isClass(String name) {
        return name.endsWith(".class") && !name.endsWith("module-info.class") && !name.contains("META-INF/versions/");
    }

    private void add(byte[] classFile) {
        List<Code> codes = new ArrayList<>();
        ClassNode node = Code.read(classFile, codes);
        if (classes.putIfAbsent(node.name, node) != null) {
            return;
        }
        for (Code code : codes) {
            Function function = new Function(node.name, code);
            functions.put(function.key(), function);
        }
    }

    /** By class, name and descriptor. */
    Collection<Function> functions() {
        return functions.values();
    }

    private void link() {
        for (ClassNode node : classes.values()) {
            if (node.superName != null) {
                subclasses.computeIfAbsent(node.superName, name -> new ArrayList<>()).add(node.name);
            }
        }
        int id = 0;
        for (Function function : functions.values()) {
            for (Site site : function.sites.values()) {
                site.id = id++;
                if (site.call) {
                    findTargets(site);
                }
            }
            function.exit = id++;
        }
    }

    private void findTargets(Site site) {
        MethodInsnNode call = Function.named(site);
        if (call == null || call.getOpcode() == Opcodes.INVOKEINTERFACE) {
            site.library = true;
            return;
        }
        if (call.owner.equals("java/lang/Object") && call.name.equals("<init>")) {
            // Calls nothing of the application.
            return;
        }
        Set<Function> targets = new LinkedHashSet<>();
        String method = call.name + call.desc;
        if (call.getOpcode() != Opcodes.INVOKEVIRTUAL) {
            site.library = !resolve(call.owner, method, targets);
        } else if (!classes.containsKey(call.owner)) {
            site.library = true;
        } else {
            List<String> receivers = new ArrayList<>(List.of(call.owner));
            for (int i = 0; i < receivers.size(); i++) {
                receivers.addAll(subclasses.getOrDefault(receivers.get(i), List.of()));
            }
            for (String receiver : receivers) {
                boolean isAbstract = (classes.get(receiver).access & Opcodes.ACC_ABSTRACT) != 0;
                if (!isAbstract && !resolve(receiver, method, targets)) {
                    site.library = true;
                }
            }
            site.library |= targets.isEmpty();
        }
        if (!site.library) {
            site.targets.addAll(targets);
        }
    }

    /** Adds what a method is in a class; false if library code declares it, or nobody does. */
    private boolean resolve(String type, String method, Set<Function> targets) {
        for (String at = type; at != null; at = classes.get(at).superName) {
            if (!classes.containsKey(at)) {
                return false;
            }
            Function function = functions.get(at + "." + method);
            if (function != null) {
                return targets.add(function) || true;
            }
            boolean declared = classes.get(at).methods.stream().anyMatch(m -> method.equals(m.name + m.desc));
            if (declared) {
                // Abstract or native.
                return false;
            }
        }
        return false;
    }
}
