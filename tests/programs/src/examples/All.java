// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/** Runs all examples, one after the other. */
public class All {
    public static void main(String[] a) throws Exception {
        Foo.main(a);
        Fun.main(a);
        Thr.main(a);
        Cas.main(a);
        Nat.main(a);
        Poly.main(a);
        Rec.main(a);
        Cb.main(a);
        Pre.main(a);
    }
}
