import java.lang.reflect.Method;
import java.util.*;
public class Cb implements Comparator<Integer> {
    static int cmps;
    public int compare(Integer a, Integer b) { cmps++; return a - b; }
    static class Lazy { static int v = 7; static { v += 1; } static void touch() { v++; } }
    public static void app() { Lazy.touch(); }
    public static void main(String[] a) throws Exception {
        List<Integer> l = new ArrayList<>(List.of(3, 1, 2));
        Collections.sort(l, new Cb());
        Method m = Cb.class.getDeclaredMethod("app");
        m.invoke(null);
        Thread t = new Thread(() -> app());
        t.start(); t.join();
        System.out.println(l + " " + cmps + " " + Lazy.v);   // [1, 2, 3] 4 10
    }
}

// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
