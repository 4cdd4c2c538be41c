// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package programs;

import java.io.InputStream;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.nio.ByteBuffer;

/**
 * Redefines a class again and again while one of its methods is on a stack: the frame keeps the old
 * version of its method, and calls the new version of another one. A Java agent of itself.
 *
 * <p>Argument: the number of times.
 */
public class Redefined {
    static volatile int entered;
    static volatile int redefined;
    private static Instrumentation instrumentation;

    /** The class. The two constants change with each version. */
    static class Body {
        static final int CALLS = 20_000;

        static int tag() {
            return 2_222_222;
        }

        /** Enters in version {@code version}, and leaves when the next one is there. */
        static String spin(int version) {
            int own = 1_111_111;
            long tags = 0;
            for (int i = 0; i < CALLS; i++) {
                tags += tag();
            }
            entered++;
            while (redefined == version) {
                Thread.onSpinWait();
            }
            return own + " " + tags / CALLS + " " + tag();
        }
    }

    public static void premain(String arguments, Instrumentation instrumentation) {
        Redefined.instrumentation = instrumentation;
    }

    private static byte[] withConstant(byte[] code, int constant, int replacement) {
        ByteBuffer buffer = ByteBuffer.wrap(code);
        for (int at = 0; at + 4 <= code.length; at++) {
            if (buffer.getInt(at) == constant) {
                return buffer.putInt(at, replacement).array();
            }
        }
        throw new AssertionError("no constant " + constant);
    }

    public static void main(String[] args) throws Exception {
        byte[] code;
        try (InputStream in = Redefined.class.getResourceAsStream("Redefined$Body.class")) {
            code = in.readAllBytes();
        }
        int times = Integer.parseInt(args[0]);
        for (int i = 0; i < times; i++) {
            int version = i;
            String[] seen = new String[1];
            Thread thread = new Thread(() -> seen[0] = Body.spin(version));
            thread.setDaemon(true);
            thread.start();
            while (entered <= version) {
                Thread.onSpinWait();
            }
            byte[] next = withConstant(code.clone(), 1_111_111, 1_111_111 + i + 1);
            next = withConstant(next, 2_222_222, 2_222_222 + i + 1);
            instrumentation.redefineClasses(new ClassDefinition(Body.class, next));
            redefined = i + 1;
            thread.join();
            String expected = (1_111_111 + i) + " " + (2_222_222 + i) + " " + (2_222_222 + i + 1);
            if (!seen[0].equals(expected)) {
                throw new AssertionError("version " + i + ": " + seen[0]);
            }
        }
        System.out.println("redefined " + times);
    }
}
