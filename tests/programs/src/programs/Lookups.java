package programs;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * Flag tests that repeat an earlier test, here and in {@code MemberName.getMethodOrFieldType}. C2
 * folds the second test twice: as one on which nothing depends, and as one that the first decides.
 */
public final class Lookups {
    private static final int METHOD = 0x1_0000;
    private static final int CONSTRUCTOR = 0x2_0000;
    private static final int FIELD = 0x4_0000;

    private final int flags;
    private Object type;

    private Lookups(int flags, Object type) {
        this.flags = flags;
        this.type = type;
    }

    private boolean test(int mask, int value) {
        return (flags & mask) == value;
    }

    private boolean any(int mask) {
        return !test(mask, 0);
    }

    private boolean isInvocable() {
        return any(METHOD | CONSTRUCTOR);
    }

    private boolean isField() {
        return any(FIELD);
    }

    private void expand() {
        if (type != null) {
            return;
        }
        type = flags;
    }

    private Object invocableType() {
        expand();
        if (type == null) {
            return null;
        }
        if (!isInvocable()) {
            throw new IllegalStateException("a field");
        }
        Object type = this.type;
        if (type instanceof String) {
            return type;
        }
        return flags;
    }

    private Object anyType() {
        if (isInvocable()) {
            return invocableType();
        }
        if (isField()) {
            return type;
        }
        throw new IllegalStateException("neither");
    }

    static int target(int i) {
        return i + 1;
    }

    private static long lookUp(int rounds) throws ReflectiveOperationException {
        MethodType type = MethodType.methodType(int.class, int.class);
        long sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += MethodHandles.lookup().findStatic(Lookups.class, "target", type).type().parameterCount();
        }
        return sum;
    }

    private static long ask(int rounds) {
        long sum = 0;
        for (int i = 0; i < rounds; i++) {
            Lookups asked = new Lookups(i % 2 == 0 ? METHOD : METHOD | CONSTRUCTOR, "type");
            // test() has both outcomes, but only one of them where it is repeated.
            sum += asked.isField() ? 1 : asked.anyType().hashCode() % 7;
        }
        return sum;
    }

    public static void main(String[] args) throws ReflectiveOperationException {
        int rounds = Integer.parseInt(args[0]);
        System.out.println("lookups " + lookUp(rounds) + " " + ask(rounds));
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
