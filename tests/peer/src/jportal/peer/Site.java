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
    /** The VM calls the method before the instruction does its work: class initialisers, class loaders. */
    static final int IMPLICIT = 2;
    /** Code that is not instrumented, and that the instruction calls, may call the method. */
    static final int OPAQUE = 4;

    /** What code without probes may call. */
    enum Reach {
        /** No instrumented method. */
        NONE,
        /** {@code toString} only. */
        STRINGS,
        /** What library types declare, methods of method handles, class initialisers. */
        DECLARED,
        /** Every method: reflection, JNI, classes that are no JDK's. */
        ANY
    }

    final int insn;
    final boolean isInvoke;
    /** Instrumented methods that may be the instruction's own target. */
    final Set<Method> direct;
    /** Whether one of {@link #direct} is entered for certain, unless the instruction throws. */
    final boolean must;
    final Reach reach;
    /** The classes that the instruction may initialise. */
    private final Set<String> initializes;
    /** Whether the instruction may call class loaders of the program. */
    private final boolean loads;
    private final Map<Method, Integer> known = new HashMap<>();

    Site(int insn, boolean isInvoke, Set<Method> direct, boolean must, Reach reach, Set<String> initializes, boolean loads) {
        this.insn = insn;
        this.isInvoke = isInvoke;
        this.direct = direct;
        this.must = must;
        this.reach = reach;
        this.initializes = initializes;
        this.loads = loads;
    }

    /** Whether the site says nothing about calls of instrumented methods. */
    boolean isEmpty() {
        return direct.isEmpty() && reach == Reach.NONE && initializes.isEmpty() && !loads;
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
            case NONE -> false;
            case STRINGS -> method.name.equals("toString") && method.overridesLibrary;
            case DECLARED -> method.overridesLibrary || method.handled || method.isInitializer();
            case ANY -> true;
        };
        // Methods that a library type declares are not static.
        return reached && !(reach == Reach.STRINGS && method.is(Opcodes.ACC_STATIC)) ? mask | OPAQUE : mask;
    }
}
