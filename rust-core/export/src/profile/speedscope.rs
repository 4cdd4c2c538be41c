// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! speedscope's own JSON format (`file-format-spec.ts` of github.com/jlfwong/speedscope): one
//! profile of the type `sampled` per thread. A sample is the stack of a node, its weight the node's
//! own figure. The unit is `none`, for times `nanoseconds`. Threads without weight are left out.
//! The name of a profile that is not exact says so.
//!
//! Readers in JavaScript round weights above 2^53.

use std::cell::RefCell;
use std::io::{BufWriter, Write};

use jportal_analyses::tree::CallTree;
use serde::{Serialize, Serializer};

use super::stacks::{ProfileFrame, Stacks, thread_names};
use super::{ProfileOptions, Weight, exactness};
use crate::Error;

#[derive(Serialize)]
struct SpeedscopeFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: String,
    shared: SharedFrames<'a>,
    profiles: Vec<SampledProfile<'a>>,
}

#[derive(Serialize)]
struct SharedFrames<'a> {
    frames: Vec<NamedFrame<'a>>,
}

#[derive(Serialize)]
struct NamedFrame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u16>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SampledProfile<'a> {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Samples<'a>,
    weights: Vec<u64>,
}

/// The stacks of nodes, made while they are written: together they may be much larger than the
/// tree.
struct Samples<'a> {
    stacks: &'a Stacks<'a>,
    nodes: Vec<u32>,
    frames: RefCell<Vec<ProfileFrame>>,
}

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stack = |node: &u32| -> Vec<u32> {
            let mut frames = self.frames.borrow_mut();
            self.stacks.frames(*node, &mut frames);
            frames.iter().rev().map(|frame| frame.function).collect()
        };
        serializer.collect_seq(self.nodes.iter().map(stack))
    }
}

/// Writes a tree in speedscope's format. Memory: proportional to the nodes.
pub fn write_speedscope(
    tree: &CallTree,
    options: &ProfileOptions<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let stacks = Stacks::new(tree, options)?;
    let frame = |(number, (method, loader)): (u32, &(&str, &str))| {
        let source = options.sources.and_then(|sources| sources.get(method, loader));
        NamedFrame {
            name: stacks.shown(number),
            file: source.map(|s| s.file.as_str()),
            line: source.and_then(|s| s.line),
        }
    };
    let frames = (0..).zip(&stacks.functions).map(frame).collect();
    let file = SpeedscopeFile {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: concat!("jportal ", env!("CARGO_PKG_VERSION")),
        name: file_name(tree, options),
        shared: SharedFrames { frames },
        profiles: profiles(&stacks, options)?,
    };
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &file).map_err(std::io::Error::from)?;
    Ok(out.flush()?)
}

/// The title, and why the tree is not exact.
fn file_name(tree: &CallTree, options: &ProfileOptions<'_>) -> String {
    let title = if options.title.is_empty() { "jportal" } else { options.title };
    let weight = options.weight.figure();
    match exactness::notes(tree).first().filter(|_| !tree.exact) {
        Some(note) => format!("{title}, {weight} ({note})"),
        None => format!("{title}, {weight}"),
    }
}

fn profiles<'a>(
    stacks: &'a Stacks<'a>,
    options: &ProfileOptions<'_>,
) -> Result<Vec<SampledProfile<'a>>, Error> {
    let tree = stacks.tree;
    let names: Vec<(String, bool)> = match options.threads {
        true => thread_names(tree).into_iter().zip(tree.threads.iter().map(|t| t.exact)).collect(),
        false => vec![("all threads".to_owned(), tree.exact)],
    };
    let unit = if options.weight == Weight::Time { "nanoseconds" } else { "none" };
    let empty = |(name, exact): (String, bool)| SampledProfile {
        r#type: "sampled",
        name: if exact { name } else { format!("{name} (inexact: lower bounds)") },
        unit,
        start_value: 0,
        end_value: 0,
        samples: Samples { stacks, nodes: Vec::new(), frames: RefCell::default() },
        weights: Vec::new(),
    };
    let mut profiles: Vec<SampledProfile<'a>> = names.into_iter().map(empty).collect();
    for (node, thread) in tree.nodes.iter().zip(&stacks.threads) {
        let weight = stacks.weight(node)?;
        if weight > 0 {
            let profile = &mut profiles[if options.threads { *thread as usize } else { 0 }];
            profile.end_value = profile.end_value.saturating_add(weight);
            profile.samples.nodes.push(node.id);
            profile.weights.push(weight);
        }
    }
    profiles.retain(|p| !p.weights.is_empty());
    Ok(profiles)
}
