// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.objectweb.asm.Opcodes;

/**
 * How a stack can reach the next probe. First without an exception, then with one: an exception is
 * assumed only where nothing else explains the log.
 */
final class Explanations {
    private final Sites sites;
    private final Throws throwing;
    private final Events numbering;

    /** A stack that explains the log so far, and how. */
    record Explanation(Frame top, Past past) {}

    /** The probe that was hit. */
    record Probe(int definition, Method method, int block) {
        boolean isEntry() {
            return block == 0;
        }
    }

    Explanations(Sites sites, Throws throwing, Events numbering) {
        this.sites = sites;
        this.throwing = throwing;
        this.numbering = numbering;
    }

    Points points(Frame frame) {
        return frame.method.points(frame.block, sites);
    }

    boolean completes(Frame frame) {
        return points(frame).completes(frame.places);
    }

    boolean returns(Frame frame) {
        return frame.method.code.returns(frame.block) && completes(frame);
    }

    Past entered(Past past, int definition, int[] places) {
        return new Past(past, Events.ENTER, definition, numbering.number(places));
    }

    /**
     * Adds the ways without an exception: returns, then a call or the frame's next block. {@code
     * indirect}: see {@link Points#after}.
     */
    void normal(Explanation from, Probe probe, int indirect, List<Explanation> found) {
        Frame frame = from.top();
        Past past = from.past();
        while (true) {
            if (probe.isEntry()) {
                call(frame, past, probe, indirect, found);
            }
            if (frame.isRoot()) {
                return;
            }
            if (frame.definition == probe.definition() && frame.method.code.follows(frame.block, probe.block())
                    && completes(frame)) {
                Frame next = new Frame(frame.definition, frame.method, probe.block(), Points.BEGIN, frame.caller);
                found.add(new Explanation(next, new Past(past, Events.BLOCK, probe.block(), 0)));
            }
            if (!returns(frame) || isInitialized(frame, probe)) {
                return;
            }
            past = new Past(past, Events.RETURN, 0, 0);
            frame = frame.caller;
        }
    }

    /**
     * Whether the probe begins the initialization of a class that is initialized once the frame's
     * block has ended.
     */
    private boolean isInitialized(Frame frame, Probe probe) {
        return probe.isEntry() && probe.method().isInitializer()
                && points(frame).initialize(frame.places, probe.method().type);
    }

    private void call(Frame frame, Past past, Probe probe, int indirect, List<Explanation> found) {
        int[] places = Points.BEGIN;
        Frame caller = frame;
        if (!frame.isRoot()) {
            places = points(frame).after(frame.places, probe.method(), indirect);
            caller = frame.at(places);
        } else if (frame == Frame.SPENT) {
            return;
        } else if (isOnly(probe.method())) {
            caller = Frame.SPENT;
        }
        if (places.length > 0) {
            Frame callee = new Frame(probe.definition(), probe.method(), 0, Points.BEGIN, caller);
            found.add(new Explanation(callee, entered(past, probe.definition(), places)));
        }
    }

    /**
     * Whether the VM calls nothing else in a thread after this method, unless an exception leaves
     * it.
     */
    private boolean isOnly(Method method) {
        return method.name.equals("main") && method.descriptor.equals("([Ljava/lang/String;)V") && method.isStatic()
                || method.name.equals("run") && method.descriptor.equals("()V")
                        && sites.hierarchy.isBelow(method.type, "java/lang/Thread");
    }

    /**
     * Adds the ways with one exception, which frames may have thrown after others have returned.
     * Tier 0: without errors of the VM. Tier 1: with them. Tier 2: the search for a handler may
     * fail, too: the VM then throws another error at the handler.
     */
    void exceptional(Explanation from, Probe probe, int tier, List<Explanation> found) {
        int before = found.size();
        List<String> failed = new ArrayList<>();
        exceptional(from, probe, tier, found, failed);
        if (found.size() > before) {
            throwing.fail(failed);
        }
    }

    /** {@code failed} gets the classes whose initializers an exception leaves. */
    private void exceptional(
            Explanation from, Probe probe, int tier, List<Explanation> found, List<String> failed) {
        boolean rare = tier > 0;
        Frame frame = from.top();
        Past past = from.past();
        while (!frame.isRoot()) {
            int[] throwers = throwers(frame, rare);
            caught(frame, past, probe, throwers, Set.of(), tier, found);
            int[] escaping = escaping(frame, throwers);
            if (escaping.length > 0) {
                Past thrown = new Past(past, Events.THROW, 0, numbering.number(escaping));
                note(frame, failed);
                thrownInto(frame.caller, thrown, probe, types(frame, escaping), tier, found, failed);
            }
            if (!returns(frame)) {
                return;
            }
            past = new Past(past, Events.RETURN, 0, 0);
            frame = frame.caller;
        }
    }

    private static void note(Frame left, List<String> failed) {
        if (left.method.isInitializer()) {
            failed.add(left.method.type);
        }
    }

    /** An exception leaves a callee of {@code frame}; it is no instance of the given types. */
    private void thrownInto(Frame into, Past before, Probe probe, Set<String> not, int tier,
            List<Explanation> found, List<String> failed) {
        Frame frame = into;
        Past past = before;
        Set<String> excluded = not;
        while (!frame.isRoot()) {
            Points points = points(frame);
            int[] at = Arrays.stream(frame.places).map(points::insn).distinct().toArray();
            int[] opaque = Arrays.stream(frame.places).filter(points::isOpaque).toArray();
            boolean isSame = Arrays.stream(frame.places).allMatch(place -> (place & 1) == 1);
            caught(frame, past, probe, at, isSame ? excluded : Set.of(), tier, found);
            if (opaque.length > 0) {
                normal(new Explanation(frame.at(opaque), past), probe, Points.ALL, found);
            }
            int[] escaping = escaping(frame, at);
            if (escaping.length == 0) {
                return;
            }
            Set<String> types = types(frame, escaping);
            if (isSame) {
                types.addAll(excluded);
            }
            excluded = types;
            note(frame, failed);
            past = new Past(past, Events.THROW, 0, numbering.number(escaping));
            frame = frame.caller;
        }
        normal(new Explanation(Frame.ROOT, past), probe, Points.ALL, found);
    }

    /** The instructions of a frame's block that may throw next. */
    int[] throwers(Frame frame, boolean rare) {
        Points points = points(frame);
        Set<Integer> found = new HashSet<>();
        for (int place : frame.places) {
            int last = points.upTo(place);
            for (int insn = points.from(place); insn <= last; insn++) {
                boolean isBegun = place >= 0 && (place & 1) == 0 && insn == points.insn(place);
                if (isBegun || throwing.may(frame.method, insn, rare)) {
                    found.add(insn);
                }
            }
        }
        return found.stream().mapToInt(Integer::intValue).sorted().toArray();
    }

    private void caught(
            Frame frame, Past past, Probe probe, int[] throwers, Set<String> not, int tier, List<Explanation> found) {
        if (frame.definition != probe.definition() || !frame.method.code.handlerBlocks.get(probe.block())) {
            return;
        }
        Code code = frame.method.code;
        int[] caught = Arrays.stream(throwers).filter(insn -> catches(code, insn, probe.block(), not)
                || tier == 2 && catchesLater(code, insn, probe.block())).toArray();
        if (caught.length > 0) {
            Frame next = new Frame(frame.definition, frame.method, probe.block(), Points.BEGIN, frame.caller);
            Past thrown = new Past(past, Events.HANDLER, probe.block(), numbering.number(caught));
            found.add(new Explanation(next, thrown));
        }
    }

    /** Whether an exception at the instruction can come to the handler. */
    private boolean catches(Code code, int insn, int block, Set<String> not) {
        for (Code.Handler handler : code.handlers) {
            if (!handler.covers(insn)) {
                continue;
            }
            boolean isPossible = handler.type() == null
                    || not.stream().noneMatch(type -> sites.hierarchy.isBelow(handler.type(), type));
            if (code.blockOf[handler.target()] == block && isPossible) {
                return true;
            }
            if (handler.catchesAll()) {
                return false;
            }
        }
        return false;
    }

    /** Whether the search for a handler may fail at other handlers first. */
    private boolean catchesLater(Code code, int insn, int block) {
        Set<Integer> failed = new LinkedHashSet<>(Set.of(insn));
        for (boolean isNew = true; isNew; ) {
            isNew = false;
            for (Code.Handler handler : code.handlers) {
                isNew |= failed.stream().anyMatch(handler::covers) && failed.add(handler.target());
            }
        }
        return failed.stream().anyMatch(at -> catches(code, at, block, Set.of()));
    }

    /** Those of the instructions at which an exception can leave the frame. */
    private static int[] escaping(Frame frame, int[] throwers) {
        List<Code.Handler> handlers = frame.method.code.handlers;
        if (handlers.isEmpty()) {
            return throwers;
        }
        return Arrays.stream(throwers)
                .filter(insn -> handlers.stream().noneMatch(h -> h.covers(insn) && h.catchesAll()))
                .toArray();
    }

    /** The types that would have been caught at each of the instructions. */
    private static Set<String> types(Frame frame, int[] throwers) {
        Set<String> common = null;
        for (int insn : throwers) {
            Set<String> types = new HashSet<>();
            for (Code.Handler handler : frame.method.code.handlers) {
                if (handler.covers(insn) && handler.type() != null) {
                    types.add(handler.type());
                }
            }
            if (common == null) {
                common = types;
            } else {
                common.retainAll(types);
            }
        }
        return common == null ? new HashSet<>() : common;
    }

    static boolean isThrow(Code code, int insn) {
        return code.op[insn] == Opcodes.ATHROW;
    }
}
