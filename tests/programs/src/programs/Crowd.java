package programs;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.IntPredicate;

/**
 * Many threads that warm up the same code at one time: calls are resolved, inline caches change,
 * and methods are compiled, replaced and made not entrant while all threads run them.
 * Arguments: number of threads, rounds of each.
 */
final class Crowd {
    private interface Shape {
        double area();

        default String tag() {
            return getClass().getSimpleName();
        }
    }

    private record Square(double side) implements Shape {
        public double area() {
            return side * side;
        }
    }

    private record Circle(double radius) implements Shape {
        public double area() {
            return radius > 2 ? Math.PI * radius * radius : radius;
        }
    }

    private record Triangle(double base, double height) implements Shape {
        public double area() {
            if (base < 0) {
                throw new IllegalArgumentException("base");
            }
            return base * height / 2;
        }
    }

    /** The state of one thread. Threads share none, so that each run has the same result. */
    private final int rounds;
    private long hash = 7;
    private int state = 1;
    private long unwound;

    private Crowd(int rounds) {
        this.rounds = rounds;
    }

    public static void main(String[] args) throws Exception {
        int count = args.length > 0 ? Integer.parseInt(args[0]) : 8;
        int rounds = args.length > 1 ? Integer.parseInt(args[1]) : 300;
        Crowd[] crowd = new Crowd[count];
        Thread[] threads = new Thread[count];
        for (int i = 0; i < count; i++) {
            crowd[i] = new Crowd(rounds);
            threads[i] = new Thread(crowd[i]::work, "crowd-" + i);
            threads[i].start();
        }
        Digest digest = new Digest();
        for (int i = 0; i < count; i++) {
            threads[i].join();
            digest.add(crowd[i].hash);
        }
        digest.print(Crowd.class);
    }

    private void work() {
        Random random = new Random(42);
        Map<String, Integer> kinds = new TreeMap<>();
        List<Shape> shapes = new ArrayList<>();
        for (int i = 0; i < rounds; i++) {
            shapes.add(switch (random.nextInt(3)) {
                case 0 -> new Square(i % 9);
                case 1 -> new Circle(i % 5);
                default -> new Triangle(i % 11 - 1, 2);
            });
            kinds.merge(kind(i), steps(i + 1), Integer::sum);
            try {
                hash += depth(i % 40, x -> (state = state * 31 + x) % 3 == 0);
            } catch (IllegalStateException e) {
                hash ^= i;
            }
        }
        for (Shape shape : shapes) {
            try {
                hash = hash * 31 + (long) shape.area() + shape.tag().length();
            } catch (IllegalArgumentException e) {
                hash--;
            }
        }
        shapes.sort(Comparator.comparing(Shape::tag).thenComparingInt(Shape::hashCode));
        hash = hash * 31 + kinds.hashCode() + unwound;
    }

    private static int steps(long n) {
        int steps = 0;
        while (n != 1) {
            n = (n & 1) == 0 ? n / 2 : 3 * n + 1;
            steps++;
        }
        return steps;
    }

    private int depth(int n, IntPredicate stop) {
        if (n == 0) {
            if (stop.test(n)) {
                throw new IllegalStateException();
            }
            return 0;
        }
        try {
            return 1 + depth(n - 1, stop);
        } finally {
            if ((n & 7) == 0) {
                unwound++;
            }
        }
    }

    private static String kind(int i) {
        switch (i % 7) {
            case 0:
                return "a";
            case 3:
                return "b";
            case 5:
                return "c";
            default:
                return switch (i % 5) {
                    case 1 -> "x";
                    case 4 -> "y";
                    default -> "z";
                };
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
