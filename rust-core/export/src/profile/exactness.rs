// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What profiles say about the exactness of a call tree.

use jportal_analyses::Inexact;
use jportal_analyses::tree::CallTree;
use jportal_flow::Tally;

/// The reasons why a tree is not exact, by name. Only those that occur.
pub(super) fn reasons(inexact: &Inexact) -> Vec<(String, u64)> {
    let parts = [
        ("gaps", inexact.gaps),
        ("orphans", inexact.orphans),
        ("found", inexact.found),
        ("silent_calls", inexact.silent_calls),
        ("projected", inexact.projected),
        ("recovered", inexact.recovered),
        ("excluded", inexact.excluded),
    ];
    let parts = parts.into_iter().map(|(name, n)| (name.to_owned(), n));
    let causes = inexact.unresolved.iter().map(|(cause, n)| (format!("unresolved.{cause}"), *n));
    parts.chain(causes).filter(|(_, n)| *n > 0).collect()
}

/// Sentences for people about a tree: whether it is exact, how it was built, and what its figures
/// leave out.
pub(super) fn notes(tree: &CallTree) -> Vec<String> {
    let mut all = Vec::new();
    let list: Vec<String> = reasons(&tree.inexact).iter().map(|(name, n)| format!("{name} {n}")).collect();
    match (tree.exact, list.is_empty()) {
        (true, _) => all.push("exact: all figures are complete".to_owned()),
        (false, true) => all.push("not exact: figures are lower bounds".to_owned()),
        (false, false) => all.push(format!("not exact: {}; figures are lower bounds", list.join(", "))),
    }
    let (mut invocations, mut bytecodes) = (Tally::default(), Tally::default());
    let (mut found, mut unstarted, mut bounds) = (0u64, 0u64, 0usize);
    for node in &tree.nodes {
        invocations.merge(&node.invocations);
        bytecodes.merge(&node.bytecodes);
        found = found.saturating_add(node.found);
        unstarted = unstarted.saturating_add(node.unstarted);
        bounds += usize::from(!node.exact);
    }
    all.push(format!("{} bytecodes, {} invocations", bytecodes.text(), invocations.text()));
    if bounds > 0 {
        all.push(format!("lower bounds in {bounds} of {} nodes", tree.nodes.len()));
    }
    if found > 0 {
        all.push(format!("not counted as invocations, because their beginning was not seen: {found}"));
    }
    if unstarted > 0 {
        all.push(format!("not counted as invocations, because they ended before they began: {unstarted}"));
    }
    let s = &tree.settings;
    let sites = if s.sites { ", by call site" } else { "" };
    let folded = if s.folded_recursion { ", recursion folded" } else { "" };
    all.push(format!(
        "blocks {}, upcalls {}, natives {}, frames out of scope {}{sites}{folded}",
        s.blocks, s.upcalls, s.natives, s.hide
    ));
    all
}
