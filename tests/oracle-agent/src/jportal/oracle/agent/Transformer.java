// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;

/** Instruments classes that the options want. Never throws: lists a class that it cannot handle. */
final class Transformer implements ClassFileTransformer {
    private final Options options;
    private final Tables tables;
    private final Prepared prepared;

    Transformer(Options options, Tables tables, Prepared prepared) {
        this.options = options;
        this.tables = tables;
        this.prepared = prepared;
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] classFile) {
        if (name == null || !options.wants(name, loader)) {
            return null;
        }
        try {
            Prepared.Entry entry = prepared.take(name, classFile);
            return entry == null ? instrument(loader, name, classFile) : fetch(entry);
        } catch (Throwable error) {
            tables.skip(name, "*", "not instrumented: " + error);
            return null;
        }
    }

    private byte[] fetch(Prepared.Entry entry) {
        tables.writeSkipped(entry.skipped());
        tables.writeProbes(entry.probes());
        return entry.classFile();
    }

    private byte[] instrument(ClassLoader loader, String name, byte[] classFile) {
        Instrumenter.Result result = new Instrumenter(classFile, tables).run();
        if (result == null) {
            return null;
        }
        StringBuilder skipped = new StringBuilder();
        for (String method : result.skippedMethods()) {
            skipped.append(Tables.skipLine(name, method, "method too large with probes"));
        }
        String probes = Tables.probeLines(name, loader, result.sites());
        if (prepared.saves()) {
            int count = result.sites().size();
            int nextId = count == 0 ? 1 : result.sites().get(count - 1).id() + 1;
            prepared.save(name, classFile, nextId, result.classFile(), probes, skipped.toString());
        }
        tables.writeSkipped(Tables.utf8(skipped.toString()));
        tables.writeProbes(Tables.utf8(probes));
        return result.classFile();
    }
}
