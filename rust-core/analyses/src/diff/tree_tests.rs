// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Comparisons of call trees.

use super::*;
use crate::tree::by_hand::{call, foo, node, root, tree};
use crate::tree::{CallTree, Context, Kind, Site};

fn diff(a: &CallTree, b: &CallTree, options: &DiffOptions) -> Diff {
    Diff::new(&a.clone().into(), &b.clone().into(), options).unwrap()
}
fn plain(a: &CallTree, b: &CallTree) -> Diff {
    diff(a, b, &DiffOptions::default())
}
fn only(classes: &[&str]) -> DiffOptions {
    let classes = classes.iter().map(|c| c.parse().unwrap()).collect();
    DiffOptions { classes, ..DiffOptions::default() }
}
/// The path of a difference, and before, after and delta of its figures.
fn short(d: &Difference) -> (String, Vec<(&'static str, u64, u64, i64)>) {
    (d.path.join(" > "), d.changes.iter().map(|c| (c.figure, c.before, c.after, c.delta)).collect())
}

#[test]
fn a_tree_equals_itself() {
    let d = plain(&foo(), &foo());
    assert!(d.equal && d.exact && d.differences.is_empty());
    assert_eq!(d.numbers, Numbers { compared: 7, ..Numbers::default() });
    assert_eq!(d.totals[..2].iter().map(|t| (t.before, t.after)).collect::<Vec<_>>(), [(78, 78), (624, 624)]);
    assert_eq!(d.text(), "78 invocations, 624 bytecodes\nequal: 7 compared\n");
}

#[test]
fn each_planted_change_of_a_node_is_found() {
    type Plant = fn(&mut Context);
    let plants: [(Plant, &str, u64, u64); 4] = [
        (|n| n.invocations.decoded += 1, "invocations", 10, 11),
        (|n| n.bytecodes.recovered += 7, "bytecodes", 445, 452),
        (|n| n.unstarted = 2, "unstarted", 0, 2),
        (|n| n.found = 1, "found", 0, 1),
    ];
    for (plant, figure, before, after) in plants {
        let mut changed = foo();
        plant(&mut changed.nodes[4]);
        let d = plain(&foo(), &changed);
        assert!(!d.equal);
        let path = "Foo.main([Ljava/lang/String;)V > Foo.f()V > Foo.g(I)V";
        let expected = (path.to_owned(), vec![(figure, before, after, (after - before) as i64)]);
        assert_eq!(d.differences.iter().map(short).collect::<Vec<_>>(), [expected]);
        assert_eq!(d.differences[0].thread.as_deref(), Some("main"));
        let back = plain(&changed, &foo());
        assert_eq!(back.differences[0].changes[0].delta, before as i64 - after as i64);
    }
}

#[test]
fn moved_removed_and_added_nodes_are_found() {
    let mut moved = foo();
    moved.nodes[6].parent = Some(1);
    let d = plain(&foo(), &moved);
    let all: Vec<_> = d.differences.iter().map(|d| (d.presence, d.path.len())).collect();
    assert_eq!(all, [(Presence::Before, 3), (Presence::After, 2)]);
    assert_eq!(d.numbers.differences(), 2);
    let mut other_loader = foo();
    other_loader.nodes[6].loader = "other".into();
    let d = plain(&foo(), &other_loader);
    let all: Vec<_> = d.differences.iter().map(|d| (d.presence, d.loader.as_str())).collect();
    assert_eq!(all, [(Presence::Before, "app"), (Presence::After, "other")]);
    assert!(d.text().contains("thread \"main\" > Foo.main([Ljava/lang/String;)V > Foo.f()V > Foo.h()V"));
    let threads = tree(&["main", "idle"], [foo().nodes, vec![root()]].concat());
    let d = plain(&foo(), &threads);
    assert_eq!((d.numbers.only_after, d.differences[0].thread.as_deref()), (1, Some("idle")));
}

#[test]
fn swapped_figures_of_two_nodes_are_found_although_the_totals_are_equal() {
    let mut swapped = foo();
    (swapped.nodes[5].bytecodes, swapped.nodes[6].bytecodes) =
        (swapped.nodes[6].bytecodes, swapped.nodes[5].bytecodes);
    let d = plain(&foo(), &swapped);
    assert_eq!((d.equal, d.numbers.changed, d.totals[1].delta), (false, 2, 0));
    let lines: Vec<_> = d.text().lines().map(str::to_owned).collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["bytecodes", "where"]);
    assert!(lines[1].starts_with("~  -45 (55 → 10)  ") && lines[2].starts_with("~  +45 (10 → 55)  "));
    assert!(lines[4].starts_with("2 differences: 2 changed, 0 only"), "{lines:?}");
}

#[test]
fn what_a_run_makes_up_is_removed_and_added_up() {
    let lambdas = |names: [&str; 2], counts: [u64; 2]| {
        let f = format!("Main$$Lambda${}.run()V", names[0]);
        let g = format!("Main$$Lambda${}.run()V", names[1]);
        tree(&["main"], vec![root(), call(0, &f, 1, counts[0]), call(0, &g, 1, counts[1])])
    };
    let a = lambdas(["14.0x0000000800c01208", "15.0x0000000800c01400"], [3, 4]);
    let d = plain(&a, &lambdas(["7.0x00000008000a0000", "9.0x00000008000b0000"], [6, 1]));
    assert!(d.equal, "{d:?}");
    assert_eq!(d.numbers.compared, 2, "the root and the lambdas");
    let d = plain(&a, &lambdas(["7.0x00000008000a0000", "9.0x00000008000b0000"], [6, 2]));
    assert_eq!(
        d.differences.iter().map(short).collect::<Vec<_>>(),
        [("Main$$Lambda.run()V".to_owned(), vec![("bytecodes", 7, 8, 1)])]
    );
}

#[test]
fn threads_are_matched_by_name_or_added_up() {
    let nodes = |n| vec![root(), call(0, "a.B.f()V", 1, n), root(), call(2, "a.B.f()V", 1, 2)];
    let (a, b) = (tree(&["x", "y"], nodes(1)), tree(&["y", "z"], nodes(1)));
    let d = plain(&a, &b);
    assert_eq!((d.numbers.only_before, d.numbers.only_after, d.numbers.changed), (2, 2, 1));
    let merged = DiffOptions { merge_threads: true, ..DiffOptions::default() };
    let d = diff(&a, &b, &merged);
    assert_eq!((d.equal, d.numbers.compared), (true, 2));
    let d = diff(&a, &tree(&["y", "z"], nodes(5)), &merged);
    assert_eq!((d.differences[0].thread.as_deref(), d.differences[0].changes[0].delta), (None, 4));
    let same_name = tree(&["x", "x"], nodes(1));
    assert!(plain(&same_name, &tree(&["x"], vec![root(), call(0, "a.B.f()V", 2, 3)])).equal);
}

#[test]
fn a_tolerance_hides_small_differences_only() {
    let mut changed = foo();
    changed.nodes[4].bytecodes.decoded += 5;
    changed.nodes[5].bytecodes.decoded += 6;
    let tolerant = DiffOptions { tolerance: 5, ..DiffOptions::default() };
    let d = diff(&foo(), &changed, &tolerant);
    assert_eq!((d.numbers.changed, d.numbers.within_tolerance, d.equal), (1, 1, false));
    assert_eq!(d.differences[0].changes[0].delta, 6);
    assert!(d.text().contains("7 compared, 1 within the tolerance of 5"), "{}", d.text());
    changed.nodes.push(Context { id: 7, ..call(6, "Foo.late()V", 1, 5) });
    assert_eq!(diff(&foo(), &changed, &tolerant).numbers.within_tolerance, 2);
    assert_eq!(plain(&foo(), &changed).numbers.only_after, 1);
}

#[test]
fn frames_that_are_not_selected_are_transparent() {
    let through = |library: &str| {
        tree(
            &["main"],
            vec![
                root(),
                call(0, "a.Main.main()V", 1, 9),
                call(1, library, 1, 50),
                call(2, "a.Main.compare()V", 2, 4),
            ],
        )
    };
    let (a, b) = (through("java.util.List.sort()V"), through("java.util.Arrays.sort()V"));
    assert_eq!(plain(&a, &b).numbers.differences(), 4);
    let d = diff(&a, &b, &only(&["a"]));
    assert_eq!((d.equal, d.numbers.compared, d.totals[1].before), (true, 2, 13));
    let mut c = b.clone();
    c.nodes[3].invocations.decoded = 3;
    let d = diff(&a, &c, &only(&["a"]));
    assert_eq!(short(&d.differences[0]).0, "a.Main.main()V > a.Main.compare()V");
    assert!(diff(&a, &c, &only(&["a.Main#main"])).equal);
    let unknown = |parent_kind| {
        let above = node(parent_kind, Some(0), "(unknown)", 0, 0);
        tree(&["main"], vec![root(), above, call(1, "a.Main.f()V", 1, 1)])
    };
    let d = diff(&unknown(Kind::Unknown), &unknown(Kind::Unknown), &only(&["a"]));
    assert_eq!((d.equal, d.numbers.compared), (true, 1));
    let known = tree(&["main"], vec![root(), call(0, "a.Main.f()V", 1, 1)]);
    let d = diff(&unknown(Kind::Unknown), &known, &only(&["a"]));
    assert_eq!(d.differences[0].path, ["(unknown)", "a.Main.f()V"], "not a call from the root");
}

#[test]
fn silent_calls_are_selected_by_their_target() {
    let silent = |n| {
        let call = node(Kind::Silent, Some(0), "(intrinsic) a.Math.abs(I)I", n, 0);
        tree(&["main"], vec![root(), call])
    };
    assert_eq!(diff(&silent(1), &silent(2), &only(&["a.Math"])).numbers.changed, 1);
    assert!(diff(&silent(1), &silent(2), &only(&["b"])).equal);
}

#[test]
fn call_sites_are_part_of_the_path_if_both_trees_have_them() {
    let sited = |bci, sites| {
        let mut t = foo();
        t.settings.sites = sites;
        t.nodes[6].site = Some(Site { bci, line: Some(3) });
        t
    };
    let d = plain(&sited(8, true), &sited(9, true));
    let paths: Vec<_> = d.differences.iter().map(|d| d.path[1..].join(" > ")).collect();
    assert_eq!(paths, ["Foo.f()V @8 > Foo.h()V", "Foo.f()V @9 > Foo.h()V"]);
    assert!(plain(&sited(8, false), &sited(9, false)).equal);
}

#[test]
fn versions_are_added_up_on_request() {
    let versions = |a: &str, b: &str| {
        tree(
            &["main"],
            vec![root(), call(0, &format!("a.B.f()V{a}"), 1, 2), call(0, &format!("a.B.f()V{b}"), 1, 3)],
        )
    };
    let a = versions(" [version 1 of 2]", " [version 2 of 2]");
    let b = tree(&["main"], vec![root(), call(0, "a.B.f()V", 2, 5)]);
    assert_eq!(plain(&a, &b).numbers.differences(), 3);
    let merged = DiffOptions { merge_versions: true, ..DiffOptions::default() };
    assert!(diff(&a, &b, &merged).equal);
    assert_eq!(diff(&a, &b, &only(&["a"])).numbers.differences(), 3, "a version is selected, too");
}

#[test]
fn inexact_damaged_and_differently_built_trees_are_refused() {
    let refused = |a: &CallTree, b: &CallTree, options: &DiffOptions| {
        Diff::new(&a.clone().into(), &b.clone().into(), options).unwrap_err()
    };
    let mut inexact = foo();
    inexact.exact = false;
    inexact.inexact.gaps = 1;
    inexact.inexact.unresolved.insert("empty-loop", 2);
    let why = "1 gap; 2 unresolved stretches (2 empty-loop)".to_owned();
    let error = refused(&foo(), &inexact, &DiffOptions::default());
    assert_eq!(error, DiffError::Inexact { side: Side::After, why: why.clone() });
    assert!(error.to_string().starts_with("the second result is not exact (1 gap; 2 unresolved"));
    let error = refused(&inexact, &foo(), &only(&["Foo"]));
    assert_eq!(error, DiffError::Inexact { side: Side::Before, why: why.clone() });
    let allowed = DiffOptions { allow_inexact: true, ..DiffOptions::default() };
    let d = diff(&inexact, &foo(), &allowed);
    assert_eq!((d.equal, d.exact, &d.before_inexact, &d.after_inexact), (true, false, &Some(why), &None));
    assert!(
        d.text().ends_with("the first result is not exact: 1 gap; 2 unresolved stretches (2 empty-loop)\n")
    );
    let mut damaged = foo();
    damaged.nodes[2].parent = Some(5);
    let error = refused(&damaged, &foo(), &DiffOptions::default());
    assert!(matches!(error, DiffError::Damaged { side: Side::Before, .. }), "{error}");
    type Plant = fn(&mut CallTree);
    let settings: [(&str, Plant); 7] = [
        ("merged", |t| t.settings.merged = true),
        ("blocks", |t| t.settings.blocks = "default".to_owned()),
        ("upcalls", |t| t.settings.upcalls = "root".to_owned()),
        ("natives", |t| t.settings.natives = "none".to_owned()),
        ("sites", |t| t.settings.sites = true),
        ("hide", |t| t.settings.hide = "show".to_owned()),
        ("folded_recursion", |t| t.settings.folded_recursion = true),
    ];
    for (name, plant) in settings {
        let mut other = foo();
        plant(&mut other);
        let error = refused(&foo(), &other, &DiffOptions::default());
        assert!(matches!(error, DiffError::Settings { setting, .. } if setting == name), "{error}");
    }
    let mut both = foo();
    both.settings.blocks = "both".to_owned();
    assert!(plain(&foo(), &both).equal);
}

#[test]
fn long_lists_are_shortened_and_counted() {
    let empty = tree(&["main"], vec![root()]);
    let options = DiffOptions { most: 2, ..DiffOptions::default() };
    let d = diff(&foo(), &empty, &options);
    assert_eq!((d.differences.len(), d.numbers.only_before), (2, 6));
    let text = d.text();
    assert!(text.contains("\n4 more differences\n78 → 0 invocations, 624 → 0 bytecodes\n"), "{text}");
    assert!(text.lines().nth(1).unwrap().starts_with("-  "), "{text}");
}

#[test]
fn deep_trees_need_no_deep_stack() {
    let deep = |n: u32, last: u64| {
        let mut nodes = vec![root()];
        nodes.extend((0..n).map(|at| call(at, "a.B.deep(I)I", 1, if at + 1 == n { last } else { 9 })));
        tree(&["main"], nodes)
    };
    let d = plain(&deep(100_000, 5), &deep(100_000, 6));
    assert_eq!((d.numbers.changed, d.differences[0].path.len()), (1, 100_000));
    assert!(d.text().len() < 1000);
}

#[test]
fn documents_of_random_trees_equal_themselves_and_show_any_change() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let mut nodes = vec![root()];
        for at in 1..random.u32(2..40) {
            let name = format!("a.B.m{}()V", random.u8(..4));
            nodes.push(call(random.u32(..at), &name, random.u64(..9), random.u64(..99)));
        }
        let a = tree(&["main"], nodes);
        let mut json = serde_json::to_value(&a).unwrap();
        json["schema"] = "jportal/report-call-tree/1".into();
        let read = Document::parse(json.to_string().as_bytes()).unwrap();
        assert_eq!(read, a.clone().into());
        let same = Diff::new(&read, &a.clone().into(), &DiffOptions::default()).unwrap();
        assert!(same.equal && same.totals.iter().all(|t| t.delta == 0));
        let mut b = a.clone();
        let node = random.usize(1..b.nodes.len());
        b.nodes[node].bytecodes.decoded += 1;
        let d = plain(&a, &b);
        assert_eq!((d.numbers.differences(), d.totals[1].delta), (1, 1));
    }
}
