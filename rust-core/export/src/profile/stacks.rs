// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The nodes of a call tree as stacks with weights.

use hashbrown::HashMap;
use jportal_analyses::names::split_qualified;
use jportal_analyses::tree::{CallTree, Context};

use super::{ProfileOptions, Weight};
use crate::Error;

/// A method with its loader.
pub(super) type Function<'a> = (&'a str, &'a str);

/// A call tree whose structure was checked.
pub(super) struct Stacks<'a> {
    pub(super) tree: &'a CallTree,
    options: &'a ProfileOptions<'a>,
    /// The thread of each node.
    pub(super) threads: Vec<u32>,
    /// The number of frames of each node's stack, before it is cut. 0 for a root.
    depths: Vec<u32>,
    /// The innermost node with a frame in each node's stack; a root if there is none.
    innermost: Vec<u32>,
    /// The methods, in order of first occurrence.
    pub(super) functions: Vec<Function<'a>>,
    /// The method of each node.
    function: Vec<u32>,
}

/// A frame of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ProfileFrame {
    /// Index of the method.
    pub(super) function: u32,
    /// The line of the call to the next frame, if it is known.
    pub(super) line: Option<u16>,
}

/// A node's own figures, or a part of them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SampleFigures {
    /// The tier that executed the bytecodes. `None` for figures that are not known by tier.
    pub(super) tier: Option<&'static str>,
    pub(super) invocations: u64,
    pub(super) bytecodes: u64,
    /// Nanoseconds.
    pub(super) time: Option<u64>,
}

impl<'a> Stacks<'a> {
    pub(super) fn new(tree: &'a CallTree, options: &'a ProfileOptions<'a>) -> Result<Self, Error> {
        let threads = tree.threads_of_nodes()?;
        let mut depths: Vec<u32> = Vec::with_capacity(tree.nodes.len());
        let mut innermost: Vec<u32> = Vec::with_capacity(tree.nodes.len());
        let most = options.depth.unwrap_or(usize::MAX);
        let mut numbers: HashMap<Function<'a>, u32> = HashMap::new();
        let (mut functions, mut function) = (Vec::new(), Vec::with_capacity(tree.nodes.len()));
        for node in &tree.nodes {
            let depth = node.parent.map_or(0, |parent| depths[parent as usize] + 1);
            depths.push(depth);
            innermost.push(match node.parent {
                Some(parent) if depth as usize > most => innermost[parent as usize],
                _ => node.id,
            });
            let named = (&*node.method, &*node.loader);
            // A root has no frame.
            let number = node.parent.map_or(0, |_| {
                *numbers.entry(named).or_insert_with(|| {
                    functions.push(named);
                    functions.len() as u32 - 1
                })
            });
            function.push(number);
        }
        Ok(Self { tree, options, threads, depths, innermost, functions, function })
    }
    /// The frames of a node's stack, the innermost first.
    pub(super) fn frames(&self, node: u32, frames: &mut Vec<ProfileFrame>) {
        frames.clear();
        let innermost = self.innermost[node as usize];
        let (mut at, mut line) = (&self.tree.nodes[innermost as usize], None);
        while let Some(parent) = at.parent {
            frames.push(ProfileFrame { function: self.function[at.id as usize], line });
            line = at.site.and_then(|site| site.line);
            at = &self.tree.nodes[parent as usize];
        }
    }
    /// The index of a node's method.
    pub(super) fn function(&self, node: u32) -> u32 {
        self.function[node as usize]
    }
    /// Whether a node has a frame: it is no root and not too deep.
    pub(super) fn is_shown(&self, node: u32) -> bool {
        self.depths[node as usize] > 0 && self.innermost[node as usize] == node
    }
    /// The number of frames of all stacks together.
    pub(super) fn frames_of_all(&self) -> u64 {
        let most = self.options.depth.unwrap_or(usize::MAX) as u64;
        self.depths.iter().map(|depth| u64::from(*depth).min(most)).sum()
    }
    /// Nanoseconds; `None` if the frequency is not known.
    fn time(&self, node: &Context) -> Result<Option<u64>, Error> {
        let Some(frequency) = self.options.ticks_per_second else { return Ok(None) };
        let time = u128::from(node.ticks) * 1_000_000_000 / u128::from(frequency.get());
        u64::try_from(time).map(Some).map_err(|_| Error::TooLarge {
            what: "a time in ticks:",
            value: node.ticks,
            most: u64::MAX,
        })
    }
    /// The weight of a node.
    pub(super) fn weight(&self, node: &Context) -> Result<u64, Error> {
        match self.options.weight {
            Weight::Bytecodes => Ok(node.bytecodes.total()),
            Weight::Calls => Ok(node.invocations.total()),
            Weight::Time => self.time(node)?.ok_or(Error::NoTime),
        }
    }
    /// A node's figures: the bytecodes of each tier, and all figures that are not known by tier.
    /// Parts without figures are left out.
    pub(super) fn parts(&self, node: &Context) -> Result<Vec<SampleFigures>, Error> {
        let t = &node.tiers;
        let tiers = [("interpreter", t.interpreter), ("c1", t.c1), ("c2", t.c2)];
        let all = node.bytecodes.total();
        let by_tier = tiers.iter().map(|tier| tier.1).fold(0, u64::saturating_add);
        let (tiers, rest) = if by_tier <= all { (&tiers[..], all - by_tier) } else { (&[][..], all) };
        let time = self.time(node)?;
        let invocations = node.invocations.total();
        let mut parts = vec![SampleFigures { tier: None, invocations, bytecodes: rest, time }];
        let zero = time.map(|_| 0);
        parts.extend(tiers.iter().map(|&(name, bytecodes)| SampleFigures {
            tier: Some(name),
            invocations: 0,
            bytecodes,
            time: zero,
        }));
        parts.retain(|p| p.invocations.max(p.bytecodes).max(p.time.unwrap_or(0)) > 0);
        Ok(parts)
    }
    /// The name of a method as people see it.
    pub(super) fn shown(&self, function: u32) -> &'a str {
        shown(self.functions[function as usize].0, self.options.descriptors)
    }
}

/// A method's name, with or without its descriptor. Without it, a version is not shown either.
pub(super) fn shown(method: &str, descriptors: bool) -> &str {
    let name = method.split_once(" [version ").map_or(method, |(name, _)| name);
    match split_qualified(name) {
        Some((class, simple, _)) if !descriptors => &name[..class.len() + 1 + simple.len()],
        _ => method,
    }
}

/// A name for each thread that no other thread has: of threads with equal names, name and id, or
/// name and position.
pub(super) fn thread_names(tree: &CallTree) -> Vec<String> {
    let mut same: HashMap<&str, u32> = HashMap::new();
    let mut same_id: HashMap<(&str, Option<u32>), u32> = HashMap::new();
    for t in &tree.threads {
        *same.entry(&t.name).or_default() += 1;
        *same_id.entry((&t.name, t.tid)).or_default() += 1;
    }
    let name = |(at, t): (usize, &jportal_analyses::tree::ThreadTree)| match t.tid {
        _ if same[t.name.as_str()] == 1 => t.name.clone(),
        Some(tid) if same_id[&(t.name.as_str(), t.tid)] == 1 => format!("{} (tid {tid})", t.name),
        Some(tid) => format!("{} (tid {tid}, thread {})", t.name, at + 1),
        None => format!("{} (thread {})", t.name, at + 1),
    };
    tree.threads.iter().enumerate().map(name).collect()
}
