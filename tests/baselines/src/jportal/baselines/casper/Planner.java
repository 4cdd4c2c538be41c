// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Chooses the sites to log: the paper's Algorithm 1, or its reference BRI. */
final class Planner {
    private final Grammar grammar;
    /** The covers that {@link #casper} chooses, if they are wanted. */
    List<Cover> covers;

    Planner(Grammar grammar) {
        this.grammar = grammar;
    }

    /** Logs all alternatives of which there is more than one. */
    void branches() {
        grammar.backEdges.forEach(site -> site.logged = true);
        for (Function function : grammar.order) {
            for (List<Site> alternatives : function.alternatives()) {
                int ways = alternatives.stream().mapToInt(site -> Math.max(1, site.targets.size())).sum();
                alternatives.forEach(site -> site.logged |= ways > 1);
            }
            grammar.compute(function);
            breakCycles(function);
        }
    }

    void casper() {
        grammar.backEdges.forEach(site -> site.logged = true);
        for (Function function : grammar.order) {
            grammar.compute(function);
            List<Site> empty = new ArrayList<>();
            for (Site site : function.sites.values()) {
                if (!site.logged && grammar.hasEmpty(site)) {
                    empty.add(site);
                }
            }
            empty.forEach(site -> site.logged = true);
            grammar.compute(function);
            breakCycles(function);
            cover(function);
            drop(function, new HashSet<>(empty));
        }
    }

    private void breakCycles(Function function) {
        for (List<Site> cycle = grammar.cycle(function); cycle != null; cycle = grammar.cycle(function)) {
            cycle.stream().min((a, b) -> Integer.compare(a.insn, b.insn)).orElseThrow().logged = true;
            grammar.compute(function);
        }
    }

    /**
     * A greedy cover of the conflict graph. A site that is logged may still conflict with one that
     * leads to it without a token, so covers are repeated until there is no conflict.
     */
    private void cover(Function function) {
        while (true) {
            Map<Site, Set<Site>> graph = grammar.conflicts(function);
            if (graph.isEmpty()) {
                return;
            }
            Cover cover = covers == null ? null : new Cover(graph);
            int chosen = 0;
            while (!graph.isEmpty()) {
                Site best = null;
                for (Site site : function.sites.values()) {
                    boolean more = graph.containsKey(site) && !site.logged
                            && (best == null || graph.get(site).size() > graph.get(best).size());
                    best = more ? site : best;
                }
                if (best == null) {
                    break;
                }
                best.logged = true;
                chosen++;
                Site covered = best;
                graph.remove(covered);
                graph.values().forEach(others -> others.remove(covered));
                graph.values().removeIf(Set::isEmpty);
            }
            if (chosen == 0) {
                throw new IllegalStateException(function.key() + ": logged sites conflict");
            }
            if (cover != null) {
                cover.chosen = chosen;
                covers.add(cover);
            }
            grammar.compute(function);
        }
    }

    /** Drops sites, last ones first, as long as the function stays feasible. */
    private void drop(Function function, Set<Site> candidates) {
        Set<Site> seen = new HashSet<>();
        List<Site> order = new ArrayList<>();
        function.alternatives().forEach(roots -> roots.forEach(root -> visit(root, seen, order)));
        // No path leads to these.
        candidates.stream().filter(site -> !seen.contains(site)).forEach(site -> site.logged = false);
        for (Site site : order) {
            if (candidates.contains(site)) {
                site.logged = false;
                grammar.compute(function);
                if (!grammar.feasible(function)) {
                    site.logged = true;
                }
            }
        }
        grammar.compute(function);
    }

    /** Sites after all that follow them; edges back are ignored. */
    private static void visit(Site root, Set<Site> seen, List<Site> order) {
        List<Site> path = new ArrayList<>();
        List<Integer> next = new ArrayList<>();
        if (seen.add(root)) {
            path.add(root);
            next.add(0);
        }
        while (!path.isEmpty()) {
            int top = path.size() - 1;
            Site site = path.get(top);
            if (next.get(top) == site.next.size()) {
                order.add(site);
                path.remove(top);
                next.remove(top);
                continue;
            }
            Site to = site.next.get(next.get(top));
            next.set(top, next.get(top) + 1);
            if (seen.add(to)) {
                path.add(to);
                next.add(0);
            }
        }
    }

    /** Whether the whole program is feasible: a check apart from the choice. */
    boolean feasible() {
        for (Function function : grammar.order) {
            grammar.compute(function);
            if (!grammar.feasible(function)) {
                return false;
            }
        }
        return true;
    }
}
