// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

import java.util.Objects;

/** The identifier that a method has without a {@link MIDFactory}. Keeps no class alive. */
public final class MethodMID implements MID {
    private final String className;
    private final String loader;
    private final String method;

    /** The parameters are those of {@link MIDFactory#getMID}. */
    public MethodMID(String className, String loader, String method) {
        this.className = Objects.requireNonNull(className);
        this.loader = Objects.requireNonNull(loader);
        this.method = Objects.requireNonNull(method);
    }

    /** Binary name of the class. */
    public String className() {
        return className;
    }

    /** Type and name of the class loader; empty for the boot loader. */
    public String loader() {
        return loader;
    }

    /** Name and descriptor. */
    public String method() {
        return method;
    }

    /** Class, name and descriptor, as JPortal's reports write them. */
    @Override
    public String toString() {
        return className + '.' + method;
    }
}
