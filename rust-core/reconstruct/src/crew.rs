// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What does the work of a decode: the calling thread alone, or a pool of workers.
//!
//! The driver numbers the lanes and gives each of them its work, in order. A crew decodes the
//! cores' streams and runs the lanes.

mod alone;
mod pool;

pub(crate) use alone::{Alone, BatchSource};
pub(crate) use pool::{Pool, Workers};

use crate::batch::Batch;
use crate::error::Error;
use crate::lanes::Lane;
use crate::stretches::{Blind, Stretch};
use jportal_machine_flow::Item;
use jportal_units::Core;

/// The next work of a lane.
pub(crate) enum LaneWork {
    /// A batch of a stretch of the lane's thread.
    Batch(Stretch, Batch),
    /// The thread may have run where records are missing.
    Blind(Blind),
    /// There is no more work: the flow ends.
    End,
}

impl LaneWork {
    /// The list of its batch, empty. The core to whose stream it belongs.
    fn into_list(self) -> Option<(Core, Vec<Item>)> {
        match self {
            Self::Batch(_, Batch { core, mut items, .. }) => {
                items.clear();
                Some((core, items))
            }
            Self::Blind(_) | Self::End => None,
        }
    }
    /// What it counts for where the work under way is bounded.
    fn weight(&self) -> usize {
        match self {
            Self::Batch(_, batch) => batch.weight(),
            Self::Blind(_) | Self::End => 1,
        }
    }
}

/// Decodes streams and runs lanes.
pub(crate) trait Crew<'a> {
    /// Adds a lane. Lanes are numbered from 0.
    fn add(&mut self, lane: Lane<'a>);
    /// The next batch of a core; `None` after the last one.
    fn batch(&mut self, core: Core) -> Result<Option<Batch>, Error>;
    /// Gives a lane its next work.
    fn give(&mut self, lane: usize, work: LaneWork);
    /// Whether frames of the lane's thread are open after all of its work up to here.
    fn has_open_frames(&mut self, lane: usize) -> bool;
    /// Whether nothing needs the rest of the decode.
    fn has_enough(&self) -> bool {
        false
    }
    /// Completes all work. Returns the lanes, in order of their numbers.
    fn finish(&mut self) -> Vec<Lane<'a>>;
}
