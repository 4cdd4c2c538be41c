// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call trees by hand, for unit tests.

use jportal_flow::Tally;

use super::report::{CallTree, Context, Kind, Settings, ThreadTree, Tiers};
use crate::hidden::Inexact;

/// Decoded events.
fn decoded(n: u64) -> Tally {
    Tally { decoded: n, ..Tally::default() }
}

/// A node of any kind.
pub(crate) fn node(
    kind: Kind,
    parent: Option<u32>,
    method: &str,
    invocations: u64,
    bytecodes: u64,
) -> Context {
    Context {
        id: 0,
        parent,
        kind,
        method: method.into(),
        loader: if method.starts_with('(') { "".into() } else { "app".into() },
        site: None,
        invocations: decoded(invocations),
        unstarted: 0,
        found: 0,
        bytecodes: decoded(bytecodes),
        default: None,
        total: bytecodes,
        tiers: Tiers { interpreter: bytecodes, ..Tiers::default() },
        ticks: 0,
        exact: true,
        unresolved: None,
    }
}

/// The root of a thread.
pub(crate) fn root() -> Context {
    node(Kind::Root, None, "(root)", 0, 0)
}

/// A method that Java code calls.
pub(crate) fn call(parent: u32, method: &str, invocations: u64, bytecodes: u64) -> Context {
    node(Kind::Call, Some(parent), method, invocations, bytecodes)
}

/// An exact tree of nodes in order. The roots are those of the threads, in order.
pub(crate) fn tree(threads: &[&str], mut nodes: Vec<Context>) -> CallTree {
    (0..).zip(&mut nodes).for_each(|(id, n)| n.id = id);
    for at in (1..nodes.len()).rev() {
        if let Some(parent) = nodes[at].parent {
            nodes[parent as usize].total += nodes[at].total;
        }
    }
    let roots = nodes.iter().filter(|n| n.kind == Kind::Root).map(|n| n.id);
    let threads = (1..).zip(threads).zip(roots).map(|((tid, name), root)| ThreadTree {
        tid: Some(tid),
        java_tid: u64::from(tid),
        name: (*name).to_owned(),
        exact: true,
        root,
        bucket: None,
    });
    let settings = Settings {
        merged: false,
        blocks: "precise".to_owned(),
        upcalls: "nested".to_owned(),
        natives: "show".to_owned(),
        sites: false,
        hide: "splice".to_owned(),
        folded_recursion: false,
        split: false,
    };
    CallTree {
        exact: true,
        inexact: Inexact::default(),
        settings,
        threads: threads.collect(),
        delta: None,
        nodes,
    }
}

/// E1 of the specification: `Foo`, with 624 bytecodes.
pub(crate) fn foo() -> CallTree {
    let nodes = vec![
        root(),
        call(0, "Foo.main([Ljava/lang/String;)V", 1, 5),
        call(1, "Foo.<init>()V", 1, 3),
        call(1, "Foo.f()V", 1, 106),
        call(3, "Foo.g(I)V", 10, 445),
        call(4, "Foo.h()V", 55, 55),
        call(3, "Foo.h()V", 10, 10),
    ];
    tree(&["main"], nodes)
}
