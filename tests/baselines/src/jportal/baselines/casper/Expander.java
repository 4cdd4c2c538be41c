// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import jportal.baselines.Tokens;
import jportal.baselines.agent.Log;

/**
 * Expands a thread's log to the full call trace: derives the trace by the grammar, and takes the
 * next token where there is more than one alternative.
 */
final class Expander {
    /** A growing list of sites. */
    static final class Trace {
        int[] sites = new int[1024];
        int length;

        void add(int site) {
            if (length == sites.length) {
                sites = Arrays.copyOf(sites, 2 * length);
            }
            sites[length++] = site;
        }

        int[] all() {
            return Arrays.copyOf(sites, length);
        }
    }

    /**
     * An activation.
     *
     * @param base   whether library code, or the VM, called it
     * @param from   instruction from which it continues, if no call is in progress
     * @param next   the sites of which one is next
     * @param at     the call in progress, or null
     * @param target the application method that the call will begin, or null
     */
    private record Frame(Frame below, Function function, boolean base, int from, List<Site> next, Site at, Function target) {
        static Frame begin(Frame below, Function function, boolean base) {
            return new Frame(below, function, base, 0, function.entry, null, null);
        }

        Frame calling(Site site, Function callee) {
            return new Frame(below, function, base, 0, List.of(), site, callee);
        }

        /** The call in progress has returned. */
        Frame after() {
            return new Frame(below, function, base, at.insn + 1, at.next, null, null);
        }
    }

    /** Sites that are executed on the way to an exception, last one first. */
    private record Way(Way before, int site) {}

    /** A state on the way. {@code stuck}: a logged call did not happen. */
    private record State(Frame top, int activations, Way way, boolean stuck) {}

    /** An exception's frames explained: what is emitted, the next frame, the next token. */
    private record Unwound(Way way, Frame top, int position) {}

    private final Log log;
    private final Grammar grammar;
    private final Map<Integer, Function> byExit;
    private int position;
    /** Activations since the last token. */
    private int activations;
    boolean truncated;
    final Trace main = new Trace();
    /** Traces of class initializers, apart: their place among silent sites is unknown. */
    final List<Trace> implicit = new ArrayList<>();

    Expander(Log log, Grammar grammar, Map<Integer, Function> byExit) {
        this.log = log;
        this.grammar = grammar;
        this.byExit = byExit;
    }

    void expand() throws IOException {
        while (peek() != END) {
            if (log.word(position) != Tokens.ENTRY) {
                throw error("a thread's first token is no entry");
            }
            Function function = function(log.word(position + 1));
            position += 2;
            run(function, main);
        }
    }

    private static final int END = -1;
    private static final int LENGTH_SHIFT = 28;

    private IOException error(String what) {
        return new IOException(log.file() + ": error at word " + position + ": " + what);
    }

    private Function function(int exit) throws IOException {
        Function function = byExit.get(exit);
        if (function == null) {
            throw error("no method " + exit);
        }
        return function;
    }

    private static int size(int head) {
        return head >= 0 ? 1 : 1 + (head >>> LENGTH_SHIFT & 7);
    }

    /** The head of the next token; expands class initializers before it. */
    private int peek() throws IOException {
        while (position < log.length() && log.word(position) == Tokens.IMPLICIT) {
            Function function = function(log.word(position + 1));
            position += 2;
            int saved = activations;
            Trace trace = new Trace();
            implicit.add(trace);
            Frame last = run(function, trace);
            if (last != null) {
                endImplicit();
            }
            activations = saved;
        }
        if (position >= log.length() || position + size(log.word(position)) > log.length()) {
            return END;
        }
        return log.word(position);
    }

    private void consume() {
        position += size(log.word(position));
        activations = 0;
    }

    private void endImplicit() throws IOException {
        if (position >= log.length() || log.word(position) != Tokens.IMPLICIT_END) {
            throw error("no end of a class initializer");
        }
        position++;
    }

    /** Returns the last frame; null if an exception left it, or the log ended. */
    private Frame run(Function function, Trace out) throws IOException {
        activations = 1;
        Frame top = Frame.begin(null, function, true);
        Frame last = null;
        while (top != null) {
            int head = peek();
            last = top;
            if (head == Tokens.LEFT || head == Tokens.CAUGHT) {
                top = unwind(top, out);
                last = null;
            } else if (top.at != null) {
                top = call(top, head);
            } else {
                top = step(top, head, out);
            }
        }
        return truncated ? null : last;
    }

    private Frame call(Frame top, int head) throws IOException {
        if (top.target != null) {
            activations++;
            return Frame.begin(top.calling(top.at, null), top.target, false);
        }
        if (head == Tokens.CALLBACK && log.word(position + 1) == top.at.id && log.word(position + 3) == activations) {
            Function function = function(log.word(position + 2));
            consume();
            activations = 1;
            return Frame.begin(top, function, true);
        }
        return top.after();
    }

    private Frame step(Frame top, int head, Trace out) throws IOException {
        Site site = null;
        int target = 0;
        int ways = 0;
        long terminal = terminal(head);
        int all = top.next.stream().mapToInt(next -> Math.max(1, next.targets.size())).sum();
        for (Site next : top.next) {
            for (int n = 0; n < Math.max(1, next.targets.size()); n++) {
                if (all == 1 || head != END && grammar.begins(next, n, terminal)) {
                    site = next;
                    target = n;
                    ways++;
                }
            }
        }
        if (head == END && (ways != 1 || site.logged)) {
            truncated = true;
            return null;
        }
        if (ways != 1) {
            throw error(ways + " of " + all + " alternatives in " + top.function.key() + " from instruction " + top.from);
        }
        if (site.logged) {
            boolean fits = site.writes() ? head == site.id : terminal == Grammar.terminal(site, site.targets.get(target));
            if (!fits) {
                throw error("not the token of " + site.function.key() + "@" + site.function.code.bcis[site.insn]);
            }
            consume();
        }
        out.add(site.id);
        if (!site.call) {
            return leave(top);
        }
        if (site.logged && !site.writes()) {
            activations = 1;
            return Frame.begin(top.calling(site, null), site.targets.get(target), false);
        }
        return top.calling(site, site.targets.isEmpty() ? null : site.targets.get(target));
    }

    private long terminal(int head) throws IOException {
        if (head != Tokens.CALLBACK) {
            return head;
        }
        int site = log.word(position + 1);
        Function function = function(log.word(position + 2));
        Site callback = sites.get(site);
        return callback != null && !callback.library ? Grammar.terminal(callback, function) : site + Grammar.CALLBACK;
    }

    /** By number; for callbacks. */
    Map<Integer, Site> sites;

    /** The frame that continues after a return. */
    private static Frame leave(Frame top) {
        return top.base || top.below == null ? top.below : top.below.after();
    }

    /** Finds the silent sites before an exception. Two ways to it are an error: never guesses. */
    private Frame unwind(Frame top, Trace out) throws IOException {
        int limit = log.word(position + 3);
        List<State> open = new ArrayList<>(List.of(new State(top, activations, null, false)));
        Unwound found = null;
        while (!open.isEmpty()) {
            State state = open.remove(open.size() - 1);
            Unwound unwound = state.activations == limit ? match(state) : null;
            if (unwound != null && found != null) {
                throw error("two ways to an exception in " + top.function.key());
            }
            found = unwound != null ? unwound : found;
            if (!state.stuck) {
                follow(state, limit, open);
            }
        }
        if (found == null) {
            throw error("no way to the exception in " + function(log.word(position + 1)).key() + " from "
                    + top.function.key());
        }
        List<Integer> sites = new ArrayList<>();
        for (Way way = found.way; way != null; way = way.before) {
            sites.add(way.site);
        }
        for (int i = sites.size() - 1; i >= 0; i--) {
            out.add(sites.get(i));
        }
        position = found.position;
        activations = 0;
        return found.top;
    }

    private static void follow(State state, int limit, List<State> open) {
        Frame top = state.top;
        if (top.at != null) {
            if (top.target == null) {
                open.add(new State(top.after(), state.activations, state.way, false));
            } else if (state.activations < limit) {
                Frame callee = Frame.begin(top.calling(top.at, null), top.target, false);
                open.add(new State(callee, state.activations + 1, state.way, false));
            }
            return;
        }
        for (Site site : top.next) {
            Way way = new Way(state.way, site.id);
            if (site.logged) {
                if (site.call && !site.writes()) {
                    open.add(new State(top.calling(site, null), state.activations, way, true));
                }
            } else if (!site.call) {
                Frame below = leave(top);
                if (below != null) {
                    open.add(new State(below, state.activations, way, false));
                }
            } else if (site.targets.isEmpty()) {
                open.add(new State(top.calling(site, null), state.activations, way, false));
            } else {
                site.targets.forEach(target ->
                        open.add(new State(top.calling(site, target), state.activations, way, false)));
            }
        }
    }

    /** Whether the frames of a state are those that the next tokens name. */
    private Unwound match(State state) throws IOException {
        Way way = state.way;
        int at = position;
        boolean innermost = true;
        for (Frame frame = state.top; frame != null; frame = frame.below) {
            Function function = frame.function;
            if (frame.at == null || frame.at.insn != function.code.superCall()) {
                boolean complete = at < log.length() && at + size(log.word(at)) <= log.length();
                int head = complete ? log.word(at) : END;
                if (head != Tokens.LEFT && head != Tokens.CAUGHT || log.word(at + 1) != function.exit
                        || !stands(frame, log.word(at + 2), innermost)) {
                    return null;
                }
                if (head == Tokens.CAUGHT) {
                    int block = log.word(at + 4);
                    Frame caught = new Frame(frame.below, function, frame.base, function.code.first[block],
                            function.handlers.get(block), null, null);
                    return new Unwound(way, caught, at + size(head));
                }
                at += size(head);
                way = new Way(way, function.exit);
            }
            innermost = false;
            if (frame.base) {
                return new Unwound(way, frame.below, at);
            }
        }
        return null;
    }

    private static boolean stands(Frame frame, int segment, boolean innermost) {
        if (frame.at != null) {
            return frame.function.segmentOf(frame.at.insn) == segment;
        }
        BitSet segments = frame.function.segmentsFrom(frame.from);
        return innermost && segments.get(segment);
    }
}
