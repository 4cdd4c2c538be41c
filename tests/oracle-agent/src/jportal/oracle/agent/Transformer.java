package jportal.oracle.agent;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;

/** Instruments each class that the options want. Never throws: a class it cannot handle stays as it is and is listed. */
final class Transformer implements ClassFileTransformer {
    private final Options options;
    private final Tables tables;

    Transformer(Options options, Tables tables) {
        this.options = options;
        this.tables = tables;
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] classFile) {
        if (name == null || !options.wants(name, loader)) {
            return null;
        }
        try {
            Instrumenter.Result result = new Instrumenter(classFile, tables).run();
            if (result == null) {
                return null;
            }
            for (String method : result.skippedMethods()) {
                tables.skip(name, method, "method too large with probes");
            }
            tables.probes(name, loader, result.sites());
            return result.classFile();
        } catch (Throwable error) {
            tables.skip(name, "*", "not instrumented: " + error);
            return null;
        }
    }
}
