// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.jacoco.core.JaCoCo;
import org.jacoco.core.analysis.Analyzer;
import org.jacoco.core.analysis.ICounter;
import org.jacoco.core.analysis.IMethodCoverage;
import org.jacoco.core.data.ExecutionData;
import org.jacoco.core.data.ExecutionDataStore;
import org.jacoco.core.internal.analysis.filter.Filters;
import org.jacoco.core.internal.analysis.filter.IFilterContext;
import org.jacoco.core.internal.analysis.filter.IFilterOutput;
import org.jacoco.core.internal.data.CRC64;
import org.jacoco.core.internal.flow.ClassProbesAdapter;
import org.jacoco.core.internal.flow.ClassProbesVisitor;
import org.jacoco.core.internal.flow.IFrame;
import org.jacoco.core.internal.flow.LabelInfo;
import org.jacoco.core.internal.flow.MethodProbesVisitor;
import org.jacoco.core.internal.instr.InstrSupport;
import org.jacoco.core.tools.ExecFileLoader;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.AnnotationNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.MethodNode;

/**
 * Lists what JaCoCo says of the classes named on standard input (one internal name per line): its
 * counters, and from which probes and by which filters it has them. Arguments: the .exec file, then
 * jars, folders of class files or jrt:/MODULE. `jportal verify --jacoco` runs it;
 * rust-core/validate/src/jacoco/listing.rs describes the lines.
 */
public final class JacocoListing {
    private final ExecutionDataStore data;
    private final Set<String> wanted;
    private final PrintStream out;

    private JacocoListing(ExecutionDataStore data, Set<String> wanted, PrintStream out) {
        this.data = data;
        this.wanted = wanted;
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        ExecFileLoader loader = new ExecFileLoader();
        loader.load(new File(args[0]));
        Set<String> wanted = new HashSet<>();
        try (BufferedReader names = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            names.lines().forEach(wanted::add);
        }
        try (PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8)) {
            out.println("jacoco\t" + JaCoCo.VERSION);
            JacocoListing listing = new JacocoListing(loader.getExecutionDataStore(), wanted, out);
            for (int i = 1; i < args.length; i++) {
                listing.walk(args[i]);
            }
        }
    }

    private void walk(String place) throws IOException {
        if (place.startsWith("jrt:")) {
            folder(FileSystems.getFileSystem(URI.create("jrt:/")).getPath("modules", place.substring("jrt:/".length())));
            return;
        }
        Path path = Path.of(place);
        if (Files.isDirectory(path)) {
            folder(path);
            return;
        }
        try (FileSystem jar = FileSystems.newFileSystem(path)) {
            folder(jar.getPath("/"));
        }
    }

    private void folder(Path root) throws IOException {
        try (Stream<Path> files = Files.walk(root)) {
            files.filter(file -> file.toString().endsWith(".class")).sorted().forEach(file -> {
                String name = root.relativize(file).toString();
                name = name.substring(0, name.length() - ".class".length()).replaceFirst("^META-INF/versions/\\d+/", "");
                if (wanted.contains(name)) {
                    read(name, file);
                }
            });
        }
    }

    private void read(String name, Path file) {
        byte[] bytes;
        try {
            bytes = Files.readAllBytes(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        ExecutionData own = data.get(CRC64.classId(bytes));
        if (own == null && data.contains(name)) {
            // Another class of that name ran; it may come from a later place.
            out.println("class\t" + name + "\tother");
            return;
        }
        try {
            if ((InstrSupport.classReaderFor(bytes).getAccess() & Opcodes.ACC_SYNTHETIC) != 0) {
                out.println("class\t" + name + "\tsynthetic");
                return;
            }
            List<String> lines = new ArrayList<>();
            methods(bytes, own, lines);
            out.println("class\t" + name + "\t" + (own == null ? "silent" : "ran"));
            lines.forEach(out::println);
        } catch (IOException | RuntimeException e) {
            Throwable cause = e.getCause() == null ? e : e.getCause();
            out.println("class\t" + name + "\tfailed\t" + String.valueOf(cause.getMessage()).replace('\n', ' '));
        }
    }

    private void methods(byte[] bytes, ExecutionData own, List<String> lines) throws IOException {
        Map<String, IMethodCoverage> counted = new HashMap<>();
        Analyzer analyzer = new Analyzer(data, c -> c.getMethods().forEach(m -> counted.put(m.getName() + m.getDesc(), m)));
        analyzer.analyzeClass(bytes, "");
        ClassReader reader = InstrSupport.classReaderFor(bytes);
        ClassNode node = new ClassNode(InstrSupport.ASM_API_VERSION);
        reader.accept(node, ClassReader.SKIP_DEBUG);
        Set<String> inlined = new HashSet<>();
        for (MethodNode method : node.methods) {
            for (AbstractInsnNode i : method.instructions) {
                if (i.getOpcode() == Opcodes.JSR) {
                    inlined.add(method.name + method.desc);
                }
            }
        }
        ClassNode facts = new ClassNode(InstrSupport.ASM_API_VERSION);
        reader.accept(facts, 0);
        Context context = new Context(facts);
        boolean[] fired = own == null ? null : own.getProbes();
        ClassProbesVisitor visitor = new ClassProbesVisitor() {
            @Override
            public MethodProbesVisitor visitMethod(int access, String name, String desc, String signature, String[] thrown) {
                return new Lister(fired) {
                    @Override
                    void done(MethodNode method, String operations, String filtered) {
                        IMethodCoverage counters = counted.get(name + desc);
                        String form = inlined.contains(name + desc) ? "inlined" : operations;
                        lines.add("method\t" + name + "\t" + desc + "\t" + counters(counters) + "\t" + form + "\t" + filtered);
                    }

                    @Override
                    IFilterContext context() {
                        return context;
                    }
                };
            }

            @Override
            public void visitTotalProbeCount(int count) {}
        };
        reader.accept(new ClassProbesAdapter(visitor, false), 0);
    }

    private static String counters(IMethodCoverage m) {
        if (m == null) {
            return "-";
        }
        ICounter i = m.getInstructionCounter();
        ICounter b = m.getBranchCounter();
        return i.getCoveredCount() + " " + i.getTotalCount() + " " + b.getCoveredCount() + " " + b.getTotalCount();
    }

    /** What filters ask about a class. */
    private static final class Context implements IFilterContext {
        private final ClassNode node;

        Context(ClassNode node) {
            this.node = node;
        }

        @Override
        public String getClassName() {
            return node.name;
        }

        @Override
        public String getSuperClassName() {
            return node.superName;
        }

        @Override
        public Set<String> getClassAnnotations() {
            Set<String> names = new HashSet<>();
            for (List<AnnotationNode> some : List.of(
                    node.visibleAnnotations == null ? List.<AnnotationNode>of() : node.visibleAnnotations,
                    node.invisibleAnnotations == null ? List.<AnnotationNode>of() : node.invisibleAnnotations)) {
                some.forEach(a -> names.add(a.desc));
            }
            return names;
        }

        @Override
        public Set<String> getClassAttributes() {
            Set<String> names = new HashSet<>();
            if (node.attrs != null) {
                node.attrs.forEach(a -> names.add(a.type));
            }
            return names;
        }

        @Override
        public String getSourceFileName() {
            return node.sourceFile;
        }

        @Override
        public String getSourceDebugExtension() {
            return node.sourceDebug;
        }
    }

    /**
     * Writes down the instructions of a method and its probes, in the order in which JaCoCo visits
     * them.
     */
    private abstract static class Lister extends MethodProbesVisitor implements IFilterOutput {
        private final boolean[] fired;
        private final StringBuilder text = new StringBuilder();
        private final Map<AbstractInsnNode, Integer> ordinals = new IdentityHashMap<>();
        private final Map<Label, Integer> targets = new IdentityHashMap<>();
        private final List<String> filtered = new ArrayList<>();
        private int plain;

        Lister(boolean[] fired) {
            this.fired = fired;
        }

        abstract void done(MethodNode method, String operations, String filters);

        abstract IFilterContext context();

        @Override
        public void accept(MethodNode method, MethodVisitor visitor) {
            int count = 0;
            for (AbstractInsnNode i : method.instructions) {
                ordinals.put(i, count);
                if (i instanceof LabelNode) {
                    targets.put(((LabelNode) i).getLabel(), count);
                }
                count += i.getOpcode() >= 0 ? 1 : 0;
            }
            for (AbstractInsnNode i : method.instructions) {
                i.accept(visitor);
            }
            flush();
            Filters.all().filter(method, context(), this);
            done(method, text.toString().strip(), filtered.isEmpty() ? "-" : String.join(" ", filtered));
        }

        private void flush() {
            if (plain > 0) {
                text.append(' ').append(plain);
                plain = 0;
            }
        }

        private void operation(String name) {
            flush();
            text.append(' ').append(name);
        }

        private String probe(int id) {
            return id + (fired != null && fired[id] ? "+" : "-");
        }

        @Override
        public void ignore(AbstractInsnNode from, AbstractInsnNode to) {
            // The ordinal of what is no instruction is that of the next one.
            int last = ordinals.get(to) - (to.getOpcode() >= 0 ? 0 : 1);
            if (last >= ordinals.get(from)) {
                filtered.add("i" + ordinals.get(from) + ":" + last);
            }
        }

        @Override
        public void merge(AbstractInsnNode one, AbstractInsnNode other) {
            filtered.add("m" + ordinals.get(one) + ":" + ordinals.get(other));
        }

        @Override
        public void replaceBranches(AbstractInsnNode source, Set<AbstractInsnNode> branches) {
            StringBuilder all = new StringBuilder("r" + ordinals.get(source));
            branches.forEach(b -> all.append(':').append(ordinals.get(b)));
            filtered.add(all.toString());
        }

        @Override
        public void visitLabel(Label label) {
            if (!LabelInfo.isSuccessor(label)) {
                operation("L");
            }
        }

        @Override
        public void visitProbe(int id) {
            operation("P" + probe(id));
        }

        @Override
        public void visitInsnWithProbe(int opcode, int id) {
            operation("R" + probe(id));
        }

        @Override
        public void visitJumpInsn(int opcode, Label label) {
            operation("J" + targets.get(label));
        }

        @Override
        public void visitJumpInsnWithProbe(int opcode, Label label, int id, IFrame frame) {
            operation("K" + targets.get(label) + ":" + probe(id));
        }

        private void choice(Label standard, Label[] labels, boolean probes) {
            operation("S");
            LabelInfo.resetDone(standard);
            LabelInfo.resetDone(labels);
            int branch = 0;
            target(standard, branch, probes);
            for (Label label : labels) {
                branch++;
                target(label, branch, probes);
            }
        }

        private void target(Label label, int branch, boolean probes) {
            if (LabelInfo.isDone(label)) {
                return;
            }
            LabelInfo.setDone(label);
            int id = probes ? LabelInfo.getProbeId(label) : LabelInfo.NO_PROBE;
            String probe = id == LabelInfo.NO_PROBE ? "" : ":" + probe(id);
            operation("t" + branch + ":" + targets.get(label) + probe);
        }

        @Override
        public void visitTableSwitchInsn(int low, int high, Label standard, Label... labels) {
            choice(standard, labels, false);
        }

        @Override
        public void visitLookupSwitchInsn(Label standard, int[] keys, Label[] labels) {
            choice(standard, labels, false);
        }

        @Override
        public void visitTableSwitchInsnWithProbes(int low, int high, Label standard, Label[] labels, IFrame frame) {
            choice(standard, labels, true);
        }

        @Override
        public void visitLookupSwitchInsnWithProbes(Label standard, int[] keys, Label[] labels, IFrame frame) {
            choice(standard, labels, true);
        }

        @Override
        public void visitInsn(int opcode) {
            plain++;
        }

        @Override
        public void visitIntInsn(int opcode, int operand) {
            plain++;
        }

        @Override
        public void visitVarInsn(int opcode, int variable) {
            plain++;
        }

        @Override
        public void visitTypeInsn(int opcode, String type) {
            plain++;
        }

        @Override
        public void visitFieldInsn(int opcode, String owner, String name, String desc) {
            plain++;
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String desc, boolean onInterface) {
            plain++;
        }

        @Override
        public void visitInvokeDynamicInsn(String name, String desc, Handle bootstrap, Object... arguments) {
            plain++;
        }

        @Override
        public void visitLdcInsn(Object value) {
            plain++;
        }

        @Override
        public void visitIincInsn(int variable, int increment) {
            plain++;
        }

        @Override
        public void visitMultiANewArrayInsn(String desc, int dimensions) {
            plain++;
        }
    }
}
