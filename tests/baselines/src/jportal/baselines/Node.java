// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import jportal.profile.MID;
import jportal.profile.driver.Context;

/**
 * A method in its whole calling context. Callers pass nodes in a thread-local field, not in an
 * argument as JP does, because descriptors of loaded classes cannot change.
 */
public class Node extends Context {
    final Tree tree;
    /** The caller's node; null for the root. */
    public final Node parent;
    /** Number of the method. */
    public final int method;
    /** Bytecodes of the blocks that began, each counted whole. */
    public long whole;
    /**
     * Open addressing by method. Methods that a profiler identifies with one object have the same
     * node, which is there for each of them.
     */
    private Node[] callees = new Node[2];
    /** The methods of {@link #callees}. */
    private int[] keys = new int[2];
    private int size;

    Node(Tree tree, Node parent, int method, MID mid) {
        super(mid, parent);
        this.tree = tree;
        this.parent = parent;
        this.method = method;
    }

    /** A method begins. */
    public static Node enter(int method) {
        Tree tree = Tree.CURRENT.get();
        Node node = tree.current.callee(method);
        node.invocations++;
        tree.current = node;
        return node;
    }

    /** A method begins, and there is a profiler. */
    public static Node begin(int method) {
        Tree tree = Tree.CURRENT.get();
        tree.register();
        Node node = tree.current.callee(method);
        node.invocations++;
        tree.current = node;
        node.check();
        return node;
    }

    private Node callee(int method) {
        int mask = callees.length - 1;
        for (int slot = slot(method, mask);; slot = slot + 1 & mask) {
            if (callees[slot] == null) {
                return append(method);
            }
            if (keys[slot] == method) {
                return callees[slot];
            }
        }
    }

    private static int slot(int method, int mask) {
        return method * 0x9e3779b1 >>> 7 & mask;
    }

    private Node append(int method) {
        MID mid = Live.mid(method);
        Node known = mid == null ? null : (Node) calleeWith(mid);
        Node node = known != null ? known : new Node(tree, this, method, mid);
        if (2 * ++size > callees.length) {
            Node[] old = callees;
            int[] oldKeys = keys;
            callees = new Node[2 * old.length];
            keys = new int[2 * old.length];
            for (int i = 0; i < old.length; i++) {
                if (old[i] != null) {
                    place(oldKeys[i], old[i]);
                }
            }
        }
        place(method, node);
        return node;
    }

    private void place(int method, Node node) {
        int mask = callees.length - 1;
        int slot = slot(method, mask);
        while (callees[slot] != null) {
            slot = slot + 1 & mask;
        }
        callees[slot] = node;
        keys[slot] = method;
    }

    /** Bytecodes will be executed. */
    public void add(int count) {
        bytecodes += count;
    }

    /** Bytecodes will be executed, and there is a profiler. */
    public void count(int count) {
        bytecodes += count;
        tree.left -= count;
    }

    /** A check point: the first bytecode of an activation, or after a backward jump. */
    public void check() {
        if (tree.left <= 0) {
            tree.report(this);
        }
    }

    /** A block of this length begins. */
    public void addWhole(int count) {
        whole += count;
    }

    /** The activation ends. */
    public void leave() {
        tree.current = parent;
    }

    /** The activation continues in a handler. */
    public void resume() {
        tree.current = this;
    }
}
