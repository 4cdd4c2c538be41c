// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call trees as profiles for other tools: collapsed stacks, pprof, speedscope, OTLP.
//!
//! These formats hold stacks with weights. A node of the tree becomes the stack of its path with
//! the node's own figures, so the sum over all stacks is the sum over all nodes. Nodes without
//! figures have no stack of their own. The formats have no bounds and no provenances: a figure is
//! the sum of what was decoded, placed and filled, and a lower bound where the tree says so. Each
//! format says in its own way that a tree is not exact.
//!
//! A call tree has no time stamps, so no format shows an order of events.

mod collapsed;
mod exactness;
mod otlp;
mod otlp_proto;
mod pprof;
mod pprof_proto;
mod pprof_reader;
mod sources;
mod speedscope;
mod stacks;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

pub use self::collapsed::{write_collapsed, write_collapsed_diff};
pub use self::otlp::write_otlp;
pub use self::pprof::write_pprof;
pub use self::pprof_reader::{PprofError, PprofStacks};
pub use self::sources::Sources;
pub use self::speedscope::write_speedscope;

/// What stacks are weighted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Bytecodes executed in the method itself.
    #[default]
    Bytecodes,
    /// Invocations.
    Calls,
    /// Nanoseconds on a core in the method itself.
    Time,
}

impl Weight {
    /// The name of the figure in pprof and OTLP.
    const fn figure(self) -> &'static str {
        match self {
            Self::Bytecodes => "bytecodes",
            Self::Calls => "invocations",
            Self::Time => "time",
        }
    }
}

/// How to write a call tree.
#[derive(Clone, Copy, Debug)]
pub struct ProfileOptions<'a> {
    /// The weight of collapsed stacks and of speedscope's samples, and pprof's default. The other
    /// formats hold all weights.
    pub weight: Weight,
    /// Collapsed stacks begin with the thread, and speedscope shows one profile per thread.
    /// Otherwise all threads are one. pprof and OTLP always keep them apart, by labels.
    pub threads: bool,
    /// Show the descriptors of methods. Otherwise collapsed stacks add up overloaded methods.
    pub descriptors: bool,
    /// The maximum number of frames of a stack, without the thread. What lies deeper belongs to
    /// the deepest frame shown. Without it, deep recursion takes space quadratic in its depth.
    pub depth: Option<usize>,
    /// Frequency of the TSC in Hz. `None`: the tree has no times, so none are written.
    pub ticks_per_second: Option<NonZeroU64>,
    /// Where methods are defined, for the formats that show it.
    pub sources: Option<&'a Sources>,
    /// The name of what was recorded, for people. May be empty.
    pub title: &'a str,
    /// When the recording began, in nanoseconds since 1970 (UTC).
    pub started: Option<u64>,
    /// How long it took, in nanoseconds.
    pub duration: Option<u64>,
}

impl Default for ProfileOptions<'_> {
    /// Bytecodes by thread, methods without descriptors, no limit, nothing known.
    fn default() -> Self {
        Self {
            weight: Weight::default(),
            threads: true,
            descriptors: false,
            depth: None,
            ticks_per_second: None,
            sources: None,
            title: "",
            started: None,
            duration: None,
        }
    }
}
