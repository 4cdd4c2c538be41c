package programs;

/** Conditional branches, taken and not; loops; boolean expressions; labelled break, continue. */
final class Branches {
    private static final Digest DIGEST = new Digest();

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 200;
        for (int i = 0; i < rounds; i++) {
            int a = i % 5 - 2;
            int b = i % 7 - 3;
            DIGEST.add(zeroForms(a));
            DIGEST.add(pairForms(a, b));
            DIGEST.add(references(a, i));
            DIGEST.add(booleans(a > 0, b < 0, i % 3 == 0));
            DIGEST.add(loops(i % 6));
            DIGEST.add(labelled(i % 9));
            DIGEST.add(emptyArms(a, b));
            DIGEST.add(ternaries(a, b));
        }
        DIGEST.print(Branches.class);
    }

    private static int zeroForms(int a) {
        int result = 0;
        if (a == 0) result |= 1;
        if (a != 0) result |= 2;
        if (a < 0) result |= 4;
        if (a <= 0) result |= 8;
        if (a > 0) result |= 16;
        if (a >= 0) result |= 32;
        return result;
    }

    private static int pairForms(int a, int b) {
        int result = 0;
        if (a == b) result |= 1;
        if (a != b) result |= 2;
        if (a < b) result |= 4;
        if (a <= b) result |= 8;
        if (a > b) result |= 16;
        if (a >= b) result |= 32;
        return result;
    }

    private static int references(int a, int i) {
        Object x = a > 0 ? DIGEST : null;
        Object y = i % 2 == 0 ? DIGEST : "other";
        int result = 0;
        if (x == null) result |= 1;
        if (x != null) result |= 2;
        if (x == y) result |= 4;
        if (x != y) result |= 8;
        return result;
    }

    private static boolean booleans(boolean p, boolean q, boolean r) {
        boolean a = p && q || !r;
        boolean b = (p || q) && (q || r);
        boolean c = p ^ q ^ r;
        boolean d = !(a & b) | c;
        return a ? b && c : c || d;
    }

    private static int loops(int n) {
        int sum = 0;
        for (int i = 0; i < n; i++) sum += i;
        for (int i = n; i > 0; i--) sum ^= i;
        int i = 0;
        while (i < n) {
            sum += i++;
        }
        do {
            sum++;
        } while (--i > 0);
        for (;;) {
            if (++i > n) break;
        }
        return sum * 31 + i;
    }

    private static int labelled(int n) {
        int sum = 0;
        outer:
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++) {
                if (j == n) continue outer;
                if (i * j > n + 4) break outer;
                sum += i * j + 1;
            }
            sum += 100;
        }
        return sum;
    }

    private static int emptyArms(int a, int b) {
        if (a > b) {
        } else {
        }
        if (a == 1) {
            ;
        }
        while (a-- > b) {
        }
        return a;
    }

    private static int ternaries(int a, int b) {
        int max = a > b ? a : b;
        int min = Math.min(a, b);
        int sign = a < 0 ? -1 : a > 0 ? 1 : 0;
        return (max * 10 + min) * 10 + sign;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
