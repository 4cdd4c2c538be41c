package programs;

/** Class initialisers: every kind of trigger, superclass chains, recursion, failure. */
final class ClassInit {
    static final Digest DIGEST = new Digest();

    static class Base {
        static int started = note("Base");
    }

    static class Middle extends Base {
        static int started = note("Middle");
    }

    static class ByNew extends Middle {
        static {
            note("ByNew");
        }
    }

    static class ByStaticCall extends Middle {
        static {
            note("ByStaticCall");
        }

        static int answer() {
            return 42;
        }
    }

    static class ByGetStatic {
        static int field = note("ByGetStatic");
    }

    static class ByPutStatic {
        static int field;

        static {
            note("ByPutStatic");
        }
    }

    static class ByReflection {
        static {
            note("ByReflection");
        }
    }

    static class ByInheritedField extends ByGetStatic {
        static {
            note("never: a subclass is not initialised by an inherited field");
        }
    }

    interface WithDefault {
        int CONSTANT = note("WithDefault");

        default int twice() {
            return 2 * CONSTANT;
        }
    }

    static class Implementor implements WithDefault {
        static {
            note("Implementor");
        }
    }

    static class Ping {
        static int value = Pong.value + 1;

        static {
            note("Ping");
        }
    }

    static class Pong {
        static int value = Ping.value + 10;

        static {
            note("Pong");
        }
    }

    static class Failing {
        static int value = fail("Failing");
    }

    static class BelowFailing extends Failing {
        static int own = note("never: its superclass fails");
    }

    static class FailsDeep {
        static {
            new ByCatch();
        }
    }

    static class ByCatch {
        static int inner;

        static {
            try {
                inner = Failing.value;
            } catch (Throwable error) {
                inner = note(error.getClass().getName());
            }
            fail("ByCatch");
        }
    }

    static class Slow {
        static int value;

        static {
            int sum = 0;
            for (int i = 0; i < 1000; i++) {
                sum += i % 7 == 0 ? 3 : 1;
            }
            value = sum;
        }
    }

    enum Planet {
        EARTH(3), MARS(4) {
            @Override
            int order() {
                return 40;
            }
        };

        final int number;

        Planet(int number) {
            this.number = note("planet") + number;
        }

        int order() {
            return number;
        }
    }

    static int note(String text) {
        DIGEST.add(text);
        return text.length();
    }

    private static int fail(String text) {
        if (note(text) > 0) {
            throw new IllegalStateException(text);
        }
        return 0;
    }

    public static void main(String[] args) throws Exception {
        DIGEST.add(new ByNew().getClass().getName());
        DIGEST.add(ByStaticCall.answer());
        DIGEST.add(ByInheritedField.field);
        ByPutStatic.field = 7;
        Class.forName("programs.ClassInit$ByReflection");
        DIGEST.add(new Implementor().twice());
        DIGEST.add(Ping.value * 100 + Pong.value);
        for (int i = 0; i < 3; i++) {
            failures();
        }
        DIGEST.add(Slow.value);
        DIGEST.add(Planet.EARTH.order() + Planet.MARS.order());
        threads();
        DIGEST.print(ClassInit.class);
    }

    private static void failures() {
        try {
            DIGEST.add(BelowFailing.own);
        } catch (Throwable error) {
            DIGEST.add(error.getClass().getName());
        }
        try {
            DIGEST.add(Failing.value);
        } catch (Throwable error) {
            DIGEST.add(error.getClass().getName());
        }
        try {
            DIGEST.add(new FailsDeep().getClass().getName());
        } catch (Throwable error) {
            DIGEST.add(error.getClass().getName());
        }
    }

    static class Contended {
        static int value;

        static {
            int sum = 0;
            for (int i = 0; i < 20000; i++) {
                sum = sum * 31 + i;
            }
            value = sum;
        }
    }

    /** Several threads use one class at once: one runs the initialiser, the others wait. */
    private static void threads() throws InterruptedException {
        Thread[] threads = new Thread[4];
        int[] seen = new int[threads.length];
        for (int i = 0; i < threads.length; i++) {
            int index = i;
            threads[i] = new Thread(() -> seen[index] = Contended.value);
            threads[i].start();
        }
        for (int i = 0; i < threads.length; i++) {
            threads[i].join();
            DIGEST.add(seen[i]);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
