// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

/**
 * A method in its whole calling context. Callers pass nodes in a thread-local field, not in an
 * argument as JP does, because descriptors of loaded classes cannot change.
 */
public final class Node {
    final Tree tree;
    /** The caller's node; null for the root. */
    public final Node parent;
    /** Number of the method. */
    public final int method;
    /** How often it was called. */
    public long invocations;
    /** Bytecodes that began. */
    public long bytecodes;
    /** Bytecodes of the blocks that began, each counted whole. */
    public long whole;
    /** Open addressing by method. */
    private Node[] callees = new Node[2];
    private int size;

    Node(Tree tree, Node parent, int method) {
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

    private Node callee(int method) {
        int mask = callees.length - 1;
        for (int slot = method * 0x9e3779b1 >>> 7 & mask;; slot = slot + 1 & mask) {
            Node node = callees[slot];
            if (node == null) {
                return add(new Node(tree, this, method));
            }
            if (node.method == method) {
                return node;
            }
        }
    }

    private Node add(Node node) {
        if (2 * ++size > callees.length) {
            Node[] old = callees;
            callees = new Node[2 * old.length];
            for (Node callee : old) {
                if (callee != null) {
                    place(callee);
                }
            }
        }
        place(node);
        return node;
    }

    private void place(Node node) {
        int mask = callees.length - 1;
        int slot = node.method * 0x9e3779b1 >>> 7 & mask;
        while (callees[slot] != null) {
            slot = slot + 1 & mask;
        }
        callees[slot] = node;
    }

    /** Bytecodes will be executed. */
    public void add(int count) {
        bytecodes += count;
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

    /** The nodes of its callees, in no order. */
    public Node[] callees() {
        Node[] all = new Node[size];
        int to = 0;
        for (Node callee : callees) {
            if (callee != null && to < size) {
                all[to++] = callee;
            }
        }
        return all;
    }
}
