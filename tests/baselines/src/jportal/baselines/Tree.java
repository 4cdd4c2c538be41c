// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

/** Mode {@code jp}: the call tree of a thread. */
public final class Tree extends PerThread {
    static final ThreadLocal<Tree> CURRENT = new ThreadLocal<>() {
        @Override
        protected Tree initialValue() {
            return new Tree();
        }
    };

    /** Of no method. */
    public final Node root = new Node(this, null, -1);
    Node current = root;
}
