// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The agent's arguments.
 *
 * @param plan  the plan of a call trace mode, or null
 * @param fault number of the probe that is left out, -1 for none; for tests of comparisons
 * @param map   whether to write {@code map.json}
 * @param profiler  class of the profiler of mode jp, or null
 * @param classpath where the profiler's classes are, or null
 * @param factory   class that makes identifiers of methods, or null
 */
record Options(String mode, Path out, Path plan, int fault, boolean map, List<String> include, List<String> exclude,
        String profiler, String classpath, String factory) {
    static final String MODES = "sc pf cf hm jp jbi fi bri casper";
    /** The agent's packages, and those of the libraries in its jar. */
    private static final String OWN = "jportal/";
    /** What the agent runs in a thread of the program: its packages, and what calls it. */
    static final List<String> HIDDEN = List.of(OWN, "sun/instrument/InstrumentationImpl");

    static Options parse(String arguments) {
        String mode = null;
        Path out = null;
        Path plan = null;
        int fault = -1;
        boolean map = false;
        String profiler = null;
        String classpath = null;
        String factory = null;
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
                case "mode" -> mode = value;
                case "out" -> out = Path.of(value).toAbsolutePath();
                case "plan" -> plan = Path.of(value).toAbsolutePath();
                case "fault" -> fault = Integer.parseInt(value);
                case "map" -> map = Boolean.parseBoolean(value);
                case "profiler" -> profiler = value;
                case "classpath" -> classpath = value;
                case "mid-factory" -> factory = value;
                case "include" -> include.add(value.replace('.', '/'));
                case "exclude" -> exclude.add(value.replace('.', '/'));
                default -> throw new IllegalArgumentException("unknown argument \"" + key
                        + "\"; known: mode=MODE out=DIR plan=FILE fault=N map=true include=PREFIX exclude=PREFIX"
                        + " profiler=CLASS classpath=PATH mid-factory=CLASS");
            }
        }
        if (mode == null || !List.of(MODES.split(" ")).contains(mode)) {
            throw new IllegalArgumentException("mode=" + mode + " is none of: " + MODES);
        }
        if (out == null) {
            throw new IllegalArgumentException("argument out=DIR is missing");
        }
        if (plan == null && List.of("fi", "bri", "casper").contains(mode)) {
            throw new IllegalArgumentException("mode=" + mode + " needs plan=FILE; make one with"
                    + " java -jar jportal-baselines.jar plan");
        }
        if ((profiler != null || classpath != null || factory != null)
                && (!mode.equals("jp") || profiler == null || classpath == null)) {
            throw new IllegalArgumentException("a profiler needs mode=jp, profiler=CLASS and classpath=PATH");
        }
        return new Options(mode, out, plan, fault, map, include, exclude, profiler, classpath, factory);
    }

    /**
     * Whether a class of this internal name and defining loader is instrumented: one that neither
     * the boot nor the platform loader defined, that core reflection did not generate, and that is
     * not the profiler's.
     */
    boolean wants(String name, ClassLoader loader) {
        if (loader == null || loader == ClassLoader.getPlatformClassLoader()
                || loader.getClass().getName().equals("jdk.internal.reflect.DelegatingClassLoader")
                || loader instanceof ProfilerLoader
                || name.startsWith(OWN) || startsWithAny(name, exclude)) {
            return false;
        }
        return include.isEmpty() || startsWithAny(name, include);
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
