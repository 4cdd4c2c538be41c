import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;
import org.antlr.v4.Tool;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.CommonTokenStream;
import org.antlr.v4.runtime.ParserInterpreter;
import org.antlr.v4.runtime.RuleContext;
import org.antlr.v4.runtime.tree.ParseTree;
import org.antlr.v4.tool.Grammar;

/**
 * ANTLR 4 generates lexer, parser and visitor of a grammar, then parses a made-up text with it.
 * Arguments: grammar, entries of the text (40 by default), repetitions (1 by default). Class path:
 * antlr4.jar, antlr4-runtime.jar, antlr3-runtime.jar, stringtemplate4.jar, treelayout.jar.
 */
public final class AntlrLoad {
    private AntlrLoad() {}

    public static void main(String[] args) throws IOException {
        int entries = args.length > 1 ? Integer.parseInt(args[1]) : 40;
        int times = args.length > 2 ? Integer.parseInt(args[2]) : 1;
        for (int i = 0; i < times; i++) {
            long generated = generate(args[0]);
            long nodes = parse(args[0], text(entries, i));
            System.out.println("AntlrLoad generated=" + generated + " nodes=" + nodes);
        }
    }

    /** Generates into a temporary folder; returns the number of characters in the files. */
    private static long generate(String grammar) throws IOException {
        Path folder = Files.createTempDirectory("antlr-load");
        try {
            Tool tool = new Tool(new String[] {"-o", folder.toString(), "-visitor", grammar});
            tool.processGrammarsOnCommandLine();
            if (tool.getNumErrors() > 0) throw new IllegalStateException(tool.getNumErrors() + " errors in " + grammar);
            long bytes = 0;
            try (Stream<Path> files = Files.walk(folder)) {
                for (Path file : files.filter(Files::isRegularFile).sorted().toList()) {
                    // The first line has the grammar's path, which depends on the machine.
                    bytes += Files.readAllLines(file).stream().skip(1).mapToLong(String::length).sum();
                }
            }
            return bytes;
        } finally {
            try (Stream<Path> files = Files.walk(folder)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
            }
        }
    }

    private static long parse(String file, String text) {
        Grammar grammar = Grammar.load(file);
        CommonTokenStream tokens = new CommonTokenStream(grammar.createLexerInterpreter(CharStreams.fromString(text)));
        ParserInterpreter parser = grammar.createParserInterpreter(tokens);
        ParseTree tree = parser.parse(grammar.getRule("ledger").index);
        if (parser.getNumberOfSyntaxErrors() > 0) throw new IllegalStateException("syntax errors in the made-up text");
        return nodes(tree);
    }

    private static long nodes(ParseTree tree) {
        long sum = tree instanceof RuleContext rule ? rule.getRuleIndex() : 1;
        for (int i = 0; i < tree.getChildCount(); i++) sum += nodes(tree.getChild(i));
        return sum;
    }

    private static String text(int entries, int seed) {
        StringBuilder text = new StringBuilder();
        for (String name : new String[] {"cash", "bank:giro", "bank:savings", "rent"}) {
            text.append("account ").append(name).append(" { currency = \"EUR\", open = yes, limit = 12.50 };\n");
        }
        for (int i = 0; i < entries; i++) {
            int x = (i + seed) * 7919 % 997;
            switch (i % 4) {
                case 0 -> text.append("rule r").append(i).append("(a, b = ").append(x).append(" * (a + 2) ^ 3 - -b) {\n")
                        .append("  if a < b and not a.closed or b[").append(x).append("] == \"x\\t\" { post a to cash when b > 0; }\n")
                        .append("  else if a { return a ? b : f(a, b)(1.5 EUR); } else { let c = [1, 2, [a]]; }\n}\n");
                case 1 -> text.append("2026-01-").append(10 + i % 20).append(" \"entry ").append(i).append("\" {\n  bank:giro ")
                        .append(x).append(" EUR @ 1.").append(x).append(";\n  cash;\n}\n");
                case 2 -> text.append("# comment ").append(x).append("\nrule l").append(i)
                        .append("() { for x in range(").append(x).append(") { x.y[z](1)[2].w; { } } }\n");
                default -> text.append("account a").append(x).append(":b").append(i).append(";\n");
            }
        }
        return text.toString();
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
