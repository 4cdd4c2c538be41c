// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! When threads were on cores.

use std::sync::Arc;

use hashbrown::HashMap;
use jportal_flow::ThreadInfo;
use jportal_units::{Core, Tsc};

use super::Key;

/// One stay of a thread on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CoreStay {
    came: u64,
    left: u64,
    /// Ticks that the thread spent on that core before this stay.
    before: u64,
}

/// The ticks that a thread spent on cores up to a time.
pub type OnCore = Arc<dyn Fn(&ThreadInfo, Tsc) -> u64 + Send + Sync>;

/// When each thread was on which core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visits(HashMap<Key, HashMap<u32, Vec<CoreStay>>>);

impl Visits {
    /// Adds a stay of the thread on a core. The stays of a core must be added in order of time.
    pub fn add(&mut self, (tid, started): (u32, Tsc), core: Core, (came, left): (Tsc, Tsc)) {
        let spans = self.0.entry((tid, started.get())).or_default().entry(core.get()).or_default();
        let last = spans.last().copied();
        let came = came.get().max(last.map_or(0, |s| s.left));
        if came < left.get() {
            let before = last.map_or(0, |s| s.before + (s.left - s.came));
            spans.push(CoreStay { came, left: left.get(), before });
        }
    }
    /// Ticks of the thread on all cores up to `until`.
    pub fn ticks(&self, thread: (u32, u64), until: u64) -> u64 {
        self.0
            .get(&thread)
            .into_iter()
            .flat_map(HashMap::values)
            .map(|spans| up_to(spans, until))
            .fold(0, u64::saturating_add)
    }
    /// Ticks of the thread on that core from `since` to `until`.
    pub(super) fn between(&self, thread: Key, core: u32, since: u64, until: u64) -> u64 {
        let spans = self.of(thread, core);
        up_to(spans, until).saturating_sub(up_to(spans, since))
    }
    /// The end of the thread's visit to that core in which `since` lies, or of its next one.
    pub(super) fn end(&self, thread: Key, core: u32, since: u64) -> Option<u64> {
        let spans = self.of(thread, core);
        spans.get(spans.partition_point(|s| s.left <= since)).map(|s| s.left)
    }
    fn of(&self, thread: Key, core: u32) -> &[CoreStay] {
        self.0.get(&thread).and_then(|t| t.get(&core)).map_or(&[], Vec::as_slice)
    }
}

fn up_to(spans: &[CoreStay], until: u64) -> u64 {
    let n = spans.partition_point(|s| s.came < until);
    n.checked_sub(1).map_or(0, |n| spans[n].before + (spans[n].left.min(until) - spans[n].came))
}
