// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

import jportal.profile.Completeness;
import jportal.profile.IC;
import jportal.profile.MID;
import jportal.profile.MIDFactory;
import jportal.profile.ProfiledThread;
import jportal.profile.Profiler;
import jportal.profile.RC;

/** Fails in the way that the property {@code how} names. */
public class Failing implements Profiler, MIDFactory {
    private static final String HOW = System.getProperty("how", "not at all");
    private int reports;

    /** Fails when it is made. */
    public static final class Constructed extends Failing {
        public Constructed() {
            throw new IllegalStateException("no object");
        }
    }

    @Override
    public int register(ProfiledThread thread, RC root) {
        return HOW.equals("zero") ? 0 : 10;
    }

    @Override
    public int report(RC root, IC current) {
        if (++reports < 20) {
            return 1;
        }
        switch (HOW) {
            case "throws" -> throw new IllegalStateException("report 20");
            case "exits" -> System.exit(3);
            case "halts" -> Runtime.getRuntime().halt(0);
            case "fills" -> {
                long[][] all = new long[1 << 20][];
                for (int i = 0; i < all.length; i++) {
                    all[i] = new long[1 << 20];
                }
            }
            default -> {}
        }
        return 1;
    }

    @Override
    public void finish(Completeness completeness) {
        if (HOW.equals("finish")) {
            throw new IllegalStateException("no disk");
        }
    }

    @Override
    public MID getMID(String className, String loader, String method) {
        return null;
    }
}
