import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.eclipse.jdt.core.compiler.batch.BatchCompiler;

/**
 * Eclipse's compiler compiles a file, or all .java files below a folder, and writes no class files.
 * Arguments: file or folder, repetitions (1 by default). Class path: eclipse-jdt-core.jar.
 */
public final class EcjLoad {
    private EcjLoad() {}

    public static void main(String[] args) throws IOException {
        int times = args.length > 1 ? Integer.parseInt(args[1]) : 1;
        List<String> files;
        try (Stream<Path> tree = Files.walk(Path.of(args[0]))) {
            files = tree.map(Path::toString).filter(name -> name.endsWith(".java")).sorted().toList();
        }
        List<String> command = new ArrayList<>(List.of("-17", "-proc:none", "-d", "none", "-g", "-warn:+all", "-encoding", "UTF-8"));
        for (String file : files) command.add('"' + file + '"');
        for (int i = 0; i < times; i++) {
            StringWriter out = new StringWriter();
            StringWriter err = new StringWriter();
            boolean good =
                BatchCompiler.compile(String.join(" ", command), new PrintWriter(out), new PrintWriter(err), null);
            if (!good) throw new IllegalStateException(err.toString());
            long problems = err.toString().lines().filter(line -> line.contains("WARNING in")).count();
            System.out.println("EcjLoad files=" + files.size() + " warnings=" + problems);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
