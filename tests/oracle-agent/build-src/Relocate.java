// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.commons.ClassRemapper;
import org.objectweb.asm.commons.Remapper;

/**
 * Build step: copies agent and ASM into one folder and moves ASM to {@code jportal/oracle/asm/},
 * apart from an application's ASM. Arguments: output folder, the agent's class folder, ASM jars.
 */
public final class Relocate {
    private static final String FROM = "org/objectweb/asm/";
    private static final String TO = "jportal/oracle/asm/";

    private static final Remapper MOVE = new Remapper() {
        @Override
        public String map(String name) {
            return name.startsWith(FROM) ? TO + name.substring(FROM.length()) : name;
        }
    };

    public static void main(String[] arguments) throws IOException {
        Path out = Path.of(arguments[0]);
        try (Stream<Path> files = Files.walk(Path.of(arguments[1]))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".class")).toList()) {
                write(out, Files.readAllBytes(file));
            }
        }
        for (int i = 2; i < arguments.length; i++) {
            try (JarFile jar = new JarFile(arguments[i])) {
                for (var entry : jar.stream().filter(e -> e.getName().startsWith(FROM) && e.getName().endsWith(".class")).toList()) {
                    try (InputStream in = jar.getInputStream(entry)) {
                        write(out, in.readAllBytes());
                    }
                }
            }
        }
    }

    private static void write(Path out, byte[] classFile) throws IOException {
        ClassReader reader = new ClassReader(classFile);
        ClassWriter writer = new ClassWriter(0);
        reader.accept(new ClassRemapper(writer, MOVE), 0);
        Path file = out.resolve(MOVE.map(reader.getClassName()) + ".class");
        Files.createDirectories(file.getParent());
        Files.write(file, writer.toByteArray());
    }
}
