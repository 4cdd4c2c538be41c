// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The call tree as a result: what commands print and exports write.

use std::sync::Arc;

use jportal_flow::Tally;
use serde::{Deserialize, Serialize};

use crate::hidden::Inexact;

/// The call trees of the threads shown, or of their buckets, or one merged tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTree {
    /// Whether all figures are complete.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// How the tree was built.
    pub settings: Settings,
    /// The threads, by start. One entry without thread ids if they were merged. If the trees are
    /// those of buckets: the buckets by start of their threads and in order of execution; then
    /// what is in none of them.
    pub threads: Vec<ThreadTree>,
    /// The error of counting whole blocks, if both ways of counting were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<Delta>,
    /// All nodes in preorder, the children of a node by name. A node's number is its index.
    pub nodes: Vec<Context>,
}

/// How a tree was built. Texts are the values of the command's options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Threads are merged into one tree.
    pub merged: bool,
    /// `precise`, `default` or `both`.
    pub blocks: String,
    /// `nested` or `root`: where frames that the VM or native code called are placed.
    pub upcalls: String,
    /// `show` or `none`: whether native methods have nodes.
    pub natives: String,
    /// A node's key contains the call site.
    pub sites: bool,
    /// `splice`, `fold` or `show`: what happens to frames outside of the scope.
    pub hide: String,
    /// Recursive frames are folded into their ancestor's node.
    pub folded_recursion: bool,
    /// Each bucket has a tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub split: bool,
}

/// The tree of one thread, or of one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTree {
    /// OS thread id. `None` for the merged tree and for what is in no bucket.
    pub tid: Option<u32>,
    /// `java.lang.Thread.getId()`; 0 if unknown.
    pub java_tid: u64,
    /// Name; `(merged)` for the merged tree. That of a bucket is `class.name(descriptor)#n`, or
    /// `(none)`, `(other threads)`, `(further)`.
    pub name: String,
    /// Whether this tree is complete.
    pub exact: bool,
    /// Index of its root in the nodes.
    pub root: u32,
    /// The bucket, if it is the tree of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<BucketTree>,
}

/// Of which part of the execution the tree of a bucket is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketTree {
    /// The name of its thread. `None` for what is in no bucket.
    pub thread: Option<String>,
    /// Number of activations: 1, or that of `(further)`. 0 for what is in no bucket.
    pub activations: u64,
    /// Whether the beginning and the end of the activation were seen.
    pub complete: bool,
}

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The root of a thread: the caller of whatever the VM calls first.
    Root,
    /// A method called by Java code.
    Call,
    /// A method called by the VM or by native code.
    Upcall,
    /// Frames whose callers are not known.
    Unknown,
    /// Bytecodes of frames whose method is not known.
    Orphans,
    /// A call without a frame: an intrinsic, or a call that a compiler removed.
    Silent,
    /// Frames outside of the scope, folded into one node per caller.
    Library,
}

/// The call site of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Site {
    /// Bci of the invoke.
    pub bci: u16,
    /// Its source line.
    pub line: Option<u16>,
}

/// Bytecodes by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tiers {
    /// The template interpreter.
    pub interpreter: u64,
    /// C1.
    pub c1: u64,
    /// C2.
    pub c2: u64,
}

/// What unresolved stretches may hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Number of stretches.
    pub stretches: u64,
    /// Fewest bytecodes that they hide.
    pub min: u64,
    /// Most bytecodes that they hide. `None`: no limit.
    pub max: Option<u64>,
}

/// A method in its whole calling context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Number: its index.
    pub id: u32,
    /// Number of the parent, which is smaller. `None` for a root.
    pub parent: Option<u32>,
    /// What it stands for.
    pub kind: Kind,
    /// `class.name(descriptor)`, or a text in parentheses.
    pub method: Arc<str>,
    /// Loader of the class; empty for the boot loader and for texts in parentheses.
    pub loader: Arc<str>,
    /// The call site, if the key contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Site>,
    /// Activations that began in this context.
    pub invocations: Tally,
    /// Of these, activations that ended by an exception before their first bytecode. They are
    /// not part of `invocations`.
    pub unstarted: u64,
    /// Activations whose beginning was not seen. They are not part of `invocations`.
    pub found: u64,
    /// Bytecodes executed in these activations themselves, each counted when it began.
    pub bytecodes: Tally,
    /// The same, counted by whole blocks when their first bytecode began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<u64>,
    /// Bytecodes of this node and of all nodes below it.
    pub total: u64,
    /// The bytecodes by tier.
    pub tiers: Tiers,
    /// Time on a core in these activations themselves, in ticks of the TSC.
    pub ticks: u64,
    /// Whether the node's figures are complete.
    pub exact: bool,
    /// What may be missing, if the figures are lower bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unresolved: Option<Limits>,
}

/// The error of counting by whole blocks (JP, section 6): default / precise - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// Bytecodes counted by whole blocks.
    pub default: u64,
    /// Bytecodes that began.
    pub precise: u64,
}

impl Delta {
    /// The relative error; 0 if nothing was executed.
    pub fn error(self) -> f64 {
        if self.precise == 0 { 0.0 } else { self.default as f64 / self.precise as f64 - 1.0 }
    }
}
