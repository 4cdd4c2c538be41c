// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package com.example;

/** Methods that are taken for tests. */
class FooTest {
    void testFirst() {
        check(new Foo(1).isLarge(2));
    }

    void testSecond() {
        check(!new Foo(3).isLarge(2));
    }

    private static void check(boolean isRight) {
        if (!isRight) {
            throw new AssertionError();
        }
    }
}
