// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The results of a completion.

use crate::fill::FillWork;
use serde::Serialize;

/// Counts of events and gaps, of one thread or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Bytecodes in the flow before the completion.
    pub decoded: u64,
    /// Bytecodes that were filled in.
    pub recovered: u64,
    /// Other events that were filled in: frames entered and left, exceptions caught.
    pub recovered_other: u64,
    /// Gaps in the flow before the completion.
    pub gaps: u64,
    /// Gaps that were replaced by a fill. The others are passed on unchanged.
    pub gaps_filled: u64,
    /// Gaps inside fills: the bytecodes filled in after such a gap are not known to follow
    /// those before it.
    pub broken: u64,
    /// Places for which a fill was found, but its frames do not lead to those that follow, or
    /// it lacks the orphans of the place.
    pub contradicted: u64,
    /// How often the frames that fills had led to were not those that follow. The flow then
    /// continues without them, after a gap of its own.
    pub given_up: u64,
}

impl Figures {
    /// Adds the figures of another thread.
    pub fn add(&mut self, o: &Self) {
        self.decoded += o.decoded;
        self.recovered += o.recovered;
        self.recovered_other += o.recovered_other;
        self.gaps += o.gaps;
        self.gaps_filled += o.gaps_filled;
        self.broken += o.broken;
        self.contradicted += o.contradicted;
        self.given_up += o.given_up;
    }
    /// Gaps that were passed on unchanged, without those of [`Figures::given_up`].
    pub const fn gaps_left(&self) -> u64 {
        self.gaps - self.gaps_filled
    }
}

/// The figures of one thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ThreadFigures {
    /// OS thread id.
    pub tid: u32,
    /// TSC of the thread's start.
    pub started: u64,
    /// Name.
    pub name: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Sums of [`FillWork`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Work {
    /// Candidates: complete segments, or places, that could be read.
    pub candidates: u64,
    /// Candidates beyond the bound, which were not looked at.
    pub left_out: u64,
    /// Complete segments compared instruction by instruction.
    pub compared: u64,
    /// Candidates that were read.
    pub tried: u64,
    /// Instructions read.
    pub read: u64,
    /// Nodes visited by paths through the ICFG.
    pub visited: u64,
}

impl Work {
    pub(crate) fn add(&mut self, w: &FillWork) {
        self.candidates += w.candidates;
        self.left_out += w.left_out;
        self.compared += w.compared;
        self.tried += w.tried;
        self.read += w.read;
        self.visited += w.visited;
    }
}

/// Wall-clock seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Seconds {
    /// Cutting gaps into the captured flow and filling them, to calibrate the confidences.
    pub rehearsing: f64,
    /// Building the tables of the captured instructions.
    pub learning: f64,
    /// Waiting for fills, which other threads compute in the meantime.
    pub filling: f64,
    /// Reading the events again and passing them on, without the waiting.
    pub replaying: f64,
}

/// The summary of a completion.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// The method's name.
    pub method: &'static str,
    /// The figures of all threads together.
    #[serde(flatten)]
    pub total: Figures,
    /// The figures of each thread, in the order in which their flows began.
    pub threads: Vec<ThreadFigures>,
    /// The number of instructions to learn from.
    pub learned: u64,
    /// The number of instructions beyond
    /// [`longest_captured`](crate::replay::CompletionSettings::longest_captured), which were not
    /// learned from.
    pub not_learned: u64,
    /// The size of the events in temporary files, in bytes.
    pub spooled_bytes: u64,
    /// The number of gaps cut for the rehearsal, and how many of them were filled.
    pub rehearsed: (u64, u64),
    /// The work of the fills.
    pub work: Work,
    /// The time that the completion took.
    pub seconds: Seconds,
}
