package programs;

/** Arithmetic, conversion and comparison bytecodes of the four computational types. */
final class Arithmetic {
    private static final Digest DIGEST = new Digest();
    private static final int[] INTS = {0, 1, -1, 7, -13, 255, 65536, Integer.MAX_VALUE, Integer.MIN_VALUE};
    private static final long[] LONGS = {0, 1, -1, 1L << 40, -(1L << 33), Long.MAX_VALUE, Long.MIN_VALUE};
    private static final float[] FLOATS = {0f, -0f, 1.5f, -2.25f, Float.NaN, Float.POSITIVE_INFINITY, Float.MIN_VALUE};
    private static final double[] DOUBLES = {0, -0.0, 3.75, -1e300, Double.NaN, Double.NEGATIVE_INFINITY, 1e-310};

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 20;
        for (int i = 0; i < rounds; i++) {
            ints();
            longs();
            floats();
            doubles();
            DIGEST.add(locals(i, i * 3L, i * 0.5f, i * 0.25));
            constants();
        }
        DIGEST.print(Arithmetic.class);
    }

    private static void ints() {
        for (int a : INTS) {
            for (int b : INTS) {
                DIGEST.add(a + b);
                DIGEST.add(a - b);
                DIGEST.add(a * b);
                if (b != 0) {
                    DIGEST.add(a / b);
                    DIGEST.add(a % b);
                }
                DIGEST.add(a & b | a ^ b);
                DIGEST.add((a << b) ^ (a >> b) ^ (a >>> b));
            }
            DIGEST.add(-a);
            DIGEST.add((byte) a + (char) a + (short) a);
            DIGEST.add((long) a);
            DIGEST.add((float) a);
            DIGEST.add((double) a);
        }
    }

    private static void longs() {
        for (long a : LONGS) {
            for (long b : LONGS) {
                DIGEST.add(a + b);
                DIGEST.add(a - b);
                DIGEST.add(a * b);
                if (b != 0) {
                    DIGEST.add(a / b);
                    DIGEST.add(a % b);
                }
                DIGEST.add(a & b | a ^ b);
                DIGEST.add((a << (int) b) ^ (a >> (int) b) ^ (a >>> (int) b));
                DIGEST.add(a < b ? 1 : a == b ? 2 : a > b ? 3 : 4);
            }
            DIGEST.add(-a);
            DIGEST.add((int) a);
            DIGEST.add((float) a);
            DIGEST.add((double) a);
        }
    }

    private static void floats() {
        for (float a : FLOATS) {
            for (float b : FLOATS) {
                DIGEST.add(a + b);
                DIGEST.add(a - b);
                DIGEST.add(a * b);
                DIGEST.add(a / b);
                DIGEST.add(a % b);
                DIGEST.add(a < b);
                DIGEST.add(a <= b);
                DIGEST.add(a > b);
                DIGEST.add(a >= b);
                DIGEST.add(a == b ? 1 : a != b ? 2 : 3);
            }
            DIGEST.add(-a);
            DIGEST.add((int) a);
            DIGEST.add((long) a);
            DIGEST.add((double) a);
        }
    }

    private static void doubles() {
        for (double a : DOUBLES) {
            for (double b : DOUBLES) {
                DIGEST.add(a + b);
                DIGEST.add(a - b);
                DIGEST.add(a * b);
                DIGEST.add(a / b);
                DIGEST.add(a % b);
                DIGEST.add(a < b);
                DIGEST.add(a <= b);
                DIGEST.add(a > b);
                DIGEST.add(a >= b);
                DIGEST.add(a == b ? 1 : a != b ? 2 : 3);
            }
            DIGEST.add(-a);
            DIGEST.add((int) a);
            DIGEST.add((long) a);
            DIGEST.add((float) a);
        }
    }

    /** Loads and stores of each type at low and high indices; iinc with small and large steps. */
    private static double locals(int i, long l, float f, double d) {
        int i0 = i, i1 = i0 + 1, i2 = i1 + 1, i3 = i2 + 1, i4 = i3;
        long l0 = l, l1 = l0 ^ 5, l2 = l1 + i4;
        float f0 = f, f1 = f0 * 2, f2 = f1 + l2;
        double d0 = d, d1 = d0 - f2, d2 = d1 * 0.125;
        String s0 = "x", s1 = s0, s2 = s1;
        i0++;
        i0--;
        i1 += 100;
        i2 += 30000;
        i3 -= 32000;
        return i0 + i1 + i2 + i3 + l0 + f0 + d2 + s2.length();
    }

    private static void constants() {
        int[] small = {-1, 0, 1, 2, 3, 4, 5, 6, 127, -128, 128, 32767, -32768, 32768, 1 << 30};
        for (int value : small) {
            DIGEST.add(value);
        }
        DIGEST.add(0L + 1L + 77L);
        DIGEST.add(one() + 0f + 1f + 2f + 3.5f);
        DIGEST.add(one() + 0d + 1d + 2.5d);
        DIGEST.add("text");
        DIGEST.add((Object) null);
        DIGEST.add(Arithmetic.class);
        DIGEST.add(int[][].class);
    }

    private static float one() {
        return 1f;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
