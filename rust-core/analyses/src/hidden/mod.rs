// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a flow leaves open, and the effect on counts and on coverage.
//!
//! Three things may have happened without an event:
//!
//! * A stretch of compiled code is *unresolved*: the flow says where it began, where it ended,
//!   and why the bytecodes are not known. The bytecodes and branches on the paths between the
//!   two ends are *unknown*. So is everything that the compilers inlined at the calls on these
//!   paths.
//! * Trace was lost: a gap, orphans, or frames that were found or given up. Any method may have
//!   run. For frames that existed where trace was lost, everything that they may have reached
//!   is *unknown*. For frames that were found, everything that may have led to their position
//!   is *unknown*.
//! * A call was made without a frame. The flow shows no callee: the next bytecode of the same
//!   frame follows the invoke. Either an intrinsic's instructions ran, or a compiler removed
//!   the call with all its effects. The number of calls seen is then a lower bound for the
//!   callee.
//!
//! The truth lies within the bounds. A stretch hides at least the bytecodes of its shortest
//! path and at most those of its longest path, without limit if a cycle may lie on it.

mod account;
mod follow;
mod inlined;
mod region;

use std::collections::BTreeMap;

use jportal_flow::{Cause, Provenance};
use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use self::account::Account;
pub use self::account::{Bounds, Missing};
pub(crate) use self::follow::{Follower, Hidden, UnresolvedStretch, has_rounds};
pub use self::inlined::Inlined;
pub(crate) use self::region::{Region, To, Ways, may_throw};

/// An upper bound. `None` means that there is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Most(pub Option<u64>);

impl Default for Most {
    fn default() -> Self {
        Self(Some(0))
    }
}

impl Most {
    /// No limit is known.
    pub(crate) const NO_LIMIT: Self = Self(None);
    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.zip(other.0).and_then(|(a, b)| a.checked_add(b)))
    }
    /// The product. Zero times any number, even without limit, is zero.
    pub(crate) fn times(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(0), _) | (_, Some(0)) => Self(Some(0)),
            (Some(a), Some(b)) => Self(a.checked_mul(b)),
            _ => Self::NO_LIMIT,
        }
    }
    /// Whether the bound is zero.
    pub(crate) const fn is_none(self) -> bool {
        matches!(self.0, Some(0))
    }
}

/// Why figures are not exact. All counts are zero if the figures are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inexact {
    /// Gaps.
    pub gaps: u64,
    /// Orphans: bytecodes of unknown methods.
    pub orphans: u64,
    /// Unresolved stretches of compiled code, of which only the ends are known, by cause.
    #[serde(deserialize_with = "causes")]
    pub unresolved: BTreeMap<&'static str, u64>,
    /// Frames whose beginning was not seen.
    pub found: u64,
    /// Calls without a frame: intrinsics, and calls that a compiler removed with all their
    /// effects. They affect only the counts of calls.
    pub silent_calls: u64,
    /// Events that are known by placing (`--project`) only.
    pub projected: u64,
    /// Events that are known by filling (`--recover`) only.
    pub recovered: u64,
    /// Events that were left out at the caller's request.
    pub excluded: u64,
}

impl Inexact {
    /// Counts `n` unresolved stretches.
    pub(crate) fn add_unresolved(&mut self, cause: Cause, n: u64) {
        *self.unresolved.entry(cause.name()).or_default() += n;
    }
    /// Counts `n` events that are not decoded.
    pub(crate) fn add_events(&mut self, provenance: Provenance, n: u64) {
        match provenance {
            Provenance::Decoded => {}
            Provenance::Projected { .. } => self.projected += n,
            Provenance::Recovered { .. } => self.recovered += n,
        }
    }
    pub(crate) fn merge(&mut self, other: &Self) {
        self.gaps += other.gaps;
        self.orphans += other.orphans;
        for (cause, n) in &other.unresolved {
            *self.unresolved.entry(cause).or_default() += n;
        }
        self.found += other.found;
        self.silent_calls += other.silent_calls;
        self.projected += other.projected;
        self.recovered += other.recovered;
        self.excluded += other.excluded;
    }
    /// Whether any method may have run unseen, or events were inferred or left out.
    pub(crate) const fn is_lossy(&self) -> bool {
        self.is_blind() || self.projected + self.recovered > 0
    }
    /// Whether any method may have run unseen.
    pub(crate) const fn is_blind(&self) -> bool {
        self.gaps + self.orphans + self.found + self.excluded > 0
    }
    /// The number of unresolved stretches of all causes.
    pub fn stretches(&self) -> u64 {
        self.unresolved.values().sum()
    }
    /// `12 unresolved stretches (9 conditional-move, 3 empty-loop)`. Empty if there are none.
    pub fn stretches_text(&self) -> String {
        let causes: Vec<String> = self.unresolved.iter().map(|(cause, n)| format!("{n} {cause}")).collect();
        match self.stretches() {
            0 => String::new(),
            1 => format!("1 unresolved stretch ({})", causes.join(", ")),
            n => format!("{n} unresolved stretches ({})", causes.join(", ")),
        }
    }
    /// `3 gaps, 17 orphans`: the places where any method may have run. Empty if there are none.
    pub fn blind_text(&self) -> String {
        let parts = [
            (self.gaps, "gap", ""),
            (self.orphans, "bytecode", " of unknown frames"),
            (self.found, "frame", " whose beginning was not seen"),
            (self.excluded, "event", " left out"),
        ];
        let some = parts.into_iter().filter(|p| p.0 > 0);
        some.map(|(n, what, rest)| counted(n, what) + rest).collect::<Vec<_>>().join(", ")
    }
}

/// Reads the counts by cause. Causes that this version does not know count as `(other)`.
fn causes<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<&'static str, u64>, D::Error> {
    let mut known: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (cause, n) in BTreeMap::<String, u64>::deserialize(from)? {
        let name = Cause::ALL.iter().map(|c| c.name()).find(|name| *name == cause);
        let count = known.entry(name.unwrap_or("(other)")).or_default();
        *count = count.saturating_add(n);
    }
    Ok(known)
}

/// A count with its noun: `1 line`, `2 lines`.
pub(crate) fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
