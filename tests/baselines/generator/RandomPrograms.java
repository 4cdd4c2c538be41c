// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;

/**
 * Writes random programs: classes R0, R1 … and {@code RandomAll}, whose main method
 * runs all. Each ends, and does the same in each run. Arguments: folder, seed, number of programs.
 * With a fourth argument, {@code small}: interfaces S0, S1 …, which are not to be run, with
 * {@value #SITES} call and return sites at most.
 */
public final class RandomPrograms {
    private static final int SITES = 12;

    private final Random random;
    private int sites;
    private final StringBuilder text = new StringBuilder();
    private int functions;
    private int variables;

    private RandomPrograms(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws IOException {
        Path folder = Path.of(arguments[0]);
        long seed = Long.parseLong(arguments[1]);
        int count = Integer.parseInt(arguments[2]);
        Files.createDirectories(folder);
        if (arguments.length > 3) {
            for (int i = 0; i < count; i++) {
                Files.writeString(folder.resolve("S" + i + ".java"), new RandomPrograms(seed + i).small("S" + i));
            }
            return;
        }
        StringBuilder all = new StringBuilder("public class RandomAll {\n    public static void main(String[] a) {\n");
        for (int i = 0; i < count; i++) {
            Files.writeString(folder.resolve("R" + i + ".java"), new RandomPrograms(seed + i).program("R" + i));
            all.append("        R").append(i).append(".main(a);\n");
        }
        Files.writeString(folder.resolve("RandomAll.java"), all.append("    }\n}\n"));
    }

    private String program(String name) {
        functions = 2 + random.nextInt(5);
        text.append("import java.util.*;\npublic class ").append(name).append(" {\n")
                .append("    static int s = ").append(random.nextInt(1000)).append(", budget = 400, sum;\n")
                .append("    static class Base { int go(int d) { return d; } int twice(int d) { return go(d) + go(d); } }\n")
                .append("    static class Left extends Base { int go(int d) { return f0(d); } }\n")
                .append("    static class Right extends Left { int go(int d) { return d > 0 ? super.go(d - 1) : f1(d); } }\n")
                .append("    static class Lazy { static int v; static { v = f0(1); } static int get() { return v; } }\n")
                .append("    static class Key implements Comparable<Key> { final int k; Key(int k) { this.k = k; }\n")
                .append("        public int compareTo(Key o) { if (budget-- < 0) return 0; return f1(k) > o.k ? 1 : -1; }\n")
                .append("        public String toString() { return \"k\" + k; } }\n")
                .append("    static int next(int n) { s = s * 1103515245 + 12345; return (s >>> 16) % n; }\n")
                .append("    static Base pick() { int n = next(3); return n == 0 ? new Base() : n == 1 ? new Left() : new Right(); }\n")
                .append("    static void tick() { sum++; }\n");
        for (int f = 0; f < functions; f++) {
            text.append("    static int f").append(f).append("(int d) {\n        if (budget-- < 0) return 1;\n");
            variables = 0;
            block(2, 3);
            text.append("        return d;\n    }\n");
        }
        text.append("    public static void main(String[] a) {\n        for (int i = 0; i < 3; i++) {\n")
                .append("            try { sum += f0(6); } catch (Throwable e) { sum++; }\n        }\n")
                .append("        System.out.println(sum);\n    }\n}\n");
        return text.toString();
    }

    private String small(String name) {
        functions = 2 + random.nextInt(3);
        sites = SITES - functions;
        text.append("interface ").append(name).append(" {\n");
        for (int f = 0; f < functions; f++) {
            text.append("    static void f").append(f).append("(int x) {\n");
            for (int n = 1 + random.nextInt(2); n > 0; n--) {
                smallStatement(2);
            }
            text.append("    }\n");
        }
        return text.append("}\n").toString();
    }

    private void smallStatement(int depth) {
        if (sites == 0) {
            return;
        }
        indent(depth);
        String test = "((x & " + (1 << random.nextInt(8)) + ") != 0)";
        switch (depth > 4 ? 0 : random.nextInt(7)) {
            case 0, 1 -> {
                sites--;
                text.append("f").append(random.nextInt(functions)).append("(x >> 1);\n");
            }
            case 2, 3 -> {
                text.append("if ").append(test).append(" {\n");
                smallStatement(depth + 1);
                indent(depth);
                text.append("} else {\n");
                smallStatement(depth + 1);
                indent(depth);
                text.append("}\n");
            }
            case 4 -> {
                text.append("do {\n");
                smallStatement(depth + 1);
                indent(depth);
                text.append("} while ").append(test).append(";\n");
            }
            case 5 -> {
                sites--;
                text.append("if ").append(test).append(" return;\n");
            }
            default -> {
                text.append("if ").append(test).append(" {\n");
                smallStatement(depth + 1);
                indent(depth);
                text.append("}\n");
            }
        }
    }

    private void indent(int depth) {
        text.append("    ".repeat(depth));
    }

    private void block(int depth, int most) {
        for (int n = 1 + random.nextInt(most); n > 0; n--) {
            statement(depth);
        }
    }

    private String call() {
        String f = "f" + random.nextInt(functions);
        return switch (random.nextInt(9)) {
            case 0 -> "sum += pick().go(d - 1);";
            case 1 -> "sum += pick().twice(d - 1);";
            case 2 -> "tick();";
            case 3 -> "Optional.of(d).ifPresent(x -> sum += " + f + "(x - 1));";
            case 4 -> "sum += String.valueOf(new Key(d)).length();";
            case 5 -> "new TreeSet<>(List.of(new Key(1), new Key(2), new Key(d + 3)));";
            case 6 -> "sum += Lazy.get();";
            default -> "sum += " + f + "(d - 1);";
        };
    }

    private void statement(int depth) {
        if (depth > 5) {
            indent(depth);
            text.append("if (d > 0) { ").append(call()).append(" }\n");
            return;
        }
        int kind = random.nextInt(12);
        indent(depth);
        switch (kind) {
            case 0, 1 -> {
                text.append("if (next(2) == 0) {\n");
                block(depth + 1, 2);
                indent(depth);
                text.append("} else {\n");
                block(depth + 1, 2);
                indent(depth);
                text.append("}\n");
            }
            case 2 -> {
                String i = "i" + variables++;
                text.append("for (int ").append(i).append(" = next(3); ").append(i).append(" > 0; ").append(i).append("--) {\n");
                block(depth + 1, 2);
                indent(depth);
                text.append("}\n");
            }
            case 3, 4 -> {
                text.append("try {\n");
                block(depth + 1, 3);
                indent(depth);
                text.append("} catch (IllegalStateException e").append(variables).append(") {\n");
                variables++;
                block(depth + 1, 1);
                indent(depth);
                if (random.nextBoolean()) {
                    text.append("} finally {\n");
                    indent(depth + 1);
                    text.append("tick();\n");
                    indent(depth);
                }
                text.append("}\n");
            }
            case 5 -> {
                text.append("switch (next(4)) {\n");
                for (int c = 0; c < 3; c++) {
                    indent(depth + 1);
                    text.append("case ").append(c).append(":\n");
                    block(depth + 2, 2);
                    if (random.nextBoolean()) {
                        indent(depth + 2);
                        text.append("break;\n");
                    }
                }
                indent(depth);
                text.append("}\n");
            }
            case 6 -> text.append("if (next(5) == 0) throw new IllegalStateException();\n");
            case 7 -> text.append("if (next(6) == 0) sum += new int[] {1}[next(3)];\n");
            case 8 -> text.append("if (next(4) == 0) return sum;\n");
            default -> text.append("if (d > 0) { ").append(call()).append(" }\n");
        }
    }
}
