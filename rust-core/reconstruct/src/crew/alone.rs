// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A crew of one: the calling thread does all work when it is given.

use super::{Crew, LaneWork};
use crate::automaton::Automaton;
use crate::batch::{Batch, CoreStream};
use crate::error::Error;
use crate::lanes::Lane;
use crate::watch::Watcher;
use hashbrown::HashMap;
use jportal_flow::Receiver;
use jportal_units::Core;

/// Where the batches of a core come from.
pub(crate) enum BatchSource<'a> {
    /// They are decoded when they are needed.
    Stream(Box<CoreStream<'a>>),
    /// Another thread decodes them.
    Ahead(Receiver<Result<Batch, Error>>),
}

/// The calling thread alone.
pub(crate) struct Alone<'a, 'w> {
    sources: HashMap<u32, BatchSource<'a>>,
    lanes: Vec<Lane<'a>>,
    watcher: Option<&'w mut Watcher>,
    automaton: Box<Automaton>,
}

impl<'a, 'w> Alone<'a, 'w> {
    /// A crew for the cores of a recording. `watcher` sees the steps of its thread.
    pub(crate) fn new(sources: HashMap<u32, BatchSource<'a>>, watcher: Option<&'w mut Watcher>) -> Self {
        Self { sources, lanes: Vec::new(), watcher, automaton: Box::default() }
    }
}

impl<'a> Crew<'a> for Alone<'a, '_> {
    fn add(&mut self, lane: Lane<'a>) {
        self.lanes.push(lane);
    }
    fn batch(&mut self, core: Core) -> Result<Option<Batch>, Error> {
        match self.sources.get_mut(&core.0) {
            Some(BatchSource::Stream(stream)) => stream.next(),
            // A thread that failed has sent the error as its last message and hung up.
            Some(BatchSource::Ahead(batches)) => batches.recv().transpose(),
            None => Ok(None),
        }
    }
    fn give(&mut self, lane: usize, work: LaneWork) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.work(&work, &mut self.automaton, self.watcher.as_deref_mut());
        }
        if let Some((core, list)) = work.into_list()
            && let Some(BatchSource::Stream(stream)) = self.sources.get_mut(&core.0)
        {
            stream.reuse(list);
        }
    }
    fn has_open_frames(&mut self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(Lane::has_open_frames)
    }
    fn has_enough(&self) -> bool {
        self.watcher.as_ref().is_some_and(|w| w.is_done())
    }
    fn finish(&mut self) -> Vec<Lane<'a>> {
        std::mem::take(&mut self.lanes)
    }
}

#[cfg(test)]
impl<'a> Alone<'a, '_> {
    /// A lane, to prepare a state.
    pub(crate) fn lane_mut(&mut self, lane: usize) -> &mut Lane<'a> {
        &mut self.lanes[lane]
    }
}
