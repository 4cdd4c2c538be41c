package programs;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Class library: collections, text, regular expressions, big numbers, streams, formatting. */
final class Library {
    private static final Digest DIGEST = new Digest();

    public static void main(String[] args) {
        int size = args.length > 0 ? Integer.parseInt(args[0]) : 300;
        Random random = new Random(7);
        collections(size, random);
        text(size / 10);
        numbers(size / 5);
        streams(size);
        shortestPaths(size / 10 + 2, random);
        DIGEST.print(Library.class);
    }

    private static void collections(int size, Random random) {
        Map<String, Integer> counts = new HashMap<>();
        TreeMap<Integer, String> ordered = new TreeMap<>();
        List<Integer> list = new ArrayList<>();
        for (int i = 0; i < size; i++) {
            int n = random.nextInt(size);
            counts.merge("k" + n % 37, 1, Integer::sum);
            ordered.put(n, "v" + i);
            list.add(n);
            if (n % 5 == 0) ordered.pollFirstEntry();
        }
        Collections.sort(list);
        DIGEST.add(new TreeMap<>(counts).toString());
        DIGEST.add(ordered.toString());
        DIGEST.add(list.toString());
    }

    private static void text(int size) {
        Pattern pattern = Pattern.compile("(\\w+)=(\\d+|'[^']*')(?:;|$)");
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < size; i++) {
            text.append("key").append(i).append('=').append(i % 3 == 0 ? "'quoted'" : Integer.toString(i)).append(';');
        }
        Matcher matcher = pattern.matcher(text);
        while (matcher.find()) {
            DIGEST.add(matcher.group(1) + matcher.group(2));
        }
        DIGEST.add(String.format("%5d|%-8s|%.3f|%x", size, "abc", size / 7.0, size));
        DIGEST.add(text.reverse().toString().replace("yek", "KEY").toUpperCase().split(";").length);
    }

    private static void numbers(int n) {
        BigInteger factorial = BigInteger.ONE;
        for (int i = 2; i <= n; i++) {
            factorial = factorial.multiply(BigInteger.valueOf(i));
        }
        DIGEST.add(factorial.mod(BigInteger.valueOf(1_000_003)).intValue());
        DIGEST.add(Math.sqrt(n) + Math.floorMod(-n, 7) + Math.fma(2.0, n, 1.0));
    }

    private static void streams(int size) {
        List<String> words = new ArrayList<>();
        for (int i = 0; i < size; i++) {
            words.add("w" + i * 31 % 101);
        }
        DIGEST.add(words.stream().distinct().sorted().limit(20).collect(Collectors.joining(",")));
        DIGEST.add(new TreeMap<>(words.stream().collect(Collectors.groupingBy(String::length, Collectors.counting()))).toString());
    }

    private static void shortestPaths(int nodes, Random random) {
        int[][] weights = new int[nodes][nodes];
        for (int[] row : weights) {
            for (int i = 0; i < nodes; i++) {
                row[i] = random.nextInt(20) < 6 ? 1 + random.nextInt(50) : 0;
            }
        }
        int[] distance = new int[nodes];
        java.util.Arrays.fill(distance, Integer.MAX_VALUE);
        distance[0] = 0;
        PriorityQueue<int[]> queue = new PriorityQueue<>((a, b) -> Integer.compare(a[1], b[1]));
        queue.add(new int[] {0, 0});
        while (!queue.isEmpty()) {
            int[] head = queue.remove();
            if (head[1] > distance[head[0]]) continue;
            for (int next = 0; next < nodes; next++) {
                int weight = weights[head[0]][next];
                if (weight > 0 && head[1] + weight < distance[next]) {
                    distance[next] = head[1] + weight;
                    queue.add(new int[] {next, distance[next]});
                }
            }
        }
        DIGEST.add(java.util.Arrays.toString(distance));
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
