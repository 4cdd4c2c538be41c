// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package com.example;

/** Methods of the names that pages use. */
class Service {
    int answer(int question) {
        return question % 3 == 0 ? getLimit() : question;
    }

    int getLimit() {
        return 42;
    }
}
