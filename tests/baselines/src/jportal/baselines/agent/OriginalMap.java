// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LineNumberNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TryCatchBlockNode;

/**
 * The file {@code map.json}: the instrumented methods as they were, and the bci that each of their
 * instructions has now. {@code jportal report --map} reads it. A sequence of JSON values.
 */
final class OriginalMap {
    private final Json json;

    /** @param hidden prefixes of the internal names of classes that the agent brings along */
    OriginalMap(Path folder, List<String> hidden) throws IOException {
        json = new Json(new FileOutputStream(folder.resolve("map.json").toFile()));
        json.begin('{');
        json.key("hidden").begin('[');
        hidden.forEach(json::text);
        json.end(']');
        end();
    }

    /** A method before instrumentation. */
    record Original(String type, Code code, List<TryCatchBlockNode> rows, List<int[]> lines) {
        static Original of(String type, Code code) {
            List<int[]> lines = new ArrayList<>();
            int at = 0;
            for (AbstractInsnNode insn : code.method.instructions) {
                if (insn instanceof LineNumberNode number && at < code.bcis.length) {
                    lines.add(new int[] {code.bcis[at], number.line});
                } else if (insn.getOpcode() >= 0) {
                    at++;
                }
            }
            return new Original(type, code, new ArrayList<>(code.method.tryCatchBlocks), lines);
        }

        private int bci(LabelNode label) {
            int insn = code.at(label);
            return insn < code.bcis.length ? code.bcis[insn] : code.bytes.length;
        }
    }

    /**
     * The bcis of the original instructions in the class that was written. Null for a method whose
     * instructions are not those of its list: ASM replaces jumps that are too long.
     */
    static Map<Code, int[]> places(ClassNode node, byte[] classFile, List<Code> codes) {
        Map<MethodNode, Code> known = new IdentityHashMap<>();
        codes.forEach(code -> known.put(code.method, code));
        Map<Code, int[]> places = new IdentityHashMap<>();
        Offsets offsets = new Offsets(new ClassReader(classFile));
        for (MethodNode method : node.methods) {
            int[] bcis = offsets.next();
            Code code = known.get(method);
            if (code != null) {
                places.put(code, places(code, bcis));
            }
        }
        return places;
    }

    private static int[] places(Code code, int[] bcis) {
        int[] places = new int[code.insns.length];
        int at = 0;
        int own = 0;
        for (AbstractInsnNode insn : code.method.instructions) {
            if (insn.getOpcode() < 0) {
                continue;
            }
            if (own < places.length && insn == code.insns[own] && at < bcis.length) {
                places[own++] = bcis[at];
            }
            at++;
        }
        return at == bcis.length && own == places.length ? places : null;
    }

    /** Appends a method; returns after it is in the file. */
    synchronized void add(Original original, int[] places) {
        Code code = original.code;
        json.begin('{');
        json.key("class").text(original.type);
        json.key("method").text(code.method.name);
        json.key("descriptor").text(code.method.desc);
        json.key("code").text(HexFormat.of().formatHex(code.bytes));
        json.key("exceptions").begin('[');
        for (TryCatchBlockNode row : original.rows) {
            numbers(original.bci(row.start), original.bci(row.end), original.bci(row.handler));
            json.text(row.type == null ? "" : row.type);
            json.end(']');
        }
        json.end(']');
        json.key("lines").begin('[');
        for (int[] line : original.lines) {
            numbers(line);
            json.end(']');
        }
        json.end(']');
        json.key("invokes").begin('[');
        for (int i = 0; i < code.insns.length; i++) {
            if (code.insns[i] instanceof MethodInsnNode call) {
                invoke(code.bcis[i], call.owner, call.name, call.desc);
            } else if (code.insns[i] instanceof InvokeDynamicInsnNode call) {
                invoke(code.bcis[i], "", call.name, call.desc);
            }
        }
        json.end(']');
        json.key("places");
        numbers(places);
        json.end(']');
        end();
    }

    /** Begins a list with numbers. */
    private void numbers(int... numbers) {
        json.begin('[');
        for (int number : numbers) {
            json.number(number);
        }
    }

    private void invoke(int bci, String owner, String name, String descriptor) {
        numbers(bci);
        json.text(owner);
        json.text(name);
        json.text(descriptor);
        json.end(']');
    }

    private void end() {
        json.end('}');
        json.next();
        json.flush();
    }
}
