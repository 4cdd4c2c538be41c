// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arguments of the commands that build call trees.

use clap::{Args, ValueEnum};
use jportal::analyses::tree;

use super::{CommonArgs, SplitArgs};

/// How bytecodes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Counting {
    /// Each when it begins
    Precise,
    /// A whole block when its first bytecode begins
    Default,
    /// Both, and the difference
    Both,
}

/// Where frames are placed that the VM or native code called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Upcalls {
    /// Under the frame that was on top
    Nested,
    /// Under the root
    Root,
}

/// Whether native methods have nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Natives {
    /// They have
    Show,
    /// What they call hangs on their caller
    None,
}

/// What happens to frames outside of the selected classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hide {
    /// They are transparent: what they call hangs on the nearest selected frame
    Splice,
    /// One node per caller, `(library)`, holds them
    Fold,
    /// They are shown like the others
    Show,
}

/// What the figures of a tree are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeWeight {
    /// Bytecodes executed in the node itself
    Bytecodes,
    /// Invocations
    Calls,
    /// Bytecodes executed in the node and below
    Total,
    /// Time on a core
    Time,
}

/// How a tree is built.
#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// One tree for all threads
    #[arg(long)]
    pub(crate) merge: bool,
    /// How bytecodes are counted
    #[arg(long = "bba", value_enum, value_name = "HOW", default_value_t = Counting::Precise)]
    pub(crate) counting: Counting,
    /// Where frames are placed that the VM or native code called
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Upcalls::Nested)]
    pub(crate) upcalls: Upcalls,
    /// Whether native methods have nodes
    #[arg(long, value_enum, value_name = "WHETHER", default_value_t = Natives::Show)]
    pub(crate) native: Natives,
    /// Calls of a method from different call sites have different nodes
    #[arg(long)]
    pub(crate) sites: bool,
    /// What happens to frames outside of --classes and --class; default: splice if one of them
    /// is given
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) hide: Option<Hide>,
    /// A frame of a method that is already on the path counts for that node
    #[arg(long)]
    pub(crate) fold_recursion: bool,
    /// Maximum number of nodes; a node takes 64 bytes
    #[arg(long, value_name = "N", default_value_t = tree::MAX_NODES)]
    pub(crate) max_nodes: u64,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("divided").args(["split", "merge"]))]
pub(crate) struct TreeReportArgs {
    #[command(flatten)]
    pub(crate) tree: TreeArgs,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
    /// Divide the execution of each thread into intervals of this many bytecodes, and show what
    /// each node counted in each
    ///
    /// An interval ends at the next beginning of an activation or of a loop's round, so it has at
    /// least that many bytecodes, and the last one of a thread may have fewer.
    #[arg(long, value_name = "BYTECODES", conflicts_with_all = ["split", "merge"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pub(crate) every: Option<u32>,
    /// What the figures of the text are
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = TreeWeight::Bytecodes)]
    pub(crate) weight: TreeWeight,
    /// Text: maximum depth
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Text: smallest share of the thread's total that has a line of its own (`0.5%` or `0.005`)
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = super::share)]
    pub(crate) min: f64,
    /// Text: maximum number of children of one node
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
}

impl TreeArgs {
    /// The options of the analysis.
    pub(crate) fn options(&self) -> tree::Options {
        let scope = &self.common.scope;
        let scoped = scope.classes.is_some() || !scope.class.is_empty();
        let default = if scoped { Hide::Splice } else { Hide::Show };
        tree::Options {
            counting: match self.counting {
                Counting::Precise => tree::Counting::Precise,
                Counting::Default => tree::Counting::Default,
                Counting::Both => tree::Counting::Both,
            },
            upcalls: self.upcalls.into(),
            natives: self.native.into(),
            hide: self.hide.unwrap_or(default).into(),
            sites: self.sites,
            fold_recursion: self.fold_recursion,
            merged: self.merge,
            max_nodes: self.max_nodes,
        }
    }
}

impl From<Upcalls> for tree::Upcalls {
    fn from(upcalls: Upcalls) -> Self {
        match upcalls {
            Upcalls::Nested => Self::Nested,
            Upcalls::Root => Self::Root,
        }
    }
}

impl From<Natives> for tree::Natives {
    fn from(natives: Natives) -> Self {
        match natives {
            Natives::Show => Self::Show,
            Natives::None => Self::None,
        }
    }
}

impl From<Hide> for tree::Hide {
    fn from(hide: Hide) -> Self {
        match hide {
            Hide::Splice => Self::Splice,
            Hide::Fold => Self::Fold,
            Hide::Show => Self::Show,
        }
    }
}

impl From<TreeWeight> for tree::Weight {
    fn from(weight: TreeWeight) -> Self {
        match weight {
            TreeWeight::Bytecodes => Self::Bytecodes,
            TreeWeight::Calls => Self::Calls,
            TreeWeight::Total => Self::Total,
            TreeWeight::Time => Self::Time,
        }
    }
}
