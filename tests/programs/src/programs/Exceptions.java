package programs;

import java.util.function.IntSupplier;

/** Exceptions of bytecodes, VM, throw: caught here or frames up, rethrown, replaced, finally. */
final class Exceptions {
    private static final Digest DIGEST = new Digest();

    static class Problem extends Exception {
        final int depth;

        Problem(int depth) {
            super("depth " + depth);
            this.depth = depth;
        }
    }

    static final class Worse extends Problem {
        Worse(int depth) {
            super(depth);
        }
    }

    interface Shape {
        int area();
    }

    static final class Box implements Shape {
        int side = 3;
        Box next;

        public int area() {
            return side * side;
        }
    }

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 40;
        for (int i = 0; i < rounds; i++) {
            implicitNulls(i);
            DIGEST.add(caught(() -> divide(5, 0)));
            DIGEST.add(caught(() -> (int) (7L % zero())));
            DIGEST.add(caught(() -> cast("text")));
            DIGEST.add(caught(() -> store(new Integer[1], "s")));
            DIGEST.add(caught(() -> new int[-1].length));
            DIGEST.add(caught(() -> ((Shape) (Object) "s").area()));
            DIGEST.add(caught(Exceptions::illegalMonitor));
            DIGEST.add(caught(() -> {
                throw null;
            }));
            depths(i % 12);
            DIGEST.add(finallyFlow(i % 5));
            DIGEST.add(nested(i % 4));
            DIGEST.add(rethrow(i % 3));
            DIGEST.add(inLoop(i % 7));
            DIGEST.add(resources(i % 4));
            DIGEST.add(fromLibrary(i % 4));
            DIGEST.add(handlerOrder(i % 4));
            DIGEST.add(inConstructor(i % 2));
        }
        stackOverflow();
        uncaughtInThread();
        DIGEST.print(Exceptions.class);
    }

    private static String caught(IntSupplier action) {
        try {
            return "value " + action.getAsInt();
        } catch (RuntimeException error) {
            return error.getClass().getName();
        }
    }

    /** A null through each bytecode that checks for it. */
    private static void implicitNulls(int i) {
        Box box = i % 2 == 0 ? new Box() : null;
        int[] ints = i % 3 == 0 ? new int[1] : null;
        Object[] objects = i % 5 == 0 ? new Object[1] : null;
        Shape shape = box;
        DIGEST.add(caught(() -> box.side));
        DIGEST.add(caught(() -> box.side = 4));
        DIGEST.add(caught(box == null ? () -> box.area() : box::area));
        DIGEST.add(caught(() -> shape.area()));
        DIGEST.add(caught(() -> ints[0]));
        DIGEST.add(caught(() -> ints[0] = 1));
        DIGEST.add(caught(() -> ints.length));
        DIGEST.add(caught(() -> objects[0] == null ? 1 : 2));
        DIGEST.add(caught(() -> {
            synchronized (objects) {
                return 1;
            }
        }));
        DIGEST.add(caught(() -> box.next.next.side));
        DIGEST.add(caught(() -> (int) (Integer) null));
    }

    private static int divide(int a, int b) {
        return a / b;
    }

    private static long zero() {
        return 0;
    }

    private static int cast(Object value) {
        return (Integer) value;
    }

    private static int store(Object[] array, Object value) {
        array[0] = value;
        return 1;
    }

    private static int illegalMonitor() {
        DIGEST.notify();
        return 1;
    }

    private static void depths(int depth) {
        try {
            DIGEST.add(down(depth, depth));
        } catch (Worse error) {
            DIGEST.add(-error.depth);
        } catch (Problem error) {
            DIGEST.add(error.depth);
        }
    }

    private static int down(int remaining, int depth) throws Problem {
        if (remaining == 0) {
            if (depth % 4 == 3) {
                return depth;
            }
            throw depth % 2 == 0 ? new Problem(depth) : new Worse(depth);
        }
        if (remaining == 5) {
            try {
                return down(remaining - 1, depth) + 1;
            } catch (Worse error) {
                return error.depth * 100;
            }
        }
        return down(remaining - 1, depth) + 1;
    }

    @SuppressWarnings("finally")
    private static int finallyFlow(int kind) {
        int sum = 0;
        for (int i = 0; i < 3; i++) {
            try {
                if (kind == 1) continue;
                if (kind == 2 && i == 1) break;
                if (kind == 3) throw new IllegalStateException();
                sum += 10;
            } catch (IllegalStateException error) {
                sum += 100;
                if (i == 2) return sum;
            } finally {
                sum++;
            }
        }
        try {
            if (kind == 4) throw new IllegalStateException();
            return sum;
        } finally {
            if (kind == 4) return -sum;
        }
    }

    private static int nested(int kind) {
        int trace = 0;
        try {
            try {
                try {
                    if (kind == 0) throw new IllegalArgumentException();
                    if (kind == 1) throw new IllegalStateException();
                    if (kind == 2) throw new ArithmeticException();
                    trace = trace * 10 + 1;
                } catch (IllegalArgumentException error) {
                    trace = trace * 10 + 2;
                    throw new IllegalStateException(error);
                } finally {
                    trace = trace * 10 + 3;
                }
            } catch (IllegalStateException error) {
                trace = trace * 10 + (error.getCause() == null ? 4 : 5);
            }
        } catch (ArithmeticException error) {
            trace = trace * 10 + 6;
        }
        return trace;
    }

    private static int rethrow(int kind) {
        try {
            try {
                if (kind == 0) return divide(1, 0);
                if (kind == 1) throw new Problem(1);
                return 3;
            } catch (ArithmeticException | Problem error) {
                DIGEST.add(kind);
                throw error;
            }
        } catch (Exception error) {
            return error.getClass().getName().length();
        }
    }

    private static int inLoop(int period) {
        int sum = 0;
        for (int i = 0; i < 12; i++) {
            try {
                sum += 100 / (i % (period + 1));
            } catch (ArithmeticException error) {
                sum--;
            }
        }
        return sum;
    }

    private record Resource(int number, boolean failing) implements AutoCloseable {
        @Override
        public void close() {
            DIGEST.add(number);
            if (failing) throw new IllegalStateException("close " + number);
        }
    }

    private static int resources(int kind) {
        try (Resource first = new Resource(1, kind == 1); Resource second = new Resource(2, kind >= 2)) {
            if (kind == 3) throw new IllegalArgumentException();
            return first.number + second.number;
        } catch (RuntimeException error) {
            return error.getSuppressed().length + 10;
        }
    }

    private static int fromLibrary(int kind) {
        try {
            return switch (kind) {
                case 0 -> Integer.parseInt("12x");
                case 1 -> java.util.List.of(1, 2).get(5);
                case 2 -> new java.util.ArrayDeque<Integer>().removeFirst();
                default -> java.util.Objects.requireNonNull((Integer) null);
            };
        } catch (NumberFormatException error) {
            return 1;
        } catch (IndexOutOfBoundsException error) {
            return 2;
        } catch (RuntimeException error) {
            return 3;
        }
    }

    private static int handlerOrder(int kind) {
        try {
            throw switch (kind) {
                case 0 -> new ArrayIndexOutOfBoundsException();
                case 1 -> new StringIndexOutOfBoundsException();
                case 2 -> new RuntimeException();
                default -> new Error();
            };
        } catch (ArrayIndexOutOfBoundsException error) {
            return 1;
        } catch (IndexOutOfBoundsException error) {
            return 2;
        } catch (RuntimeException error) {
            return 3;
        } catch (Throwable error) {
            return 4;
        }
    }

    static class Fussy {
        final int value;

        Fussy(int value) {
            if (value == 1) throw new IllegalArgumentException();
            this.value = value;
        }
    }

    private static int inConstructor(int value) {
        try {
            return new Fussy(value).value;
        } catch (IllegalArgumentException error) {
            return -1;
        }
    }

    private static int depth;

    private static void stackOverflow() {
        for (int i = 0; i < 3; i++) {
            depth = 0;
            try {
                recurse(i);
            } catch (StackOverflowError error) {
                DIGEST.add(depth > 100);
            }
        }
    }

    private static int recurse(int i) {
        depth++;
        return recurse(i + 1) + i;
    }

    private static void uncaughtInThread() {
        Thread thread = new Thread(() -> {
            divide(1, 0);
        }, "dies");
        // Not the message: an exception that C2 has prepared has none.
        thread.setUncaughtExceptionHandler((dead, error) -> DIGEST.add(dead.getName() + error.getClass().getName()));
        thread.start();
        try {
            thread.join();
        } catch (InterruptedException error) {
            DIGEST.add(error);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
