// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

import java.util.Objects;

/**
 * Identifies nodes that stand for no method. They exist only in replays: frames whose callers are
 * not known, bytecodes of unknown methods, calls without a frame, frames of other classes that are
 * folded into one. A {@link MIDFactory} is not asked for them.
 */
public final class LabelMID implements MID {
    private final String label;

    /** With a text such as {@code (unknown)}. */
    public LabelMID(String label) {
        this.label = Objects.requireNonNull(label);
    }

    /** The text, as JPortal's reports write it. */
    @Override
    public String toString() {
        return label;
    }
}
