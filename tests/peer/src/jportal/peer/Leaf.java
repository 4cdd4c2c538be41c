// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import static org.objectweb.asm.Opcodes.*;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * Finds methods of the JDK that cannot call the program: all they call is static, special or final,
 * and of the same kind. Constructors of the JDK's throwables count among them, as long as the
 * program overrides nothing that these call.
 */
final class Leaf {
    private static final int MOST_INSTRUCTIONS = 600;
    private static final String THROWABLE = "java/lang/Throwable";
    /** Classes whose native methods do not call Java code. */
    private static final Set<String> QUIET_NATIVES = Set.of(
            "java/lang/Object", "java/lang/String", "java/lang/System", "java/lang/Math", "java/lang/StrictMath",
            "java/lang/Float", "java/lang/Double", "java/lang/Runtime", "java/lang/StringUTF16", THROWABLE,
            "java/lang/StringCoding", "jdk/internal/misc/Unsafe", "java/lang/reflect/Array");
    private static final Set<String> QUIET_OF_OTHERS = Set.of(
            "java/lang/Thread.currentThread()Ljava/lang/Thread;", "java/lang/Class.isInstance(Ljava/lang/Object;)Z",
            "java/lang/Class.getSuperclass()Ljava/lang/Class;", "java/lang/Class.isArray()Z",
            "java/lang/Class.isInterface()Z", "java/lang/Class.desiredAssertionStatus0(Ljava/lang/Class;)Z",
            "java/lang/Class.isAssignableFrom(Ljava/lang/Class;)Z", "java/lang/Class.isPrimitive()Z",
            "java/lang/Class.initClassName()Ljava/lang/String;", "java/lang/Class.getModifiers()I",
            "java/lang/Class.isHidden()Z", "java/lang/ref/Reference.refersTo0(Ljava/lang/Object;)Z");

    private static final Set<String> PRINTING = Set.of("toString()Ljava/lang/String;",
            "getMessage()Ljava/lang/String;", "getLocalizedMessage()Ljava/lang/String;");

    private final Hierarchy hierarchy;
    /** Whether no throwable of the program overrides {@code fillInStackTrace}. */
    private final boolean fillsQuietly;
    /** Whether no throwable of the program overrides what {@code toString} calls. */
    private final boolean printsQuietly;
    private final Map<ClassFile.Member, Boolean> known = new HashMap<>();

    Leaf(Hierarchy hierarchy, Iterable<String> program, ClassFiles files) {
        this.hierarchy = hierarchy;
        boolean fills = true;
        boolean prints = true;
        for (String type : program) {
            if (hierarchy.isBelow(type, THROWABLE)) {
                for (String key : files.get(type).methods.keySet()) {
                    fills &= !key.equals("fillInStackTrace()Ljava/lang/Throwable;");
                    prints &= !PRINTING.contains(key);
                }
            }
        }
        fillsQuietly = fills;
        printsQuietly = prints;
    }

    /** Whether the method, called as exactly this one, calls nothing of the program. */
    boolean isClosed(ClassFile.Member member) {
        Boolean answer = known.get(member);
        if (answer == null) {
            known.put(member, true);
            answer = find(member);
            known.put(member, answer);
        }
        return answer;
    }

    /** Whether it is the constructor of a throwable of the JDK. */
    boolean isThrowable(ClassFile.Member member) {
        return member.name().equals("<init>") && member.file().module != null
                && hierarchy.isBelow(member.file().name, THROWABLE);
    }

    private boolean find(ClassFile.Member member) {
        if (member.file().module == null) {
            return false;
        }
        if (isThrowable(member)) {
            boolean isOfCause = member.descriptor().contains("Throwable;") && !member.descriptor().contains("String;");
            return fillsQuietly && (printsQuietly || !isOfCause);
        }
        if (member.is(ACC_NATIVE)) {
            return QUIET_NATIVES.contains(member.file().name)
                    || QUIET_OF_OTHERS.contains(member.file().name + "." + member.key());
        }
        if (member.code() < 0) {
            return false;
        }
        Code code = new Code(member);
        if (code.op.length > MOST_INSTRUCTIONS) {
            return false;
        }
        for (int i = 0; i < code.op.length; i++) {
            if (Code.isInvoke(code.op[i]) && !isClosedCall(code, i)) {
                return false;
            }
        }
        return true;
    }

    private boolean isClosedCall(Code code, int insn) {
        if (code.op[insn] == INVOKEDYNAMIC || code.op[insn] == INVOKEINTERFACE) {
            return false;
        }
        ClassFile.Reference reference = code.file.referenceAt(code.at[insn] + 1);
        ClassFile.Member target = hierarchy.resolve(reference.owner(), reference.key());
        if (target == null) {
            return false;
        }
        boolean isArray = reference.owner().startsWith("[");
        if (code.op[insn] == INVOKEVIRTUAL && !isArray && !isFixed(target)) {
            return false;
        }
        return isClosed(target);
    }

    /** Whether no other method can be selected in its place. */
    static boolean isFixed(ClassFile.Member member) {
        return member.is(ACC_FINAL) || member.is(ACC_PRIVATE) || member.is(ACC_STATIC) || member.file().is(ACC_FINAL);
    }
}
