// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.List;
import jportal.baselines.Node;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.InsnList;

/**
 * Mode {@code jp}: nodes of the call tree, with bytecodes by both of JP's block analyses. With a
 * profiler, bytecodes also lower the counter of the thread, and check points look at it.
 */
final class TreeProbes extends Probes {
    private final Shape shape;
    private final int id;
    private final boolean profiled;

    TreeProbes(Code code, Shape shape, int id, boolean profiled) {
        super(code);
        this.shape = shape;
        this.id = id;
        this.profiled = profiled;
    }

    @Override
    List<Object> locals() {
        return List.of("jportal/baselines/Node");
    }

    @Override
    InsnList entry() {
        String method = profiled ? "begin" : "enter";
        InsnList list = statically(push(list(), id), Node.class, method, "(I)Ljportal/baselines/Node;");
        return variable(list, Opcodes.ASTORE, local);
    }

    @Override
    InsnList block(int block) {
        return call(push(state(), shape.length()[block]), Node.class, "addWhole", "(I)V");
    }

    @Override
    InsnList run(int length) {
        return call(push(state(), length), Node.class, profiled ? "count" : "add", "(I)V");
    }

    @Override
    boolean hasEdges() {
        return profiled;
    }

    @Override
    InsnList edge(int from, int to) {
        boolean isBackward = shape.start()[to] <= shape.last()[from];
        return isBackward ? call(state(), Node.class, "check", "()V") : null;
    }

    @Override
    InsnList end(int block) {
        return code.returns(block) ? call(state(), Node.class, "leave", "()V") : null;
    }

    @Override
    boolean hasHandlers() {
        return true;
    }

    @Override
    InsnList caught(int segment, int block) {
        return call(state(), Node.class, "resume", "()V");
    }

    @Override
    boolean hasUnwinds() {
        return true;
    }

    @Override
    InsnList left(int segment) {
        return call(state(), Node.class, "leave", "()V");
    }
}
