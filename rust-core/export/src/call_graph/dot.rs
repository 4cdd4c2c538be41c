// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A call graph in the language of Graphviz.
//!
//! Text stands in quotes, where `\"` is a quote. A backslash begins an escape of labels, such as
//! `\N`, so it is doubled. Control characters are shown as escapes.

use std::io::{BufWriter, Write};

use jportal_analyses::calls::{CallGraph, GraphCalls};
use jportal_plain::line;

use crate::Error;

/// Writes a graph. `title` is its name.
///
/// # Errors
/// If the output cannot be written.
pub fn write_dot(graph: &CallGraph, title: &str, out: &mut dyn Write) -> Result<(), Error> {
    let mut out = BufWriter::new(out);
    writeln!(out, "digraph {} {{", quoted(title))?;
    writeln!(out, "  graph [exact={}];", graph.exact)?;
    writeln!(out, "  node [shape=box];")?;
    for (at, method) in graph.methods.iter().enumerate() {
        writeln!(out, "  n{at} [label={}, loader={}];", quoted(&method.name), quoted(&method.loader))?;
    }
    for calls in &graph.calls {
        writeln!(out, "  n{} -> n{} [{}];", calls.from, calls.to, attributes(graph, calls))?;
    }
    writeln!(out, "}}")?;
    Ok(out.flush()?)
}

/// The attributes of an edge. One that was not seen, but may be hidden, is dashed.
fn attributes(graph: &CallGraph, calls: &GraphCalls) -> String {
    let all = calls.calls.total();
    let mut text = format!("label={}, calls={all}, sites={}", quoted(&graph.count_text(calls)), calls.sites);
    for (tier, n) in calls.tiers.named() {
        text.push_str(&format!(", {tier}={n}"));
    }
    text.push_str(&format!(", exact={}", calls.exact));
    text.push_str(if all == 0 { ", style=dashed" } else { "" });
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", line(text).replace('\\', "\\\\").replace('"', "\\\""))
}
