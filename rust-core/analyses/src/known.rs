// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Provenances without their figures, as traces write them.

use jportal_flow::Provenance;

/// How an event, and so what a trace says of it, is known. The numbers are part of the formats of
/// traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Known {
    /// From packets and metadata alone.
    #[default]
    Decoded = 0,
    /// By placing an orphan segment.
    Projected = 1,
    /// By filling a gap.
    Recovered = 2,
}

impl From<Provenance> for Known {
    fn from(provenance: Provenance) -> Self {
        match provenance {
            Provenance::Decoded => Self::Decoded,
            Provenance::Projected { .. } => Self::Projected,
            Provenance::Recovered { .. } => Self::Recovered,
        }
    }
}
