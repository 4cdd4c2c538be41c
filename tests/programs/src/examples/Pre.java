public class Pre {
    static int n;
    static void fail() { throw new IllegalStateException(); }
    static void prep() { n++; fail(); n--; }
    public static void main(String[] a) { try { prep(); } catch (IllegalStateException e) { n += 5; } System.out.println(n); }   // 6
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
