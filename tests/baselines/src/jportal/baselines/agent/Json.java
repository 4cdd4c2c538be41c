// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.agent;

import java.io.PrintStream;

/** Writes JSON, with a value of a list on a line of its own. */
final class Json {
    private final PrintStream out;
    private boolean first = true;

    Json(PrintStream out) {
        this.out = out;
    }

    private void comma() {
        if (!first) {
            out.print(",\n");
        }
        first = false;
    }

    /** Begins a list or an object, as an element of a list or as the value of a key. */
    Json begin(char bracket) {
        comma();
        out.print(bracket);
        first = true;
        return this;
    }

    void end(char bracket) {
        out.print(bracket);
        first = false;
    }

    Json key(String key) {
        comma();
        quote(key);
        out.print(": ");
        first = true;
        return this;
    }

    void number(long value) {
        comma();
        out.print(value);
    }

    void text(String value) {
        comma();
        quote(value);
    }

    void bool(boolean value) {
        comma();
        out.print(value);
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
        out.print(quoted.append('"'));
    }
}
