// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package com.example;

/** A deterministic program, for the gate in CI. */
public class Smoke {
    public static void main(String[] arguments) {
        Service service = new Service();
        int sum = 0;
        for (int i = 0; i < 10; i++) {
            sum += service.answer(i);
        }
        System.out.println("sum " + sum);
    }
}
