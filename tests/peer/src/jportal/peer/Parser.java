// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import jportal.peer.Explanations.Explanation;
import jportal.peer.Explanations.Probe;

/**
 * Finds which activation each probe of a thread belongs to. It follows all stacks that explain the
 * log. While there is one only, its events are final. When two stacks become the same, what differs
 * in their pasts becomes a choice.
 */
final class Parser {
    /** More explanations at a time than this are not followed. */
    private static final int MOST = 512;
    /** Alternatives with more events than this, in all, are not kept. */
    private static final long MOST_EVENTS = 20_000_000;

    private final Program program;
    private final Explanations ways;
    private final Events out = new Events();
    private List<Explanation> now = new ArrayList<>(List.of(new Explanation(Frame.ROOT, null)));
    private List<Explanation> next = new ArrayList<>();
    /** Probes left out, of classes without a class file. */
    long left;
    /** Probes for which a call by unexpected means had to be assumed. */
    long unexpected;
    /** Probes for which an exception had to be assumed. */
    long exceptions;
    /** Probes that nothing explains; what follows them is a guess. */
    long lost;
    /** Probes at which explanations were dropped because there were too many. */
    long crowded;

    Parser(Program program, Sites sites) {
        this.program = program;
        ways = new Explanations(sites, new Throws(sites), out);
    }

    Events parse(int[] ids) {
        for (int id : ids) {
            if (program.knows(id)) {
                step(new Probe(program.definition(id), program.defined(program.definition(id)), program.block(id)));
            } else {
                left++;
            }
        }
        finish();
        return out;
    }

    private void step(Probe probe) {
        next.clear();
        normal(probe, Points.EXPECTED);
        if (next.isEmpty() && probe.isEntry()) {
            normal(probe, Points.ALL);
            unexpected += next.isEmpty() ? 0 : 1;
        }
        if (next.isEmpty()) {
            exceptions++;
            for (int tier = 0; tier < 3 && next.isEmpty(); tier++) {
                for (Explanation explanation : now) {
                    ways.exceptional(explanation, probe, tier, next);
                }
            }
        }
        if (next.isEmpty()) {
            lose(probe);
        }
        if (next.size() > 1) {
            merge();
        }
        if (next.size() > MOST) {
            crowded++;
            next.subList(1, next.size()).clear();
            next.set(0, new Explanation(next.get(0).top(), new Past(next.get(0).past(), Events.LOST, 0, 0)));
        }
        if (next.size() == 1 && next.get(0).past() != null) {
            Past.write(next.get(0).past(), null, out);
            next.set(0, new Explanation(next.get(0).top(), null));
        }
        List<Explanation> old = now;
        now = next;
        next = old;
    }

    private void normal(Probe probe, int indirect) {
        for (Explanation explanation : now) {
            ways.normal(explanation, probe, indirect, next);
        }
    }

    /** Joins explanations with the same stack. */
    private void merge() {
        List<Explanation> merged = new ArrayList<>();
        boolean[] done = new boolean[next.size()];
        for (int i = 0; i < next.size(); i++) {
            if (done[i]) {
                continue;
            }
            List<Past> pasts = new ArrayList<>();
            for (int j = i; j < next.size(); j++) {
                if (!done[j] && next.get(i).top().same(next.get(j).top())) {
                    done[j] = true;
                    pasts.add(next.get(j).past());
                }
            }
            Past past = pasts.size() == 1 ? pasts.get(0) : join(pasts);
            merged.add(new Explanation(next.get(i).top(), past));
        }
        next = merged;
    }

    private Past join(List<Past> pasts) {
        Past shared = Past.shared(pasts);
        long weight = 0;
        for (Past past : pasts) {
            weight += Past.weight(past) - Past.weight(shared);
        }
        if (weight <= MOST_EVENTS) {
            return Past.join(pasts, shared, out);
        }
        crowded++;
        return new Past(pasts.get(0), Events.LOST, 0, 0);
    }

    /**
     * Continues from the first explanation: in the nearest frame of the method, else in a new
     * frame.
     */
    private void lose(Probe probe) {
        lost++;
        Explanation from = now.get(0);
        Past past = new Past(from.past(), Events.LOST, 0, 0);
        Frame frame = from.top();
        while (!probe.isEntry() && !frame.isRoot() && frame.definition != probe.definition()) {
            frame = frame.caller;
        }
        if (frame.isRoot() || probe.isEntry()) {
            Frame callee = new Frame(probe.definition(), probe.method(), probe.block(), Points.BEGIN, from.top());
            past = ways.entered(past, probe.definition(), Points.BEGIN);
            if (!probe.isEntry()) {
                past = new Past(past, Events.HANDLER, probe.block(), out.number(new int[] {0}));
            }
            next.add(new Explanation(callee, past));
            return;
        }
        for (Frame f = from.top(); f != frame; f = f.caller) {
            past = new Past(past, Events.THROW, 0, reached(f));
        }
        past = new Past(past, Events.HANDLER, probe.block(), reached(frame));
        next.add(new Explanation(new Frame(frame.definition, frame.method, probe.block(), Points.BEGIN, frame.caller), past));
    }

    /** The instructions that a block may have reached. */
    private int reached(Frame frame) {
        Points points = ways.points(frame);
        int first = Integer.MAX_VALUE;
        int last = -1;
        for (int place : frame.places) {
            first = Math.min(first, points.from(place));
            last = Math.max(last, points.upTo(place));
        }
        return out.number(first >= last ? new int[] {first} : new int[] {first, last});
    }

    /** The thread's log ends: frames that can return do, others are left open. */
    private void finish() {
        List<Past> pasts = new ArrayList<>();
        for (Explanation explanation : now) {
            Past past = explanation.past();
            Frame frame = explanation.top();
            for (; !frame.isRoot() && ways.returns(frame); frame = frame.caller) {
                past = new Past(past, Events.RETURN, 0, 0);
            }
            boolean isTop = true;
            for (; !frame.isRoot(); frame = frame.caller) {
                past = new Past(past, Events.OPEN, 0, isTop ? reached(frame) : stopped(frame));
                isTop = false;
            }
            pasts.add(past);
        }
        Past past = pasts.size() == 1 ? pasts.get(0) : join(pasts);
        Past.write(past, null, out);
    }

    /** Like {@link #reached} for a frame that has called another one, which is open. */
    private int stopped(Frame frame) {
        Points points = ways.points(frame);
        int[] opaque = Arrays.stream(frame.places).filter(points::isOpaque).toArray();
        int first = Arrays.stream(frame.places).map(points::insn).min().orElse(0);
        int last = Arrays.stream(frame.places).map(points::insn).max().orElse(0);
        if (opaque.length > 0) {
            last = Math.max(last, Arrays.stream(opaque).map(points::upTo).max().orElse(last));
        }
        return out.number(first == last ? new int[] {first} : new int[] {first, last});
    }
}
