public class Cas {   // c1…c8, r1…r7 as in Casper's Figure 2; `main` and `<init>` have five sites more
    static int k;
    static void main0(int[] in) {
        A();
        int i = 0;
        do { if (in[i] != 0) B(in[i]); else E(in[i]); i++; } while (i < in.length);
        H();
    }
    static void A() { k++; }
    static void B(int p3) { if (p3 > 0) C(); else D(); }
    static void C() { k += 2; }
    static void D() { k += 3; }
    static void E(int p3) { if (p3 == 0) C(); else D(); }
    static void H() { k += 4; }
    public static void main(String[] a) { main0(new int[] { 1, 1, 0 }); System.out.println(k); }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
