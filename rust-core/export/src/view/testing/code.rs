// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Made-up methods, coverage and sources.

use std::collections::BTreeMap;
use std::fmt::Write;

use jportal_analyses::coverage::{ClassCoverage, Coverage, Figures, MethodCoverage, Ratio, Units};
use jportal_analyses::tree::CallTree;
use jportal_bytecode::{InvokeRef, LineRow, Method, testing};
use jportal_flow::Tally;
use jportal_units::Bci;

use super::super::{Listing, SourceFile, Times, ViewMethod};
use super::tree::{class, name};

/// `iconst_0; istore_1; iload_1(2); iload_0; if_icmpge 18; iload_1; invokestatic; istore_1;
/// iinc 1, 1; goto 2; iload_1(18); ireturn`.
const LOOP: &[u8] = &[3, 60, 27, 26, 162, 0, 14, 27, 184, 0, 1, 60, 132, 1, 1, 167, 0xff, 0xf3, 27, 172];

/// Lines that a method takes in its file.
const LINES: u16 = 10;

/// The methods of the tree, most bytecodes first.
pub(super) fn methods(tree: &CallTree) -> Vec<ViewMethod> {
    let mut all: BTreeMap<&str, ViewMethod> = BTreeMap::new();
    for node in tree.nodes.iter().filter(|n| n.parent.is_some()) {
        let m = all.entry(&node.method).or_insert_with(|| ViewMethod {
            method: node.method.to_string(),
            loader: node.loader.to_string(),
            exact: true,
            at_most: [Some(0); 2],
            ..ViewMethod::default()
        });
        m.calls.merge(&node.invocations);
        m.bytecodes.merge(&node.bytecodes);
        m.tiers.interpreter += node.tiers.interpreter;
        m.tiers.c1 += node.tiers.c1;
        m.tiers.c2 += node.tiers.c2;
        if !node.exact {
            m.exact = false;
            m.at_most[0] = m.at_most[0].map(|n| n + 90);
        }
    }
    let mut all: Vec<ViewMethod> = all.into_values().collect();
    all.iter_mut().for_each(complete);
    all.sort_by(|a, b| b.bytecodes.total().cmp(&a.bytecodes.total()).then(a.method.cmp(&b.method)));
    all
}

fn complete(m: &mut ViewMethod) {
    m.source_file = source_file(m.class());
    let total = m.bytecodes.total();
    if total == 0 {
        return;
    }
    let first = first_line(&m.method);
    let code = if m.method.len().is_multiple_of(3) { testing::BRANCHY } else { LOOP };
    let line = |(bci, line)| LineRow { bci: Bci(bci), line: first + line };
    let lines = match code.len() {
        10 => [(0, 2), (4, 3), (8, 7)].map(line).to_vec(),
        _ => [(0, 2), (2, 3), (7, 4), (12, 5), (15, 3), (18, 7)].map(line).to_vec(),
    };
    let target = InvokeRef {
        bci: Bci(8),
        class_name: "java/lang/Math".into(),
        name: "abs".into(),
        signature: "(I)I".into(),
    };
    let method = Method { lines: lines.into(), invokes: [target].into(), ..testing::method("made", code) };
    let (calls, times) = (m.calls.total().max(1), total / code.len() as u64 + 1);
    let exact = m.exact;
    let counts = |bci: Bci| Times {
        seen: match (code.len(), bci.get()) {
            (10, 4 | 5) => calls / 3,
            (10, 8) => calls - calls / 3,
            (20, 2..=6) => times + calls,
            (20, 7..=17) => times,
            _ => calls,
        },
        exact,
    };
    let ways = |_: Bci, to: Bci| Times {
        seen: if code.len() == 20 && to.get() == 18 { calls } else { counts(to).seen },
        exact,
    };
    m.listing = Some(Listing::of(&method, counts, Some(&ways)));
}

fn source_file(class: &str) -> String {
    let simple = class.rsplit_once('.').map_or(class, |(_, simple)| simple);
    format!("{}.java", simple.split('$').next().unwrap_or(simple))
}

/// The line before a method's first one: its place among the methods of its class.
fn first_line(method: &str) -> u16 {
    let sum: u32 = method.bytes().map(u32::from).sum();
    8 + LINES * (sum % 20) as u16
}

/// A file for every class that is not of the JDK.
pub(super) fn sources(methods: &[ViewMethod]) -> Vec<SourceFile> {
    let mut files: BTreeMap<String, BTreeMap<u16, String>> = BTreeMap::new();
    for m in methods.iter().filter(|m| !m.class().starts_with("java.")) {
        let package = m.class().rsplit_once('.').map_or("", |(p, _)| p).replace('.', "/");
        let path = format!("src/main/java/{package}/{}", m.source_file);
        let name = m.method.split('(').next().unwrap_or("").rsplit('.').next().unwrap_or("").to_owned();
        files.entry(path).or_default().insert(first_line(&m.method), name);
    }
    files.into_iter().map(|(path, methods)| SourceFile { text: text(&path, &methods), path }).collect()
}

fn text(path: &str, methods: &BTreeMap<u16, String>) -> String {
    let package = path.trim_start_matches("src/main/java/").rsplit_once('/').map_or("", |(p, _)| p);
    let package = package.replace('/', ".");
    let mut text = format!("/* {path} <made up & harmless> */\n\npackage {package};\n\n");
    text.push_str("/**\n * Rows of a table, read by a cursor.\n */\npublic class Made {\n");
    for line in (8..208).step_by(usize::from(LINES)) {
        // Writing to a string does not fail.
        let _ = match methods.get(&line) {
            Some(name) => writeln!(
                text,
                "    int {name}(int n) {{\n        int i = 0, s = 0;\n        while (i < n && \"<b>\" != null) {{\n            s = Math.abs(i);\n            i++;\n        }}\n        return s;\n    }}\n\n"
            ),
            None => writeln!(text, "    // nothing here{}", "\n".repeat(9)),
        };
    }
    text.push_str("}\n");
    text
}

/// Coverage of all classes that have one of the first `present` methods.
pub(super) fn coverage(methods: &[ViewMethod], present: usize) -> Coverage {
    let executed: BTreeMap<&str, &ViewMethod> = methods.iter().map(|m| (m.method.as_str(), m)).collect();
    let mut classes: BTreeMap<String, Vec<MethodCoverage>> = BTreeMap::new();
    for method in 0..present + present / 2 {
        let (class, name) = (class(method), name(method));
        let m = executed.get(format!("{class}.{name}").as_str()).copied();
        classes.entry(class).or_default().push(method_coverage(name, m));
    }
    let mut total = Figures::default();
    let classes = classes.into_iter().map(|(class, methods)| {
        let mut figures = Figures::default();
        methods.iter().for_each(|m| add(&mut figures, &m.figures));
        add(&mut total, &figures);
        let (loader, source_file) = (super::tree::loader(&class).to_owned(), source_file(&class));
        ClassCoverage { class, loader, source_file, figures, units: Units::default(), methods }
    });
    let classes = classes.collect();
    let (inexact, units) = (super::inexact(), Units::default());
    Coverage { exact: false, missed_is_certain: false, inexact, total, units, classes }
}

fn method_coverage(name: String, m: Option<&ViewMethod>) -> MethodCoverage {
    let ratio = |executed, present, unknown| Ratio {
        executed: Tally { decoded: executed, ..Tally::default() },
        present,
        unknown,
        at_most: executed + unknown,
    };
    let mut c = MethodCoverage {
        name,
        version: None,
        figures: Figures { bytecodes: ratio(0, 12, 0), lines: ratio(0, 4, 0), branches: ratio(0, 2, 0) },
        missed_lines: vec![9, 10, 11, 13],
        unknown_lines: Vec::new(),
        detail: None,
    };
    let Some(m) = m else { return c };
    let first = first_line(&m.method);
    (c.missed_lines, c.unknown_lines) = (Vec::new(), Vec::new());
    let exact = m.exact;
    c.figures = Figures {
        bytecodes: ratio(if exact { 12 } else { 8 }, 12, if exact { 0 } else { 3 }),
        lines: ratio(if exact { 4 } else { 2 }, 4, u64::from(!exact)),
        branches: ratio(1, 2, u64::from(!exact)),
    };
    if !exact {
        (c.missed_lines, c.unknown_lines) = (vec![first + 5], vec![first + 4]);
    }
    c
}

fn add(sum: &mut Figures, more: &Figures) {
    for (a, b) in [
        (&mut sum.bytecodes, &more.bytecodes),
        (&mut sum.lines, &more.lines),
        (&mut sum.branches, &more.branches),
    ] {
        a.executed.merge(&b.executed);
        (a.present, a.unknown, a.at_most) =
            (a.present + b.present, a.unknown + b.unknown, a.at_most + b.at_most);
    }
}
