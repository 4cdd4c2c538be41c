// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a completion amounts to.

use jportal_recover::fill::FillWork;
use serde::Serialize;

/// Events and gaps of one thread, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Bytecodes that went in.
    pub decoded: u64,
    /// Bytecodes that were filled in.
    pub recovered: u64,
    /// Other events that were filled in: frames entered and left, exceptions caught.
    pub recovered_other: u64,
    /// Gaps that went in.
    pub gaps: u64,
    /// Those in whose place a fill stands. The others came out as they went in.
    pub gaps_filled: u64,
    /// Gaps inside of fills: what was recovered behind them is not known to have come from what was recovered in front.
    pub broken: u64,
    /// Places for which a fill was found, but not one whose frames lead to those that follow and that has the orphans there.
    pub contradicted: u64,
    /// How often the frames that fills had led to turned out not to be those that follow: behind a
    /// gap of its own the flow goes on without them.
    pub given_up: u64,
}

impl Figures {
    /// Adds those of another thread.
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
    /// Gaps that came out as they went in. Those of [`Figures::given_up`] are besides.
    pub const fn gaps_left(&self) -> u64 {
        self.gaps - self.gaps_filled
    }
}

/// Figures of one thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ThreadFigures {
    /// OS thread id.
    pub tid: u32,
    /// TSC of its start.
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
    /// Complete segments, or places, that could be read.
    pub candidates: u64,
    /// Those beyond the bound, which were not looked at.
    pub left_out: u64,
    /// Complete segments compared instruction by instruction.
    pub compared: u64,
    /// Those that were read.
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
    /// Gaps cut into what was captured, to know what confidences are worth.
    pub rehearsing: f64,
    /// Tables of what was captured.
    pub learning: f64,
    /// Waiting for fills, which are looked for on other threads meanwhile.
    pub filling: f64,
    /// Reading the events again and handing them on, without that.
    pub replaying: f64,
}

/// What a completion did.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// The method's name.
    pub method: &'static str,
    /// All threads together.
    #[serde(flatten)]
    pub total: Figures,
    /// Each thread, in the order in which their flows began.
    pub threads: Vec<ThreadFigures>,
    /// Instructions that were learned from.
    pub learned: u64,
    /// Instructions beyond [`Settings::longest_captured`](crate::Settings::longest_captured): not learned from.
    pub not_learned: u64,
    /// Bytes of events in temporary files.
    pub spooled_bytes: u64,
    /// Gaps cut for the rehearsal, and those of them that were filled.
    pub rehearsed: (u64, u64),
    /// What the fills cost.
    pub work: Work,
    /// How long it took.
    pub seconds: Seconds,
}
