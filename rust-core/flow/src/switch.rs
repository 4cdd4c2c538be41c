// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! When threads came to cores and left them. The records of the kernel say it, not the flow: a
//! consumer that needs it takes the switches between two events by the times of the flow.

use std::collections::BTreeMap;

use jportal_units::{Core, Tid, Tsc};
use serde::Serialize;

use crate::ThreadInfo;

/// Why a thread left a core.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Departure {
    /// It could have continued: another thread got the core.
    Preempted = 0,
    /// It could not continue: it waited for something, or ended. For what it waited is not known.
    Waited = 1,
}

/// A side of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchSide {
    /// The thread came to the core. If this was not seen, it came at that time or later.
    Came {
        /// Whether a record says it.
        seen: bool,
    },
    /// The thread left the core. If this was not seen (`None`), it left at that time or earlier.
    Left(Option<Departure>),
}

/// A thread came to a core, or left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreSwitch {
    /// When.
    pub tsc: Tsc,
    /// The core.
    pub core: Core,
    /// Which of both.
    pub side: SwitchSide,
}

/// The switches of all threads. A thread id and the start identify a thread.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    threads: BTreeMap<(Tid, Tsc), Vec<CoreSwitch>>,
}

impl Switches {
    /// From the switches of all threads, in any order.
    pub fn new(all: impl IntoIterator<Item = ((Tid, Tsc), CoreSwitch)>) -> Self {
        let mut threads: BTreeMap<_, Vec<CoreSwitch>> = BTreeMap::new();
        for (thread, switch) in all {
            threads.entry(thread).or_default().push(switch);
        }
        // At the same time, a thread leaves a core before it comes to the next one.
        for switches in threads.values_mut() {
            switches.sort_by_key(|s| (s.tsc, matches!(s.side, SwitchSide::Came { .. })));
        }
        Self { threads }
    }
    /// Whether nothing is known: the recording has no records of switches.
    pub fn are_unknown(&self) -> bool {
        self.threads.is_empty()
    }
    /// The switches of a thread, by time.
    pub fn of(&self, thread: &ThreadInfo) -> &[CoreSwitch] {
        self.threads.get(&(thread.tid, thread.started)).map_or(&[], Vec::as_slice)
    }
    /// The switches of a thread that a consumer has not had yet and that happened before `until`,
    /// the time of an [`EventKind::Time`](crate::EventKind::Time). `had` is how many it had.
    pub fn before(&self, thread: &ThreadInfo, had: &mut usize, until: Tsc) -> &[CoreSwitch] {
        let all = self.of(thread);
        let from = *had;
        *had = all.partition_point(|s| s.tsc < until).max(from);
        all.get(from..*had).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::thread;

    #[test]
    fn each_switch_comes_once_and_by_time() {
        let came =
            |tsc, core| CoreSwitch { tsc: Tsc(tsc), core: Core(core), side: SwitchSide::Came { seen: true } };
        let left =
            |tsc, core, why| CoreSwitch { tsc: Tsc(tsc), core: Core(core), side: SwitchSide::Left(why) };
        let preempted = Some(Departure::Preempted);
        let one = (Tid(1), Tsc(0));
        let all = Switches::new([
            (one, came(30, 1)),
            (one, left(40, 1, None)),
            (one, came(10, 0)),
            (one, left(30, 0, preempted)),
            ((Tid(1), Tsc(35)), came(35, 2)),
            ((Tid(2), Tsc(0)), came(15, 3)),
        ]);
        let (info, mut had) = (thread(1), 0);
        assert!(all.before(&info, &mut had, Tsc(10)).is_empty(), "10 is not before 10");
        assert_eq!(all.before(&info, &mut had, Tsc(31)), [came(10, 0), left(30, 0, preempted), came(30, 1)]);
        assert!(all.before(&info, &mut had, Tsc(31)).is_empty() && had == 3);
        assert!(all.before(&info, &mut had, Tsc(5)).is_empty() && had == 3);
        assert_eq!(all.before(&info, &mut had, Tsc(u64::MAX)), [left(40, 1, None)]);
        assert!(!all.are_unknown() && Switches::default().are_unknown());
    }
}
