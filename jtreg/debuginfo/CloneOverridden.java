/*
 * Copyright (c) 2026, the JPortal authors. All rights reserved.
 * DO NOT ALTER OR REMOVE COPYRIGHT NOTICES OR THIS FILE HEADER.
 *
 * This code is free software; you can redistribute it and/or modify it
 * under the terms of the GNU General Public License version 2 only, as
 * published by the Free Software Foundation.
 *
 * This code is distributed in the hope that it will be useful, but WITHOUT
 * ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License
 * version 2 for more details (a copy is included in the LICENSE file that
 * accompanied this code).
 */


/*
 * @test id=c1
 * @summary Calls of an overridden clone(), which invalidates its caller once.
 * @library /lib
 * @build jportal.test.* CloneOverridden
 * @run driver/timeout=300 jportal.test.DebugInfo c1 CloneOverridden
 */

/*
 * @test id=c2
 * @summary Calls of an overridden clone(), which invalidates its caller once.
 * @library /lib
 * @build jportal.test.* CloneOverridden
 * @run driver/timeout=300 jportal.test.DebugInfo c2 CloneOverridden -Xbatch
 */

// @debuginfo c1: wrong = 0
// @debuginfo c1 in copied: judged >= 1
// @debuginfo c2: wrong-bci = 0, wrong-block = 0, wrong-method = 0, wrong-chain = 0, missing = 0
// @debuginfo c2 at cloned: call.wrong-reexecute >= 1
/**
 * A fault of JDK 17. C2's intrinsic for {@code Object.clone} calls the method if the object's class
 * overrides it. The state of that call has the reexecute bit: {@code
 * LibraryCallKit::inline_native_clone} sets it for the whole intrinsic, and {@code
 * generate_method_call} takes it over. If the frame is invalidated during the call, the interpreter
 * executes the invoke a second time. A JDK without the fault fails this test.
 *
 * <p>Run by {@code java -Xbatch CloneOverridden}, it reports one clone more than calls. With
 * {@code -Xint}, {@code -XX:TieredStopAtLevel=1}, or {@code -XX:+UnlockDiagnosticVMOptions
 * -XX:DisableIntrinsic=_clone} there are as many.
 */
public class CloneOverridden implements Cloneable {
    private static int calls;
    private static int clones;

    private final Flag flag = new Flag();

    static class Flag {
        int value() {
            return 1;
        }
    }

    /** Once it is loaded, `flag.value()` has two targets. */
    static class Other extends Flag {
        @Override
        int value() {
            return 2;
        }
    }

    // With four receiver classes, C2 inlines no override.
    static class First extends CloneOverridden {}

    static class Second extends CloneOverridden {}

    static class Counting extends CloneOverridden {
        private boolean invalidates;

        @Override
        protected Object clone() throws CloneNotSupportedException {
            clones++;
            if (invalidates) {
                invalidates = false;
                new Other();
            }
            return super.clone();
        }
    }

    int copied() throws CloneNotSupportedException {
        Object copy = clone(); // @cloned
        return flag.value() + (copy == this ? 1 : 0);
    }

    public static void main(String[] args) throws CloneNotSupportedException {
        CloneOverridden[] others = {new CloneOverridden(), new First(), new Second()};
        Counting counting = new Counting();
        int sum = 0;
        for (int i = 0; i < 20000; i++) {
            counting.invalidates = i == 19999;
            sum += others[i % 3].copied() + counting.copied();
            calls++;
        }
        System.out.println(sum);
        System.err.println(calls + " calls, " + clones + " clones");
    }
}
