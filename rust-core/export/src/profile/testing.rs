// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call trees by hand, for unit tests.

use std::num::NonZeroU64;

use jportal_analyses::Inexact;
use jportal_analyses::tree::{CallTree, Context, Kind, Settings, Site, ThreadTree, Tiers};
use jportal_bytecode::{LineRow, Method, MethodTable, testing};
use jportal_flow::Tally;
use jportal_units::Bci;

use super::{ProfileOptions, Sources};

fn decoded(n: u64) -> Tally {
    Tally { decoded: n, ..Tally::default() }
}

/// A node that the interpreter executed.
pub(super) fn call(parent: u32, method: &str, invocations: u64, bytecodes: u64) -> Context {
    Context {
        id: 0,
        parent: Some(parent),
        kind: Kind::Call,
        method: method.into(),
        loader: if method.starts_with('(') { "".into() } else { "app".into() },
        site: None,
        invocations: decoded(invocations),
        unstarted: 0,
        found: 0,
        bytecodes: decoded(bytecodes),
        default: None,
        total: 0,
        tiers: Tiers { interpreter: bytecodes, ..Tiers::default() },
        ticks: 0,
        exact: true,
        unresolved: None,
    }
}

/// The root of a thread.
pub(super) fn root() -> Context {
    Context { parent: None, kind: Kind::Root, ..call(0, "(root)", 0, 0) }
}

/// An exact tree of nodes in order, with threads by name and id.
pub(super) fn tree(threads: &[(&str, u32)], mut nodes: Vec<Context>) -> CallTree {
    (0..).zip(&mut nodes).for_each(|(id, n)| n.id = id);
    nodes.iter_mut().for_each(|n| n.total = n.bytecodes.total());
    for at in (0..nodes.len()).rev() {
        if let Some(parent) = nodes[at].parent {
            nodes[parent as usize].total += nodes[at].total;
        }
    }
    let roots = nodes.iter().filter(|n| n.kind == Kind::Root).map(|n| n.id);
    let threads = threads.iter().zip(roots).map(|((name, tid), root)| ThreadTree {
        tid: Some(*tid),
        java_tid: u64::from(*tid),
        name: (*name).to_owned(),
        exact: true,
        root,
        bucket: None,
    });
    let text = str::to_owned;
    let settings = Settings {
        merged: false,
        blocks: text("precise"),
        upcalls: text("nested"),
        natives: text("show"),
        sites: false,
        hide: text("splice"),
        folded_recursion: false,
        split: false,
    };
    let threads = threads.collect();
    CallTree { exact: true, inexact: Inexact::default(), settings, threads, delta: None, nodes }
}

/// E1 of the specification, `Foo`: 624 bytecodes, 78 invocations.
pub(super) fn foo() -> CallTree {
    let nodes = vec![
        root(),
        call(0, "Foo.main([Ljava/lang/String;)V", 1, 5),
        call(1, "Foo.<init>()V", 1, 3),
        call(1, "Foo.f()V", 1, 106),
        call(3, "Foo.g(I)V", 10, 445),
        call(4, "Foo.h()V", 55, 55),
        call(3, "Foo.h()V", 10, 10),
    ];
    tree(&[("main", 4711)], nodes)
}

/// Two threads, of which the second is not exact; all tiers, call sites, overloads, times, odd
/// names, and nodes that are no methods.
pub(super) fn mixed() -> CallTree {
    let at = |line: u16, node: Context| Context { site: Some(Site { bci: 4, line: Some(line) }), ..node };
    let tiers = |interpreter, c1, c2, node: Context| Context { tiers: Tiers { interpreter, c1, c2 }, ..node };
    let nodes = vec![
        root(),
        call(0, "a.B.main([Ljava/lang/String;)V", 1, 20),
        at(11, tiers(10, 20, 70, Context { ticks: 6000, ..call(1, "a.B.f(I)I", 3, 100) })),
        at(12, call(1, "a.B.f(J)I", 2, 8)),
        at(17, call(2, "a.B.n()V", 5, 0)),
        at(18, Context { kind: Kind::Silent, ..call(2, "(intrinsic) java.lang.Math.abs(I)I", 7, 0) }),
        root(),
        Context { kind: Kind::Unknown, ..call(6, "(unknown)", 0, 0) },
        Context { found: 1, exact: false, unstarted: 2, ..call(7, "a.B.run()V", 0, 30) },
        Context { kind: Kind::Orphans, exact: false, ..call(6, "(orphans)", 0, 4) },
    ];
    let mut t = tree(&[("main", 1), ("pool worker;1", 2)], nodes);
    t.nodes[8].bytecodes.recovered = 9;
    t.nodes[8].tiers.c2 = 9;
    t.settings.sites = true;
    (t.exact, t.threads[1].exact) = (false, false);
    t.inexact =
        Inexact { gaps: 1, orphans: 4, found: 1, silent_calls: 7, recovered: 9, ..Inexact::default() };
    t.inexact.unresolved.insert("empty-loop", 2);
    t
}

/// The source of `a.B.f(I)I`.
pub(super) fn sources() -> Sources {
    let mut methods = MethodTable::default();
    let line = |bci, line| LineRow { bci: Bci(bci), line };
    let lines = Box::new([line(0, 17), line(4, 16)]);
    let (class_name, source_file, signature) = ("a/B".into(), "B.java".into(), "(I)I".into());
    methods.push(Method { class_name, source_file, signature, lines, ..testing::method("f", &[177]) });
    Sources::new(&methods, Default::default())
}

/// A TSC of 2 GHz, the sources of [`mixed`], and all that can be known.
pub(super) fn all_known(sources: &Sources) -> ProfileOptions<'_> {
    ProfileOptions {
        ticks_per_second: NonZeroU64::new(2_000_000_000),
        sources: Some(sources),
        title: "app.jportal",
        started: Some(1_700_000_000_000_000_000),
        duration: Some(5_000),
        ..ProfileOptions::default()
    }
}
