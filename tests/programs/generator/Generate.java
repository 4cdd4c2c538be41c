// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
import static org.objectweb.asm.Opcodes.*;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.ConstantDynamic;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Type;

/**
 * Writes test programs with bytecodes and shapes that javac never emits. Argument: output folder.
 *
 * <ul>
 *   <li>{@code programs.OldForms}: jsr, ret, jsr_w (class file version 49); hidden catch type;
 *   <li>{@code programs.NewForms}: all forms of dup, swap, pop, ldc; wide, goto_w, odd switches;
 *   <li>{@code programs.ManyMethods} and {@code programs.many.M0 …}: over a megabyte of bytecode.
 * </ul>
 */
public final class Generate {
    /** More bytes of nop than a 16-bit branch offset spans. */
    private static final int FAR = 33_000;
    /** A local index that needs the wide prefix. */
    private static final int WIDE_LOCAL = 300;
    private static final int MANY_CLASSES = 16;
    private static final int METHODS_PER_CLASS = 10;
    /** A block is about 70 bytes; a method stays below HotSpot's limit for compilation (8000). */
    private static final int BLOCKS_PER_METHOD = 105;

    private final Path out;

    private Generate(Path out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws IOException {
        Generate generate = new Generate(Path.of(arguments[0]));
        generate.oldForms();
        generate.newForms();
        generate.manyMethods();
    }

    /** A class under construction; frames are computed where the version has them. */
    private static ClassWriter open(String name, int version) {
        int flags = version >= V1_7 ? ClassWriter.COMPUTE_FRAMES : ClassWriter.COMPUTE_MAXS;
        ClassWriter writer = new ClassWriter(flags);
        writer.visit(version, ACC_PUBLIC | ACC_FINAL | ACC_SUPER, name, null, "java/lang/Object", null);
        return writer;
    }

    private void close(String name, ClassWriter writer) throws IOException {
        writer.visitEnd();
        Path file = out.resolve(name + ".class");
        Files.createDirectories(file.getParent());
        Files.write(file, writer.toByteArray());
    }

    private static void method(ClassWriter writer, String name, String descriptor, Consumer<MethodVisitor> body) {
        MethodVisitor code = writer.visitMethod(ACC_PUBLIC | ACC_STATIC, name, descriptor, null, null);
        code.visitCode();
        body.accept(code);
        code.visitMaxs(0, 0);
        code.visitEnd();
    }

    /** {@code main}: calls the methods {@code (I)I} with 0 … rounds-1, prints folded results. */
    private static void mainOf(ClassWriter writer, String owner, int defaultRounds, String... methods) {
        method(writer, "main", "([Ljava/lang/String;)V", code -> {
            Label parse = new Label();
            Label start = new Label();
            Label loop = new Label();
            Label end = new Label();
            code.visitVarInsn(ALOAD, 0);
            code.visitInsn(ARRAYLENGTH);
            code.visitJumpInsn(IFNE, parse);
            push(code, defaultRounds);
            code.visitJumpInsn(GOTO, start);
            code.visitLabel(parse);
            code.visitVarInsn(ALOAD, 0);
            code.visitInsn(ICONST_0);
            code.visitInsn(AALOAD);
            code.visitMethodInsn(INVOKESTATIC, "java/lang/Integer", "parseInt", "(Ljava/lang/String;)I", false);
            code.visitLabel(start);
            code.visitVarInsn(ISTORE, 1);
            code.visitInsn(ICONST_0);
            code.visitVarInsn(ISTORE, 2);
            code.visitInsn(ICONST_0);
            code.visitVarInsn(ISTORE, 3);
            code.visitLabel(loop);
            code.visitVarInsn(ILOAD, 2);
            code.visitVarInsn(ILOAD, 1);
            code.visitJumpInsn(IF_ICMPGE, end);
            for (String name : methods) {
                code.visitVarInsn(ILOAD, 3);
                push(code, 31);
                code.visitInsn(IMUL);
                code.visitVarInsn(ILOAD, 2);
                code.visitMethodInsn(INVOKESTATIC, owner, name, "(I)I", false);
                code.visitInsn(IADD);
                code.visitVarInsn(ISTORE, 3);
            }
            code.visitIincInsn(2, 1);
            code.visitJumpInsn(GOTO, loop);
            code.visitLabel(end);
            code.visitFieldInsn(GETSTATIC, "java/lang/System", "out", "Ljava/io/PrintStream;");
            code.visitVarInsn(ILOAD, 3);
            code.visitMethodInsn(INVOKEVIRTUAL, "java/io/PrintStream", "println", "(I)V", false);
            code.visitInsn(RETURN);
        });
    }

    private static void push(MethodVisitor code, int value) {
        if (value >= Short.MIN_VALUE && value <= Short.MAX_VALUE) {
            code.visitIntInsn(SIPUSH, value);
        } else {
            code.visitLdcInsn(value);
        }
    }

    private static void nops(MethodVisitor code, int count) {
        for (int i = 0; i < count; i++) {
            code.visitInsn(NOP);
        }
    }

    // ---- version 49 ----------------------------------------------------------------------------

    private void oldForms() throws IOException {
        String name = "programs/OldForms";
        ClassWriter writer = open(name, V1_5);
        mainOf(writer, name, 50, "subroutine", "nested", "wideReturn", "farSubroutine", "withHandler", "outOfReach");
        method(writer, "subroutine", "(I)I", Generate::subroutine);
        method(writer, "nested", "(I)I", Generate::nestedSubroutines);
        method(writer, "wideReturn", "(I)I", Generate::wideReturn);
        method(writer, "farSubroutine", "(I)I", Generate::farSubroutine);
        method(writer, "withHandler", "(I)I", Generate::finallyWithHandler);
        method(writer, "boom", "(I)I", Generate::boom);
        method(writer, "search", "(I)I", Generate::searchThatFails);
        method(writer, "outOfReach", "(I)I", Generate::caughtSomewhere);
        close(name, writer);
        ClassWriter secret = new ClassWriter(0);
        secret.visit(V1_5, ACC_SUPER, SECRET, null, "java/lang/RuntimeException", null);
        close(SECRET, secret);
    }

    /** An exception class that other packages cannot access. */
    private static final String SECRET = "programs/hidden/Secret";

    private static void boom(MethodVisitor code) {
        code.visitTypeInsn(NEW, "java/lang/IllegalStateException");
        code.visitInsn(DUP);
        code.visitMethodInsn(INVOKESPECIAL, "java/lang/IllegalStateException", "<init>", "()V", false);
        code.visitInsn(ATHROW);
    }

    /**
     * The VM cannot access the catch type of handlers 0 and 1. The error of each failed search is
     * thrown at that handler; handler 2 catches the second error. Compiled code may skip handlers,
     * also of callers that inlined the method ({@code SharedRuntime::compute_compiled_exc_handler}
     * unwinds the whole nmethod), so it must be too large to be inlined ({@code FreqInlineSize}).
     */
    private static void searchThatFails(MethodVisitor code) {
        Label[] handlers = {new Label(), new Label(), new Label()};
        Label start = new Label();
        Label end = new Label();
        code.visitTryCatchBlock(start, end, handlers[0], SECRET);
        code.visitTryCatchBlock(handlers[0], handlers[1], handlers[1], SECRET);
        code.visitTryCatchBlock(handlers[1], handlers[2], handlers[2], null);
        nops(code, 400);
        code.visitLabel(start);
        code.visitVarInsn(ILOAD, 0);
        code.visitMethodInsn(INVOKESTATIC, "programs/OldForms", "boom", "(I)I", false);
        code.visitLabel(end);
        code.visitInsn(IRETURN);
        for (int i = 0; i < 3; i++) {
            code.visitLabel(handlers[i]);
            code.visitInsn(POP);
            push(code, 10 + i);
            code.visitInsn(IRETURN);
        }
    }

    private static void caughtSomewhere(MethodVisitor code) {
        Label start = new Label();
        Label end = new Label();
        code.visitTryCatchBlock(start, end, end, null);
        code.visitLabel(start);
        code.visitVarInsn(ILOAD, 0);
        code.visitMethodInsn(INVOKESTATIC, "programs/OldForms", "search", "(I)I", false);
        code.visitInsn(POP);
        push(code, 12);
        code.visitInsn(IRETURN);
        code.visitLabel(end);
        code.visitInsn(POP);
        push(code, 12);
        code.visitInsn(IRETURN);
    }

    /** One subroutine, called from three places, one of them in a loop. */
    private static void subroutine(MethodVisitor code) {
        Label sub = new Label();
        Label loop = new Label();
        Label end = new Label();
        code.visitInsn(ICONST_0);
        code.visitVarInsn(ISTORE, 1);
        code.visitJumpInsn(JSR, sub);
        code.visitLabel(loop);
        code.visitVarInsn(ILOAD, 0);
        code.visitJumpInsn(IFLE, end);
        code.visitJumpInsn(JSR, sub);
        code.visitIincInsn(0, -3);
        code.visitJumpInsn(GOTO, loop);
        code.visitLabel(end);
        code.visitJumpInsn(JSR, sub);
        code.visitVarInsn(ILOAD, 1);
        code.visitInsn(IRETURN);
        code.visitLabel(sub);
        code.visitVarInsn(ASTORE, 2);
        code.visitIincInsn(1, 10);
        code.visitVarInsn(RET, 2);
    }

    /** A subroutine that calls another, which branches. */
    private static void nestedSubroutines(MethodVisitor code) {
        Label outer = new Label();
        Label inner = new Label();
        Label odd = new Label();
        Label back = new Label();
        code.visitInsn(ICONST_1);
        code.visitVarInsn(ISTORE, 1);
        code.visitJumpInsn(JSR, outer);
        code.visitJumpInsn(JSR, outer);
        code.visitVarInsn(ILOAD, 1);
        code.visitInsn(IRETURN);
        code.visitLabel(outer);
        code.visitVarInsn(ASTORE, 2);
        code.visitJumpInsn(JSR, inner);
        code.visitIincInsn(1, 5);
        code.visitJumpInsn(JSR, inner);
        code.visitVarInsn(RET, 2);
        code.visitLabel(inner);
        code.visitVarInsn(ASTORE, 3);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(ICONST_1);
        code.visitInsn(IAND);
        code.visitJumpInsn(IFNE, odd);
        code.visitIincInsn(1, 100);
        code.visitJumpInsn(GOTO, back);
        code.visitLabel(odd);
        code.visitIincInsn(1, 7);
        code.visitLabel(back);
        code.visitVarInsn(RET, 3);
    }

    private static void wideReturn(MethodVisitor code) {
        Label sub = new Label();
        code.visitJumpInsn(JSR, sub);
        code.visitJumpInsn(JSR, sub);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(IRETURN);
        code.visitLabel(sub);
        code.visitVarInsn(ASTORE, WIDE_LOCAL);
        code.visitIincInsn(0, 4);
        code.visitVarInsn(RET, WIDE_LOCAL);
    }

    private static void farSubroutine(MethodVisitor code) {
        Label sub = new Label();
        code.visitJumpInsn(JSR, sub);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(IRETURN);
        nops(code, FAR);
        code.visitLabel(sub);
        code.visitVarInsn(ASTORE, 1);
        code.visitIincInsn(0, 9);
        code.visitVarInsn(RET, 1);
    }

    /** {@code try … finally} as compilers wrote it before version 50. */
    private static void finallyWithHandler(MethodVisitor code) {
        Label start = new Label();
        Label end = new Label();
        Label any = new Label();
        Label handler = new Label();
        Label handlerEnd = new Label();
        Label sub = new Label();
        code.visitTryCatchBlock(start, end, handler, "java/lang/ArithmeticException");
        code.visitTryCatchBlock(start, handlerEnd, any, null);
        code.visitLabel(start);
        push(code, 100);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(ICONST_3);
        code.visitInsn(IREM);
        code.visitInsn(IDIV);
        code.visitVarInsn(ISTORE, 0);
        code.visitLabel(end);
        code.visitJumpInsn(JSR, sub);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(IRETURN);
        code.visitLabel(handler);
        code.visitInsn(POP);
        code.visitJumpInsn(JSR, sub);
        code.visitInsn(ICONST_M1);
        code.visitInsn(IRETURN);
        code.visitLabel(handlerEnd);
        code.visitLabel(any);
        code.visitVarInsn(ASTORE, 1);
        code.visitJumpInsn(JSR, sub);
        code.visitVarInsn(ALOAD, 1);
        code.visitInsn(ATHROW);
        code.visitLabel(sub);
        code.visitVarInsn(ASTORE, 2);
        code.visitIincInsn(0, 1);
        code.visitVarInsn(RET, 2);
    }

    // ---- version 61 ----------------------------------------------------------------------------

    private void newForms() throws IOException {
        String name = "programs/NewForms";
        ClassWriter writer = open(name, V17);
        for (int i = 0; i < 300; i++) {
            writer.newConst("filler " + i); // so that later constants need ldc_w
        }
        mainOf(writer, name, 50, "stack", "wideLocals", "farJumps", "constants", "switches", "newAtLeader", "shortForms");
        method(writer, "stack", "(I)I", Generate::stackForms);
        method(writer, "wideLocals", "(I)I", Generate::wideLocals);
        method(writer, "farJumps", "(I)I", Generate::farJumps);
        method(writer, "constants", "(I)I", code -> constants(code, name));
        method(writer, "switches", "(I)I", Generate::oddSwitches);
        method(writer, "newAtLeader", "(I)I", Generate::newAtLeader);
        method(writer, "shortForms", "(I)I", Generate::shortForms);
        bootstraps(writer);
        close(name, writer);
    }

    /** Each form of dup, dup_x, dup2, dup2_x, pop, pop2 and swap (JVMS 17 §6.5). */
    private static void stackForms(MethodVisitor code) {
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(DUP);
        code.visitInsn(ICONST_2);
        code.visitInsn(SWAP);
        code.visitInsn(ISUB);
        code.visitInsn(DUP_X1); // a b -> b a b
        code.visitInsn(IADD);
        code.visitInsn(ICONST_3);
        code.visitInsn(DUP_X2); // form 1 over two ints
        code.visitInsn(POP);
        code.visitInsn(IADD);
        code.visitInsn(IADD);
        code.visitInsn(I2L);
        code.visitInsn(ICONST_5);
        code.visitInsn(DUP_X2); // form 2 over a long
        code.visitInsn(I2L);
        code.visitInsn(LADD);
        code.visitInsn(DUP2); // form 2: a long
        code.visitInsn(LXOR);
        code.visitInsn(LCONST_1);
        code.visitInsn(LADD); // int long
        code.visitInsn(DUP2_X1); // form 2: long over int
        code.visitInsn(POP2);
        code.visitInsn(POP); // long
        code.visitInsn(LCONST_1);
        code.visitInsn(DUP2_X2); // form 4: long over long
        code.visitInsn(LADD);
        code.visitInsn(LADD);
        code.visitInsn(ICONST_1);
        code.visitInsn(ICONST_2);
        code.visitInsn(DUP2_X2); // form 3: two ints over a long
        code.visitInsn(POP2);
        code.visitInsn(L2I); // int int int
        code.visitInsn(ICONST_4);
        code.visitInsn(DUP2_X2); // form 1: two ints over two ints
        code.visitInsn(DUP2); // form 1
        code.visitInsn(DUP2_X1); // form 1: two ints over an int
        for (int i = 0; i < 9; i++) {
            code.visitInsn(IADD);
        }
        code.visitInsn(I2L);
        code.visitInsn(ICONST_1);
        code.visitInsn(ICONST_2);
        code.visitInsn(I2L);
        code.visitInsn(DUP2_X1);
        code.visitInsn(L2I);
        code.visitInsn(IADD);
        code.visitInsn(NOP);
        code.visitInsn(POP);
        code.visitInsn(LADD);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(I2L);
        code.visitInsn(DUP2_X2);
        code.visitInsn(POP2);
        code.visitInsn(LADD);
        code.visitInsn(ICONST_0);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(I2L);
        code.visitInsn(ICONST_1);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(DUP2_X2); // form 3 again, with live values
        code.visitInsn(POP);
        code.visitInsn(POP);
        code.visitInsn(POP2);
        code.visitInsn(POP2);
        code.visitInsn(POP);
        code.visitInsn(L2I);
        code.visitInsn(IRETURN);
    }

    private static void wideLocals(MethodVisitor code) {
        code.visitVarInsn(ILOAD, 0);
        code.visitVarInsn(ISTORE, WIDE_LOCAL);
        code.visitIincInsn(WIDE_LOCAL, 1);
        code.visitIincInsn(WIDE_LOCAL, -1000);
        code.visitIincInsn(0, 1000);
        code.visitVarInsn(ILOAD, WIDE_LOCAL);
        code.visitInsn(I2L);
        code.visitVarInsn(LSTORE, WIDE_LOCAL + 1);
        code.visitVarInsn(LLOAD, WIDE_LOCAL + 1);
        code.visitInsn(L2F);
        code.visitVarInsn(FSTORE, WIDE_LOCAL + 3);
        code.visitVarInsn(FLOAD, WIDE_LOCAL + 3);
        code.visitInsn(F2D);
        code.visitVarInsn(DSTORE, WIDE_LOCAL + 4);
        code.visitLdcInsn("wide");
        code.visitVarInsn(ASTORE, WIDE_LOCAL + 6);
        code.visitVarInsn(ALOAD, WIDE_LOCAL + 6);
        code.visitMethodInsn(INVOKEVIRTUAL, "java/lang/String", "length", "()I", false);
        code.visitVarInsn(DLOAD, WIDE_LOCAL + 4);
        code.visitInsn(D2I);
        code.visitInsn(IADD);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(IADD);
        code.visitInsn(IRETURN);
    }

    /** Loads and stores of each type at local indices 0 to 3, which have opcodes of their own. */
    private static void shortForms(MethodVisitor code) {
        int saved = 10;
        code.visitVarInsn(ILOAD, 0);
        code.visitVarInsn(ISTORE, saved);
        for (int slot = 0; slot < 4; slot++) {
            roundTrip(code, saved, slot, I2L, LSTORE, LLOAD, L2I);
            roundTrip(code, saved, slot, I2F, FSTORE, FLOAD, F2I);
            roundTrip(code, saved, slot, I2D, DSTORE, DLOAD, D2I);
            code.visitVarInsn(ILOAD, saved);
            code.visitVarInsn(ISTORE, slot);
            code.visitIincInsn(slot, 1);
            code.visitVarInsn(ILOAD, slot);
            code.visitVarInsn(ISTORE, saved);
        }
        code.visitVarInsn(ILOAD, saved);
        code.visitInsn(IRETURN);
    }

    private static void roundTrip(MethodVisitor code, int saved, int slot, int to, int store, int load, int from) {
        code.visitVarInsn(ILOAD, saved);
        code.visitInsn(to);
        code.visitVarInsn(store, slot);
        code.visitVarInsn(load, slot);
        code.visitInsn(from);
        code.visitVarInsn(ISTORE, saved);
    }

    /** goto_w forwards and backwards, and a conditional branch whose target is too far for it. */
    private static void farJumps(MethodVisitor code) {
        Label head = new Label();
        Label far = new Label();
        Label end = new Label();
        code.visitInsn(ICONST_0);
        code.visitVarInsn(ISTORE, 1);
        code.visitLabel(head);
        code.visitIincInsn(1, 1);
        code.visitVarInsn(ILOAD, 1);
        code.visitInsn(ICONST_4);
        code.visitJumpInsn(IF_ICMPGT, end);
        code.visitJumpInsn(GOTO, far);
        nops(code, FAR);
        code.visitLabel(far);
        code.visitIincInsn(0, 3);
        code.visitJumpInsn(GOTO, head);
        code.visitLabel(end);
        nops(code, 10);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(IRETURN);
    }

    /** ldc, ldc_w and ldc2_w of every kind, dynamic constants among them. */
    private static void constants(MethodVisitor code, String owner) {
        Handle intBootstrap = bootstrap(owner, "intConstant", "I");
        code.visitLdcInsn(123_456_789);
        code.visitLdcInsn(2.5f);
        code.visitInsn(F2I);
        code.visitInsn(IADD);
        code.visitLdcInsn(1L << 50);
        code.visitInsn(L2I);
        code.visitInsn(IADD);
        code.visitLdcInsn(1e3);
        code.visitInsn(D2I);
        code.visitInsn(IADD);
        hash(code, "string constant");
        hash(code, Type.getMethodType("(IJ)Ljava/lang/String;"));
        code.visitLdcInsn(Type.getType("[[J"));
        code.visitMethodInsn(INVOKEVIRTUAL, "java/lang/Class", "getName", "()Ljava/lang/String;", false);
        code.visitMethodInsn(INVOKEVIRTUAL, "java/lang/Object", "hashCode", "()I", false);
        code.visitInsn(IADD);
        code.visitLdcInsn(new Handle(H_INVOKESTATIC, "java/lang/Math", "abs", "(I)I", false));
        code.visitVarInsn(ILOAD, 0);
        code.visitMethodInsn(INVOKEVIRTUAL, "java/lang/invoke/MethodHandle", "invokeExact", "(I)I", false);
        code.visitInsn(IADD);
        code.visitLdcInsn(new ConstantDynamic("forty", "I", intBootstrap));
        code.visitInsn(IADD);
        code.visitLdcInsn(new ConstantDynamic("long", "J", bootstrap(owner, "longConstant", "J")));
        code.visitInsn(L2I);
        code.visitInsn(IADD);
        hash(code, new ConstantDynamic("text", "Ljava/lang/String;", bootstrap(owner, "textConstant", "Ljava/lang/String;")));
        code.visitInsn(IRETURN);
    }

    private static void hash(MethodVisitor code, Object constant) {
        code.visitLdcInsn(constant);
        code.visitMethodInsn(INVOKEVIRTUAL, "java/lang/Object", "toString", "()Ljava/lang/String;", false);
        code.visitMethodInsn(INVOKEVIRTUAL, "java/lang/Object", "hashCode", "()I", false);
        code.visitInsn(IADD);
    }

    private static final String BOOTSTRAP_ARGUMENTS = "(Ljava/lang/invoke/MethodHandles$Lookup;Ljava/lang/String;Ljava/lang/Class;)";

    private static Handle bootstrap(String owner, String name, String type) {
        return new Handle(H_INVOKESTATIC, owner, name, BOOTSTRAP_ARGUMENTS + type, false);
    }

    private static void bootstraps(ClassWriter writer) {
        method(writer, "intConstant", BOOTSTRAP_ARGUMENTS + "I", code -> {
            push(code, 40);
            code.visitInsn(IRETURN);
        });
        method(writer, "longConstant", BOOTSTRAP_ARGUMENTS + "J", code -> {
            code.visitLdcInsn(1L << 33 | 5);
            code.visitInsn(LRETURN);
        });
        method(writer, "textConstant", BOOTSTRAP_ARGUMENTS + "Ljava/lang/String;", code -> {
            code.visitVarInsn(ALOAD, 1);
            code.visitInsn(ARETURN);
        });
    }

    /** A lookupswitch without cases, a tableswitch with one target, one that jumps backwards. */
    private static void oddSwitches(MethodVisitor code) {
        Label next = new Label();
        Label same = new Label();
        Label loop = new Label();
        Label end = new Label();
        code.visitVarInsn(ILOAD, 0);
        code.visitLookupSwitchInsn(next, new int[0], new Label[0]);
        code.visitLabel(next);
        code.visitVarInsn(ILOAD, 0);
        code.visitTableSwitchInsn(0, 3, same, same, same, same, same);
        code.visitLabel(same);
        code.visitInsn(ICONST_5);
        code.visitVarInsn(ISTORE, 1);
        code.visitLabel(loop);
        code.visitIincInsn(1, -1);
        code.visitVarInsn(ILOAD, 1);
        code.visitTableSwitchInsn(2, 4, end, loop, loop, loop);
        code.visitLabel(end);
        code.visitVarInsn(ILOAD, 1);
        code.visitInsn(IRETURN);
    }

    /** A {@code new} that is a branch target, with a frame that names its uninitialised object. */
    private static void newAtLeader(MethodVisitor code) {
        Label make = new Label();
        Label other = new Label();
        Label join = new Label();
        String integer = "java/lang/StringBuilder";
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(ICONST_3);
        code.visitInsn(IREM);
        code.visitJumpInsn(IFNE, make);
        code.visitIincInsn(0, 7);
        code.visitLabel(make);
        code.visitTypeInsn(NEW, integer);
        code.visitInsn(DUP);
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(ICONST_1);
        code.visitInsn(IAND);
        code.visitJumpInsn(IFEQ, other);
        code.visitLdcInsn("odd");
        code.visitJumpInsn(GOTO, join);
        code.visitLabel(other);
        code.visitLdcInsn("even number");
        code.visitLabel(join);
        code.visitMethodInsn(INVOKESPECIAL, integer, "<init>", "(Ljava/lang/String;)V", false);
        code.visitMethodInsn(INVOKEVIRTUAL, integer, "length", "()I", false);
        code.visitInsn(IRETURN);
    }

    // ---- a large set of methods ----------------------------------------------------------------

    private void manyMethods() throws IOException {
        String[] calls = new String[MANY_CLASSES];
        String main = "programs/ManyMethods";
        ClassWriter writer = open(main, V17);
        for (int i = 0; i < MANY_CLASSES; i++) {
            calls[i] = "part" + i;
            String part = "programs/many/M" + i;
            largeClass(part, i);
            method(writer, calls[i], "(I)I", code -> {
                code.visitInsn(ICONST_0);
                for (int k = 0; k < METHODS_PER_CLASS; k++) {
                    code.visitVarInsn(ILOAD, 0);
                    code.visitMethodInsn(INVOKESTATIC, part, "large" + k, "(I)I", false);
                    code.visitInsn(IADD);
                }
                code.visitInsn(IRETURN);
            });
        }
        mainOf(writer, main, 3, calls);
        close(main, writer);
    }

    private void largeClass(String name, int seed) throws IOException {
        ClassWriter writer = open(name, V17);
        for (int k = 0; k < METHODS_PER_CLASS; k++) {
            int number = seed * METHODS_PER_CLASS + k;
            method(writer, "large" + k, "(I)I", code -> largeMethod(code, number));
        }
        close(name, writer);
    }

    private static void largeMethod(MethodVisitor code, int seed) {
        for (int block = 0; block < BLOCKS_PER_METHOD; block++) {
            Label skip = new Label();
            code.visitVarInsn(ILOAD, 0);
            push(code, seed * 7 + block);
            code.visitInsn(IXOR);
            push(code, 1 << block % 6);
            code.visitInsn(IAND);
            code.visitJumpInsn(IFEQ, skip);
            for (int i = 0; i < 6; i++) {
                code.visitVarInsn(ILOAD, 0);
                push(code, block * 131 + i);
                code.visitInsn(IMUL);
                push(code, seed + i);
                code.visitInsn(IADD);
                code.visitVarInsn(ISTORE, 0);
            }
            code.visitLabel(skip);
        }
        code.visitVarInsn(ILOAD, 0);
        code.visitInsn(IRETURN);
    }
}
