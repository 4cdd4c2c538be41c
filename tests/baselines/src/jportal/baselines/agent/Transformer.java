// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import jportal.baselines.Registry;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodTooLargeException;
import org.objectweb.asm.tree.ClassNode;

/** Instruments classes. Never throws: lists a class, or a method, that it leaves alone. */
final class Transformer implements ClassFileTransformer {
    private final Options options;
    private final Tables tables;
    private final Mode mode;
    /** Null if none is wanted. */
    private final OriginalMap map;
    /** Counts probes, for {@code fault}. */
    private int probes;

    Transformer(Options options, Tables tables, Mode mode) throws IOException {
        this.options = options;
        this.tables = tables;
        this.mode = mode;
        map = options.map() ? new OriginalMap(options.out(), Options.HIDDEN) : null;
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] classFile) {
        if (name == null || redefined != null || !options.wants(name, loader)) {
            return null;
        }
        try {
            return instrument(loader, name, classFile);
        } catch (Throwable error) {
            Registry.skip(name, "*", "not instrumented: " + error);
            return null;
        }
    }

    /** Synchronized, so that numbers of probes do not depend on other threads. */
    private synchronized byte[] instrument(ClassLoader loader, String name, byte[] classFile) throws Exception {
        Set<String> alone = new HashSet<>();
        List<Registry.Skipped> skipped = new ArrayList<>();
        List<Code> codes = new ArrayList<>();
        Code.read(classFile, codes);
        int firstId = Registry.reserve(codes.size());
        int firstProbe = probes;
        while (true) {
            codes.clear();
            ClassNode node = Code.read(classFile, codes);
            List<Registry.Entry> entries = new ArrayList<>();
            List<OriginalMap.Original> originals = new ArrayList<>();
            skipped.removeIf(skip -> !alone.contains(skip.method()));
            probes = firstProbe;
            for (int i = 0; i < codes.size(); i++) {
                Code code = codes.get(i);
                if (alone.contains(code.key())) {
                    continue;
                }
                String reason = Weaver.refuses(code);
                Shape shape = reason != null ? null : mode.shape(code);
                Probes own = null;
                if (reason == null) {
                    reason = mode.refuses(name, code);
                    own = reason == null ? mode.probes(name, code, shape, firstId + i) : null;
                }
                if (own == null) {
                    skipped.add(new Registry.Skipped(name, code.key(), reason));
                    continue;
                }
                if (map != null) {
                    originals.add(OriginalMap.Original.of(name, code));
                }
                probes = new Weaver(node.version, code, own, options.fault(), probes).weave();
                entries.add(new Registry.Entry(firstId + i, name, loaderName(loader), code.method.name,
                        code.method.desc, shape));
            }
            ClassWriter writer = new ClassWriter(new ClassReader(classFile), 0);
            node.accept(writer);
            byte[] result;
            try {
                result = entries.isEmpty() ? null : writer.toByteArray();
            } catch (MethodTooLargeException error) {
                String key = error.getMethodName() + error.getDescriptor();
                if (!alone.add(key)) {
                    throw error;
                }
                skipped.add(new Registry.Skipped(name, key, "method too large with probes"));
                continue;
            }
            if (map != null && result != null && !mapped(node, result, originals, alone, skipped)) {
                continue;
            }
            tables.add(entries);
            entries.forEach(Registry::set);
            skipped.forEach(skip -> Registry.skip(skip.type(), skip.method(), skip.reason()));
            return result;
        }
    }

    /** Writes the map of a class; false if a method must be left alone for that. */
    private boolean mapped(ClassNode node, byte[] result, List<OriginalMap.Original> originals, Set<String> alone,
            List<Registry.Skipped> skipped) throws IOException {
        List<Code> codes = originals.stream().map(OriginalMap.Original::code).toList();
        Map<Code, int[]> places = OriginalMap.places(node, result, codes);
        for (Code code : codes) {
            if (places.get(code) == null && alone.add(code.key())) {
                skipped.add(new Registry.Skipped(node.name, code.key(), "jumps too long with probes"));
                return false;
            }
        }
        for (OriginalMap.Original original : originals) {
            map.add(original, places.get(original.code()));
        }
        return true;
    }

    private static String loaderName(ClassLoader loader) {
        String type = loader.getClass().getName().replace('.', '/');
        return loader.getName() == null ? type : type + " '" + loader.getName() + "'";
    }
}
