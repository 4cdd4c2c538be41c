package programs;

import java.util.ArrayList;
import java.util.List;

/** Static to interface calls, mono- to megamorphic; bridges, defaults, super, private, varargs. */
final class Calls {
    private static final Digest DIGEST = new Digest();

    interface Animal {
        int sound(int n);

        default int twice(int n) {
            return sound(n) + sound(n + 1) + own();
        }

        private int own() {
            return 1;
        }

        static int count() {
            return 6;
        }
    }

    interface Pet extends Animal {
        @Override
        default int twice(int n) {
            return Animal.super.twice(n) * 2;
        }
    }

    abstract static class Beast implements Animal {
        protected int weight;

        Beast(int weight) {
            this.weight = weight;
        }

        int load() {
            return weight;
        }

        @Override
        public String toString() {
            return getClass().getSimpleName() + load();
        }
    }

    static final class Dog extends Beast implements Pet {
        Dog() {
            super(10);
        }

        public int sound(int n) {
            return n + 1;
        }

        @Override
        int load() {
            return super.load() + 1;
        }
    }

    static class Cat extends Beast implements Pet {
        Cat() {
            this(4);
        }

        Cat(int weight) {
            super(weight);
        }

        public int sound(int n) {
            return n * 2;
        }
    }

    static final class Lion extends Cat {
        Lion() {
            super(200);
        }

        @Override
        public int sound(int n) {
            return super.sound(n) + 7;
        }

        @Override
        public int twice(int n) {
            return -super.twice(n);
        }
    }

    static final class Bird implements Animal {
        public int sound(int n) {
            return n ^ 21;
        }
    }

    static final class Fish implements Animal {
        public int sound(int n) {
            return 0;
        }
    }

    abstract static class Node<T extends Comparable<T>> implements Comparable<Node<T>> {
        abstract T key();

        @Override
        public int compareTo(Node<T> other) {
            return key().compareTo(other.key());
        }
    }

    static final class IntNode extends Node<Integer> {
        private final int key;

        IntNode(int key) {
            this.key = key;
        }

        @Override
        Integer key() {
            return key;
        }
    }

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 300;
        Animal[] animals = {new Dog(), new Cat(), new Lion(), new Bird(), new Fish(), n -> n + 100};
        for (int i = 0; i < rounds; i++) {
            DIGEST.add(monomorphic(animals[0], i));
            DIGEST.add(bimorphic(animals[i % 2], i));
            DIGEST.add(megamorphic(animals[i % animals.length], i));
            DIGEST.add(((Beast) animals[i % 3]).toString());
            DIGEST.add(varargs(i, i + 1, i + 2) + varargs());
            DIGEST.add(bridges(i));
            DIGEST.add(new Inner(i).outerSum());
            DIGEST.add(mixed(i, i * 2L, i * 0.5f, i * 0.25, "s", (byte) i, (char) i, true));
            DIGEST.add(Animal.count());
            DIGEST.add(recursive(i % 10) + even(i % 20));
            DIGEST.add(objectMethods(i % 2 == 0 ? new int[] {1} : "text"));
        }
        DIGEST.print(Calls.class);
    }

    private static int monomorphic(Animal animal, int n) {
        return animal.twice(n);
    }

    private static int bimorphic(Animal animal, int n) {
        return animal.sound(n);
    }

    private static int megamorphic(Animal animal, int n) {
        return animal.twice(n) + animal.sound(n);
    }

    private static int varargs(int... values) {
        int sum = 0;
        for (int value : values) {
            sum += value;
        }
        return sum;
    }

    private static int bridges(int i) {
        List<IntNode> nodes = new ArrayList<>();
        for (int k = 0; k < 4; k++) {
            nodes.add(new IntNode((i * 7 + k * 3) % 5));
        }
        nodes.sort(null);
        int digits = 0;
        for (IntNode node : nodes) {
            digits = digits * 10 + node.key();
        }
        return digits;
    }

    private static final class Inner {
        private final int value;

        private Inner(int value) {
            this.value = value;
        }

        private int own() {
            return value;
        }

        int outerSum() {
            return own() + recursive(3);
        }
    }

    private static double mixed(int a, long b, float c, double d, String e, byte f, char g, boolean h) {
        return a + b + c + d + e.length() + f + g + (h ? 1 : 0);
    }

    private static int recursive(int n) {
        return n <= 1 ? 1 : n * recursive(n - 1);
    }

    private static int even(int n) {
        return n == 0 ? 1 : odd(n - 1);
    }

    private static int odd(int n) {
        return n == 0 ? 0 : even(n - 1);
    }

    private static int objectMethods(Object object) {
        return object.equals(object) && object.getClass() != null ? object instanceof String text ? text.hashCode() : 2 : 0;
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
