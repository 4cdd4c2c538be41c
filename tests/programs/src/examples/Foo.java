public class Foo {
    void f() { for (int i = 1; i <= 10; ++i) { h(); g(i); } }
    void g(int i) { for (int j = 1; j <= i; ++j) h(); }
    void h() { }
    public static void main(String[] a) { new Foo().f(); }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
