// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import jportal.oracle.Probe;

/**
 * The agent's entry: opens the log, registers the transformer and, on request, retransforms loaded
 * classes. No lambda, no invokedynamic: these start parts of the VM that the program may never use.
 */
public final class Agent {
    private Agent() {}

    public static void premain(String arguments, Instrumentation instrumentation) throws IOException {
        Options options = Options.parse(arguments);
        Files.createDirectories(options.out());
        Prepared prepared = new Prepared(options.use(), options.save());
        Tables tables = new Tables(options.out(), prepared.firstFreeId());
        tables.describe(arguments == null ? "" : arguments);
        Probe.start(options.library().toString(), options.out().toString());
        instrumentation.addTransformer(new Transformer(options, tables, prepared), true);
        if (options.jre()) {
            retransformLoaded(instrumentation, options, tables);
        }
    }

    /** Retransforms the classes that were loaded before the agent registered its transformer. */
    private static void retransformLoaded(Instrumentation instrumentation, Options options, Tables tables) {
        List<Class<?>> wanted = new ArrayList<>();
        for (Class<?> type : instrumentation.getAllLoadedClasses()) {
            String name = type.getName().replace('.', '/');
            if (type.isArray() || type.isPrimitive() || !options.wants(name, type.getClassLoader())) {
                continue;
            }
            if (type.isHidden() || !instrumentation.isModifiableClass(type)) {
                tables.skip(name, "*", type.isHidden() ? "hidden class" : "not modifiable");
            } else {
                wanted.add(type);
            }
        }
        try {
            instrumentation.retransformClasses(wanted.toArray(new Class<?>[0]));
        } catch (Throwable error) {
            retransformSingly(instrumentation, wanted, tables);
        }
    }

    /** One bad class fails a whole batch: this retransforms one by one and lists the failures. */
    private static void retransformSingly(Instrumentation instrumentation, List<Class<?>> wanted, Tables tables) {
        for (Class<?> type : wanted) {
            try {
                instrumentation.retransformClasses(type);
            } catch (Throwable error) {
                tables.skip(type.getName().replace('.', '/'), "*", "retransformation failed: " + error);
            }
        }
    }
}
