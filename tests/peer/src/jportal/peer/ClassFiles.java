// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * Finds class files by name: in folders and jars, in the JDK's image, and last among the classes
 * that the oracle agent saved ({@code save=FILE}), which hold probes.
 */
final class ClassFiles {
    private final List<Path> folders = new ArrayList<>();
    private final List<ZipFile> jars = new ArrayList<>();
    private final FileSystem image;
    private final Map<String, List<String>> modulesOf = new HashMap<>();
    private final Map<String, byte[]> saved = new HashMap<>();
    private final Map<String, ClassFile> known = new HashMap<>();

    /** {@code jdk} is the home of the program's JDK, or null for the one that runs this. */
    ClassFiles(List<Path> path, Path jdk, Path saves) throws IOException {
        for (Path entry : path) {
            if (Files.isDirectory(entry)) {
                folders.add(entry);
            } else {
                jars.add(new ZipFile(entry.toFile()));
            }
        }
        URI uri = URI.create("jrt:/");
        image = jdk == null
                ? FileSystems.getFileSystem(uri)
                : FileSystems.newFileSystem(uri, Map.of("java.home", jdk.toString()));
        if (saves != null) {
            readSaved(saves);
        }
    }

    /** Format: {@code tests/oracle-agent/src/jportal/oracle/agent/Prepared.java}. */
    private void readSaved(Path saves) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(Files.readAllBytes(saves)));
        while (in.available() > 0) {
            String name = in.readUTF();
            in.readInt();
            in.readLong();
            in.readInt();
            saved.putIfAbsent(name, block(in));
            block(in);
            block(in);
        }
    }

    private static byte[] block(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return bytes;
    }

    /** The class of this internal name, or null. */
    ClassFile get(String name) {
        if (known.containsKey(name)) {
            return known.get(name);
        }
        ClassFile found = null;
        try {
            found = find(name);
        } catch (IOException error) {
            throw new UncheckedIOException("class " + name, error);
        }
        known.put(name, found);
        return found;
    }

    private ClassFile find(String name) throws IOException {
        String file = name + ".class";
        for (Path folder : folders) {
            Path place = folder.resolve(file);
            if (Files.isRegularFile(place)) {
                return new ClassFile(Files.readAllBytes(place), null, false);
            }
        }
        for (ZipFile jar : jars) {
            ZipEntry entry = jar.getEntry(file);
            if (entry != null) {
                try (InputStream in = jar.getInputStream(entry)) {
                    return new ClassFile(in.readAllBytes(), null, false);
                }
            }
        }
        for (String module : modulesOf(name)) {
            Path place = image.getPath("/modules", module, file);
            if (Files.isRegularFile(place)) {
                return new ClassFile(Files.readAllBytes(place), module, false);
            }
        }
        byte[] bytes = saved.get(name);
        return bytes == null ? null : new ClassFile(bytes, null, true);
    }

    /** The modules that have the class's package, or packages below it. */
    private List<String> modulesOf(String name) throws IOException {
        int slash = name.lastIndexOf('/');
        if (slash < 0) {
            return List.of();
        }
        String packageName = name.substring(0, slash).replace('/', '.');
        List<String> modules = modulesOf.get(packageName);
        if (modules == null) {
            modules = new ArrayList<>();
            Path links = image.getPath("/packages", packageName);
            if (Files.isDirectory(links)) {
                try (DirectoryStream<Path> all = Files.newDirectoryStream(links)) {
                    for (Path link : all) {
                        modules.add(link.getFileName().toString());
                    }
                }
            }
            modulesOf.put(packageName, modules);
        }
        return modules;
    }
}
