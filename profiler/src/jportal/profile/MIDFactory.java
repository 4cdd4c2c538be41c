// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.profile;

/**
 * Makes the identifiers of methods. A factory has a public constructor without parameters. Without
 * a factory, each method has a {@link MethodMID} of its own.
 *
 * <p>A recorded class does not exist in the Java that replays it, so a factory gets names and not a
 * {@link Class} as in JP.
 */
public interface MIDFactory {
    /**
     * The identifier of a method. Called once for each method, before the first node of it exists,
     * and never twice at the same time. A method of a redefined class is another method.
     *
     * @param className binary name of the class, such as {@code java.util.Map$Entry}
     * @param loader    type and name of the class loader; empty for the boot loader
     * @param method    name and descriptor, such as {@code run()V}
     * @return not null; the same object for methods whose nodes are to be one
     */
    MID getMID(String className, String loader, String method);
}
