// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A conflict graph, and how many sites {@link Planner} chose to cover its edges. The spec's bound:
 * a greedy cover has at most H(d) times the sites of the least cover, where d is the largest number
 * of edges of a site, and H(d) = 1 + 1/2 + … + 1/d.
 */
final class Cover {
    /** Sites that may be chosen. */
    private final List<Site> sites = new ArrayList<>();
    /** By site that may be chosen: bits of its neighbours that may be, too. */
    private final List<Long> neighbours = new ArrayList<>();
    /** Sites that must be chosen: they conflict with one that is logged already. */
    private long must;
    private int degree;
    int chosen;

    /** Copies the graph of a function, before anything is chosen. */
    Cover(Map<Site, Set<Site>> graph) {
        Map<Site, Integer> numbers = new HashMap<>();
        for (Site site : graph.keySet()) {
            if (!site.logged) {
                numbers.put(site, sites.size());
                sites.add(site);
            }
        }
        if (!isSmall()) {
            return;
        }
        for (Site site : sites) {
            Set<Site> edges = new HashSet<>(graph.get(site));
            degree = Math.max(degree, edges.size());
            long bits = 0;
            for (Site other : edges) {
                Integer number = numbers.get(other);
                if (number == null || other == site) {
                    must |= 1L << numbers.get(site);
                } else {
                    bits |= 1L << number;
                }
            }
            neighbours.add(bits);
        }
    }

    /** Whether all covers can be tried. */
    boolean isSmall() {
        return sites.size() <= Least.LIMIT;
    }

    /** The size of the least cover of a small graph, by trial. */
    int least() {
        if (!isSmall()) {
            throw new IllegalStateException(sites.size() + " sites are too many for all covers");
        }
        return least(0, must);
    }

    /** The size of the least cover with {@code cover}, and no other site before {@code from}. */
    private int least(int from, long cover) {
        for (int i = from; i < sites.size(); i++) {
            long open = neighbours.get(i) & ~cover;
            if ((cover >> i & 1) == 0 && open != 0) {
                // This site covers its edges, or all of its neighbours do.
                return Math.min(least(i + 1, cover | 1L << i), least(i + 1, cover | open));
            }
        }
        return Long.bitCount(cover);
    }

    boolean isWithinBound() {
        double harmonic = 0;
        for (int i = 1; i <= degree; i++) {
            harmonic += 1.0 / i;
        }
        return least() <= chosen && chosen <= harmonic * least() + 1e-9;
    }
}
