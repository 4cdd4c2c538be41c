// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Collects which core ran which version of the code, and where, as the decoder found out.

use crate::error::Error;
use jportal_machine_flow::{Decided, Decision, Item};
use jportal_reconstruct::{MachineListener, Recording, Stretch};
use jportal_units::Core;
use std::collections::HashMap;

/// The place in the trace of a walk through the code. The walk ends with a branch that a packet
/// decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalkPlace {
    /// The packet, or one before it.
    pub packet: u64,
    /// The walk ends with that packet, and this many of the outcomes up to its end are unused.
    /// `None`: the walk ends with a later packet.
    pub outcomes_left: Option<u8>,
}

/// How one core used one change of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// The last walk that ran through the changed place as it was before the change.
    pub not_yet: Option<WalkPlace>,
    /// The first walk from which on the new bytes run.
    pub seen: Option<WalkPlace>,
}

/// How one core used the changes of code, and what could not be followed.
#[derive(Debug, Default)]
pub(crate) struct CoreUses {
    /// By number of the change.
    pub uses: HashMap<u32, Use>,
    /// Blocks that ran after their bytes had been replaced in memory.
    pub stale: u64,
    /// Gaps in the machine flow.
    pub gaps: u64,
}

#[derive(Default)]
struct Collector {
    found: CoreUses,
    /// Number of blocks and decisions so far.
    blocks: u64,
    taken: usize,
}

impl Collector {
    fn take(&mut self, decision: &Decision) {
        let place = WalkPlace {
            packet: decision.packet.0,
            outcomes_left: decision.walking.then_some(decision.outcomes_left),
        };
        match decision.what {
            Decided::Seen(change) => self.found.uses.entry(change).or_default().seen = Some(place),
            Decided::NotYet(change) => self.found.uses.entry(change).or_default().not_yet = Some(place),
            Decided::Stale { .. } => self.found.stale += 1,
            _ => {}
        }
    }
}

impl MachineListener for Collector {
    fn items(&mut self, _: &Stretch, items: &[Item], decisions: &[Decision]) -> bool {
        self.found.gaps += items.iter().filter(|i| matches!(i, Item::Gap(_))).count() as u64;
        self.blocks += items.iter().filter(|i| matches!(i, Item::Block { .. })).count() as u64;
        // A decision made before a block that was reported is never taken back.
        while let Some(decision) = decisions.get(self.taken).filter(|d| d.block < self.blocks) {
            self.take(decision);
            self.taken += 1;
        }
        true
    }
}

/// Collects the uses of `core` from its machine flow.
pub(crate) fn collect(recording: &Recording, core: Core) -> Result<CoreUses, Error> {
    let mut collector = Collector::default();
    recording.machine_flow(core, &mut collector)?;
    Ok(collector.found)
}
