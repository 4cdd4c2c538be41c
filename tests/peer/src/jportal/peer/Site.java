// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.Opcodes;

/** An instruction that can enter instrumented methods, and which ones. */
final class Site {
    /** The method is the instruction's own target. */
    static final int DIRECT = 1;
    /**
     * The VM calls the method before the instruction does its work: class initialisers, class
     * loaders.
     */
    static final int IMPLICIT = 2;
    /** Code that is not instrumented, and that the instruction calls, may call the method. */
    static final int OPAQUE = 4;
    /**
     * Code that is not instrumented would call the method by unexpected means, such as reflection.
     */
    static final int UNEXPECTED = 8;

    private static final Set<String> TASKS = Set.of("java/lang/Runnable", "java/util/concurrent/Callable",
            "java/security/PrivilegedAction", "java/security/PrivilegedExceptionAction", "java/lang/AutoCloseable",
            "java/io/Closeable", "java/lang/Thread", "java/lang/ClassLoader", "java/lang/reflect/InvocationHandler",
            "java/io/InputStream", "java/io/OutputStream", "java/io/Reader", "java/io/Writer", "java/io/Flushable",
            "java/io/FilterInputStream", "java/io/FilterOutputStream");

    /** What code without probes may call. */
    enum Reach {
        /** No instrumented method. */
        NONE,
        /** None, unless nothing else explains the log: a function that is composed of others. */
        COMPOSED,
        /** {@code toString} only. */
        STRINGS,
        /** As the next, without functions and comparators. */
        OF_VIEWS,
        /** As the next, without predicates, consumers and suppliers. */
        OF_DATA,
        /**
         * What types of the base module declare but tasks, class loaders and what is to be closed.
         */
        OF_VALUES,
        /** What types of the base module declare, methods of method handles, class initializers. */
        OF_BASE,
        /** The same, of all library types. */
        DECLARED,
        /** These, constructors without arguments, and {@code values} of enumerations. */
        CREATED,
        /** Every method: reflection, JNI, classes that are no JDK's. */
        ANY
    }

    /**
     * What an instruction initializes: classes that it may, and the class that it does; or null.
     */
    record Init(Set<String> may, String done) {
        static final Init NOTHING = new Init(Set.of(), null);
    }

    final int insn;
    final boolean isInvoke;
    /** Instrumented methods that may be the instruction's own target. */
    final Set<Method> direct;
    /** Whether one of {@link #direct} is entered for certain, unless the instruction throws. */
    final boolean must;
    final Reach reach;
    /** The classes that the instruction may initialize. */
    private final Set<String> initializes;
    /**
     * The class that is initialized, with those it extends, once the instruction is done; or null.
     */
    private final String initialized;
    /** Whether the instruction may call class loaders of the program. */
    private final boolean loads;
    private final Map<Method, Integer> known = new HashMap<>();

    Site(int insn, boolean isInvoke, Set<Method> direct, boolean must, Reach reach, Init init, boolean loads) {
        this.insn = insn;
        this.isInvoke = isInvoke;
        this.direct = direct;
        this.must = must;
        this.reach = reach;
        initializes = init.may;
        initialized = init.done;
        this.loads = loads;
    }

    /** Whether the site says nothing about calls of instrumented methods. */
    boolean isEmpty() {
        return direct.isEmpty() && reach == Reach.NONE && initializes.isEmpty() && !loads;
    }

    /** Whether the class is initialized, or is being so by this thread, once the site is passed. */
    boolean initializes(String type, Hierarchy hierarchy) {
        return initialized != null && hierarchy.extend(initialized, type);
    }

    /** The ways in which the method may be called here, a sum of the constants. */
    int calls(Method method, Sites sites) {
        Integer mask = known.get(method);
        if (mask == null) {
            mask = find(method, sites);
            known.put(method, mask);
        }
        return mask;
    }

    private int find(Method method, Sites sites) {
        int mask = direct.contains(method) ? DIRECT : 0;
        if (method.isInitializer() && initializes.contains(method.type) || loads && sites.isLoader(method)) {
            mask |= IMPLICIT;
        }
        boolean reached = switch (reach) {
            case NONE, COMPOSED -> false;
            case STRINGS -> method.name.equals("toString") && method.overridesLibrary();
            case CREATED -> isDeclared(method) || method.name.equals("<init>") && method.descriptor.startsWith("()")
                    || method.isStatic() && method.name.equals("values") && method.descriptor.startsWith("()[");
            case DECLARED -> isDeclared(method);
            case OF_BASE -> method.handled || method.isInitializer() || method.knownToBase;
            case OF_VIEWS -> method.handled || method.isInitializer() || method.knownToBase && isOfViews(method);
            case OF_DATA -> method.handled || method.isInitializer() || method.knownToBase && isOfData(method);
            case OF_VALUES -> method.handled || method.isInitializer() || method.knownToBase && isOfValues(method);
            case ANY -> true;
        };
        if (reached) {
            return mask | OPAQUE;
        }
        return reach == Reach.NONE || reach == Reach.STRINGS ? mask : mask | UNEXPECTED;
    }

    private static boolean isDeclared(Method method) {
        return method.overridesLibrary() || method.handled || method.isInitializer();
    }

    private static boolean isOfValues(Method method) {
        return !TASKS.containsAll(method.declaredBy);
    }

    private static boolean isOfData(Method method) {
        return method.declaredBy.stream().anyMatch(type -> !TASKS.contains(type)
                && !(type.startsWith("java/util/function/") && !type.endsWith("Function")));
    }

    private static boolean isOfViews(Method method) {
        return method.declaredBy.stream().anyMatch(type -> !TASKS.contains(type)
                && !type.startsWith("java/util/function/") && !type.equals("java/util/Comparator"));
    }
}
