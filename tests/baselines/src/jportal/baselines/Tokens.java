// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
package jportal.baselines;

import java.util.Arrays;

/**
 * Modes {@code fi}, {@code bri} and {@code casper}: the tokens of a thread. A word below 2³¹ is
 * the number of a site. Other words are heads: bits 28 to 30 are the number of words that follow,
 * bits 20 to 27 the kind.
 */
public final class Tokens extends PerThread {
    /** Site, method, activations. */
    public static final int CALLBACK = 1 << 31 | 3 << 28 | 1 << 20;
    /** Method. */
    public static final int ENTRY = 1 << 31 | 1 << 28 | 2 << 20;
    /** Method. */
    public static final int IMPLICIT = 1 << 31 | 1 << 28 | 3 << 20;
    /** A frame was left by an exception: method, segment, activations. */
    public static final int LEFT = 1 << 31 | 3 << 28 | 4 << 20;
    /** A frame continues in a handler: method, segment, activations, handler's block. */
    public static final int CAUGHT = 1 << 31 | 4 << 28 | 5 << 20;

    /** A class initializer returns. */
    public static final int IMPLICIT_END = 1 << 31 | 6 << 20;

    private static final ThreadLocal<Tokens> CURRENT = new ThreadLocal<>() {
        @Override
        protected Tokens initialValue() {
            return new Tokens();
        }
    };

    private final Words words = new Words(this);
    /** Number of application frames: the paper's AppDepth. */
    public int depth;
    /** Application methods that began since the last token. */
    private int activations;
    /** The call history stack: sites, and the depth of a callee that is a callback. */
    private int[] sites = new int[64];
    private int[] expected = new int[64];
    /** Top of the call history stack. */
    public int top;
    /** {@code activations} of what class initializers interrupted. */
    private int[] interrupted = new int[8];
    private int initializers;

    private Tokens() {
        sites[0] = -1;
        expected[0] = 1;
    }

    /** A method begins, in mode {@code fi}. */
    public static Tokens begin() {
        return CURRENT.get();
    }

    /** A class initializer begins, in mode {@code fi}. */
    public static Tokens beginImplicit(int method) {
        Tokens tokens = CURRENT.get();
        tokens.words.put(IMPLICIT);
        tokens.words.put(method);
        return tokens;
    }

    /** A method begins. */
    public static Tokens enter(int method) {
        Tokens tokens = CURRENT.get();
        if (++tokens.depth == tokens.expected[tokens.top]) {
            tokens.called(method);
        }
        tokens.activations++;
        return tokens;
    }

    /** A class initializer begins. */
    public static Tokens enterImplicit(int method) {
        Tokens tokens = CURRENT.get();
        tokens.depth++;
        if (tokens.initializers == tokens.interrupted.length) {
            tokens.interrupted = Arrays.copyOf(tokens.interrupted, 2 * tokens.initializers);
        }
        tokens.interrupted[tokens.initializers++] = tokens.activations;
        tokens.words.put(IMPLICIT);
        tokens.words.put(method);
        tokens.activations = 1;
        return tokens;
    }

    private void called(int method) {
        if (sites[top] < 0) {
            words.put(ENTRY);
        } else {
            words.put(CALLBACK);
            words.put(sites[top]);
        }
        words.put(method);
        if (sites[top] >= 0) {
            words.put(activations);
        }
        activations = 0;
    }

    /** A site is executed. */
    public void site(int id) {
        words.put(id);
        activations = 0;
    }

    /** A call that may leave the application begins in the topmost frame. */
    public void push(int site) {
        if (++top == sites.length) {
            sites = Arrays.copyOf(sites, 2 * top);
            expected = Arrays.copyOf(expected, 2 * top);
        }
        sites[top] = site;
        expected[top] = depth + 1;
    }

    /** Such a call has returned. */
    public void pop() {
        top--;
    }

    /** The frame at depth {@code own} returns. */
    public void leave(int own) {
        depth = own - 1;
    }

    /** The frame of a class initializer returns. */
    public void returnImplicit(int own) {
        words.put(IMPLICIT_END);
        leaveImplicit(own);
    }

    /** The frame of a class initializer ends. */
    public void leaveImplicit(int own) {
        depth = own - 1;
        activations = interrupted[--initializers];
    }

    /** An exception leaves the frame at depth {@code own}. */
    public void left(int method, int segment, int own, int ownTop) {
        words.put(LEFT);
        words.put(method);
        words.put(segment);
        words.put(activations);
        activations = 0;
        depth = own - 1;
        top = ownTop;
    }

    /** The frame at depth {@code own} continues in a handler. */
    public void caught(int method, int segment, int block, int own, int ownTop) {
        words.put(CAUGHT);
        words.put(method);
        words.put(segment);
        words.put(activations);
        words.put(block);
        activations = 0;
        depth = own;
        top = ownTop;
    }
}
