// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.List;

/** A frame while events are read. Each reader uses the fields it needs. */
final class Activation {
    final Method method;
    int block;
    Node node;
    /** The register of the path, or {@link #UNKNOWN}. */
    long path;
    /** The next instruction of the block that is to be written. */
    int next;
    /** Calls up to this instruction may have come before the last callee. */
    int unordered = -1;
    /** The calls of the block so far. */
    List<Call> calls = new ArrayList<>();
    /** Whether {@link #calls} may not be all calls of the block. */
    boolean isBlurred;

    static final long UNKNOWN = Long.MIN_VALUE;

    /** A call: where its event is, and what it calls. */
    record Call(Events events, int event, Method callee) {}

    Activation(Method method) {
        this.method = method;
    }

    Activation copy() {
        Activation copy = new Activation(method);
        copy.block = block;
        copy.node = node;
        copy.path = path;
        copy.next = next;
        copy.unordered = unordered;
        copy.calls = new ArrayList<>(calls);
        copy.isBlurred = isBlurred;
        return copy;
    }

    /** Begins a block. */
    void begin(int number) {
        block = number;
        next = method.code.first[number];
        unordered = -1;
        calls.clear();
        isBlurred = false;
    }
}
