// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which core ran which version of the code where: what the decoder found out.

use crate::error::Error;
use jportal_machine_flow::{Decided, Decision, Item};
use jportal_reconstruct::{MachineListener, Recording, Stretch};
use jportal_units::Core;
use std::collections::HashMap;

/// Where in the trace a walk through the code stood: it ends with a branch that a packet decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalkPlace {
    /// The packet, or one before it.
    pub packet: u64,
    /// It is that packet, and so many of the outcomes up to its end are not used up. Otherwise it is a later one.
    pub outcomes_left: Option<u8>,
}

/// What one core did with one change of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// The last walk that ran through the changed place as it was before.
    pub not_yet: Option<WalkPlace>,
    /// From here on the new bytes run.
    pub seen: Option<WalkPlace>,
}

/// What one core did with the code's changes, and what could not be followed.
#[derive(Debug, Default)]
pub(crate) struct CoreUses {
    /// By number of the change.
    pub uses: HashMap<u32, Use>,
    /// Blocks that ran though they stood in memory no more.
    pub stale: u64,
    /// Gaps in the machine flow.
    pub gaps: u64,
}

#[derive(Default)]
struct Collector {
    found: CoreUses,
    /// Blocks and decisions so far.
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
        // What was decided before a block that is handed out is never taken back.
        while let Some(decision) = decisions.get(self.taken).filter(|d| d.block < self.blocks) {
            self.take(decision);
            self.taken += 1;
        }
        true
    }
}

/// Follows the trace of `core`.
pub(crate) fn collect(recording: &Recording<'_>, core: Core) -> Result<CoreUses, Error> {
    let mut collector = Collector::default();
    recording.machine_flow(core, &mut collector)?;
    Ok(collector.found)
}
