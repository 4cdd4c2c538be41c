// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle;

import java.util.Iterator;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Takes the stack of the calling thread with Java's own interfaces, for the stacks agent, whose
 * native library calls it. No lambda, no invokedynamic: these start parts of the VM that the
 * program may never use.
 */
final class Stacks implements Function<Stream<StackWalker.StackFrame>, Object> {
    private static final StackWalker WALKER = StackWalker.getInstance(
            Set.of(StackWalker.Option.RETAIN_CLASS_REFERENCE, StackWalker.Option.SHOW_HIDDEN_FRAMES));
    /** Stands for the bci of a native method. */
    private static final int NATIVE = -1;

    private Stacks() {}

    /** Adds a frame, the innermost one first; returns whether there is room for more. */
    private static native boolean frame(String type, String method, String descriptor, int bci);

    /** The bci of a frame of the backtrace that the VM stored in an exception. */
    private static native int bci(Throwable exception, int index);

    static void walk() {
        WALKER.walk(new Stacks());
    }

    @Override
    public Object apply(Stream<StackWalker.StackFrame> frames) {
        boolean room = true;
        for (Iterator<StackWalker.StackFrame> all = frames.iterator(); room && all.hasNext(); ) {
            StackWalker.StackFrame f = all.next();
            int bci = f.isNativeMethod() ? NATIVE : f.getByteCodeIndex();
            room = frame(f.getDeclaringClass().getName(), f.getMethodName(), f.getDescriptor(), bci);
        }
        return null;
    }

    static void thrown() {
        Throwable exception = new Throwable();
        StackTraceElement[] all = exception.getStackTrace();
        for (int i = 0; i < all.length; i++) {
            int bci = all[i].isNativeMethod() ? NATIVE : bci(exception, i);
            frame(all[i].getClassName(), all[i].getMethodName(), "", bci);
        }
    }
}
