// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.replay;

import java.io.IOException;

/** The stream breaks a rule of its format. */
final class BadStreamException extends IOException {
    private static final long serialVersionUID = 1;

    BadStreamException(long offset, String fault) {
        super("the stream is damaged at byte " + offset + ": " + fault);
    }
}
