// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.Opcodes;

/** Types above types, and the selection of methods, by class name (JVMS 17 §5.4.3.3, §5.4.6). */
final class Hierarchy {
    private final ClassFiles files;
    private final Map<String, Set<String>> above = new HashMap<>();

    Hierarchy(ClassFiles files) {
        this.files = files;
    }

    /** The type itself and all types above it, as far as their files are known. */
    Set<String> above(String type) {
        Set<String> known = above.get(type);
        if (known == null) {
            known = new LinkedHashSet<>();
            collect(type, known);
            above.put(type, known);
        }
        return known;
    }

    private void collect(String type, Set<String> found) {
        if (type == null || !found.add(type)) {
            return;
        }
        ClassFile file = files.get(type);
        if (file != null) {
            collect(file.superName, found);
            file.interfaces.forEach(name -> collect(name, found));
        }
    }

    boolean isBelow(String type, String other) {
        return above(type).contains(other);
    }

    /** Whether a class is another one or a subclass of it, interfaces aside. */
    boolean extend(String type, String other) {
        for (String at = type; at != null; ) {
            if (at.equals(other)) {
                return true;
            }
            ClassFile file = files.get(at);
            at = file == null ? null : file.superName;
        }
        return false;
    }

    /**
     * The class that declares a field, looked for in superclasses only; null if it is not found.
     */
    String holder(String owner, String key) {
        for (String type = owner; type != null; ) {
            ClassFile file = files.get(type);
            if (file == null || file.fields.contains(key)) {
                return file == null ? null : type;
            }
            type = file.superName;
        }
        return null;
    }

    /** The method that a reference names, in the class or above it; null if none is found. */
    ClassFile.Member resolve(String owner, String key) {
        if (owner.startsWith("[")) {
            return resolve("java/lang/Object", key);
        }
        for (String type = owner; type != null; ) {
            ClassFile file = files.get(type);
            if (file == null) {
                return null;
            }
            ClassFile.Member member = file.methods.get(key);
            if (member != null) {
                return member;
            }
            type = file.superName;
        }
        return fromInterfaces(owner, key);
    }

    /**
     * A method of an interface above, the most specific one; not abstract if there is such a one.
     */
    private ClassFile.Member fromInterfaces(String owner, String key) {
        ClassFile.Member best = null;
        for (String type : above(owner)) {
            ClassFile file = files.get(type);
            ClassFile.Member member = file == null || !file.isInterface() ? null : file.methods.get(key);
            if (member == null || member.is(Opcodes.ACC_PRIVATE | Opcodes.ACC_STATIC)) {
                continue;
            }
            boolean isBetter = best == null
                    || best.is(Opcodes.ACC_ABSTRACT) && !member.is(Opcodes.ACC_ABSTRACT)
                    || best.is(Opcodes.ACC_ABSTRACT) == member.is(Opcodes.ACC_ABSTRACT)
                            && isBelow(type, best.file().name);
            best = isBetter ? member : best;
        }
        return best;
    }

    /** The method that a virtual call selects for a receiver of exactly this class. */
    ClassFile.Member select(String receiver, String key) {
        for (String type = receiver; type != null; ) {
            ClassFile file = files.get(type);
            if (file == null) {
                return null;
            }
            ClassFile.Member member = file.methods.get(key);
            if (member != null && !member.is(Opcodes.ACC_STATIC) && !member.is(Opcodes.ACC_PRIVATE)) {
                return member;
            }
            type = file.superName;
        }
        return fromInterfaces(receiver, key);
    }
}
