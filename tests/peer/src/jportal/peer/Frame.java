// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.Arrays;

/** A frame of a possible stack, with those below. The root stands for the VM. Immutable. */
final class Frame {
    static final Frame ROOT = new Frame(-1, null, 0, Points.BEGIN, null);
    /**
     * The root once it has called what it calls only once: {@code main}, or a thread's {@code run}.
     */
    static final Frame SPENT = new Frame(-2, null, 0, Points.BEGIN, null);

    final int definition;
    final Method method;
    final int block;
    /** Possible places in the block; see {@link Points}. */
    final int[] places;
    final Frame caller;
    final int depth;
    private final int hash;

    Frame(int definition, Method method, int block, int[] places, Frame caller) {
        this.definition = definition;
        this.method = method;
        this.block = block;
        this.places = places;
        this.caller = caller;
        depth = caller == null ? 0 : caller.depth + 1;
        int own = (definition * 31 + block) * 31 + (places.length == 1 ? places[0] : Arrays.hashCode(places));
        hash = (caller == null ? 17 : caller.hash) * 0x9E3779B1 + own;
    }

    boolean isRoot() {
        return caller == null;
    }

    Frame at(int[] now) {
        return new Frame(definition, method, block, now, caller);
    }

    /** Whether two stacks are the same. */
    boolean same(Frame other) {
        Frame one = this;
        Frame two = other;
        while (one != two) {
            if (one.hash != two.hash || one.definition != two.definition || one.block != two.block
                    || one.depth != two.depth || !Arrays.equals(one.places, two.places)) {
                return false;
            }
            one = one.caller;
            two = two.caller;
        }
        return true;
    }
}
