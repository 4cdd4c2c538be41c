// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.HashSet;
import java.util.Set;
import org.objectweb.asm.Opcodes;

/** An instrumented method, known by class name, name and descriptor. */
final class Method implements Comparable<Method> {
    /** Its number, from 0. */
    final int index;
    final String type;
    final String name;
    final String descriptor;
    final Code code;
    /** The library classes and interfaces that declare it. */
    final Set<String> declaredBy = new HashSet<>();
    /** Whether a type of the JDK's base module declares it, or one that is not of the JDK. */
    boolean knownToBase;
    /** Whether a method handle of a dynamic call site or constant names it. */
    boolean handled;
    /** What may happen in each block; made when needed. */
    private Points[] points;

    Method(int index, String type, Code code) {
        this.index = index;
        this.type = type;
        this.name = code.member.name();
        this.descriptor = code.member.descriptor();
        this.code = code;
    }

    /** Whether library code can call it as a method that a library class or interface declares. */
    boolean overridesLibrary() {
        return !declaredBy.isEmpty();
    }

    boolean isInitializer() {
        return name.equals("<clinit>");
    }

    boolean is(int flag) {
        return code.member.is(flag);
    }

    boolean isStatic() {
        return is(Opcodes.ACC_STATIC);
    }

    /** The points of a block. */
    Points points(int block, Sites sites) {
        if (points == null) {
            points = new Points[code.blocks()];
        }
        if (points[block] == null) {
            points[block] = new Points(this, block, sites);
        }
        return points[block];
    }

    @Override
    public int compareTo(Method other) {
        int order = type.compareTo(other.type);
        order = order == 0 ? name.compareTo(other.name) : order;
        return order == 0 ? descriptor.compareTo(other.descriptor) : order;
    }

    @Override
    public String toString() {
        return type + '\t' + name + '\t' + descriptor;
    }
}
