// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/** What a mode keeps for one thread. The thread alone changes it; it is read when the VM ends. */
public abstract class PerThread {
    /** All that exist, in order of creation. */
    public static final Queue<PerThread> ALL = new ConcurrentLinkedQueue<>();
    private static final AtomicInteger COUNT = new AtomicInteger();

    /** In order of the first instrumented method. */
    public final int number = COUNT.getAndIncrement();
    /** Of the Java thread. */
    public final String name;
    /** {@link Thread#getId}. */
    public final long javaId;
    /** Of the operating system; 0 if unknown. */
    public final int tid;

    protected PerThread() {
        Thread thread = Thread.currentThread();
        name = thread.getName();
        javaId = thread.getId();
        tid = osThread();
        ALL.add(this);
    }

    private static int osThread() {
        try {
            Path self = Files.readSymbolicLink(Path.of("/proc/thread-self"));
            return Integer.parseInt(self.getFileName().toString());
        } catch (IOException | RuntimeException error) {
            return 0;
        }
    }
}
