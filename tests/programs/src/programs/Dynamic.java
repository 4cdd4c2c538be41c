package programs;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.IntBinaryOperator;
import java.util.function.IntUnaryOperator;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** invokedynamic (lambdas, method references, concatenation, records), method and var handles. */
final class Dynamic {
    private static final Digest DIGEST = new Digest();
    private static final MethodHandles.Lookup LOOKUP = MethodHandles.lookup();

    record Point(int x, double y, String name) {}

    private int field;
    private volatile long shared;

    public static void main(String[] args) throws Throwable {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 60;
        Dynamic object = new Dynamic();
        Handles handles = new Handles();
        for (int i = 0; i < rounds; i++) {
            lambdas(object, i);
            concatenation(i);
            records(i);
            streams(i);
            handles.run(object, i);
            variables(object, i);
        }
        DIGEST.print(Dynamic.class);
    }

    private int add(int n) {
        field += n;
        return field;
    }

    private static int square(int n) {
        return n * n;
    }

    private static void lambdas(Dynamic object, int i) {
        IntUnaryOperator none = n -> n + 1;
        IntUnaryOperator captured = n -> n + i;
        IntUnaryOperator staticReference = Dynamic::square;
        IntUnaryOperator boundReference = object::add;
        BiFunction<Dynamic, Integer, Integer> unbound = Dynamic::add;
        Supplier<Dynamic> constructor = Dynamic::new;
        Function<Integer, int[]> arrays = int[]::new;
        Supplier<Supplier<Integer>> nested = () -> () -> i * 2;
        DIGEST.add(none.applyAsInt(i) + captured.applyAsInt(i) + staticReference.applyAsInt(i));
        DIGEST.add(boundReference.applyAsInt(1) + unbound.apply(object, 2));
        DIGEST.add(constructor.get().add(i) + arrays.apply(i % 5).length + nested.get().get());
        DIGEST.add(none.andThen(captured).compose(staticReference).applyAsInt(3));
        Runnable runnable = object::touch;
        runnable.run();
    }

    private void touch() {
        field ^= 1;
    }

    private static void concatenation(int i) {
        String text = "i=" + i + ", l=" + (long) i + ", d=" + i * 0.5 + ", c=" + (char) ('a' + i % 26) + ", n=" + null;
        text += i % 2 == 0;
        text += new int[0].length;
        DIGEST.add(text);
    }

    private static void records(int i) {
        Point a = new Point(i % 3, i % 2, "p" + i % 2);
        Point b = new Point(1, 1, "p1");
        DIGEST.add(a.equals(b));
        DIGEST.add(a.hashCode());
        DIGEST.add(a.toString());
    }

    private static void streams(int i) {
        DIGEST.add(IntStream.range(0, i % 9 + 1).filter(n -> n % 2 == 0).map(n -> n * i).sum());
        DIGEST.add(Stream.of("b", "a", "c").sorted().collect(Collectors.joining(",", "[", "]")));
    }

    /** Direct, bound, adapted, filtered, guarded and catching handles; exact and generic calls. */
    private static final class Handles {
        private final MethodHandle direct = LOOKUP.findStatic(Dynamic.class, "square", MethodType.methodType(int.class, int.class));
        private final MethodHandle virtual =
                LOOKUP.findVirtual(Dynamic.class, "add", MethodType.methodType(int.class, int.class));
        private final MethodHandle constructor =
                LOOKUP.findConstructor(Point.class, MethodType.methodType(void.class, int.class, double.class, String.class));
        private final MethodHandle getter = LOOKUP.findGetter(Dynamic.class, "field", int.class);
        private final MethodHandle parse =
                LOOKUP.findStatic(Integer.class, "parseInt", MethodType.methodType(int.class, String.class));
        private final MethodHandle guarded;
        private final MethodHandle safe;
        private final MethodHandle spread = direct.asSpreader(Object[].class, 1);
        private final IntBinaryOperator proxy;

        Handles() throws ReflectiveOperationException {
            MethodHandle positive = LOOKUP.findStatic(Dynamic.class, "positive", MethodType.methodType(boolean.class, int.class));
            MethodHandle negate = LOOKUP.findStatic(Math.class, "negateExact", MethodType.methodType(int.class, int.class));
            guarded = MethodHandles.guardWithTest(positive, direct, negate);
            MethodHandle handler = MethodHandles.dropArguments(
                    MethodHandles.constant(int.class, -7), 0, NumberFormatException.class, String.class);
            safe = MethodHandles.catchException(parse, NumberFormatException.class, handler);
            MethodHandle sum = LOOKUP.findStatic(Integer.class, "sum", MethodType.methodType(int.class, int.class, int.class));
            MethodHandle squares = MethodHandles.filterArguments(sum, 0, direct, direct);
            proxy = java.lang.invoke.MethodHandleProxies.asInterfaceInstance(IntBinaryOperator.class, squares);
        }

        void run(Dynamic object, int i) throws Throwable {
            DIGEST.add((int) direct.invokeExact(i));
            DIGEST.add((long) direct.invoke((short) i));
            DIGEST.add((int) virtual.bindTo(object).invokeExact(i));
            DIGEST.add((int) getter.invokeExact(object));
            DIGEST.add(((Point) constructor.invokeExact(i, 0.5, "x")).x());
            DIGEST.add((int) guarded.invokeExact(i - 5));
            String number = i % 2 == 0 ? "12" : "x";
            DIGEST.add((int) safe.invokeExact(number));
            DIGEST.add((int) spread.invoke(new Object[] {i}));
            DIGEST.add(direct.invokeWithArguments(i));
            DIGEST.add(proxy.applyAsInt(i, 2));
        }
    }

    private static boolean positive(int n) {
        return n > 0;
    }

    private static final VarHandle SHARED;
    private static final VarHandle ELEMENTS = MethodHandles.arrayElementVarHandle(int[].class);

    static {
        try {
            SHARED = LOOKUP.findVarHandle(Dynamic.class, "shared", long.class);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    private static void variables(Dynamic object, int i) {
        int[] elements = new int[4];
        ELEMENTS.setVolatile(elements, i % 4, i);
        DIGEST.add((int) ELEMENTS.getAndAdd(elements, i % 4, 3));
        DIGEST.add(SHARED.compareAndSet(object, object.shared, (long) i));
        DIGEST.add((long) SHARED.getAcquire(object));
        // Unused results: the library links a method with a result to a call without one.
        ELEMENTS.getAndBitwiseOr(elements, i % 4, 1);
        SHARED.getAndAdd(object, 2L);
        SHARED.compareAndSet(object, object.shared, 7L);
        DIGEST.add(elements[i % 4] + (int) object.shared);
        try {
            ELEMENTS.set(elements, i % 6, 1);
        } catch (ArrayIndexOutOfBoundsException error) {
            DIGEST.add(-1);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
