// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small Java programs, as javac 17 compiles them, with numbers worked out by hand.

use std::sync::Arc;

use jportal_bytecode::{Method, MethodTable};

use super::testing::{executed, handler, library, lines, method, table, tree_of};
use super::{CallTree, Counting, Delta, Hide, Layout, Options, Weight};

const OBJECT: (&str, &str, &str) = ("java/lang/Object", "<init>", "()V");
const ILLEGAL: (&str, &str, &str) = ("java/lang/IllegalStateException", "<init>", "()V");
const PRINT: (&str, &str, &str) = ("java/io/PrintStream", "println", "(I)V");
const MAIN: &str = "([Ljava/lang/String;)V";

fn jdk() -> Vec<Method> {
    [OBJECT, ILLEGAL, PRINT].map(|(class, name, signature)| library(class, name, signature)).into()
}

fn application(methods: Vec<Method>) -> Arc<MethodTable> {
    table(jdk().into_iter().chain(methods).collect())
}

fn at(
    bci: u16,
    (class, name, signature): (&'static str, &'static str, &'static str),
) -> (u16, &'static str, &'static str, &'static str) {
    (bci, class, name, signature)
}

const OPTIONS: Options = Options {
    counting: Counting::Both,
    upcalls: super::Upcalls::Nested,
    natives: super::Natives::Show,
    hide: Hide::Splice,
    sites: false,
    fold_recursion: false,
    merged: false,
    max_nodes: 10_000,
};

fn run(methods: &Arc<MethodTable>, field: u16, value: i32) -> CallTree {
    let (events, last) = executed(methods, field);
    assert_eq!(last, value, "the program computes what the JVM computes");
    tree_of(methods, &events, OPTIONS)
}

/// E1: `f` calls `h` and `g(i)` for i = 1…10, and `g(i)` calls `h` i times.
pub(super) fn foo() -> Arc<MethodTable> {
    let (f, g, h) = (("Foo", "f", "()V"), ("Foo", "g", "(I)V"), ("Foo", "h", "()V"));
    let init = ("Foo", "<init>", "()V");
    let f_code =
        [4, 60, 27, 16, 10, 163, 0, 18, 42, 182, 0, 7, 42, 27, 182, 0, 12, 132, 1, 1, 167, 255, 238, 177];
    let g_code = [4, 61, 28, 27, 163, 0, 13, 42, 182, 0, 7, 132, 2, 1, 167, 255, 244, 177];
    application(vec![
        method(init, &[42, 183, 0, 1, 177], &[at(1, OBJECT)]),
        method(f, &f_code, &[at(9, h), at(14, g)]),
        method(g, &g_code, &[at(8, h)]),
        method(h, &[177], &[]),
        method(
            ("Foo", "main", MAIN),
            &[187, 0, 8, 89, 183, 0, 16, 182, 0, 17, 177],
            &[at(4, init), at(7, f)],
        ),
    ])
}

#[test]
fn e1_loops_and_calls() {
    let tree = run(&foo(), 0, 0);
    let expected = [
        "Foo.main 1/5",
        " Foo.<init> 1/3",
        " Foo.f 1/106",
        "  Foo.g 10/445",
        "   Foo.h 55/55",
        "  Foo.h 10/10",
    ];
    assert_eq!(lines(&tree), expected);
    assert_eq!((tree.exact, tree.nodes[0].total), (true, 624));
    assert_eq!(tree.delta, Some(Delta { default: 624, precise: 624 }));
    let totals: Vec<u64> = tree.nodes.iter().map(|n| n.total).collect();
    assert_eq!(totals, [624, 624, 3, 616, 500, 55, 10]);
    let (events, _) = executed(&foo(), 0);
    let all = tree_of(&foo(), &events, Options { hide: Hide::Show, ..OPTIONS });
    assert_eq!(lines(&all)[1..3], [" Foo.<init> 1/3", "  java.lang.Object.<init> 1/1"]);
    let folded = tree_of(&foo(), &events, Options { hide: Hide::Fold, ..OPTIONS });
    assert_eq!(lines(&folded)[1..3], [" Foo.<init> 1/3", "  library 1/1"]);
}

#[test]
fn e1_text() {
    let tree = run(&foo(), 0, 0);
    let words = |text: &str| {
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let text = tree.text(&Layout { min: 0.0, ..Layout::default() });
    let expected = "\
        thread \"t7\" (tid 7) exact, 624 bytecodes, 78 invocations
        total share self default calls int/C1/C2 method
        624 100.0% 5 5 1 100/0/0 Foo.main([Ljava/lang/String;)V (via VM)
        616 98.7% 106 106 1 100/0/0 Foo.f()V
        500 80.1% 445 445 10 100/0/0 Foo.g(I)V
        55 8.8% 55 55 55 100/0/0 Foo.h()V
        10 1.6% 10 10 10 100/0/0 Foo.h()V
        3 0.5% 3 3 1 100/0/0 Foo.<init>()V
        delta of default block counting: 0 (624 / 624)";
    assert_eq!(words(&text), words(expected));
    assert!(text.contains("  Foo.main(") && text.contains("      Foo.g(I)V\n"), "{text}");
    let text = tree.text(&Layout::default());
    assert!(!text.contains("<init>") && text.contains("(1 more)"), "{text}");
    let text = tree.text(&Layout { depth: Some(2), top: Some(1), ..Layout::default() });
    assert!(!text.contains("Foo.g") && text.contains("Foo.f") && text.contains("(1 more)"), "{text}");
    assert!(text.contains("nodes below depth 2 are not shown"), "{text}");
    let calls = tree.text(&Layout { weight: Weight::Calls, min: 0.0, ..Layout::default() });
    assert!(words(&calls).contains(&"76 97.4% 1 106 1 100/0/0 Foo.f()V".to_owned()), "{calls}");
}

#[test]
fn e1_rows() {
    let mut rows = Vec::new();
    let tree = run(&foo(), 0, 0);
    let done: Result<(), ()> = tree.rows(|r| {
        rows.push(serde_json::to_value(r).unwrap());
        Ok(())
    });
    assert_eq!((done, rows.len()), (Ok(()), 7));
    let expected = serde_json::json!({
        "thread": "t7 (tid 7)", "id": 4, "parent": 3, "depth": 3, "method": "Foo.g(I)V", "loader": "app",
        "site_bci": null, "site_line": null, "invocations": 10, "bytecodes": 445, "default": 445,
        "total": 500, "interpreter": 445, "c1": 0, "c2": 0, "exact": true
    });
    assert_eq!(rows[4], expected);
    let mut seen = 0;
    let failed = tree.rows(|r| {
        seen += 1;
        if r.id == 2 { Err("disk full") } else { Ok(()) }
    });
    assert_eq!((failed, seen), (Err("disk full"), 3));
}

#[test]
fn e2_branches() {
    let fun = ("Fun", "fun", "(ZI)Z");
    let code =
        [26, 153, 0, 10, 27, 4, 96, 60, 167, 0, 7, 27, 5, 100, 60, 27, 5, 112, 154, 0, 5, 4, 172, 3, 172];
    let main = [
        3, 60, 3, 61, 28, 16, 10, 162, 0, 30, 28, 6, 112, 154, 0, 7, 4, 167, 0, 4, 3, 28, 184, 0, 7, 153, 0,
        6, 132, 1, 1, 132, 2, 1, 167, 255, 226, 178, 0, 13, 27, 182, 0, 19, 177,
    ];
    let main = method(("Fun", "main", MAIN), &main, &[at(22, fun), at(41, PRINT)]);
    let tree = run(&application(vec![method(fun, &code, &[]), main]), 0, 0);
    assert_eq!(lines(&tree), ["Fun.main 1/150", " Fun.fun 10/124"]);
    assert_eq!(tree.delta, Some(Delta { default: 274, precise: 274 }));
}

#[test]
fn e3_exceptions_cut_blocks() {
    let (boom, call) = (("Thr", "boom", "(I)V"), ("Thr", "call", "(I)V"));
    let boom_code =
        [26, 6, 112, 154, 0, 11, 187, 0, 7, 89, 183, 0, 9, 191, 178, 0, 10, 26, 96, 179, 0, 10, 177];
    let call_code = [
        178, 0, 10, 4, 96, 179, 0, 10, 26, 184, 0, 16, 178, 0, 10, 16, 10, 96, 179, 0, 10, 167, 0, 13, 76,
        178, 0, 10, 16, 100, 96, 179, 0, 10, 177,
    ];
    let main = [
        3, 60, 27, 16, 9, 162, 0, 13, 27, 184, 0, 20, 132, 1, 1, 167, 255, 243, 178, 0, 23, 178, 0, 10, 182,
        0, 29, 177,
    ];
    let methods = application(vec![
        method(boom, &boom_code, &[at(10, ILLEGAL)]),
        Method { exceptions: handler(0, 21, 24), ..method(call, &call_code, &[at(9, boom)]) },
        method(("Thr", "main", MAIN), &main, &[at(9, call), at(24, PRINT)]),
    ]);
    let tree = run(&methods, 10, 396);
    assert_eq!(lines(&tree), ["Thr.main 1/72", " Thr.call 9/108", "  Thr.boom 9/78"]);
    let delta = tree.delta.unwrap();
    assert_eq!((delta.default, delta.precise), (273, 258));
    assert!((delta.error() - 0.058_140).abs() < 1e-6);
    let default: Vec<_> = tree.nodes.iter().filter_map(|n| n.default).collect();
    assert_eq!(default, [0, 72, 123, 78]);
    let text = tree.text(&Layout::default());
    assert!(text.contains("delta of default block counting: 0.058140 (273 / 258)"), "{text}");
    let (events, _) = executed(&methods, 10);
    let only = tree_of(&methods, &events, Options { counting: Counting::Default, ..OPTIONS });
    assert_eq!((only.delta, only.nodes[0].total, only.nodes[2].total), (None, 273, 201));
    assert!(only.text(&Layout::default()).contains("exact, 273 bytecodes"));
}

fn rec() -> Arc<MethodTable> {
    let (fib, deep) = (("Rec", "fib", "(I)I"), ("Rec", "deep", "(I)I"));
    let form = ("java/lang/invoke/LambdaForm$MH", "linkToTargetMethod", "(II)Ljava/lang/String;");
    let fib_code = [26, 5, 162, 0, 7, 26, 167, 0, 16, 26, 4, 100, 184, 0, 7, 26, 5, 100, 184, 0, 7, 96, 172];
    let deep_code = [26, 154, 0, 7, 3, 167, 0, 11, 4, 26, 4, 100, 184, 0, 13, 96, 172];
    let main = [178, 0, 16, 8, 184, 0, 7, 17, 5, 220, 184, 0, 13, 186, 0, 22, 0, 0, 182, 0, 26, 177];
    application(vec![
        library(form.0, form.1, form.2),
        method(fib, &fib_code, &[at(12, fib), at(18, fib)]),
        method(deep, &deep_code, &[at(12, deep)]),
        method(("Rec", "main", MAIN), &main, &[at(4, fib), at(10, deep), at(13, form), at(18, PRINT)]),
    ])
}

#[test]
fn e7_recursion() {
    let methods = rec();
    let tree = run(&methods, 0, 0);
    let all = lines(&tree);
    assert_eq!(all[0], "Rec.main 1/8");
    let fib = ["1/13", "2/26", "4/45", "6/43", "2/12"];
    let of = |name: &str| {
        all.iter().filter(|l| l.contains(name)).map(|l| l.rsplit(' ').next().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of("fib"), fib);
    let deep = of("deep");
    assert_eq!((deep.len(), deep.iter().filter(|d| **d == "1/9").count(), deep[1500]), (1501, 1500, "1/5"));
    assert_eq!(tree.nodes[0].total, 13_505 + 139 + 8);
    assert!(tree.exact && tree.delta.is_some_and(|d| d.default == d.precise));
    // Levels of the text are counted where they do not fit.
    let text = tree.text(&Layout { min: 0.0, ..Layout::default() });
    assert!(text.contains("[1502] Rec.deep(I)I"), "{}", &text[..2000]);
    let (events, _) = executed(&methods, 0);
    let folded = tree_of(&methods, &events, Options { fold_recursion: true, ..OPTIONS });
    assert_eq!(lines(&folded), ["Rec.main 1/8", " Rec.deep 1501/13505", " Rec.fib 15/139"]);
    let sites = tree_of(&methods, &events, Options { sites: true, ..OPTIONS });
    let of_main =
        |bci| sites.nodes.iter().any(|n| n.parent == Some(1) && n.site.is_some_and(|s| s.bci == bci));
    assert!(of_main(4) && of_main(10) && !of_main(13));
    let second: u64 = sites
        .nodes
        .iter()
        .filter(|n| n.site.is_some_and(|s| s.bci == 18))
        .map(|n| n.invocations.total())
        .sum();
    assert_eq!(second, 7, "half of the calls of fib by itself");
}

#[test]
fn e10_an_exception_in_the_middle_of_a_line() {
    let (fail, prep) = (("Pre", "fail", "()V"), ("Pre", "prep", "()V"));
    let main =
        [184, 0, 19, 167, 0, 12, 76, 178, 0, 10, 8, 96, 179, 0, 10, 178, 0, 22, 178, 0, 10, 182, 0, 28, 177];
    let prep_code = [178, 0, 10, 4, 96, 179, 0, 10, 184, 0, 16, 178, 0, 10, 4, 100, 179, 0, 10, 177];
    let methods = application(vec![
        method(fail, &[187, 0, 7, 89, 183, 0, 9, 191], &[at(4, ILLEGAL)]),
        method(prep, &prep_code, &[at(8, fail)]),
        Method {
            exceptions: handler(0, 3, 6),
            ..method(("Pre", "main", MAIN), &main, &[at(0, prep), at(21, PRINT)])
        },
    ]);
    let tree = run(&methods, 10, 6);
    assert_eq!(lines(&tree), ["Pre.main 1/10", " Pre.prep 1/5", "  Pre.fail 1/4"]);
    let default: Vec<_> = tree.nodes.iter().filter_map(|n| n.default).collect();
    assert_eq!(default, [0, 11, 10, 4]);
    let delta = tree.delta.unwrap();
    assert_eq!((delta.default, delta.precise), (25, 19));
    assert!((delta.error() - 0.315_789).abs() < 1e-6);
}
