package programs;

import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/** Reflection before and after inflation (15 calls); fields, constructors, proxies, exceptions. */
final class Reflect {
    private static final Digest DIGEST = new Digest();

    interface Greeter {
        String greet(String name, int times);

        default int level() {
            return 1;
        }
    }

    static class Target {
        int counter;
        static String label = "start";

        Target(int counter) {
            if (counter < 0) throw new IllegalArgumentException("negative");
            this.counter = counter;
        }

        int increase(int by) {
            counter += by;
            return counter;
        }

        static String name(String prefix, Object... rest) {
            return prefix + rest.length;
        }

        void fail(int kind) {
            if (kind % 2 == 0) throw new IllegalStateException("fail " + kind);
        }
    }

    public static void main(String[] args) throws Exception {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 40;
        Method increase = Target.class.getDeclaredMethod("increase", int.class);
        Method name = Target.class.getDeclaredMethod("name", String.class, Object[].class);
        Method fail = Target.class.getDeclaredMethod("fail", int.class);
        Constructor<Target> constructor = Target.class.getDeclaredConstructor(int.class);
        Field counter = Target.class.getDeclaredField("counter");
        Field label = Target.class.getDeclaredField("label");
        Greeter greeter = proxy();
        for (int i = 0; i < rounds; i++) {
            Target target = constructor.newInstance(i);
            DIGEST.add(increase.invoke(target, 2));
            DIGEST.add(name.invoke(null, "p", new Object[] {i, "x"}));
            counter.setInt(target, counter.getInt(target) + 1);
            label.set(null, label.get(null) + "" + i % 10);
            DIGEST.add(target.counter);
            failing(fail, constructor, target, i);
            DIGEST.add(greeter.greet("n" + i, i % 3));
            DIGEST.add(greeter.hashCode() == greeter.level());
            DIGEST.add(Array.get(Array.newInstance(long.class, i + 1), i));
        }
        DIGEST.add(Target.label);
        DIGEST.print(Reflect.class);
    }

    private static void failing(Method fail, Constructor<Target> constructor, Target target, int i) throws Exception {
        try {
            fail.invoke(target, i);
            DIGEST.add("returned");
        } catch (InvocationTargetException error) {
            DIGEST.add(error.getCause().getMessage());
        }
        try {
            fail.invoke(target, "not a number");
        } catch (IllegalArgumentException error) {
            DIGEST.add("argument");
        }
        try {
            constructor.newInstance(i % 4 - 2);
            DIGEST.add("made");
        } catch (InvocationTargetException error) {
            DIGEST.add(error.getCause().getMessage());
        }
        try {
            fail.invoke(null, 1);
        } catch (NullPointerException error) {
            DIGEST.add("null");
        }
    }

    private static Greeter proxy() {
        return (Greeter) Proxy.newProxyInstance(
                Reflect.class.getClassLoader(), new Class<?>[] {Greeter.class}, (self, method, arguments) -> switch (method.getName()) {
                    case "greet" -> ((String) arguments[0]).repeat((Integer) arguments[1]);
                    case "hashCode" -> 1;
                    default -> 7;
                });
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
