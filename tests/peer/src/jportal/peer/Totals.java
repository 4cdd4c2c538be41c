// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Adds up blocks, edges, nodes of the call tree, paths and calls. */
final class Totals extends Reader {
    final Node root = new Node(null);
    /** By method. */
    final Map<Method, OfMethod> methods = new TreeMap<>();
    private final Sites sites;
    private final boolean wantsPaths;
    /** Counts of the alternative that is being read, innermost first; empty outside of choices. */
    private final Deque<Map<Counter, Counter>> scopes = new ArrayDeque<>();
    /** Alternatives that have been read of each choice that is being read. */
    private final Deque<List<Map<Counter, Counter>>> done = new ArrayDeque<>();

    /** How a block ended other than by an edge or a return. */
    record Cut(int block, List<Integer> insns, int handler) {
        static final int OUT = -1;
        static final int OPEN = -2;
    }

    /** A call: the callee, and the instruction of the caller, -1 if it is not determined. */
    record CallKey(Method callee, int insn) {}

    /** A path that was left before its end: the register and the block. */
    record CutPath(long register, int block) {}

    /** What is counted for one method. */
    static final class OfMethod {
        final Counter[] begun;
        final Counter[] completed;
        final Map<Long, Counter> ways = new TreeMap<>();
        final Map<Cut, Counter> cuts = new HashMap<>();
        final Map<CallKey, Counter> calls = new HashMap<>();
        BallLarus numbers;
        final Map<Long, Counter> paths = new TreeMap<>();
        final Map<CutPath, Counter> cutPaths = new HashMap<>();
        /** Paths whose beginning differs between alternatives. */
        final Counter unknownPaths = new Counter();

        OfMethod(Code code) {
            begun = counters(code.blocks());
            completed = counters(code.blocks());
        }

        private static Counter[] counters(int count) {
            Counter[] made = new Counter[count];
            for (int i = 0; i < count; i++) {
                made[i] = new Counter();
            }
            return made;
        }
    }

    /** Calls from the VM. */
    final Map<CallKey, Counter> rootCalls = new HashMap<>();

    Totals(Program program, Sites sites, boolean wantsPaths) {
        super(program);
        this.sites = sites;
        this.wantsPaths = wantsPaths;
    }

    private OfMethod of(Method method) {
        OfMethod found = methods.get(method);
        if (found == null) {
            found = new OfMethod(method.code);
            found.numbers = wantsPaths ? new BallLarus(method.code) : null;
            methods.put(method, found);
        }
        return found;
    }

    private void add(Counter counter, long least, long most) {
        Counter target = scopes.isEmpty() ? counter : scopes.peek().computeIfAbsent(counter, key -> new Counter());
        target.least += least;
        target.most += most;
    }

    private void count(Counter counter) {
        add(counter, 1, 1);
    }

    private <K> void count(Map<K, Counter> counters, K key) {
        count(counters.computeIfAbsent(key, k -> new Counter()));
    }

    private void begin(Activation now, int block) {
        count(of(now.method).begun[block]);
        int size = now.method.code.size(block);
        add(now.node.whole, size, size);
    }

    @Override
    void enter(Activation caller, Activation callee, Events events, int event) {
        callee.node = (caller == null ? root : caller.node).child(callee.method);
        count(callee.node.invocations);
        begin(callee, 0);
        callee.path = wantsPaths ? of(callee.method).numbers.begin(0) : 0;
        int insn = -1;
        if (caller != null) {
            Points points = caller.method.points(caller.block, sites);
            int[] places = events.set(event);
            insn = points.insn(places[0]);
            for (int place : places) {
                insn = points.insn(place) == insn ? insn : -1;
            }
        }
        count(caller == null ? rootCalls : of(caller.method).calls, new CallKey(callee.method, insn));
    }

    private void complete(Activation now) {
        count(of(now.method).completed[now.block]);
        int size = now.method.code.size(now.block);
        add(now.node.begun, size, size);
    }

    @Override
    void edge(Activation now, int next) {
        complete(now);
        OfMethod method = of(now.method);
        count(method.ways, (long) now.block << 32 | next);
        if (wantsPaths) {
            BallLarus numbers = method.numbers;
            boolean isCut = numbers.isCut(now.block, next);
            long reached = now.path == Activation.UNKNOWN ? now.path : now.path + numbers.value(now.block, next);
            if (isCut) {
                completePath(method, reached);
                reached = numbers.begin(next);
            }
            now.path = reached;
        }
        begin(now, next);
    }

    private void completePath(OfMethod method, long id) {
        if (id == Activation.UNKNOWN) {
            add(method.unknownPaths, 0, 1);
        } else {
            count(method.paths, id);
        }
    }

    @Override
    void returns(Activation now) {
        complete(now);
        OfMethod method = of(now.method);
        if (wantsPaths) {
            completePath(method, end(now, method));
        }
    }

    private static long end(Activation now, OfMethod method) {
        return now.path == Activation.UNKNOWN ? now.path : now.path + method.numbers.exit(now.block);
    }

    @Override
    void handler(Activation now, int next, int[] throwers) {
        cut(now, throwers, next);
        if (wantsPaths) {
            now.path = of(now.method).numbers.begin(next);
        }
        begin(now, next);
    }

    @Override
    void thrown(Activation now, int[] throwers) {
        cut(now, throwers, Cut.OUT);
    }

    @Override
    void open(Activation now, int[] reached) {
        cut(now, reached, Cut.OPEN);
    }

    /** Throwers are ascending. */
    private void cut(Activation now, int[] insns, int handler) {
        Code code = now.method.code;
        int first = code.first[now.block];
        add(now.node.begun, insns[0] - first + 1, insns[insns.length - 1] - first + 1);
        OfMethod method = of(now.method);
        List<Integer> list = java.util.Arrays.stream(insns).boxed().toList();
        count(method.cuts, new Cut(now.block, list, handler));
        if (wantsPaths) {
            int last = code.end[now.block] - 1;
            boolean mayEnd = handler != Cut.OPEN && insns[insns.length - 1] == last && Explanations.isThrow(code, last);
            boolean mustEnd = mayEnd && insns.length == 1;
            long id = end(now, method);
            if (id == Activation.UNKNOWN) {
                add(method.unknownPaths, 0, 1);
                return;
            }
            if (mayEnd) {
                add(method.paths.computeIfAbsent(id, key -> new Counter()), mustEnd ? 1 : 0, 1);
            }
            if (!mustEnd) {
                CutPath key = new CutPath(now.path, now.block);
                add(method.cutPaths.computeIfAbsent(key, k -> new Counter()), mayEnd ? 0 : 1, 1);
            }
        }
    }

    @Override
    void choice(int alternative, int count) {
        if (alternative == 0) {
            done.push(new ArrayList<>());
        } else {
            done.peek().add(scopes.pop());
        }
        if (alternative < count) {
            scopes.push(new IdentityHashMap<>());
            return;
        }
        List<Map<Counter, Counter>> alternatives = done.pop();
        Map<Counter, Counter> most = new IdentityHashMap<>();
        for (Map<Counter, Counter> counts : alternatives) {
            counts.keySet().forEach(key -> most.put(key, null));
        }
        for (Counter key : most.keySet()) {
            long low = Long.MAX_VALUE;
            long high = 0;
            for (Map<Counter, Counter> counts : alternatives) {
                Counter here = counts.get(key);
                low = Math.min(low, here == null ? 0 : here.least);
                high = Math.max(high, here == null ? 0 : here.most);
            }
            add(key, low, high);
        }
    }

    @Override
    void join(Activation kept, Activation other) {
        if (kept.path != other.path) {
            kept.path = Activation.UNKNOWN;
        }
        if (kept.node != other.node) {
            throw new IllegalStateException("alternatives end in different contexts");
        }
    }
}
