public class Nat {
    static int s;
    static void lib(Object o) { s += o.hashCode() == 0 ? 0 : 1; }
    public static void main(String[] a) throws Exception {
        Runtime r = Runtime.getRuntime();
        for (int i = 0; i < 5; i++) s += r.freeMemory() > 0 ? 1 : 0;
        for (int i = 0; i < 3; i++) try { lib(null); } catch (NullPointerException e) { s += 10; }
        for (int i = 0; i < 4; i++) s += Math.abs(-i);
        System.out.println(s);   // 41
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
