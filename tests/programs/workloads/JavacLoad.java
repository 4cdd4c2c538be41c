import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/**
 * javac compiles the .java files below a folder in this VM and discards the class files. Arguments:
 * folder, repetitions (1 by default), maximum number of files (in order of names; all by default).
 */
public final class JavacLoad {
    private JavacLoad() {}

    /** Discards the output and counts its classes and bytes. */
    private static final class Discard extends ForwardingJavaFileManager<StandardJavaFileManager> {
        private long classes;
        private long bytes;

        Discard(StandardJavaFileManager files) {
            super(files);
        }

        StandardJavaFileManager standard() {
            return fileManager;
        }

        @Override
        public JavaFileObject getJavaFileForOutput(
                JavaFileManager.Location location, String name, JavaFileObject.Kind kind, FileObject sibling) {
            classes++;
            return new SimpleJavaFileObject(URI.create("mem:///" + name.replace('.', '/') + kind.extension), kind) {
                @Override
                public java.io.OutputStream openOutputStream() {
                    return new java.io.OutputStream() {
                        @Override
                        public void write(int b) {
                            bytes++;
                        }

                        @Override
                        public void write(byte[] b, int offset, int length) {
                            bytes += length;
                        }
                    };
                }
            };
        }
    }

    public static void main(String[] args) throws IOException {
        Path folder = Path.of(args[0]);
        int times = args.length > 1 ? Integer.parseInt(args[1]) : 1;
        int limit = args.length > 2 ? Integer.parseInt(args[2]) : Integer.MAX_VALUE;
        List<Path> sources = new ArrayList<>();
        try (Stream<Path> files = Files.walk(folder)) {
            files.filter(file -> file.toString().endsWith(".java")).sorted().limit(limit).forEach(sources::add);
        }
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        for (int i = 0; i < times; i++) {
            Discard output = new Discard(compiler.getStandardFileManager(null, null, null));
            List<String> options = List.of("-encoding", "UTF-8", "-proc:none", "-Xlint:none", "-g");
            boolean good = compiler.getTask(null, output, null, options, null,
                    output.standard().getJavaFileObjectsFromPaths(sources)).call();
            System.out.println("JavacLoad " + (good ? "ok" : "errors") + " files=" + sources.size() + " classes="
                    + output.classes + " bytes=" + output.bytes);
            if (!good) {
                System.exit(1);
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
