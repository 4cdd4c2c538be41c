// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.List;

/** Reads the events of a thread with a stack of activations. */
abstract class Reader {
    final Program program;
    /** The activations; in an alternative of a choice, only those it touches and one more. */
    List<Activation> stack = new ArrayList<>();
    /** How many activations are below {@link #stack}. */
    int hidden;

    Reader(Program program) {
        this.program = program;
    }

    /** {@code caller} is null if the VM calls; {@code event} holds the places of the caller. */
    abstract void enter(Activation caller, Activation callee, Events events, int event);

    /** The block of the activation has run to its end; {@code next} begins. */
    abstract void edge(Activation now, int next);

    /** An exception at one of the instructions leaves the block for a handler. */
    abstract void handler(Activation now, int next, int[] throwers);

    abstract void returns(Activation now);

    abstract void thrown(Activation now, int[] throwers);

    /**
     * The log ends; the instructions are the first and the last that the block may have reached.
     */
    abstract void open(Activation now, int[] reached);

    /**
     * Before each alternative of a choice, and, with {@code alternative == count}, after the last.
     */
    abstract void choice(int alternative, int count);

    /** Two alternatives leave the same frame; makes what differs unknown. */
    abstract void join(Activation kept, Activation other);

    final void read(Events events) {
        for (int i = 0; i < events.size(); i++) {
            int kind = events.kind(i);
            if (kind == Events.CHOICE) {
                readChoice(events.choices.get(events.a(i)));
            } else if (kind == Events.ENTER) {
                Activation callee = new Activation(program.defined(events.a(i)));
                Activation caller = stack.isEmpty() ? null : top();
                callee.begin(0);
                enter(caller, callee, events, i);
                stack.add(callee);
            } else if (kind != Events.LOST) {
                readInside(kind, events, i);
            }
        }
    }

    private Activation top() {
        return stack.get(stack.size() - 1);
    }

    private void readInside(int kind, Events events, int i) {
        Activation now = top();
        switch (kind) {
            case Events.BLOCK -> edge(now, events.a(i));
            case Events.HANDLER -> handler(now, events.a(i), events.set(i));
            case Events.RETURN -> returns(now);
            case Events.THROW -> thrown(now, events.set(i));
            default -> open(now, events.set(i));
        }
        if (kind == Events.BLOCK || kind == Events.HANDLER) {
            now.begin(events.a(i));
        } else {
            stack.remove(stack.size() - 1);
        }
    }

    private void readChoice(List<Events> alternatives) {
        int keep = stack.size();
        for (Events alternative : alternatives) {
            keep = Math.min(keep, stack.size() + lowest(alternative));
        }
        keep = Math.max(keep, 0);
        List<Activation> below = stack.subList(0, keep);
        List<Activation> touched = new ArrayList<>(stack.subList(keep, stack.size()));
        List<Activation> result = null;
        int outside = hidden;
        hidden += Math.max(0, keep - 1);
        for (int n = 0; n < alternatives.size(); n++) {
            stack = new ArrayList<>(below.subList(Math.max(0, keep - 1), keep));
            int offset = stack.size();
            touched.forEach(activation -> stack.add(activation.copy()));
            choice(n, alternatives.size());
            read(alternatives.get(n));
            List<Activation> ends = stack.subList(offset, stack.size());
            if (result == null) {
                result = new ArrayList<>(ends);
            } else {
                for (int d = 0; d < result.size(); d++) {
                    join(result.get(d), ends.get(d));
                }
            }
        }
        stack = new ArrayList<>(below);
        hidden = outside;
        choice(alternatives.size(), alternatives.size());
        stack.addAll(result);
    }

    /** How far the events go below the stack they begin with, as a number that is not positive. */
    private static int lowest(Events events) {
        int depth = 0;
        int lowest = 0;
        for (int i = 0; i < events.size(); i++) {
            switch (events.kind(i)) {
                case Events.ENTER -> depth++;
                case Events.CHOICE -> {
                    List<Events> inner = events.choices.get(events.a(i));
                    for (Events alternative : inner) {
                        lowest = Math.min(lowest, depth + lowest(alternative));
                    }
                    depth += height(inner.get(0));
                }
                case Events.LOST -> { }
                default -> {
                    // The frame on top changes.
                    lowest = Math.min(lowest, depth - 1);
                    depth -= events.kind(i) == Events.BLOCK || events.kind(i) == Events.HANDLER ? 0 : 1;
                }
            }
            if (events.kind(i) == Events.ENTER) {
                // The caller changes, too.
                lowest = Math.min(lowest, depth - 2);
            }
        }
        return lowest;
    }

    private static int height(Events events) {
        int depth = 0;
        for (int i = 0; i < events.size(); i++) {
            switch (events.kind(i)) {
                case Events.ENTER -> depth++;
                case Events.CHOICE -> depth += height(events.choices.get(events.a(i)).get(0));
                case Events.RETURN, Events.THROW, Events.OPEN -> depth--;
                default -> { }
            }
        }
        return depth;
    }
}
