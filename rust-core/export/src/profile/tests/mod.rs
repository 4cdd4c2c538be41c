// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What was written is read again and compared with the tree.

mod collapsed;
mod otlp;
mod pprof;
mod speedscope;

use std::io::{self, Write};

use jportal_analyses::tree::CallTree;

use super::testing::{call, foo, root, tree};
use super::*;
use crate::Error;

/// What a writer writes.
fn written(write: impl FnOnce(&mut dyn Write) -> Result<(), Error>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    out
}

/// The sums of a tree: invocations, bytecodes, ticks.
fn sums(tree: &CallTree) -> [u64; 3] {
    let sum = |of: fn(&jportal_analyses::tree::Context) -> u64| tree.nodes.iter().map(of).sum();
    [sum(|n| n.invocations.total()), sum(|n| n.bytecodes.total()), sum(|n| n.ticks)]
}

/// A tree of one or two threads with random nodes.
fn random(random: &mut fastrand::Rng) -> CallTree {
    let mut nodes = Vec::new();
    for _ in 0..random.u32(1..3) {
        let first = nodes.len() as u32;
        nodes.push(root());
        for at in first + 1..first + random.u32(1..30) {
            let name = format!("a.B.m{}({})V", random.u8(..3), if random.bool() { "I" } else { "" });
            let mut node = call(random.u32(first..at), &name, random.u64(..5), random.u64(..50));
            node.tiers.interpreter -= random.u64(..=node.tiers.interpreter);
            node.tiers.c2 = random.u64(..=node.bytecodes.total() - node.tiers.interpreter);
            node.ticks = random.u64(..90) * 2;
            nodes.push(node);
        }
    }
    tree(&[("one", 1), ("two", 2)], nodes)
}

/// Some random trees.
fn randoms() -> Vec<CallTree> {
    let mut rng = fastrand::Rng::with_seed(7);
    (0..60)
        .map(|_| random(&mut rng))
        .map(|mut t| {
            t.threads.truncate(t.nodes.iter().filter(|n| n.parent.is_none()).count());
            t
        })
        .collect()
}

/// All writers, with their names.
type Writer = fn(&CallTree, &ProfileOptions<'_>, &mut dyn Write) -> Result<(), Error>;
const WRITERS: [(&str, Writer); 5] = [
    ("collapsed", write_collapsed),
    ("diff", |t, o, out| write_collapsed_diff(t, t, o, out)),
    ("pprof", write_pprof),
    ("speedscope", write_speedscope),
    ("otlp", write_otlp),
];

#[test]
fn the_same_tree_gives_the_same_bytes() {
    for (name, write) in WRITERS {
        let once = || written(|out| write(&foo(), &ProfileOptions::default(), out));
        assert_eq!(once(), once(), "{name}");
    }
}

#[test]
fn damaged_trees_and_missing_times_are_errors() {
    let mut damaged = foo();
    damaged.nodes[2].parent = Some(6);
    let timed = ProfileOptions { weight: Weight::Time, ..ProfileOptions::default() };
    for (name, write) in WRITERS {
        let error = write(&damaged, &ProfileOptions::default(), &mut io::sink()).unwrap_err();
        assert!(matches!(error, Error::Tree(e) if e.node == 2), "{name}: {error}");
        if name != "otlp" {
            let error = write(&foo(), &timed, &mut io::sink()).unwrap_err();
            assert!(matches!(error, Error::NoTime), "{name}: {error}");
        }
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    struct FullDisk;
    impl Write for FullDisk {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for (name, write) in WRITERS {
        let error = write(&foo(), &ProfileOptions::default(), &mut FullDisk).unwrap_err();
        assert!(matches!(error, Error::Write(_)), "{name}: {error}");
    }
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    let mut large = foo();
    large.nodes[4].bytecodes.decoded = u64::MAX - 1000;
    large.nodes[4].tiers = Default::default();
    for write in [write_pprof as Writer, write_otlp] {
        let error = write(&large, &ProfileOptions::default(), &mut io::sink()).unwrap_err();
        assert!(matches!(error, Error::TooLarge { value, .. } if value == u64::MAX - 1000), "{error}");
    }
}

#[test]
fn deep_recursion_can_be_cut() {
    let mut nodes = vec![root()];
    nodes.extend((0..50_000).map(|at| call(at, "a.B.deep(I)I", 1, 9)));
    let deep = tree(&[("main", 1)], nodes);
    let error = write_otlp(&deep, &ProfileOptions::default(), &mut io::sink()).unwrap_err();
    assert!(matches!(error, Error::TooDeep { frames: 1_250_025_000, .. }), "{error}");
    let cut = ProfileOptions { depth: Some(3), ..ProfileOptions::default() };
    for (name, write) in WRITERS {
        assert!(written(|out| write(&deep, &cut, out)).len() < 3_000_000, "{name}");
    }
    let text = String::from_utf8(written(|out| write_collapsed(&deep, &cut, out))).unwrap();
    let f = "a.B.deep";
    assert_eq!(text, format!("main;{f} 9\nmain;{f};{f} 9\nmain;{f};{f};{f} {}\n", 9 * 49_998));
}
