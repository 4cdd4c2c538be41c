// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.List;

/** The events of one explanation since it was last the only one, newest first. Immutable. */
final class Past {
    final Past before;
    private final int kind;
    private final int a;
    private final int b;
    private final List<Events> choice;
    private final int length;
    private final long weight;

    Past(Past before, int kind, int a, int b) {
        this(before, kind, a, b, null, 1);
    }

    private Past(Past before, int kind, int a, int b, List<Events> choice, long weight) {
        this.before = before;
        this.kind = kind;
        this.a = a;
        this.b = b;
        this.choice = choice;
        length = length(before) + 1;
        this.weight = weight + weight(before);
    }

    /** The number of events, those of all alternatives of choices included. */
    static long weight(Past past) {
        return past == null ? 0 : past.weight;
    }

    private static int length(Past past) {
        return past == null ? 0 : past.length;
    }

    /** Adds the events after {@code start} to a sequence. */
    static void write(Past past, Past start, Events out) {
        List<Past> order = new ArrayList<>();
        for (Past p = past; p != start; p = p.before) {
            order.add(p);
        }
        for (int i = order.size() - 1; i >= 0; i--) {
            Past p = order.get(i);
            if (p.choice == null) {
                out.add(p.kind, p.a, p.b);
            } else {
                out.addChoice(p.choice);
            }
        }
    }

    /** One past for several: what they share, then a choice between the rest of each. */
    static Past join(List<Past> pasts, Past shared, Events numbering) {
        List<Events> alternatives = new ArrayList<>();
        long weight = 1;
        for (Past past : pasts) {
            Events rest = numbering.sibling();
            write(past, shared, rest);
            alternatives.add(rest);
            weight += weight(past) - weight(shared);
        }
        return new Past(shared, Events.CHOICE, 0, 0, alternatives, weight);
    }

    /** What several pasts begin with. */
    static Past shared(List<Past> pasts) {
        Past shared = pasts.get(0);
        for (Past past : pasts) {
            shared = shared(shared, past);
        }
        return shared;
    }

    private static Past shared(Past one, Past two) {
        while (one != two) {
            if (length(one) >= length(two)) {
                one = one.before;
            } else {
                two = two.before;
            }
        }
        return one;
    }
}
