package programs;

/** Inlined callees whose assumptions fail: each drive deoptimises several frames at once. */
final class Traps {
    private static final int ROUNDS = 6000;
    private static final int RARE = 4999;

    private static final class Cell {
        int value;
    }

    private static int rareBranch(int n) {
        if (n == RARE) {
            return n * 31 + 7;
        }
        return n ^ 5;
    }

    private static int throughBranch(int n) {
        int half = rareBranch(n) >> 1;
        return half > 100 ? half - 3 : half + 3;
    }

    private static int absent(Cell cell, int n) {
        return cell == null ? n - 9 : cell.value + n;
    }

    private static int throughAbsent(Cell cell, int n) {
        int sum = absent(cell, n);
        return (sum & 1) == 0 ? sum : sum + 1;
    }

    private static int element(int[] array, int at) {
        try {
            return array[at] + 1;
        } catch (ArrayIndexOutOfBoundsException e) {
            return -at;
        }
    }

    private static int throughElement(int[] array, int n) {
        int at = n == RARE ? array.length : n & 7;
        return element(array, at) * 2;
    }

    private static int quotient(int a, int b) {
        return a / b;
    }

    private static int throughQuotient(int n) {
        try {
            return quotient(n + 100, RARE - n);
        } catch (ArithmeticException e) {
            return -n;
        }
    }

    private static int text(Object o) {
        return o instanceof String ? ((String) o).length() : 2;
    }

    private static int throughText(Object o, int n) {
        return text(o) + (n > 10 ? 1 : 0);
    }

    public static void main(String[] args) {
        int sum = 0;
        for (int n = 0; n < ROUNDS; n++) {
            sum += throughBranch(n);
        }
        Cell cell = new Cell();
        for (int n = 0; n < ROUNDS; n++) {
            sum += throughAbsent(n == RARE ? null : cell, n);
        }
        int[] array = {1, 2, 3, 4, 5, 6, 7, 8};
        for (int n = 0; n < ROUNDS; n++) {
            sum += throughElement(array, n);
        }
        for (int n = 0; n < ROUNDS; n++) {
            sum += throughQuotient(n);
        }
        Integer number = 7;
        for (int n = 0; n < ROUNDS; n++) {
            sum += throughText(n == RARE ? "rare" : number, n);
        }
        System.out.println("Traps " + sum);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
