// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The sites of one block, in order, and how far an execution of the block has come. A
 * <em>place</em> is {@link #START}; {@code 2k}: site k began and may call again; {@code 2k + 1}:
 * the method that site k calls was entered. A frame has a set of possible places, ascending.
 */
final class Points {
    static final int START = -1;
    static final int[] BEGIN = {START};
    /** Ways of calls that are not direct: those that are expected, and all. */
    static final int EXPECTED = Site.IMPLICIT | Site.OPAQUE;
    static final int ALL = EXPECTED | Site.UNEXPECTED;
    private static final int[] NOWHERE = {};
    /** Sets with one place; all sets of one place are shared. */
    private static final int[][] SINGLE = new int[256][];

    static {
        for (int i = 0; i < SINGLE.length; i++) {
            SINGLE[i] = new int[] {i};
        }
    }

    final Method method;
    final int block;
    final List<Site> sites = new ArrayList<>();
    private final Sites all;

    Points(Method method, int block, Sites all) {
        this.method = method;
        this.block = block;
        this.all = all;
        for (int i = method.code.first[block]; i < method.code.end[block]; i++) {
            Site site = all.at(method.code, i);
            if (site != null && !site.isEmpty()) {
                sites.add(site);
            }
        }
    }

    /** The first site that can be at work after a place. */
    private static int next(int place) {
        return place + 1 >> 1;
    }

    /**
     * Where the block may be once it has called the method; empty if it cannot call it. {@code
     * indirect} holds the ways of {@link Site} that are not direct and that count.
     */
    int[] after(int[] places, Method callee, int indirect) {
        int[] found = NOWHERE;
        for (int place : places) {
            for (int k = next(place); k < sites.size(); k++) {
                Site site = sites.get(k);
                int ways = site.calls(callee, all);
                if ((ways & indirect) != 0) {
                    found = with(found, 2 * k);
                }
                if ((ways & Site.DIRECT) != 0) {
                    found = with(found, 2 * k + 1);
                }
                if (site.must || callee.isInitializer() && site.initializes(callee.type, all.hierarchy)) {
                    break;
                }
            }
        }
        return found;
    }

    private static int[] with(int[] set, int place) {
        if (set.length == 0) {
            return place < SINGLE.length ? SINGLE[place] : new int[] {place};
        }
        int at = Arrays.binarySearch(set, place);
        if (at >= 0) {
            return set;
        }
        int[] longer = new int[set.length + 1];
        System.arraycopy(set, 0, longer, 0, -at - 1);
        longer[-at - 1] = place;
        System.arraycopy(set, -at - 1, longer, -at, set.length + at + 1);
        return longer;
    }

    /**
     * Whether the block can run to its end from one of the places without entering another method.
     */
    boolean completes(int[] places) {
        for (int place : places) {
            if (completes(place)) {
                return true;
            }
        }
        return false;
    }

    boolean completes(int place) {
        return barrier(place) == sites.size();
    }

    /** Whether the rest of the block initializes a class, from each of the places. */
    boolean initialize(int[] places, String type) {
        for (int place : places) {
            boolean found = false;
            for (int k = next(place); k < sites.size(); k++) {
                found |= sites.get(k).initializes(type, all.hierarchy);
            }
            if (!found) {
                return false;
            }
        }
        return true;
    }

    /**
     * The first site, from a place on, that must enter a method; the number of sites if there is
     * none.
     */
    private int barrier(int place) {
        int k = next(place);
        while (k < sites.size() && !sites.get(k).must) {
            k++;
        }
        return k;
    }

    /**
     * Whether a place can follow another one, with exactly one call in between: that of {@code to}.
     */
    boolean follows(int from, int to, Method callee) {
        int[] single = {from};
        return Arrays.binarySearch(after(single, callee, ALL), to) >= 0;
    }

    /** The first instruction that may be executing at a place. */
    int from(int place) {
        return place < 0 ? method.code.first[block] : sites.get(place >> 1).insn + (place & 1);
    }

    /** The last instruction that can be reached from a place without entering another method. */
    int upTo(int place) {
        int k = barrier(place);
        return k < sites.size() ? sites.get(k).insn : method.code.end[block] - 1;
    }

    /** The instruction of the site at which a called method runs. */
    int insn(int place) {
        return place < 0 ? method.code.first[block] : sites.get(place >> 1).insn;
    }

    /** Whether uninstrumented code stands between the frame at this place and what it called. */
    boolean isOpaque(int place) {
        return (place & 1) == 0 && sites.get(place >> 1).reach != Site.Reach.NONE;
    }
}
