// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The agent's arguments: {@code key=value} pairs joined by commas.
 *
 * @param out     directory of the log
 * @param library path of libjportal_oracle.so; by default in the folder of the agent's jar
 * @param use     file of classes prepared by an earlier run, or null
 * @param save    file to which instrumented classes go, or null
 * @param jre     also instrument the classes of the JRE
 * @param include prefixes of internal class names; if any is given, other classes are left alone
 * @param exclude prefixes of internal class names that are left alone
 */
record Options(Path out, Path library, Path use, Path save, boolean jre, List<String> include, List<String> exclude) {

    /** The agent's own classes: never instrumented. */
    private static final String OWN = "jportal/oracle/";

    static Options parse(String arguments) {
        Path out = null;
        Path library = null;
        Path use = null;
        Path save = null;
        boolean jre = false;
        List<String> include = new ArrayList<>();
        List<String> exclude = new ArrayList<>();
        for (String argument : arguments == null ? new String[0] : arguments.split(",")) {
            if (argument.isEmpty()) {
                continue;
            }
            int equals = argument.indexOf('=');
            String key = equals < 0 ? argument : argument.substring(0, equals);
            String value = equals < 0 ? "" : argument.substring(equals + 1);
            switch (key) {
                case "out" -> out = Path.of(value).toAbsolutePath();
                case "library" -> library = Path.of(value).toAbsolutePath();
                case "use" -> use = Path.of(value).toAbsolutePath();
                case "save" -> save = Path.of(value).toAbsolutePath();
                case "jre" -> jre = parseBoolean(key, value);
                case "include" -> include.add(value.replace('.', '/'));
                case "exclude" -> exclude.add(value.replace('.', '/'));
                default -> throw new IllegalArgumentException("unknown argument \"" + key
                        + "\"; known: out=DIR library=FILE use=FILE save=FILE jre=true|false include=PREFIX exclude=PREFIX");
            }
        }
        if (out == null) {
            throw new IllegalArgumentException("argument out=DIR is missing");
        }
        return new Options(out, library == null ? besideJar() : library, use, save, jre, include, exclude);
    }

    private static boolean parseBoolean(String key, String value) {
        return switch (value) {
            case "true" -> true;
            case "false" -> false;
            default -> throw new IllegalArgumentException(key + "=\"" + value + "\": neither true nor false");
        };
    }

    /** Finds the jar by a resource in it: the boot class path has no code source. */
    private static Path besideJar() {
        String resource = ClassLoader.getSystemResource("jportal/oracle/Probe.class").toString();
        String jar = resource.substring("jar:file:".length(), resource.indexOf('!'));
        return Path.of(java.net.URI.create("file:" + jar)).resolveSibling("libjportal_oracle.so");
    }

    /** Whether a class of this internal name and defining loader is to be instrumented. */
    boolean wants(String name, ClassLoader loader) {
        if (name.startsWith(OWN) || startsWithAny(name, exclude)) {
            return false;
        }
        if (!include.isEmpty() && !startsWithAny(name, include)) {
            return false;
        }
        return jre || isApplication(loader);
    }

    /**
     * Application classes: those that neither the boot nor the platform loader defined, except the
     * accessors that core reflection generates at run time.
     */
    private static boolean isApplication(ClassLoader loader) {
        return loader != null
                && loader != ClassLoader.getPlatformClassLoader()
                && !loader.getClass().getName().equals("jdk.internal.reflect.DelegatingClassLoader");
    }

    private static boolean startsWithAny(String name, List<String> prefixes) {
        for (String prefix : prefixes) {
            if (name.startsWith(prefix)) {
                return true;
            }
        }
        return false;
    }
}
