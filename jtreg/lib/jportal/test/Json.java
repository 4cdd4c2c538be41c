/*
 * Copyright (c) 2026, the JPortal authors. All rights reserved.
 * DO NOT ALTER OR REMOVE COPYRIGHT NOTICES OR THIS FILE HEADER.
 *
 * This code is free software; you can redistribute it and/or modify it
 * under the terms of the GNU General Public License version 2 only, as
 * published by the Free Software Foundation.
 *
 * This code is distributed in the hope that it will be useful, but WITHOUT
 * ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License
 * version 2 for more details (a copy is included in the LICENSE file that
 * accompanied this code).
 */

package jportal.test;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;

/** A value of JSON. Reading what is not there is an error, so a renamed field cannot pass. */
public final class Json {
    private final Object value;

    private Json(Object value) {
        this.value = value;
    }

    public static Json parse(String text) {
        Parser parser = new Parser(text);
        Json json = parser.value();
        parser.end();
        return json;
    }

    /** The field of an object. */
    public Json get(String name) {
        Json field = has(name) ? (Json) ((Map<?, ?>) value).get(name) : null;
        if (field == null) {
            throw new NoSuchElementException("no field " + name + " in " + this);
        }
        return field;
    }

    public boolean has(String name) {
        return value instanceof Map<?, ?> fields && fields.containsKey(name);
    }

    @SuppressWarnings("unchecked")
    public List<Json> list() {
        return (List<Json>) value;
    }

    public String text() {
        return (String) value;
    }

    public long number() {
        return Long.parseLong(value.toString());
    }

    public boolean isNull() {
        return value == null;
    }

    @Override
    public String toString() {
        return String.valueOf(value);
    }

    private static final class Parser {
        private final String text;
        private int at;

        Parser(String text) {
            this.text = text;
        }

        Json value() {
            switch (next()) {
                case '{': {
                    Map<String, Json> fields = new LinkedHashMap<>();
                    for (at++; next() != '}'; comma('}')) {
                        String name = string();
                        expect(':');
                        fields.put(name, value());
                    }
                    at++;
                    return new Json(fields);
                }
                case '[': {
                    List<Json> items = new ArrayList<>();
                    for (at++; next() != ']'; comma(']')) {
                        items.add(value());
                    }
                    at++;
                    return new Json(items);
                }
                case '"':
                    return new Json(string());
                default: {
                    int from = at;
                    while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) {
                        at++;
                    }
                    String word = text.substring(from, at);
                    switch (word) {
                        case "null": return new Json(null);
                        case "true": return new Json(true);
                        case "false": return new Json(false);
                        default: return new Json(new java.math.BigDecimal(word));
                    }
                }
            }
        }

        private String string() {
            expect('"');
            StringBuilder s = new StringBuilder();
            while (text.charAt(at) != '"') {
                char c = text.charAt(at++);
                if (c != '\\') {
                    s.append(c);
                    continue;
                }
                char escaped = text.charAt(at++);
                switch (escaped) {
                    case 'n': s.append('\n'); break;
                    case 't': s.append('\t'); break;
                    case 'r': s.append('\r'); break;
                    case 'b': s.append('\b'); break;
                    case 'f': s.append('\f'); break;
                    case 'u':
                        s.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                        at += 4;
                        break;
                    default: s.append(escaped);
                }
            }
            at++;
            return s.toString();
        }

        private char next() {
            while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
                at++;
            }
            Check.that(at < text.length(), "JSON ends early");
            return text.charAt(at);
        }

        private void expect(char c) {
            Check.that(next() == c, "JSON has '" + text.charAt(at) + "' instead of '" + c + "' at " + at);
            at++;
        }

        private void comma(char end) {
            if (next() != end) {
                expect(',');
                Check.that(next() != end, "JSON has a comma before '" + end + "' at " + at);
            }
        }

        void end() {
            Check.that(text.substring(at).isBlank(), "JSON continues at " + at);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
