public class Thr {
    static int n;
    static void boom(int i) { if (i % 3 == 0) throw new IllegalStateException(); n += i; }
    static void call(int i) { try { n++; boom(i); n += 10; } catch (IllegalStateException e) { n += 100; } }
    public static void main(String[] a) { for (int i = 0; i < 9; i++) call(i); System.out.println(n); }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
