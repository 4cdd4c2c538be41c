// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.Arrays;
import java.util.List;
import jportal.peer.Activation.Call;

/**
 * Removes places of callers that what follows in the block rules out: a block that runs to its end
 * enters every method that it must enter.
 */
final class Narrow extends Reader {
    private static final int[] END = {};
    private final Sites sites;

    Narrow(Program program, Sites sites) {
        super(program);
        this.sites = sites;
    }

    @Override
    void enter(Activation caller, Activation callee, Events events, int event) {
        if (caller != null) {
            caller.calls.add(new Call(events, event, callee.method));
        }
    }

    @Override
    void edge(Activation now, int next) {
        narrow(now, END);
    }

    @Override
    void handler(Activation now, int next, int[] throwers) {
        narrow(now, throwers);
    }

    @Override
    void returns(Activation now) {
        narrow(now, END);
    }

    @Override
    void thrown(Activation now, int[] throwers) {
        narrow(now, throwers);
    }

    @Override
    void open(Activation now, int[] reached) {
        // Nothing is known of the end.
    }

    @Override
    void choice(int alternative, int count) {
        // Alternatives are narrowed one by one.
    }

    @Override
    void join(Activation kept, Activation other) {
        kept.isBlurred = true;
    }

    private void narrow(Activation now, int[] stops) {
        List<Call> calls = now.calls;
        if (calls.isEmpty() || now.isBlurred) {
            return;
        }
        boolean isClear = true;
        for (Call call : calls) {
            isClear &= call.events().b(call.event()) >= 0;
        }
        if (isClear) {
            return;
        }
        Points points = now.method.points(now.block, sites);
        int[] later = null;
        for (int i = calls.size() - 1; i >= 0; i--) {
            Call call = calls.get(i);
            int[] places = call.events().set(call.event());
            int[] possible = later;
            Method callee = i + 1 < calls.size() ? calls.get(i + 1).callee() : null;
            int[] kept = Arrays.stream(places)
                    .filter(place -> callee == null
                            ? ends(points, place, stops)
                            : Arrays.stream(possible).anyMatch(to -> points.follows(place, to, callee)))
                    .toArray();
            later = kept.length == 0 ? places : kept;
            call.events().set(call.event(), later);
        }
    }

    private static boolean ends(Points points, int place, int[] stops) {
        if (stops == END) {
            return points.completes(place);
        }
        for (int stop : stops) {
            if (stop == points.insn(place) || points.from(place) <= stop && stop <= points.upTo(place)) {
                return true;
            }
        }
        return false;
    }
}
