public class Poly {
    interface S { int a(); default int tag() { return 1; } }
    static class P implements S { public int a() { return 1; } }
    static class Q implements S { public int a() { return 2; } }
    static class R extends P { public int tag() { return 3; } }
    public static void main(String[] x) {
        S[] s = { new P(), new Q(), new R() };
        int n = 0;
        for (int i = 0; i < 12; i++) {
            n += s[i % 3].a();
            n += s[i / 4].tag();
            n += ((P) s[2]).a();
        }
        System.out.println(n);   // 48
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
