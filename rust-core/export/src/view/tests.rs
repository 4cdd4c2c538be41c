// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests of the whole page, and of folding.

use jportal_analyses::names::Version;
use jportal_analyses::tree::{CallTree, Context, Limits};
use jportal_bytecode::{Method, MethodTable};

use super::fold::{Folded, fold};
use super::testing::{tree, view};
use super::{
    JitEvent, JitKind, LIMIT, Listing, SourceFile, Times, View, ViewMethod, ViewTree, write_view,
    write_view_within,
};

fn page(view: &View) -> String {
    let mut out = Vec::new();
    write_view(view, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The data in the page.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

/// Bytecodes, calls and ticks of each thread's tree.
fn sums(nodes: &[(Option<u32>, u64, u64, u64)]) -> Vec<[u64; 3]> {
    let mut out: Vec<[u64; 3]> = Vec::new();
    let mut thread = Vec::new();
    for (parent, bytecodes, calls, ticks) in nodes {
        let t = parent.map_or(out.len(), |p| thread[p as usize]);
        if t == out.len() {
            out.push([0; 3]);
        }
        thread.push(t);
        for (sum, n) in out[t].iter_mut().zip([bytecodes, calls, ticks]) {
            *sum += n;
        }
    }
    out
}

fn of_tree(tree: &CallTree) -> Vec<[u64; 3]> {
    let of = |n: &Context| (n.parent, n.bytecodes.total(), n.invocations.total(), n.ticks);
    sums(&tree.nodes.iter().map(of).collect::<Vec<_>>())
}

fn of_folded(nodes: &[Folded<'_>]) -> Vec<[u64; 3]> {
    let of = |f: &Folded<'_>| (f.parent, f.own.bytecodes.total(), f.own.calls.total(), f.own.ticks);
    sums(&nodes.iter().map(of).collect::<Vec<_>>())
}

#[test]
fn folding_keeps_the_sums() {
    let tree = tree(100, 5000);
    for keep in [0, 1, 7, 500, 4999, 5000, 9999] {
        let folded = fold(&tree, keep);
        assert_eq!(of_folded(&folded), of_tree(&tree), "{keep}");
        let nodes: u64 = folded.iter().map(|f| f.folded.max(1)).sum();
        assert_eq!(nodes, tree.nodes.len() as u64, "each node is there or counted, {keep}");
        let kept = folded.iter().filter(|f| f.folded == 0).count();
        let roots = tree.threads.len();
        assert!(
            (keep.min(5000)..=keep + roots).contains(&kept) || keep > tree.nodes.len(),
            "{kept} of {keep}"
        );
        for (i, f) in folded.iter().enumerate() {
            let parent = f.parent.map(|p| &folded[p as usize]);
            assert_eq!(f.depth, parent.map_or(0, |p| p.depth + 1));
            assert!(f.parent.is_none_or(|p| (p as usize) < i) && parent.is_none_or(|p| p.folded == 0));
        }
        let bounds = |all: &mut dyn Iterator<Item = Limits>| all.map(|l| l.max.unwrap()).sum::<u64>();
        let hidden = bounds(&mut folded.iter().filter_map(|f| f.own.unresolved));
        assert_eq!(hidden, bounds(&mut tree.nodes.iter().filter_map(|n| n.unresolved)));
    }
}

#[test]
fn the_lightest_nodes_are_folded() {
    let tree = tree(50, 1000);
    let mut weights: Vec<u64> =
        tree.nodes.iter().map(|n| n.bytecodes.total() + n.invocations.total()).collect();
    for i in (0..weights.len()).rev() {
        if let Some(parent) = tree.nodes[i].parent {
            weights[parent as usize] += weights[i];
        }
    }
    let kept: Vec<bool> = {
        let folded = fold(&tree, 200);
        let ids: Vec<u32> = folded.iter().filter(|f| f.folded == 0).map(|f| f.node.id).collect();
        (0..tree.nodes.len() as u32).map(|i| ids.contains(&i)).collect()
    };
    let of = |wanted: bool| weights.iter().zip(&kept).filter(move |(_, k)| **k == wanted).map(|(w, _)| *w);
    assert!(of(true).min().unwrap() >= of(false).max().unwrap());
}

#[test]
fn an_unlimited_bound_stays_unlimited() {
    let mut tree = tree(50, 400);
    let last = tree.nodes.len() - 1;
    tree.nodes[last].unresolved = Some(Limits { stretches: 1, min: 1, max: None });
    let folded = fold(&tree, 0);
    let more = folded.last().unwrap();
    assert_eq!((more.folded > 1, more.own.unresolved.unwrap().max), (true, None));
}

#[test]
fn a_large_tree_fits() {
    let view = view(2_000, 300_000);
    let whole = page(&view);
    assert!(whole.len() <= LIMIT, "{}", whole.len());
    let d = data(&whole);
    assert_eq!((&d["left"]["folded"], &d["left"]["listings"]), (&0.into(), &0.into()));
    let nodes = view.trees[0].tree.nodes.len();
    assert_eq!(d["trees"][0]["kinds"].as_str().unwrap().len(), nodes);
    for limit in [2_500_000, 4_000_000] {
        let mut out = Vec::new();
        write_view_within(limit, &view, &mut out).unwrap();
        assert!(out.len() <= limit, "{} of {limit}", out.len());
        let d = data(std::str::from_utf8(&out).unwrap());
        assert!(d["left"]["folded"].as_u64().unwrap() > 100_000);
        let column = |name: &str| -> u64 {
            d["trees"][0][name].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
        };
        let all: u64 = view.trees[0].tree.nodes.iter().map(|n| n.tiers.c2).sum();
        assert_eq!(column("c2"), all);
        let all: u64 = view.trees[0].tree.nodes.iter().map(|n| n.invocations.total()).sum();
        assert_eq!(column("calls"), all);
    }
}

#[test]
fn hostile_names_stay_data() {
    let evil = "</script><img src=x onerror=alert(1)>\u{2028}<!--";
    let mut v = view(20, 100);
    v.meta.capture = evil.into();
    v.meta.notes = vec![evil.into()];
    v.threads[0].name = evil.into();
    v.trees[0].tree.threads[0].name = evil.into();
    v.trees[0].tree.nodes[1].method = evil.into();
    v.methods[0].method = evil.into();
    v.sources = vec![SourceFile { path: v.methods[1].source_file.clone(), text: evil.into() }];
    v.methods[1].method = "Evil.f()V".into();
    v.methods[1].listing.as_mut().unwrap().rows[0].text = evil.into();
    let jit = v.jit.as_mut().unwrap();
    let kind = JitKind::Installed;
    jit.events.push(JitEvent { kind, method: evil.into(), detail: evil.into(), ..jit.events[0].clone() });
    v.trees.push(ViewTree { title: evil.into(), ..v.trees[0].clone() });
    let (clean, page) = (page(&view(20, 100)), page(&v));
    let scripts = |page: &str| page.matches("</script").count();
    assert_eq!(
        (scripts(&page), page.contains("<img"), page.matches("<!--").count()),
        (scripts(&clean), false, clean.matches("<!--").count())
    );
    let d = data(&page);
    assert_eq!((&d["rest"]["meta"]["capture"], &d["files"]["texts"][0]), (&evil.into(), &evil.into()));
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let page = page(&View::default());
    for reference in ["http:", "https:", "src=", "@import", "url(", "fetch(", "innerHTML", "insertAdjacent"] {
        let at = page.find(reference);
        assert!(at.is_none(), "{reference}: {}", &page[at.unwrap()..][..80]);
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn what_was_not_asked_is_absent() {
    let d = data(&page(&View::default()));
    for part in ["coverage", "overview", "latency", "jit"] {
        assert!(d["rest"][part].is_null(), "{part}");
    }
    assert_eq!(d["trees"], serde_json::json!([]));
}

#[test]
fn a_method_without_listing_is_not_one_whose_listing_was_left_out() {
    let mut v = view(200, 3_000);
    v.methods[0].listing = None;
    let mut out = Vec::new();
    write_view_within(0, &v, &mut out).unwrap();
    let d = data(std::str::from_utf8(&out).unwrap());
    let with = v.methods.iter().filter(|m| m.listing.is_some()).count();
    assert_eq!(d["left"]["listings"], with);
    let codes = d["code"]["methods"].as_array().unwrap();
    assert_eq!((&codes[0], codes.iter().filter(|c| **c == 1).count()), (&0.into(), with));
    assert!(d["left"]["files"].as_u64().unwrap() > 0 && d["left"]["folded"].as_u64().unwrap() > 0);
}

#[test]
fn rows_are_completed_by_name_loader_and_version() {
    let mut table = MethodTable::default();
    let method = |name: &str, loader: &str, source: &str| Method {
        loader: loader.into(),
        source_file: source.into(),
        ..jportal_bytecode::testing::method(name, &[177])
    };
    for (name, loader, source) in
        [("f", "app", "1"), ("f", "app", "2"), ("g", "app", "3"), ("g", "x", "4"), ("h", "app", "5")]
    {
        table.push(method(name, loader, source));
    }
    let row = |name: &str, loader: &str, version: Option<u32>| ViewMethod {
        method: format!("a.A.{name}()V"),
        loader: loader.into(),
        version: version.map(|number| Version { number, of: 2 }),
        ..ViewMethod::default()
    };
    let mut rows = [
        row("f", "app", Some(1)),
        row("f", "app", Some(2)),
        row("f", "app", None),
        row("f", "app", Some(0)),
        row("g", "x", None),
        row("h", "x", None),
        row("h", "app", Some(1)),
    ];
    ViewMethod::complete(&mut rows, &table, |m| {
        Some(Listing::of(m, |_| Times { seen: m.id.get().into(), exact: true }, None))
    });
    let of = |r: &ViewMethod| (r.source_file.clone(), r.listing.as_ref().map(|l| l.rows[0].times.seen));
    let none = (String::new(), None);
    let some = |source: &str, id| (source.to_owned(), Some(id));
    let expected = [some("1", 0), some("2", 1), none.clone(), none.clone(), some("4", 3), none.clone(), none];
    assert_eq!(rows.each_ref().map(of), expected);
}

#[test]
fn the_class_of_a_method() {
    let class =
        |method: &str| ViewMethod { method: method.into(), ..ViewMethod::default() }.class().to_owned();
    assert_eq!(class("a.b.C$D.f(La.b.E;)V"), "a.b.C$D");
    assert_eq!((class("C.<init>()V"), class("(unknown)")), ("C".to_owned(), String::new()));
}
