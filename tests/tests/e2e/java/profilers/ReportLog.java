// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import jportal.profile.Completeness;
import jportal.profile.IC;
import jportal.profile.ProfiledThread;
import jportal.profile.Profiler;
import jportal.profile.RC;

/**
 * Writes, beside what TreeFile writes, a line for each report: the method on top, its depth, and
 * what was counted since the last report. Threads are distinguished by their names.
 */
public final class ReportLog implements Profiler {
    private final TreeFile tree = new TreeFile();
    private final Map<String, List<String>> lines = new TreeMap<>();

    @Override
    public synchronized int register(ProfiledThread thread, RC root) {
        if (root.thread() != thread || root.mid() != null || root.caller() != null || !root.callees().isEmpty()) {
            throw new IllegalStateException("a root that is not empty");
        }
        lines.computeIfAbsent(thread.name(), name -> new ArrayList<>()).add("registered");
        return tree.register(thread, root);
    }

    @Override
    public synchronized int report(RC root, IC current) {
        int depth = 0;
        for (IC at = current; at != root; at = at.caller()) {
            depth++;
        }
        long invocations = 0;
        long bytecodes = 0;
        Deque<IC> open = new ArrayDeque<>();
        open.push(root);
        while (!open.isEmpty()) {
            IC node = open.pop();
            invocations += node.getInvoc();
            bytecodes += node.getInstr();
            node.callees().forEach(open::push);
        }
        lines.get(root.thread().name()).add(current.mid() + " " + depth + ": " + invocations + " " + bytecodes);
        return tree.report(root, current);
    }

    @Override
    public synchronized void end(RC root) {
        lines.get(root.thread().name()).add("ended");
    }

    @Override
    public synchronized void finish(Completeness completeness) {
        tree.finish(completeness);
        try (PrintWriter out = new PrintWriter(System.getProperty("log"), "UTF-8")) {
            lines.forEach((thread, all) -> {
                out.println("thread " + thread);
                all.forEach(out::println);
            });
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        System.out.println("ReportLog has finished");
    }
}
