// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.Map;
import java.util.TreeMap;

/** A node of the call tree: a method in its calling context. The root has no method. */
final class Node {
    final Method method;
    final Map<Method, Node> children = new TreeMap<>();
    final Counter invocations = new Counter();
    /** Bytecodes by whole blocks. */
    final Counter whole = new Counter();
    /** Bytecodes that began. */
    final Counter begun = new Counter();

    Node(Method method) {
        this.method = method;
    }

    Node child(Method callee) {
        return children.computeIfAbsent(callee, Node::new);
    }
}
