// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.replay;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import jportal.profile.driver.GuardedProfiler;
import jportal.profile.driver.ProfilerError;

/**
 * The program that {@code jportal replay} starts. Its standard input is a socket on which the
 * command sends and this program answers, so that profilers have the standard output for
 * themselves.
 */
public final class Main {
    private Main() {}

    /** With the name of the profiler's class, and perhaps that of the factory. */
    public static void main(String[] arguments) {
        if (arguments.length < 1 || arguments.length > 2) {
            System.err.println("jportal-replay.jar: `jportal replay` starts this program");
            System.exit(2);
        }
        System.setIn(InputStream.nullInputStream());
        String factory = arguments.length == 2 ? arguments[1] : null;
        Input in = new Input(new FileInputStream(FileDescriptor.in));
        Replayer replayer = new Replayer(in, new FileOutputStream(FileDescriptor.in));
        System.exit(replay(replayer, arguments[0], factory) ? 0 : 1);
    }

    private static boolean replay(Replayer replayer, String name, String factory) {
        try {
            try {
                replayer.greet();
                return replayer.run(GuardedProfiler.load(name, factory, ClassLoader.getSystemClassLoader()));
            } catch (ProfilerError error) {
                if (error.getCause() != null) {
                    error.getCause().printStackTrace();
                }
                replayer.fail(error.getMessage());
            } catch (BadStreamException error) {
                replayer.fail(error.getMessage());
            } catch (OutOfMemoryError error) {
                replayer.fail(error + ": the call trees do not fit; give java more memory (-Xmx)");
            }
        } catch (IOException error) {
            System.err.println("jportal-replay.jar: the command does not answer: " + error.getMessage());
        }
        return false;
    }
}
