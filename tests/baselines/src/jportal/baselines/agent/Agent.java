// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import jportal.baselines.Live;
import jportal.baselines.Words;

/** The agent's entry. */
public final class Agent {
    private Agent() {}

    public static void premain(String arguments, Instrumentation instrumentation) throws IOException {
        Options options = Options.parse(arguments);
        Files.createDirectories(options.out());
        Words.start(options.out());
        Tables tables = new Tables(options.out());
        Mode mode = Mode.of(options);
        if (options.profiler() != null) {
            Live.start(ProfilerLoader.load(options));
        }
        instrumentation.addTransformer(new Transformer(options, tables, mode), false);
        Runtime.getRuntime().addShutdownHook(new Thread("jportal-baselines") {
            @Override
            public void run() {
                finish(options, mode);
            }
        });
    }

    private static void finish(Options options, Mode mode) {
        Live.finish();
        try (OutputStream out = Files.newOutputStream(options.out().resolve(options.mode() + ".json"))) {
            Json json = new Json(out);
            json.begin('{');
            json.key("mode").text(options.mode());
            mode.write(json);
            Tables.skipped(json);
            json.end('}');
            json.flush();
            Tables.threads(options.out());
        } catch (IOException | UncheckedIOException error) {
            System.err.println("jportal-baselines: no result in " + options.out() + ": " + error);
        }
    }
}
