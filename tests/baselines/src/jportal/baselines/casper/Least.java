// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines.casper;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The least number of logged sites of a small program, by trial of all sets. A check of {@link
 * Planner}: it shares no code with {@link Grammar}, computes the FIRST sets of all functions at
 * once, and has one bit for each terminal. Calls have one target at most.
 */
final class Least {
    /** Largest number of sites. */
    static final int LIMIT = 30;
    /** The empty word. Bits of sites are from 0 on, those of callbacks from {@link #LIMIT} on. */
    private static final long EMPTY = 1L << 63;

    private final List<Site> sites = new ArrayList<>();
    private final int[][] next;
    /** By function. */
    private final int[][] entry;
    /** By site: the function that is called, or -1. */
    private final int[] callee;
    private final List<int[]> alternatives = new ArrayList<>();

    Least(Collection<Function> functions) {
        Map<Site, Integer> numbers = new HashMap<>();
        Map<Function, Integer> order = new HashMap<>();
        for (Function function : functions) {
            order.put(function, order.size());
            for (Site site : function.sites.values()) {
                if (site.targets.size() > 1) {
                    throw new IllegalArgumentException(function.key() + ": a call with several targets");
                }
                numbers.put(site, sites.size());
                sites.add(site);
            }
        }
        if (sites.size() > LIMIT) {
            throw new IllegalArgumentException(sites.size() + " sites are too many for all sets");
        }
        next = new int[sites.size()][];
        callee = new int[sites.size()];
        entry = new int[order.size()][];
        for (int i = 0; i < sites.size(); i++) {
            Site site = sites.get(i);
            next[i] = numbers(site.next, numbers);
            callee[i] = site.library || site.targets.isEmpty() ? -1 : order.get(site.targets.get(0));
        }
        for (Function function : functions) {
            entry[order.get(function)] = numbers(function.entry, numbers);
            function.alternatives().forEach(list -> alternatives.add(numbers(list, numbers)));
        }
    }

    private static int[] numbers(List<Site> list, Map<Site, Integer> numbers) {
        return list.stream().mapToInt(numbers::get).toArray();
    }

    int sites() {
        return sites.size();
    }

    /** The sites that are logged now, as a set. */
    long logged() {
        long set = 0;
        for (int i = 0; i < sites.size(); i++) {
            set |= sites.get(i).logged ? 1L << i : 0;
        }
        return set;
    }

    /** The size of the smallest feasible set; {@code most} + 1 if it is larger than that. */
    int least(int most) {
        for (int size = 0; size <= most; size++) {
            if (any(size, 0, 0)) {
                return size;
            }
        }
        return most + 1;
    }

    /** Whether a set of {@code size} more sites, none before {@code from}, is feasible. */
    private boolean any(int size, int from, long set) {
        if (size == 0) {
            return feasible(set);
        }
        for (int i = from; i <= sites.size() - size; i++) {
            if (any(size - 1, i + 1, set | 1L << i)) {
                return true;
            }
        }
        return false;
    }

    /** Whether one token decides between all alternatives, and nothing recurs on the left. */
    boolean feasible(long logged) {
        long[] first = new long[sites.size()];
        long[] function = new long[entry.length];
        boolean changed = true;
        while (changed) {
            changed = false;
            for (int i = first.length - 1; i >= 0; i--) {
                long now = first(i, logged, first, function);
                changed |= now != first[i];
                first[i] = now;
            }
            for (int f = 0; f < function.length; f++) {
                long now = union(entry[f], first);
                changed |= now != function[f];
                function[f] = now;
            }
        }
        for (int[] list : alternatives) {
            long seen = 0;
            for (int i : list) {
                if (list.length > 1 && ((seen | EMPTY) & first[i]) != 0) {
                    return false;
                }
                seen |= first[i];
            }
        }
        return !recurs(logged, function);
    }

    private long first(int i, long logged, long[] first, long[] function) {
        Site site = sites.get(i);
        if ((logged >> i & 1) != 0) {
            return 1L << i;
        }
        if (!site.call) {
            return EMPTY;
        }
        long behind = union(next[i], first);
        if (callee[i] < 0) {
            return behind | (site.library ? 1L << i + LIMIT : 0);
        }
        long called = function[callee[i]];
        return called & ~EMPTY | ((called & EMPTY) != 0 ? behind : 0);
    }

    private static long union(int[] list, long[] first) {
        long all = list.length == 0 ? EMPTY : 0;
        for (int i : list) {
            all |= first[i];
        }
        return all;
    }

    /** Whether a call can come to itself again without a token. */
    private boolean recurs(long logged, long[] function) {
        int[] state = new int[sites.size()];
        for (int i = 0; i < state.length; i++) {
            if (state[i] == 0 && recurs(i, logged, function, state)) {
                return true;
            }
        }
        return false;
    }

    private boolean recurs(int i, long logged, long[] function, int[] state) {
        if (state[i] != 0) {
            return state[i] == 1;
        }
        state[i] = 1;
        if ((logged >> i & 1) == 0 && sites.get(i).call) {
            if (callee[i] >= 0) {
                for (int to : entry[callee[i]]) {
                    if (recurs(to, logged, function, state)) {
                        return true;
                    }
                }
            }
            if (callee[i] < 0 || (function[callee[i]] & EMPTY) != 0) {
                for (int to : next[i]) {
                    if (recurs(to, logged, function, state)) {
                        return true;
                    }
                }
            }
        }
        state[i] = 2;
        return false;
    }
}
