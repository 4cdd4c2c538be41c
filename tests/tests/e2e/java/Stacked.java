// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
import java.util.function.IntUnaryOperator;

/** Stacks of many shapes: recursive, inlined, through lambdas, interfaces, natives, exceptions. */
public final class Stacked {
    private Stacked() {}

    interface Shape {
        int area(int n);
    }

    record Square(int side) implements Shape {
        @Override
        public int area(int n) {
            return side * side + leaf(n);
        }
    }

    record Line(int length) implements Shape {
        @Override
        public int area(int n) {
            return length + Stacked.outer(n);
        }
    }

    private static int sum;

    private static int leaf(int n) {
        return n * 31 + 7;
    }

    private static int inner(int n) {
        return leaf(n) + leaf(n + 1);
    }

    private static int middle(int n) {
        return inner(n) - inner(n + 3);
    }

    static int outer(int n) {
        return middle(n) ^ middle(n - 1);
    }

    private static int down(int n) {
        return n == 0 ? outer(1) : down(n - 1) + 1;
    }

    private static int fall(int n) {
        if (n == 0) {
            throw new IllegalStateException();
        }
        return fall(n - 1);
    }

    private static int caught(int n) {
        try {
            return fall(n);
        } catch (IllegalStateException e) {
            return leaf(n);
        }
    }

    private static int loop(int n) {
        int result = 0;
        for (int i = 0; i < n; i++) {
            result += leaf(i) & 3;
        }
        return result;
    }

    private static int overflow(int n) {
        return overflow(n + 1) + 1;
    }

    public static void reflected(Integer n) {
        sum += outer(n);
    }

    private static void run(int rounds) throws ReflectiveOperationException {
        Shape[] shapes = {new Square(3), new Line(4), new Square(5)};
        IntUnaryOperator twice = n -> outer(n) * 2;
        var method = Stacked.class.getMethod("reflected", Integer.class);
        for (int i = 0; i < rounds; i++) {
            for (Shape shape : shapes) {
                sum += shape.area(i);
            }
            sum += down(i % 40) + caught(i % 7) + twice.andThen(n -> leaf(n)).applyAsInt(i);
            if (i % 16 == 0) {
                method.invoke(null, i);
            }
        }
        sum += loop(rounds * 8);
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        run(rounds);
        Thread other = new Thread(null, () -> {
            try {
                run(rounds / 4);
                overflow(0);
            } catch (StackOverflowError e) {
                sum += leaf(1);
            } catch (ReflectiveOperationException e) {
                throw new AssertionError(e);
            }
        }, "other", 200 << 10);
        other.start();
        other.join();
        System.out.println("Stacked " + sum);
    }
}
