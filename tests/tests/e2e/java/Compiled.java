package programs;

/** A polymorphic call, branches whose bias changes, and a loop that is replaced on the stack. */
final class Compiled {
    private interface Shape {
        int area(int n);
    }

    private static final class Square implements Shape {
        @Override
        public int area(int n) {
            return n * n;
        }
    }

    private static final class Line implements Shape {
        @Override
        public int area(int n) {
            return n;
        }
    }

    private static final class Cube implements Shape {
        @Override
        public int area(int n) {
            return n * n * n;
        }
    }

    private static int area(Shape shape, int n) {
        return shape.area(n);
    }

    private static int flip(int n, int limit) {
        if (n > limit) {
            return n * 31;
        }
        return n + 1;
    }

    /**
     * The conversion fails again and again: an uncommon trap each time, until it is compiled anew.
     */
    private static int length(Object o) {
        return o instanceof String ? ((String) o).length() : o.hashCode() & 1;
    }

    private static int loop(int rounds, int limit) {
        int sum = 0;
        for (int i = 0; i < rounds; i++) {
            sum += flip(i, limit);
        }
        return sum;
    }

    /** Compiled or not, it is called once at most. */
    private static int once() {
        return 7;
    }

    public static void main(String[] arguments) {
        int rounds = 8000;
        int sum = loop(20 * rounds, Integer.MAX_VALUE);
        Shape[] shapes = {new Square(), new Line(), new Cube()};
        for (int i = 0; i < rounds; i++) {
            sum += area(shapes[0], i) + length("text");
        }
        for (int i = 0; i < rounds; i++) {
            sum += area(shapes[i % 2 == 0 ? 0 : 1 + i / 2 % 2], i) + length(i);
        }
        for (int i = 0; i < rounds; i++) {
            sum += flip(i, i & 7);
        }
        sum += loop(rounds, 100) + once();
        System.out.println("compiled " + sum);
    }
}
