// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.replay;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import jportal.profile.Completeness;
import jportal.profile.IC;
import jportal.profile.MID;
import jportal.profile.MIDFactory;
import jportal.profile.ProfiledThread;
import jportal.profile.Profiler;
import jportal.profile.RC;
import jportal.profile.driver.GuardedProfiler;
import jportal.profile.driver.ProfilerError;

/**
 * Tests the reader of the stream on random streams, on cut and on damaged ones. Writes the streams
 * with code of its own. Exits with 1 if a test fails.
 */
public final class FormatTest {
    private FormatTest() {}

    public static void main(String[] arguments) throws Exception {
        numbersAndTexts();
        int reports = 0;
        for (int seed = 0; seed < 300; seed++) {
            reports += randomStream(seed, seed % 3 == 2);
        }
        check(reports > 3000, "too few reports: " + reports);
        cutStreams();
        damagedStreams();
        faultsOfProfilers();
        System.out.println("FormatTest: passed, " + reports + " reports");
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static Input input(byte[] bytes) {
        return new Input(new ByteArrayInputStream(bytes));
    }

    private static long zigzag(long value) {
        return value << 1 ^ value >> 63;
    }

    private static void text(ByteArrayOutputStream to, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        Replayer.put(to, bytes.length);
        to.writeBytes(bytes);
    }

    private static void numbersAndTexts() throws IOException {
        Random random = new Random(1);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        List<Long> numbers = new ArrayList<>(List.of(0L, 1L, 127L, 128L, Long.MAX_VALUE));
        for (int i = 0; i < 2000; i++) {
            numbers.add(random.nextLong() >>> 1 >>> random.nextInt(63));
        }
        numbers.forEach(n -> Replayer.put(out, n));
        // Half of the range, since a signed number is one bit longer.
        numbers.forEach(n -> Replayer.put(out, zigzag((n & 1) == 0 ? n / 2 : -(n / 2))));
        List<String> texts = List.of("", "a.B", "naïve 𝓓 \u0000 \n", "x".repeat(100_000));
        texts.forEach(t -> text(out, t));
        Input in = input(out.toByteArray());
        for (long n : numbers) {
            check(in.number() == n, "number " + n);
        }
        for (long n : numbers) {
            check(in.signed() == ((n & 1) == 0 ? n / 2 : -(n / 2)), "signed " + n);
        }
        for (String t : texts) {
            check(in.text().equals(t), "text of " + t.length());
        }
        check(in.next() == -1, "the end");
        byte[] endless = new byte[20];
        Arrays.fill(endless, (byte) 0xff);
        try {
            input(endless).number();
            check(false, "a number without end is read");
        } catch (BadStreamException error) {
            check(error.getMessage().contains("63 bits"), error.getMessage());
        }
    }

    /** Adds up what it sees by thread and path, and resets it. */
    private static class Sums implements Profiler {
        final Map<String, long[]> sums = new HashMap<>();
        final List<Integer> answers = new ArrayList<>();
        final Random random;
        int ended;
        Completeness completeness;

        Sums(long seed) {
            random = new Random(seed);
        }

        private int granularity() {
            int n = 1 + random.nextInt(Integer.MAX_VALUE);
            answers.add(n);
            return n;
        }

        @Override
        public int register(ProfiledThread thread, RC root) {
            check(root.thread() == thread && root.callees().isEmpty() && root.mid() == null, "an empty root");
            return granularity();
        }

        @Override
        public int report(RC root, IC current) {
            move(root, root.thread().name());
            IC at = current;
            while (at.caller() != null) {
                at = at.caller();
            }
            check(at == root, "the current node is one of the thread");
            return granularity();
        }

        private void move(IC node, String path) {
            long[] sum = sums.computeIfAbsent(path, key -> new long[2]);
            sum[0] += node.getInvoc();
            sum[1] += node.getInstr();
            node.reset();
            check(node.getInvoc() == 0 && node.getInstr() == 0, "reset");
            check(node.callees().size() == node.callees().stream().distinct().count(), "callees");
            node.callees().forEach(callee -> move(callee, path + '/' + callee.mid()));
        }

        @Override
        public void end(RC root) {
            ended++;
        }

        @Override
        public void finish(Completeness how) {
            completeness = how;
        }
    }

    private record Named(String text) implements MID {
        @Override
        public String toString() {
            return text;
        }
    }

    /** One identifier for all methods of a class. */
    private static MIDFactory byClass() {
        Map<String, MID> all = new HashMap<>();
        return (type, loader, method) -> all.computeIfAbsent(type, Named::new);
    }

    private static ByteArrayOutputStream head() {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.writeBytes("JPREPLAY".getBytes(StandardCharsets.US_ASCII));
        Replayer.put(out, 1);
        return out;
    }

    /** A random stream, with what a profiler must see of it. */
    private static final class Generator {
        final Random random;
        final ByteArrayOutputStream out = head();
        final List<String> methods = new ArrayList<>();
        final List<List<String>> paths = new ArrayList<>();
        final Map<String, long[]> expected = new HashMap<>();
        final boolean merges;
        int reports;

        Generator(long seed, boolean merges) {
            random = new Random(seed);
            this.merges = merges;
        }

        void method() {
            String type = "a.C" + random.nextInt(4);
            String method = "m" + methods.size() + "()V";
            if (random.nextInt(8) == 0) {
                out.write(2);
                text(out, "(" + method + ")");
                methods.add("(" + method + ")");
                return;
            }
            out.write(1);
            text(out, type);
            text(out, random.nextBoolean() ? "" : "app");
            text(out, method);
            methods.add(merges ? type : type + '.' + method);
        }

        void thread() {
            String name = "t" + paths.size();
            out.write(3);
            text(out, name);
            Replayer.put(out, random.nextInt(100));
            Replayer.put(out, random.nextInt(100_000));
            paths.add(new ArrayList<>(List.of(name)));
        }

        void report(int thread) {
            List<String> nodes = paths.get(thread);
            out.write(4);
            Replayer.put(out, thread);
            int added = random.nextInt(4);
            Replayer.put(out, added);
            for (int i = 0; i < added; i++) {
                int caller = random.nextInt(nodes.size());
                int method = random.nextInt(methods.size());
                Replayer.put(out, caller);
                Replayer.put(out, method);
                nodes.add(nodes.get(caller) + '/' + methods.get(method));
            }
            ByteArrayOutputStream changes = new ByteArrayOutputStream();
            int count = 0;
            int last = -1;
            for (int node = 1; node < nodes.size(); node++) {
                if (random.nextInt(3) > 0) {
                    continue;
                }
                long invocations = random.nextInt(20) - 3;
                long bytecodes = random.nextInt(1 << random.nextInt(30));
                Replayer.put(changes, node - last - 1);
                Replayer.put(changes, zigzag(invocations));
                Replayer.put(changes, bytecodes);
                last = node;
                count++;
                long[] sum = expected.computeIfAbsent(nodes.get(node), key -> new long[2]);
                sum[0] += invocations;
                sum[1] += bytecodes;
            }
            Replayer.put(out, count);
            out.writeBytes(changes.toByteArray());
            Replayer.put(out, random.nextInt(nodes.size()));
            reports++;
        }

        byte[] stream(int messages) {
            method();
            thread();
            for (int i = 0; i < messages; i++) {
                switch (random.nextInt(8)) {
                    case 0 -> method();
                    case 1 -> thread();
                    default -> report(random.nextInt(paths.size()));
                }
            }
            for (int thread = 0; thread < paths.size(); thread++) {
                out.write(5);
                Replayer.put(out, thread);
            }
            out.write(6);
            Replayer.put(out, 0);
            text(out, "3 gaps");
            return out.toByteArray();
        }
    }

    private static int randomStream(long seed, boolean merges) throws Exception {
        Generator generator = new Generator(seed, merges);
        byte[] stream = generator.stream(40);
        Sums sums = new Sums(seed);
        ByteArrayOutputStream answers = new ByteArrayOutputStream();
        Replayer replayer = new Replayer(input(stream), answers);
        replayer.greet();
        check(replayer.run(new GuardedProfiler(sums, merges ? byClass() : null)), "the stream is complete");
        sums.sums.values().removeIf(sum -> sum[0] == 0 && sum[1] == 0);
        generator.expected.values().removeIf(sum -> sum[0] == 0 && sum[1] == 0);
        check(sums.sums.keySet().equals(generator.expected.keySet()), "seed " + seed + ": nodes");
        sums.sums.forEach((path, sum) ->
                check(Arrays.equals(sum, generator.expected.get(path)), "seed " + seed + ": " + path));
        check(sums.ended == generator.paths.size(), "ends");
        check(sums.completeness.equals(new Completeness(false, "3 gaps")), "completeness");
        Input read = input(answers.toByteArray());
        for (int i = 0; i < 8; i++) {
            check(read.octet() == "JPREPLAY".charAt(i), "head");
        }
        check(read.number() == 1 && read.octet() == 0, "version, ready");
        for (int granularity : sums.answers) {
            check(read.octet() == 1 && read.number() == granularity, "an answer");
        }
        check(sums.answers.size() == generator.reports + generator.paths.size(), "answers");
        check(read.octet() == 3 && read.next() == -1, "done");
        return generator.reports;
    }

    private static boolean read(byte[] stream) throws IOException, ProfilerError {
        Replayer replayer = new Replayer(input(stream), new ByteArrayOutputStream());
        replayer.greet();
        return replayer.run(new GuardedProfiler(new Sums(1), null));
    }

    private static void cutStreams() throws ProfilerError {
        byte[] stream = new Generator(5, false).stream(30);
        for (int length = 0; length < stream.length; length++) {
            try {
                check(!read(Arrays.copyOf(stream, length)), "a cut stream is complete");
            } catch (IOException error) {
                check(error.getMessage().contains("ends within"), error.getMessage());
            }
        }
    }

    private static void damagedStreams() {
        byte[] stream = new Generator(6, false).stream(30);
        Random random = new Random(6);
        int refused = 0;
        for (int round = 0; round < 20_000; round++) {
            byte[] damaged = stream.clone();
            for (int i = 0; i <= random.nextInt(3); i++) {
                damaged[random.nextInt(damaged.length)] = (byte) random.nextInt(256);
            }
            try {
                read(damaged);
            } catch (BadStreamException error) {
                refused++;
            } catch (IOException | ProfilerError error) {
                throw new AssertionError("round " + round, error);
            }
        }
        check(refused > 1000, "damage is refused: " + refused);
    }

    private static void fault(Profiler profiler, MIDFactory factory, String expected) throws IOException {
        byte[] stream = new Generator(7, false).stream(5);
        Replayer replayer = new Replayer(input(stream), new ByteArrayOutputStream());
        replayer.greet();
        try {
            replayer.run(new GuardedProfiler(profiler, factory));
            check(false, "no error: " + expected);
        } catch (ProfilerError error) {
            check(error.getMessage().contains(expected), error.getMessage());
        }
    }

    private static void faultsOfProfilers() throws IOException {
        fault(new Sums(1) {
            @Override
            public int report(RC root, IC current) {
                return 0;
            }
        }, null, ".report returned 0");
        fault(new Sums(1) {
            @Override
            public int register(ProfiledThread thread, RC root) {
                throw new IllegalStateException("why");
            }
        }, null, ".register threw java.lang.IllegalStateException: why at jportal.replay.FormatTest");
        fault(new Sums(1) {
            @Override
            public void finish(Completeness how) {
                throw new StackOverflowError();
            }
        }, null, ".finish threw java.lang.StackOverflowError");
        fault(new Sums(1), (type, loader, method) -> null, ".getMID returned null for a.C");
    }
}
