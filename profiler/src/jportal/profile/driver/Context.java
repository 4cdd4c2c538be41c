// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile.driver;

import java.util.AbstractCollection;
import java.util.Collection;
import java.util.Iterator;
import java.util.NoSuchElementException;
import jportal.profile.IC;
import jportal.profile.MID;

/** A node. Keeps its callees as a list through the nodes themselves. */
public class Context implements IC {
    private final MID mid;
    private final Context caller;
    /** Since the beginning. */
    public long invocations;
    /** Since the beginning. */
    public long bytecodes;
    private long invocationsAtReset;
    private long bytecodesAtReset;
    private Context firstCallee;
    private Context lastCallee;
    private Context nextSibling;
    private int size;

    /** A new callee of a node; null if this is a root. */
    public Context(MID mid, Context caller) {
        this.mid = mid;
        this.caller = caller;
        if (caller == null) {
            return;
        }
        if (caller.firstCallee == null) {
            caller.firstCallee = this;
        } else {
            caller.lastCallee.nextSibling = this;
        }
        caller.lastCallee = this;
        caller.size++;
    }

    @Override
    public final MID mid() {
        return mid;
    }

    @Override
    public final Context caller() {
        return caller;
    }

    @Override
    public final long getInvoc() {
        return invocations - invocationsAtReset;
    }

    @Override
    public final long getInstr() {
        return bytecodes - bytecodesAtReset;
    }

    @Override
    public final void reset() {
        invocationsAtReset = invocations;
        bytecodesAtReset = bytecodes;
    }

    /** The callee with an identifier; null if there is none. Looks at all callees. */
    public final Context calleeWith(MID wanted) {
        Context callee = firstCallee;
        while (callee != null && callee.mid != wanted) {
            callee = callee.nextSibling;
        }
        return callee;
    }

    @Override
    public final Collection<IC> callees() {
        return new AbstractCollection<>() {
            @Override
            public int size() {
                return size;
            }

            @Override
            public Iterator<IC> iterator() {
                return new Siblings(firstCallee);
            }
        };
    }

    private static final class Siblings implements Iterator<IC> {
        private Context next;

        Siblings(Context first) {
            next = first;
        }

        @Override
        public boolean hasNext() {
            return next != null;
        }

        @Override
        public IC next() {
            Context node = next;
            if (node == null) {
                throw new NoSuchElementException();
            }
            next = node.nextSibling;
            return node;
        }
    }
}
