package programs;

import java.util.Arrays;

/**
 * Array bytecodes: every element type, creation in one and several dimensions, length, bounds and
 * store checks. Only an exception's class is checked: C2's preallocated ones have no message.
 */
final class ArrayForms {
    private static final Digest DIGEST = new Digest();

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 30;
        for (int i = 0; i < rounds; i++) {
            primitives(8 + i);
            references(4 + i % 3);
            dimensions(1 + i % 4);
            bounds(i);
            stores(i);
            negative(i % 3 - 1);
            copies(i);
        }
        DIGEST.print(ArrayForms.class);
    }

    private static void primitives(int n) {
        boolean[] z = new boolean[n];
        byte[] b = new byte[n];
        char[] c = new char[n];
        short[] s = new short[n];
        int[] i = new int[n];
        long[] l = new long[n];
        float[] f = new float[n];
        double[] d = new double[n];
        for (int k = 0; k < n; k++) {
            z[k] = (k & 1) == 0;
            b[k] = (byte) (k * 77);
            c[k] = (char) (k * 7777);
            s[k] = (short) (k * 777);
            i[k] = k * k;
            l[k] = (long) k << k;
            f[k] = k / 3f;
            d[k] = k / 7d;
            i[k] += 3;
            l[k]++;
        }
        for (int k = 0; k < n; k++) {
            DIGEST.add(z[k]);
            DIGEST.add(b[k] + c[k] + s[k] + i[k]);
            DIGEST.add(l[k]);
            DIGEST.add(f[k] + d[k]);
        }
    }

    private static void references(int n) {
        Object[] objects = new Object[n];
        String[] strings = new String[n];
        for (int k = 0; k < n; k++) {
            strings[k] = "s" + k;
            objects[n - 1 - k] = strings[k];
        }
        DIGEST.add(objects.length);
        DIGEST.add(objects[0]);
        DIGEST.add(Arrays.toString(strings));
    }

    private static void dimensions(int n) {
        int[][] square = new int[n][n + 1];
        long[][][] cube = new long[n][2][3];
        String[][][] ragged = new String[n][2][];
        for (int a = 0; a < n; a++) {
            for (int b = 0; b <= n; b++) {
                square[a][b] = a * b;
            }
            cube[a][1][2] = a;
            ragged[a][1] = new String[] {"r"};
        }
        DIGEST.add(Arrays.deepToString(square) + Arrays.deepToString(cube) + Arrays.deepToString(ragged));
    }

    private static void bounds(int i) {
        int[] array = new int[5];
        try {
            array[i % 7] = i;
            DIGEST.add(array[(i + 3) % 6]);
        } catch (ArrayIndexOutOfBoundsException error) {
            DIGEST.add(error.getClass());
        }
        try {
            DIGEST.add(array[-i]);
        } catch (ArrayIndexOutOfBoundsException error) {
            DIGEST.add(-1);
        }
    }

    private static void stores(int i) {
        Object[] array = i % 2 == 0 ? new Object[1] : new Integer[1];
        try {
            array[0] = "text";
            DIGEST.add(1);
        } catch (ArrayStoreException error) {
            DIGEST.add(error.getClass());
        }
    }

    private static void negative(int length) {
        try {
            DIGEST.add(new int[length].length);
            DIGEST.add(new int[2][length].length);
            DIGEST.add(new Object[length].length);
        } catch (NegativeArraySizeException error) {
            DIGEST.add(error.getClass());
        }
    }

    private static void copies(int i) {
        int[] from = {1, 2, 3, 4, 5, 6, 7, 8};
        int[] to = from.clone();
        System.arraycopy(from, i % 4, to, i % 3, 4);
        DIGEST.add(Arrays.hashCode(to));
        Integer[] boxed = {5, 3, 9, 1, 7};
        Arrays.sort(boxed, (a, b) -> b - a);
        DIGEST.add(Arrays.toString(boxed));
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
