public class Fun {
    static boolean fun(boolean a, int b) {
        if (a) { b = b + 1; } else { b = b - 2; }
        if (b % 2 == 0) return true; else return false;
    }
    public static void main(String[] args) {
        int t = 0;
        for (int i = 0; i < 10; i++) if (fun(i % 3 == 0, i)) t++;
        System.out.println(t);
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
