// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package com.example;

/** A line that two tests reach in different ways. */
class Foo {
    private final int limit;

    Foo(int limit) {
        this.limit = limit;
    }
    boolean isLarge(int n) {
        return n > limit;
    }
}
