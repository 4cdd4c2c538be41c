// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.replay;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import jportal.profile.Completeness;
import jportal.profile.LabelMID;
import jportal.profile.MID;
import jportal.profile.ProfiledThread;
import jportal.profile.RC;
import jportal.profile.driver.Context;
import jportal.profile.driver.GuardedProfiler;
import jportal.profile.driver.ProfilerError;

/** Applies the messages of the stream to trees, and calls the profiler. */
final class Replayer {
    static final byte[] HEAD = {'J', 'P', 'R', 'E', 'P', 'L', 'A', 'Y'};
    static final int VERSION = 1;
    // Messages to this program.
    static final int METHOD = 1;
    static final int LABEL = 2;
    static final int THREAD = 3;
    static final int REPORT = 4;
    static final int END = 5;
    static final int FINISH = 6;
    // Its answers.
    static final int READY = 0;
    static final int GRANULARITY = 1;
    static final int FAILED = 2;
    static final int DONE = 3;

    private final Input in;
    private final OutputStream out;
    private GuardedProfiler profiler;
    private final List<MID> methods = new ArrayList<>();
    /** By identifier whether several methods have it. */
    private final Map<MID, Boolean> shared = new IdentityHashMap<>();
    /** Null for those that ended. */
    private final List<Root> threads = new ArrayList<>();

    Replayer(Input in, OutputStream out) {
        this.in = in;
        this.out = out;
    }

    private static final class Root extends Context implements RC {
        private final ProfiledThread thread;
        /** By number. */
        private final List<Context> nodes = new ArrayList<>();

        Root(ProfiledThread thread) {
            super(null, null);
            this.thread = thread;
            nodes.add(this);
        }

        @Override
        public ProfiledThread thread() {
            return thread;
        }
    }

    /** Reads the head of the stream and writes its own. */
    void greet() throws IOException {
        for (byte expected : HEAD) {
            if (in.octet() != expected) {
                throw in.bad("it does not begin with " + new String(HEAD, StandardCharsets.US_ASCII));
            }
        }
        long version = in.number();
        ByteArrayOutputStream head = new ByteArrayOutputStream();
        head.writeBytes(HEAD);
        put(head, VERSION);
        out.write(head.toByteArray());
        out.flush();
        if (version != VERSION) {
            throw in.bad("its version is " + version + ", that of this jar " + VERSION
                    + ": use the jar that was built with the command");
        }
    }

    /** Reports that the profiler could not be used. */
    void fail(String message) throws IOException {
        byte[] bytes = message.getBytes(StandardCharsets.UTF_8);
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.write(FAILED);
        put(all, bytes.length);
        all.writeBytes(bytes);
        out.write(all.toByteArray());
        out.flush();
    }

    private void answer(int granularity) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.write(GRANULARITY);
        put(all, granularity);
        out.write(all.toByteArray());
        out.flush();
    }

    static void put(ByteArrayOutputStream to, long number) {
        long rest = number;
        for (; rest >>> 7 != 0; rest >>>= 7) {
            to.write((int) (rest & 0x7f | 0x80));
        }
        to.write((int) rest);
    }

    /** Drives the profiler to the end of the stream; returns whether the stream was complete. */
    boolean run(GuardedProfiler driven) throws IOException, ProfilerError {
        profiler = driven;
        out.write(READY);
        out.flush();
        while (true) {
            int kind = in.next();
            switch (kind) {
                case -1 -> {
                    return false;
                }
                case METHOD -> method();
                case LABEL -> methods.add(new LabelMID(in.text()));
                case THREAD -> {
                    ProfiledThread thread = new ProfiledThread(in.text(), in.number(), in.number());
                    Root root = new Root(thread);
                    threads.add(root);
                    answer(profiler.register(thread, root));
                }
                case REPORT -> report(thread());
                case END -> {
                    int number = in.below(threads.size(), "thread");
                    Root root = threads.set(number, null);
                    if (root == null) {
                        throw in.bad("thread " + number + " ends twice");
                    }
                    profiler.end(root);
                }
                case FINISH -> {
                    boolean exact = in.below(2, "truth value") == 1;
                    profiler.finish(new Completeness(exact, in.text()));
                    out.write(DONE);
                    out.flush();
                    return true;
                }
                default -> throw in.bad("there is no message of kind " + kind);
            }
        }
    }

    private void method() throws IOException, ProfilerError {
        MID mid = profiler.mid(in.text(), in.text(), in.text());
        methods.add(mid);
        shared.merge(mid, false, (known, added) -> true);
    }

    private Root thread() throws IOException {
        int number = in.below(threads.size(), "thread");
        Root root = threads.get(number);
        if (root == null) {
            throw in.bad("thread " + number + " has ended");
        }
        return root;
    }

    private void report(Root root) throws IOException, ProfilerError {
        List<Context> nodes = root.nodes;
        for (long left = in.number(); left > 0; left--) {
            Context caller = nodes.get(in.below(nodes.size(), "node"));
            MID mid = methods.get(in.below(methods.size(), "method"));
            Context known = shared.getOrDefault(mid, false) ? caller.calleeWith(mid) : null;
            nodes.add(known != null ? known : new Context(mid, caller));
        }
        long node = -1;
        for (long left = in.number(); left > 0; left--) {
            node += 1 + in.number();
            if (node < 0 || node >= nodes.size()) {
                throw in.bad("node " + node + " does not exist");
            }
            Context changed = nodes.get((int) node);
            changed.invocations += in.signed();
            changed.bytecodes += in.number();
        }
        Context current = nodes.get(in.below(nodes.size(), "node"));
        answer(profiler.report(root, current));
    }
}
