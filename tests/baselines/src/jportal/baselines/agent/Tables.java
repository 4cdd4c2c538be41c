// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import jportal.baselines.PerThread;
import jportal.baselines.Registry;

/** The tables of an output folder. {@code methods.tsv} is written while classes are loaded. */
final class Tables {
    private static final String HEAD = "id\tclass\tloader\tmethod\tdescriptor\tstatic\tblocks\tsuccessors\tends\topaque\n";

    private final OutputStream methods;

    Tables(Path folder) throws IOException {
        methods = new FileOutputStream(folder.resolve("methods.tsv").toFile());
        methods.write(HEAD.getBytes(StandardCharsets.UTF_8));
    }

    /** Appends methods; returns after they are in the file. */
    synchronized void add(List<Registry.Entry> entries) throws IOException {
        StringBuilder text = new StringBuilder();
        for (Registry.Entry entry : entries) {
            Shape shape = (Shape) entry.detail();
            text.append(entry.id()).append('\t').append(field(entry.type())).append('\t').append(field(entry.loader()))
                    .append('\t').append(field(entry.name())).append('\t').append(field(entry.descriptor()))
                    .append('\t').append(shape.isStatic() ? 1 : 0);
            text.append('\t');
            for (int b = 0; b < shape.blocks(); b++) {
                text.append(b == 0 ? "" : " ").append(shape.start()[b]);
            }
            text.append('\t');
            for (int b = 0; b < shape.blocks(); b++) {
                text.append(b == 0 ? "" : " ");
                for (int n = 0; n < shape.successors()[b].length; n++) {
                    text.append(n == 0 ? "" : ",").append(shape.successors()[b][n]);
                }
                text.append(shape.successors()[b].length == 0 ? "-" : "");
            }
            text.append('\t').append(bits(shape.ends())).append('\t').append(bits(shape.opaque())).append('\n');
        }
        methods.write(text.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static String bits(boolean[] values) {
        StringBuilder text = new StringBuilder();
        for (boolean value : values) {
            text.append(value ? '1' : '0');
        }
        return text.toString();
    }

    static void skipped(Json json) {
        json.key("skipped").begin('[');
        for (Registry.Skipped skipped : Registry.skipped()) {
            json.begin('{');
            json.key("class").text(skipped.type().replace('/', '.'));
            json.key("method").text(skipped.method());
            json.key("reason").text(skipped.reason());
            json.end('}');
        }
        json.end(']');
    }

    static void threads(Path folder) throws IOException {
        List<String> lines = new ArrayList<>();
        lines.add("number\ttid\tjava_tid\tname");
        for (PerThread thread : PerThread.ALL) {
            lines.add(thread.number + "\t" + thread.tid + "\t" + thread.javaId + "\t" + field(thread.name));
        }
        Files.write(folder.resolve("threads.tsv"), lines);
    }

    static String field(String text) {
        return text.replace('\t', ' ').replace('\n', ' ');
    }
}
