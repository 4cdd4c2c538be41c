// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.oracle.agent;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodTooLargeException;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FrameNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.IntInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LineNumberNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;

/** Puts probes into one class file. */
final class Instrumenter {
    private static final String PROBE_CLASS = "jportal/oracle/Probe";
    /** Operand stack words that a probe needs in addition to those of the method. */
    private static final int PROBE_STACK = 2;
    /** Offsets in {@code sipush; sipush; invokestatic}, in bytes. */
    private static final int SECOND_SIPUSH = 3;
    private static final int CALL = 6;
    private static final int MAX_STACK = 65535 - PROBE_STACK;

    private final ClassReader original;
    private final Tables tables;
    private final Set<String> tooLarge = new HashSet<>();

    Instrumenter(byte[] classFile, Tables tables) {
        original = new ClassReader(classFile);
        this.tables = tables;
    }

    /** A class file with probes and where they are. */
    record Result(byte[] classFile, List<ProbeSite> sites, List<String> skippedMethods) {}

    /** Instruments the class, or returns null if it has no code. */
    Result run() {
        while (true) {
            List<ProbeSite> draft = new ArrayList<>();
            ClassNode node = new ClassNode();
            original.accept(node, 0);
            insertProbes(node, draft);
            if (draft.isEmpty() && tooLarge.isEmpty()) {
                return null;
            }
            ClassWriter writer = new ClassWriter(original, 0);
            node.accept(writer);
            try {
                byte[] classFile = writer.toByteArray();
                return new Result(classFile, locate(classFile, draft), List.copyOf(tooLarge));
            } catch (MethodTooLargeException error) {
                if (!tooLarge.add(error.getMethodName() + error.getDescriptor())) {
                    throw error;
                }
            }
        }
    }

    private void insertProbes(ClassNode node, List<ProbeSite> sites) {
        Map<String, int[]> bcis = new HashMap<>();
        for (CodeScan.Code code : CodeScan.of(original)) {
            bcis.put(code.method(), code.bcis());
        }
        List<MethodNode> methods = new ArrayList<>();
        int count = 0;
        for (MethodNode method : node.methods) {
            if (method.maxStack > MAX_STACK) {
                tooLarge.add(method.name + method.desc);
            }
            if (method.instructions.size() > 0 && !tooLarge.contains(method.name + method.desc)) {
                methods.add(method);
                count += Leaders.of(method).cardinality();
            }
        }
        int id = tables.reserve(count);
        for (MethodNode method : methods) {
            id = insertProbes(method, bcis.get(method.name + method.desc), id, sites);
        }
    }

    /** Puts probes numbered from {@code id} into a method; returns the next free id. */
    private static int insertProbes(MethodNode method, int[] bcis, int id, List<ProbeSite> sites) {
        BitSet leaders = Leaders.of(method);
        AbstractInsnNode[] code = method.instructions.toArray();
        Set<LabelNode> newLabels = labelsOfNew(code);
        int real = 0;
        int line = 0;
        int ordinal = 0;
        for (int i = 0; i < code.length; i++) {
            if (code[i] instanceof LineNumberNode number) {
                line = number.line;
            }
            if (leaders.get(i)) {
                method.instructions.insertBefore(code[i], probe(id));
                if (code[i].getOpcode() == Opcodes.NEW) {
                    keepLabelAtNew(method, code[i], newLabels);
                }
                sites.add(new ProbeSite(id++, method.name, method.desc, ordinal++, -1, bcis[real], line));
            }
            if (code[i].getOpcode() >= 0) {
                real++;
            }
        }
        method.maxStack += PROBE_STACK;
        return id;
    }

    private static InsnList probe(int id) {
        InsnList list = new InsnList();
        list.add(new IntInsnNode(Opcodes.SIPUSH, (short) (id >>> 16)));
        list.add(new IntInsnNode(Opcodes.SIPUSH, (short) id));
        list.add(new MethodInsnNode(Opcodes.INVOKESTATIC, PROBE_CLASS, "hit", "(II)V", false));
        return list;
    }

    /** The labels, each at a {@code new}, by which frames name an uninitialised object. */
    private static Set<LabelNode> labelsOfNew(AbstractInsnNode[] code) {
        Set<LabelNode> labels = new HashSet<>();
        for (AbstractInsnNode insn : code) {
            if (insn instanceof FrameNode frame) {
                addLabels(frame.local, labels);
                addLabels(frame.stack, labels);
            }
        }
        return labels;
    }

    private static void addLabels(List<Object> types, Set<LabelNode> labels) {
        if (types != null) {
            for (Object type : types) {
                if (type instanceof LabelNode label) {
                    labels.add(label);
                }
            }
        }
    }

    /**
     * A probe separates a {@code new} that leads a block from the label before it. Frames that name
     * the object by that label get a fresh label, directly at the {@code new}.
     */
    private static void keepLabelAtNew(MethodNode method, AbstractInsnNode newInsn, Set<LabelNode> newLabels) {
        AbstractInsnNode insn = newInsn.getPrevious().getPrevious().getPrevious().getPrevious();
        LabelNode fresh = null;
        for (; insn != null && insn.getOpcode() < 0; insn = insn.getPrevious()) {
            if (insn instanceof LabelNode label && newLabels.contains(label)) {
                if (fresh == null) {
                    fresh = new LabelNode();
                    method.instructions.insertBefore(newInsn, fresh);
                }
                renameInFrames(method, label, fresh);
            }
        }
    }

    private static void renameInFrames(MethodNode method, LabelNode from, LabelNode to) {
        for (AbstractInsnNode insn : method.instructions) {
            if (insn instanceof FrameNode frame) {
                frame.local = rename(frame.local, from, to);
                frame.stack = rename(frame.stack, from, to);
            }
        }
    }

    private static List<Object> rename(List<Object> types, LabelNode from, LabelNode to) {
        if (types == null || !types.contains(from)) {
            return types;
        }
        List<Object> renamed = new ArrayList<>(types);
        Collections.replaceAll(renamed, from, to);
        return renamed;
    }

    /** Adds to each site its bci in the finished class file; a site that is not found is a bug. */
    private static List<ProbeSite> locate(byte[] classFile, List<ProbeSite> draft) {
        Map<Integer, Integer> found = new HashMap<>();
        ClassReader reader = new ClassReader(classFile);
        for (CodeScan.Code code : CodeScan.of(reader)) {
            int last = code.base() + code.bcis()[code.bcis().length - 1];
            for (int bci : code.bcis()) {
                int at = code.base() + bci;
                if (!isProbe(reader, at, last)) {
                    continue;
                }
                int id = reader.readShort(at + 1) << 16 | reader.readUnsignedShort(at + SECOND_SIPUSH + 1);
                if (found.put(id, bci) != null) {
                    throw new IllegalStateException("probe " + id + " is in the class file twice");
                }
            }
        }
        List<ProbeSite> sites = new ArrayList<>(draft.size());
        for (ProbeSite site : draft) {
            Integer bci = found.get(site.id());
            if (bci == null) {
                throw new IllegalStateException("probe " + site.id() + " is not in the class file");
            }
            sites.add(new ProbeSite(site.id(), site.method(), site.descriptor(), site.ordinal(), bci,
                    site.originalBci(), site.line()));
        }
        return sites;
    }

    private static boolean isProbe(ClassReader reader, int at, int last) {
        if (at + CALL > last
                || reader.readByte(at) != Opcodes.SIPUSH
                || reader.readByte(at + SECOND_SIPUSH) != Opcodes.SIPUSH
                || reader.readByte(at + CALL) != Opcodes.INVOKESTATIC) {
            return false;
        }
        int member = reader.getItem(reader.readUnsignedShort(at + CALL + 1));
        char[] buffer = new char[reader.getMaxStringLength()];
        return PROBE_CLASS.equals(reader.readClass(member, buffer));
    }
}
