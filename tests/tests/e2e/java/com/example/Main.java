// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package com.example;

import java.lang.reflect.Method;

/** The program that the pages of the book record. */
public class Main {
    public static void main(String[] arguments) throws Exception {
        Service service = new Service();
        int sum = 0;
        for (int i = 0; i < 30; i++) {
            sum += service.answer(i) + service.getLimit();
        }
        new FooTest().testFirst();
        new FooTest().testSecond();
        // Examples of docs/reports.md. One is in the unnamed package, one is not public.
        for (String name : new String[] {"All", "programs.Unknown"}) {
            Method main = Class.forName(name).getMethod("main", String[].class);
            main.setAccessible(true);
            main.invoke(null, (Object) arguments);
        }
        System.out.println("sum " + sum + " arguments " + arguments.length);
    }
}
