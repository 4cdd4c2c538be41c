// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** Writes JSON, with a value of a list on a line of its own. What it writes last needs a flush. */
final class Json {
    private static final int BUFFER = 1 << 16;

    private final OutputStream to;
    private final StringBuilder out = new StringBuilder(2 * BUFFER);
    private boolean first = true;

    Json(OutputStream to) {
        this.to = to;
    }

    /** Writes what is buffered. */
    void flush() {
        try {
            to.write(out.toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        out.setLength(0);
    }

    /** The next object begins on a new line, without a comma. */
    void next() {
        out.append('\n');
        first = true;
    }

    private void comma() {
        if (out.length() > BUFFER) {
            flush();
        }
        if (!first) {
            out.append(",\n");
        }
        first = false;
    }

    /** Begins a list or an object, as an element of a list or as the value of a key. */
    Json begin(char bracket) {
        comma();
        out.append(bracket);
        first = true;
        return this;
    }

    void end(char bracket) {
        out.append(bracket);
        first = false;
    }

    Json key(String key) {
        comma();
        quote(key);
        out.append(": ");
        first = true;
        return this;
    }

    void number(long value) {
        comma();
        out.append(value);
    }

    void text(String value) {
        comma();
        quote(value);
    }

    void bool(boolean value) {
        comma();
        out.append(value);
    }

    /** A count, in the shape of a tally of JPortal's reports. */
    void tally(long count) {
        begin('{');
        key("counted").number(count);
        end('}');
    }

    private void quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        out.append(quoted.append('"'));
    }
}
