public class Rec {
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static int deep(int n) { return n == 0 ? 0 : 1 + deep(n - 1); }
    public static void main(String[] a) { System.out.println(fib(5) + " " + deep(1500)); }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
