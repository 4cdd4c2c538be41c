// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

import java.util.HashMap;
import java.util.Map;
import jportal.profile.MID;
import jportal.profile.MIDFactory;

/** Gives all methods of a class one identifier. */
public final class ByClass implements MIDFactory {
    private record Type(String name) implements MID {
        @Override
        public String toString() {
            return name;
        }
    }

    private final Map<String, MID> types = new HashMap<>();

    @Override
    public MID getMID(String className, String loader, String method) {
        return types.computeIfAbsent(className, Type::new);
    }
}
