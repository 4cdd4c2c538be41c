// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts by provenance.

use serde::{Deserialize, Serialize};

use crate::{Event, EventKind, Provenance};

/// A count of events by provenance.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// From packets and metadata alone.
    pub decoded: u64,
    /// By placing an orphan segment in the ICFG.
    pub projected: u64,
    /// By filling a gap.
    pub recovered: u64,
}

impl Tally {
    /// Counts one event.
    #[inline]
    pub fn add(&mut self, provenance: Provenance) {
        self.add_all(provenance, 1);
    }
    /// Counts `events` events of the same provenance.
    #[inline]
    pub fn add_all(&mut self, provenance: Provenance, events: u64) {
        match provenance {
            Provenance::Decoded => self.decoded += events,
            Provenance::Projected { .. } => self.projected += events,
            Provenance::Recovered { .. } => self.recovered += events,
        }
    }
    /// Adds another count.
    pub fn merge(&mut self, other: &Self) {
        self.decoded += other.decoded;
        self.projected += other.projected;
        self.recovered += other.recovered;
    }
    /// The sum of all three.
    pub const fn total(&self) -> u64 {
        self.decoded + self.projected + self.recovered
    }
    /// `12` or `12 (2 projected, 1 recovered)`.
    pub fn text(&self) -> String {
        let part = |n: u64, name: &str| (n > 0).then(|| format!("{n} {name}"));
        let parts: Vec<String> = [part(self.projected, "projected"), part(self.recovered, "recovered")]
            .into_iter()
            .flatten()
            .collect();
        if parts.is_empty() {
            self.total().to_string()
        } else {
            format!("{} ({})", self.total(), parts.join(", "))
        }
    }
}

/// Provenances to leave out: events of these provenances are neither shown nor counted. The
/// shadow stacks still follow them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Exclude {
    /// What follows from packets and metadata alone.
    pub decoded: bool,
    /// What was found by placing an orphan segment.
    pub projected: bool,
    /// What was filled in for lost data.
    pub recovered: bool,
    /// Gaps.
    pub lost: bool,
}

impl Exclude {
    /// Whether an event with that provenance is left out.
    #[inline]
    pub const fn hides(self, provenance: Provenance) -> bool {
        match provenance {
            Provenance::Decoded => self.decoded,
            Provenance::Projected { .. } => self.projected,
            Provenance::Recovered { .. } => self.recovered,
        }
    }
    /// Whether the event is left out. A gap counts as lost, whatever its provenance.
    #[inline]
    pub const fn hides_event(self, event: &Event) -> bool {
        match event.kind {
            EventKind::Gap(_) => self.lost,
            _ => self.hides(event.provenance),
        }
    }
}
