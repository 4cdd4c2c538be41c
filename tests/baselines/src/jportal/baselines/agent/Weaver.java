// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.FrameNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LookupSwitchInsnNode;
import org.objectweb.asm.tree.TableSwitchInsnNode;
import org.objectweb.asm.tree.TryCatchBlockNode;

/** Inserts the probes of one method. */
final class Weaver {
    private final Code code;
    private final Probes probes;
    private final int fault;
    private int number;
    private final InsnList list;
    private final boolean frames;
    /** The frame before an instruction. */
    private final FrameNode[] frameAt;
    /** Before what probes of an instruction are inserted. */
    private final AbstractInsnNode[] anchors;
    /** By instruction: the label that the original code uses. */
    private final Map<Integer, LabelNode> targets = new HashMap<>();
    private final Map<Integer, LabelNode> labels = new HashMap<>();
    private final InsnList tail = new InsnList();
    private final Map<List<Integer>, LabelNode> detours = new HashMap<>();

    /**
     * @param version of the class file
     * @param fault   number of the probe to leave out
     * @param number  of the next probe
     */
    Weaver(int version, Code code, Probes probes, int fault, int number) {
        this.code = code;
        this.probes = probes;
        this.fault = fault;
        this.number = number;
        list = code.method.instructions;
        frames = (version & 0xffff) >= Opcodes.V1_6;
        frameAt = new FrameNode[code.insns.length];
        anchors = code.insns.clone();
        for (AbstractInsnNode insn : code.insns) {
            Code.targets(insn).forEach(label -> targets.put(code.at(label), label));
        }
        code.method.tryCatchBlocks.forEach(row -> targets.put(code.at(row.handler), row.handler));
    }

    /** Why no mode can instrument a method; null if all can. */
    static String refuses(Code code) {
        if (code.superCall() == -2) {
            return "a constructor without one certain call of a super constructor";
        }
        return code.method.maxStack > 65000 || code.method.maxLocals > 65000 ? "too large a frame" : null;
    }

    /** Returns the number of the next probe. */
    int weave() {
        labelNew();
        extendFrames();
        rewriteRows();
        for (int i = 0; i < code.insns.length; i++) {
            insert(i);
        }
        list.add(tail);
        list.insert(probes.entry());
        code.method.maxLocals = probes.local;
        for (Object type : probes.locals()) {
            code.method.maxLocals += size(type);
        }
        code.method.maxStack += Probes.STACK;
        return number;
    }

    /** A probe, unless it is the one to leave out. */
    private InsnList probe(InsnList probe) {
        return probe == null || number++ == fault ? new InsnList() : probe;
    }

    private static int size(Object type) {
        return type == Opcodes.LONG || type == Opcodes.DOUBLE ? 2 : 1;
    }

    /** Frames name a new object by a label directly at its {@code new}: gives each a fresh one. */
    private void labelNew() {
        Set<LabelNode> inFrames = new HashSet<>();
        for (AbstractInsnNode insn : list) {
            if (insn instanceof FrameNode frame) {
                for (List<Object> types : List.of(frame.local, frame.stack)) {
                    types.forEach(type -> {
                        if (type instanceof LabelNode label) {
                            inFrames.add(label);
                        }
                    });
                }
            }
        }
        for (int i = 0; i < code.insns.length && !inFrames.isEmpty(); i++) {
            if (code.insns[i].getOpcode() != Opcodes.NEW) {
                continue;
            }
            for (LabelNode label : inFrames) {
                if (code.at(label) != i) {
                    continue;
                }
                if (anchors[i] == code.insns[i]) {
                    anchors[i] = new LabelNode();
                    list.insertBefore(code.insns[i], anchors[i]);
                }
                for (AbstractInsnNode insn : list) {
                    if (insn instanceof FrameNode frame) {
                        frame.local = new ArrayList<>(frame.local);
                        frame.stack = new ArrayList<>(frame.stack);
                        Collections.replaceAll(frame.local, label, anchors[i]);
                        Collections.replaceAll(frame.stack, label, anchors[i]);
                    }
                }
            }
        }
    }

    private void extendFrames() {
        FrameNode pending = null;
        int at = 0;
        for (AbstractInsnNode insn : list) {
            if (insn instanceof FrameNode frame) {
                frame.local = padded(frame.local);
                pending = frame;
            } else if (insn.getOpcode() >= 0) {
                frameAt[at++] = pending;
                pending = null;
            }
        }
    }

    private List<Object> padded(List<Object> types) {
        List<Object> padded = new ArrayList<>(types);
        int slots = 0;
        for (Object type : types) {
            slots += size(type);
        }
        for (; slots < probes.local; slots++) {
            padded.add(Opcodes.TOP);
        }
        padded.addAll(probes.locals());
        return padded;
    }

    /** A label before an instruction and its probes. */
    private LabelNode label(int insn) {
        return labels.computeIfAbsent(insn, i -> {
            LabelNode label = new LabelNode();
            if (i == code.insns.length) {
                list.add(label);
            } else {
                list.insertBefore(anchors[i], label);
            }
            return label;
        });
    }

    /** Leads exceptions over the probes of handlers, and catches what leaves the method. */
    private void rewriteRows() {
        int[] segments = probes.bySegment() ? code.segments() : new int[code.insns.length];
        List<TryCatchBlockNode> rows = code.method.tryCatchBlocks;
        if (probes.hasHandlers()) {
            List<TryCatchBlockNode> rewritten = new ArrayList<>();
            for (TryCatchBlockNode row : rows) {
                int handler = code.at(row.handler);
                int end = code.at(row.end);
                for (int i = code.at(row.start); i < end;) {
                    int next = endOfSegment(segments, i, end);
                    rewritten.add(new TryCatchBlockNode(label(i), label(next), handler(segments[i], handler), row.type));
                    i = next;
                }
            }
            rows = rewritten;
        }
        if (probes.hasUnwinds()) {
            rows = new ArrayList<>(rows);
            int initializer = code.superCall();
            BitSet before = initializer < 0 ? new BitSet() : code.before(initializer);
            for (int i = 0; i < code.insns.length;) {
                int next = i + 1;
                while (next < code.insns.length && segments[next] == segments[i]
                        && before.get(next) == before.get(i) && i != initializer && next != initializer) {
                    next++;
                }
                if (i != initializer) {
                    rows.add(new TryCatchBlockNode(label(i), label(next), leaving(segments[i], before.get(i)), null));
                }
                i = next;
            }
        }
        code.method.tryCatchBlocks = rows;
    }

    private static int endOfSegment(int[] segments, int from, int end) {
        int next = from;
        while (next < end && segments[next] == segments[from]) {
            next++;
        }
        return next;
    }

    private LabelNode handler(int segment, int handler) {
        return detours.computeIfAbsent(List.of(0, segment, handler), key -> {
            InsnList probe = probe(probes.caught(segment, code.blockOf[handler]));
            return detour(handler, probe);
        });
    }

    /** A way to an instruction, with a probe. */
    private LabelNode detour(int to, InsnList probe) {
        LabelNode label = new LabelNode();
        tail.add(label);
        if (frames && frameAt[to] != null) {
            tail.add(new FrameNode(Opcodes.F_NEW, frameAt[to].local.size(), frameAt[to].local.toArray(),
                    frameAt[to].stack.size(), frameAt[to].stack.toArray()));
        }
        tail.add(probe);
        tail.add(new JumpInsnNode(Opcodes.GOTO, targets.get(to)));
        return label;
    }

    /**
     * The handler that sees an exception leave. None covers the call of a super constructor: the
     * verifier does not permit it, because {@code this} changes its type there.
     *
     * @param before whether {@code this} is not initialized
     */
    private LabelNode leaving(int segment, boolean before) {
        return detours.computeIfAbsent(List.of(before ? 2 : 1, segment), key -> {
            LabelNode label = new LabelNode();
            tail.add(label);
            if (frames) {
                List<Object> none = before ? List.of(Opcodes.UNINITIALIZED_THIS) : List.of();
                Object[] types = padded(none).toArray();
                tail.add(new FrameNode(Opcodes.F_NEW, types.length, types, 1, new Object[] {"java/lang/Throwable"}));
            }
            tail.add(probe(probes.left(segment)));
            tail.add(new InsnNode(Opcodes.ATHROW));
            return label;
        });
    }

    private void insert(int i) {
        int block = code.blockOf[i];
        InsnList before = new InsnList();
        boolean leads = code.first[block] == i;
        boolean ends = code.last[block] == i;
        if (leads) {
            before.add(probe(probes.block(block)));
        }
        if (leads || code.mayThrow(i - 1)) {
            int end = i;
            while (end < code.last[block] && !code.mayThrow(end)) {
                end++;
            }
            before.add(probe(probes.run(end - i + 1)));
        }
        before.add(probe(probes.before(i)));
        if (ends && probes.hasEdges()) {
            edges(block, before);
        }
        if (ends && code.exits(block)) {
            before.add(probe(probes.end(block)));
        }
        list.insertBefore(anchors[i], before);
        list.insert(code.insns[i], probe(probes.after(i)));
    }

    private void edges(int block, InsnList before) {
        AbstractInsnNode insn = code.insns[code.last[block]];
        int[] successors = code.successors[block];
        if (insn.getOpcode() == Opcodes.GOTO) {
            before.add(probe(probes.edge(block, successors[0])));
            return;
        }
        Map<Integer, LabelNode> ways = new HashMap<>();
        if (insn instanceof JumpInsnNode jump) {
            jump.label = way(block, jump.label, ways);
        } else if (insn instanceof TableSwitchInsnNode table) {
            table.labels.replaceAll(label -> way(block, label, ways));
            table.dflt = way(block, table.dflt, ways);
            return;
        } else if (insn instanceof LookupSwitchInsnNode lookup) {
            lookup.labels.replaceAll(label -> way(block, label, ways));
            lookup.dflt = way(block, lookup.dflt, ways);
            return;
        }
        if (successors.length > 0 && !code.exits(block)) {
            list.insert(insn, probe(probes.edge(block, successors[0])));
        }
    }

    private LabelNode way(int block, LabelNode target, Map<Integer, LabelNode> ways) {
        int to = code.blockOf[code.at(target)];
        if (!ways.containsKey(to)) {
            InsnList probe = probes.edge(block, to);
            ways.put(to, probe == null ? target : detour(code.first[to], probe(probe)));
        }
        return ways.get(to);
    }
}
