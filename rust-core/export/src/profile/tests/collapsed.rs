// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Collapsed stacks.

use super::super::testing::mixed;
use super::*;

fn collapsed(tree: &CallTree, options: &ProfileOptions<'_>) -> String {
    String::from_utf8(written(|out| write_collapsed(tree, options, out))).unwrap()
}
fn diff(before: &CallTree, after: &CallTree, options: &ProfileOptions<'_>) -> String {
    String::from_utf8(written(|out| write_collapsed_diff(before, after, options, out))).unwrap()
}
/// The sum of the numbers at the ends of the lines.
fn sum(text: &str) -> u64 {
    text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_small_tree() {
    let text = collapsed(&foo(), &ProfileOptions::default());
    assert_eq!(text, include_str!("../testdata/foo.collapsed"));
    assert_eq!(sum(&text), 624);
    let calls = ProfileOptions { weight: Weight::Calls, ..ProfileOptions::default() };
    assert_eq!(sum(&collapsed(&foo(), &calls)), 78);
}

#[test]
fn odd_names_overloads_and_what_is_not_exact() {
    let text = collapsed(&mixed(), &ProfileOptions::default());
    assert_eq!(text, include_str!("../testdata/mixed.collapsed"));
    assert_eq!(sum(&text), sums(&mixed())[1]);
    let all = ProfileOptions {
        threads: false,
        descriptors: true,
        weight: Weight::Calls,
        ..ProfileOptions::default()
    };
    assert_eq!(collapsed(&mixed(), &all), include_str!("../testdata/mixed-calls.collapsed"));
    let sources = Sources::default();
    let timed = ProfileOptions { weight: Weight::Time, ..testing::all_known(&sources) };
    assert_eq!(collapsed(&mixed(), &timed), "main;a.B.main;a.B.f 3000\n");
}

#[test]
fn names_cannot_forge_lines_or_frames() {
    let evil = "a.B.x;y z\t\n\u{2028}\u{a0}main;forged 7\x1b[31m()V";
    let t = tree(&[("th\nread;", 1)], vec![root(), call(0, evil, 1, 5), call(0, "", 1, 6)]);
    let text = collapsed(&t, &ProfileOptions::default());
    assert_eq!(text, "th_read:;(no_name) 6\nth_read:;a.B.x:y_z____main:forged_7\\x1b[31m 5\n");
}

#[test]
fn threads_of_one_name_are_kept_apart() {
    let nodes = || {
        vec![
            root(),
            call(0, "a.B.f()V", 1, 5),
            root(),
            call(2, "a.B.f()V", 1, 6),
            root(),
            call(4, "a.B.f()V", 1, 7),
        ]
    };
    let t = tree(&[("x", 1), ("x", 2), ("y", 2)], nodes());
    let text = collapsed(&t, &ProfileOptions::default());
    assert_eq!(text, "x_(tid_1);a.B.f 5\nx_(tid_2);a.B.f 6\ny;a.B.f 7\n");
    let t = tree(&[("x", 1), ("x", 1), ("y", 2)], nodes());
    assert!(collapsed(&t, &ProfileOptions::default()).contains("x_(tid_1,_thread_2);a.B.f 6\n"));
    let all = ProfileOptions { threads: false, ..ProfileOptions::default() };
    assert_eq!(collapsed(&t, &all), "all;a.B.f 18\n");
    assert_eq!(diff(&t, &t, &ProfileOptions::default()), "x;a.B.f 11 11\ny;a.B.f 7 7\n", "by name");
}

#[test]
fn sums_are_those_of_the_tree() {
    for t in randoms() {
        let [calls, bytecodes, ticks] = sums(&t);
        let known = testing::all_known(&Sources::default()).ticks_per_second;
        let weights = [(Weight::Calls, calls), (Weight::Bytecodes, bytecodes), (Weight::Time, ticks / 2)];
        for (weight, expected) in weights {
            for (threads, descriptors) in [(true, true), (true, false), (false, false)] {
                let options = ProfileOptions {
                    weight,
                    threads,
                    descriptors,
                    ticks_per_second: known,
                    ..ProfileOptions::default()
                };
                assert_eq!(sum(&collapsed(&t, &options)), expected);
                let cut = ProfileOptions { depth: Some(2), ..options };
                assert_eq!(sum(&collapsed(&t, &cut)), expected);
                let text = diff(&t, &t, &options);
                assert!(text.lines().all(|line| {
                    let mut words = line.rsplit(' ');
                    words.next() == words.next()
                }));
                assert_eq!(sum(&text), expected);
            }
        }
        let options = ProfileOptions { descriptors: true, ..ProfileOptions::default() };
        let lines = collapsed(&t, &options);
        let mut sorted: Vec<&str> = lines.lines().map(|l| l.rsplit_once(' ').unwrap().0).collect();
        let count = sorted.len();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), count, "no stack twice");
    }
}

#[test]
fn two_trees_in_one_list() {
    let mut after = foo();
    after.nodes[4].bytecodes.decoded = 500;
    after.nodes[2].method = "Foo.late()V".into();
    let text = diff(&foo(), &after, &ProfileOptions::default());
    assert_eq!(text, include_str!("../testdata/foo-diff.collapsed"));
    after.threads[0].exact = false;
    after.exact = false;
    let text = diff(&foo(), &after, &ProfileOptions::default());
    assert!(text.lines().all(|line| line.starts_with("main_(inexact);")), "{text}");
    let lambda = |number: &str| {
        tree(&[("main", 1)], vec![root(), call(0, &format!("M$$Lambda${number}.run()V"), 1, 5)])
    };
    let text = diff(&lambda("1.0x01"), &lambda("22.0xff"), &ProfileOptions::default());
    assert_eq!(text, "main;M$$Lambda.run 5 5\n");
}
