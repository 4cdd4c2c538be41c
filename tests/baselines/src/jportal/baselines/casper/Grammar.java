// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * FIRST sets of the grammar of logged call traces. The nonterminals of a function are the lists of
 * sites of which one follows; an alternative is a site, or a site with one of several targets.
 *
 * <p>A terminal is the number of a site; a callback out of a site is that number plus {@link
 * #CALLBACK}; a logged call of a certain target is the site plus 2³² times (the target's exit +
 * 1).
 */
final class Grammar {
    /** The empty word. */
    static final long EMPTY = -1;
    static final long CALLBACK = 1L << 31;

    /** Callees before callers, except over calls that are back edges. */
    final List<Function> order = new ArrayList<>();
    /** Calls on back edges of the call graph. */
    final Set<Site> backEdges = new HashSet<>();
    private final Map<Function, Set<Long>> ofFunction = new HashMap<>();
    private final Map<Function, Numbers> numbers = new HashMap<>();
    /** By site: the FIRST set of each alternative, as numbers of its function. */
    private final Map<Site, List<BitSet>> ofSite = new HashMap<>();

    /** Numbers of the terminals in the sets of a function; the first one is {@link #EMPTY}. */
    private static final class Numbers {
        private final Map<Long, Integer> numbers = new HashMap<>(Map.of(EMPTY, 0));
        private final List<Long> terminals = new ArrayList<>(List.of(EMPTY));

        int of(long terminal) {
            Integer known = numbers.putIfAbsent(terminal, terminals.size());
            if (known == null) {
                terminals.add(terminal);
            }
            return known == null ? terminals.size() - 1 : known;
        }

        BitSet of(Set<Long> set) {
            BitSet bits = new BitSet();
            set.forEach(terminal -> bits.set(of((long) terminal)));
            return bits;
        }

        Set<Long> set(BitSet bits) {
            Set<Long> set = new HashSet<>();
            bits.stream().forEach(number -> set.add(terminals.get(number)));
            return set;
        }
    }

    private static final class Visit {
        final Function function;
        final List<Site> calls = new ArrayList<>();
        int next;
        int target;

        Visit(Function function) {
            this.function = function;
            function.sites.values().stream().filter(site -> !site.targets.isEmpty()).forEach(calls::add);
        }
    }

    Grammar(Collection<Function> functions) {
        Map<Function, Boolean> open = new HashMap<>();
        for (Function root : functions) {
            if (!open.containsKey(root)) {
                search(root, open);
            }
        }
    }

    private void search(Function root, Map<Function, Boolean> open) {
        List<Visit> stack = new ArrayList<>();
        stack.add(new Visit(root));
        open.put(root, true);
        while (!stack.isEmpty()) {
            Visit visit = stack.get(stack.size() - 1);
            if (visit.next == visit.calls.size()) {
                open.put(visit.function, false);
                order.add(visit.function);
                stack.remove(stack.size() - 1);
                continue;
            }
            Site call = visit.calls.get(visit.next);
            if (visit.target == call.targets.size()) {
                visit.next++;
                visit.target = 0;
                continue;
            }
            Function target = call.targets.get(visit.target++);
            if (!open.containsKey(target)) {
                open.put(target, true);
                stack.add(new Visit(target));
            } else if (open.get(target)) {
                backEdges.add(call);
            }
        }
    }

    static long terminal(Site site, Function target) {
        return site.id + ((long) target.exit + 1 << 32);
    }

    /** Computes the sets of a function whose callees have theirs. */
    void compute(Function function) {
        Numbers known = numbers.computeIfAbsent(function, f -> new Numbers());
        Map<Function, BitSet> callees = new HashMap<>();
        List<Site> sites = new ArrayList<>(function.sites.values());
        for (Site site : sites) {
            List<BitSet> empty = new ArrayList<>();
            for (int i = 0; i < Math.max(1, site.targets.size()); i++) {
                empty.add(new BitSet());
            }
            ofSite.put(site, empty);
        }
        boolean changed = true;
        while (changed) {
            changed = false;
            for (int i = sites.size() - 1; i >= 0; i--) {
                Site site = sites.get(i);
                for (int n = 0; n < ofSite.get(site).size(); n++) {
                    changed |= extend(site, n, known, callees);
                }
            }
        }
        ofFunction.put(function, known.set(union(function.entry)));
    }

    private boolean extend(Site site, int n, Numbers known, Map<Function, BitSet> callees) {
        BitSet to = ofSite.get(site).get(n);
        int before = to.cardinality();
        if (site.writes()) {
            to.set(known.of(site.id));
        } else if (site.logged) {
            to.set(known.of(terminal(site, site.targets.get(n))));
        } else if (!site.call) {
            to.set(0);
        } else if (site.library) {
            to.set(known.of(site.id + CALLBACK));
            to.or(union(site.next));
        } else if (site.targets.isEmpty()) {
            to.or(union(site.next));
        } else {
            BitSet callee = callees.computeIfAbsent(site.targets.get(n), of -> known.of(ofFunction.get(of)));
            boolean hadEmpty = to.get(0);
            to.or(callee);
            if (callee.get(0)) {
                to.set(0, hadEmpty);
                to.or(union(site.next));
            }
        }
        return to.cardinality() != before;
    }

    private BitSet union(List<Site> alternatives) {
        BitSet all = new BitSet();
        if (alternatives.isEmpty()) {
            all.set(0);
        }
        alternatives.forEach(site -> ofSite.get(site).forEach(all::or));
        return all;
    }

    /** Whether what follows from a site, with one of its targets, may begin with a terminal. */
    boolean begins(Site site, int target, long terminal) {
        Integer number = numbers.get(site.function).numbers.get(terminal);
        return number != null && ofSite.get(site).get(target).get(number);
    }

    /** Whether a site can be executed without a token up to what follows it. */
    boolean vanishes(Site site) {
        return !site.logged && (site.library || site.targets.isEmpty()
                || site.targets.stream().anyMatch(target -> ofFunction.get(target).contains(EMPTY)));
    }

    boolean hasEmpty(Site site) {
        return ofSite.get(site).stream().anyMatch(set -> set.get(0));
    }

    /** Whether one token decides between all alternatives of a function (Definition 6). */
    boolean feasible(Function function) {
        return function.alternatives().stream().allMatch(this::decides) && cycle(function) == null;
    }

    private boolean decides(List<Site> alternatives) {
        List<BitSet> sets = new ArrayList<>();
        alternatives.forEach(site -> sets.addAll(ofSite.get(site)));
        BitSet seen = new BitSet();
        for (BitSet set : sets) {
            if (sets.size() > 1 && (set.get(0) || seen.intersects(set))) {
                return false;
            }
            seen.or(set);
        }
        return true;
    }

    /** Sites of a cycle without a token: a left recursion. Null if there is none. */
    List<Site> cycle(Function function) {
        Map<Site, Integer> state = new HashMap<>();
        for (Site root : function.sites.values()) {
            List<Site> path = new ArrayList<>();
            List<Integer> next = new ArrayList<>();
            if (!state.containsKey(root) && vanishes(root)) {
                path.add(root);
                next.add(0);
                state.put(root, 1);
            }
            while (!path.isEmpty()) {
                int top = path.size() - 1;
                Site site = path.get(top);
                if (next.get(top) == site.next.size()) {
                    state.put(site, 2);
                    path.remove(top);
                    next.remove(top);
                    continue;
                }
                Site to = site.next.get(next.get(top));
                next.set(top, next.get(top) + 1);
                if (!vanishes(to)) {
                    continue;
                }
                if (!state.containsKey(to)) {
                    state.put(to, 1);
                    path.add(to);
                    next.add(0);
                } else if (state.get(to) == 1) {
                    return path.subList(path.indexOf(to), path.size());
                }
            }
        }
        return null;
    }

    /** The pairs of sites that conflict, each in both orders (Definition 8). */
    Map<Site, Set<Site>> conflicts(Function function) {
        Map<Site, Set<Site>> graph = new HashMap<>();
        for (List<Site> alternatives : function.alternatives()) {
            for (int i = 0; i < alternatives.size(); i++) {
                Site a = alternatives.get(i);
                for (int j = i; j < alternatives.size(); j++) {
                    Site b = alternatives.get(j);
                    if (i == j ? !decides(Arrays.asList(a)) : !decides(Arrays.asList(a, b))) {
                        graph.computeIfAbsent(a, site -> new HashSet<>()).add(b);
                        graph.computeIfAbsent(b, site -> new HashSet<>()).add(a);
                    }
                }
            }
        }
        return graph;
    }
}
