// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the threads whose flow may lack something because sideband records are missing.
//!
//! Where a core's records are missing ([`Blind`]), the owner of its trace is unknown. Any
//! thread may have run there, unless its records show it on another core from before that time
//! until after it. Each thread that may have run there gets a gap. The gap lies between two
//! stretches of the thread, or at the start or end of its flow. There is one gap per such
//! place, however many losses of records fall into it.

use crate::stretches::{Blind, Stretch};
use hashbrown::HashMap;
use jportal_units::{Tid, Tsc};

/// A thread that may have run where records are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unseen {
    /// The thread.
    pub tid: Tid,
    /// The number of the stretch that follows the gap. `None`: the gap follows all stretches of
    /// the thread.
    pub before: Option<usize>,
    /// The first place where records are missing, and the times between which the thread may
    /// have run.
    pub blind: Blind,
}

/// The lifetime of a thread that the VM reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub tid: Tid,
    pub started: Tsc,
    pub exited: Tsc,
}

/// Finds the threads that may have run while records are missing (`blind`), or while a core is
/// silent because the recording was cut off (`silences`). A silence says nothing about a thread
/// that never appears again. `order` holds the stretches of all cores in the order of decoding.
/// `lives` holds the threads that the VM reported, which may have no stretch. The result has
/// the order of `order`; gaps at the end of a flow come last.
pub(crate) fn unseen(
    order: &[Stretch],
    (blind, silences): (&[Blind], &[Blind]),
    lives: &[Life],
) -> Vec<Unseen> {
    if blind.is_empty() && silences.is_empty() {
        return Vec::new();
    }
    let windows = Windows::new(&[blind, silences].concat());
    let mut last: HashMap<Tid, &Stretch> = HashMap::new();
    let mut found = Vec::new();
    let begin = |tid| lives.iter().filter(|l| l.tid == tid).map(|l| l.started).min().unwrap_or(Tsc(0));
    for (number, stretch) in order.iter().enumerate() {
        let before = last.insert(stretch.tid, stretch);
        // The decoder of the stretch's core reports this gap.
        if stretch.blind.is_some() {
            continue;
        }
        let came = stretch.came.or(stretch.switched_in);
        let stayed = before.is_some_and(|b| b.core == stretch.core && b.to == stretch.from);
        if came.is_none() && stayed {
            continue;
        }
        let since = before.map_or_else(|| begin(stretch.tid), |b| b.closed);
        let blind = windows.meeting(since, came.unwrap_or(stretch.closed));
        found.extend(blind.map(|blind| Unseen { tid: stretch.tid, before: Some(number), blind }));
    }
    let windows = Windows::new(blind);
    let mut ends: Vec<_> = last.values().map(|s| (s.tid, s.closed)).collect();
    ends.extend(lives.iter().filter(|l| !last.contains_key(&l.tid)).map(|l| (l.tid, l.started)));
    ends.sort_unstable();
    for (tid, since) in ends {
        let exited = lives.iter().filter(|l| l.tid == tid).map(|l| l.exited).max().unwrap_or(Tsc(u64::MAX));
        let blind = windows.meeting(since, exited);
        found.extend(blind.map(|blind| Unseen { tid, before: None, blind }));
    }
    found
}

/// The intervals in which records are missing, in order of their start.
struct Windows {
    all: Vec<Blind>,
    /// For each interval, the latest end of it and all intervals before it.
    until: Vec<Tsc>,
}

impl Windows {
    fn new(blind: &[Blind]) -> Self {
        let mut all = blind.to_vec();
        all.sort_by_key(|b| (b.since, b.core));
        let until = all.iter().scan(Tsc(0), |latest, b| {
            *latest = b.until.max(*latest);
            Some(*latest)
        });
        Self { until: until.collect(), all }
    }
    /// The part of `since..until` from the first to the last interval that overlaps it, with
    /// the place of the first.
    fn meeting(&self, since: Tsc, until: Tsc) -> Option<Blind> {
        // `partition_point` finds the first interval whose running latest end is after `since`.
        // All earlier intervals end by `since`, and this one ends after it.
        let first = *self.all.get(self.until.partition_point(|latest| *latest <= since))?;
        let last = self.all[..self.all.partition_point(|b| b.since < until)].len().checked_sub(1)?;
        let until = until.min(self.until[last]);
        (first.since < until).then_some(Blind { since: since.max(first.since), until, ..first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_units::{Core, StreamOffset};

    fn blind(core: u32, since: u64, until: u64) -> Blind {
        Blind { core: Core(core), offset: StreamOffset(100), since: Tsc(since), until: Tsc(until) }
    }
    /// A stay of a thread on a core: core, thread, bytes, start and end time.
    fn stay(core: u32, tid: u32, bytes: (u64, u64), came: Option<u64>, closed: u64) -> Stretch {
        Stretch {
            core: Core(core),
            tid: Tid(tid),
            from: StreamOffset(bytes.0),
            to: StreamOffset(bytes.1),
            closed: Tsc(closed),
            switched_in: came.map(Tsc),
            truncated: false,
            came: None,
            blind: None,
        }
    }
    fn found(order: &[Stretch], windows: &[Blind], lives: &[Life]) -> Vec<(u32, Option<usize>, u64, u64)> {
        let row = |u: &Unseen| (u.tid.0, u.before, u.blind.since.0, u.blind.until.0);
        unseen(order, (windows, &[]), lives).iter().map(row).collect()
    }

    #[test]
    fn who_is_known_to_be_elsewhere_is_not_touched() {
        let order = [
            // On core 1 throughout, with a watermark in between; leaves after the window.
            stay(1, 1, (0, 50), Some(10), 40),
            stay(1, 1, (50, 90), None, 80),
            // Ran before and after; only before; only after.
            stay(0, 2, (0, 100), Some(5), 20),
            stay(0, 2, (200, 300), Some(70), 90),
            stay(2, 3, (0, 10), Some(5), 15),
            stay(2, 4, (10, 20), Some(60), 65),
        ];
        let lives = [(3, 0, 18), (4, 50, 99), (5, 0, 25), (6, 0, 999), (7, 55, 80)].map(|(tid, s, e)| Life {
            tid: Tid(tid),
            started: Tsc(s),
            exited: Tsc(e),
        });
        let got = found(&order, &[blind(0, 30, 50)], &lives);
        // 3 had ended and 4 had not begun; 5 had ended and 7 had not begun. 6 has no stretch
        // and may have run.
        assert_eq!(got, [(2, Some(3), 30, 50), (6, None, 30, 50)]);
        assert_eq!(found(&order, &[], &lives), []);
    }

    #[test]
    fn several_windows_between_two_stretches_are_one_gap() {
        let order = [stay(0, 1, (0, 10), Some(5), 20), stay(1, 1, (0, 10), Some(70), 90)];
        let windows =
            [blind(1, 40, 50), blind(2, 0, 19), blind(0, 25, 30), blind(0, 65, 75), blind(1, 95, 96)];
        let life = [Life { tid: Tid(1), started: Tsc(1), exited: Tsc(95) }];
        assert_eq!(found(&order, &windows, &life), [(1, Some(0), 1, 5), (1, Some(1), 25, 70)]);
    }

    #[test]
    fn where_the_recording_was_cut_off_silence_says_nothing() {
        let order = [
            stay(0, 1, (0, 10), Some(5), 20),
            stay(0, 2, (10, 20), Some(20), 25),
            stay(0, 1, (20, 30), Some(30), 40),
            stay(0, 1, (30, 50), None, 50),
            stay(0, 3, (50, 60), Some(50), 55),
        ];
        let life = [Life { tid: Tid(3), started: Tsc(1), exited: Tsc(u64::MAX) }];
        let cut = |since| {
            let silences = [blind(1, since, u64::MAX)];
            unseen(&order, (&[], &silences), &life).iter().map(|u| (u.tid.0, u.before)).collect::<Vec<_>>()
        };
        // Between its stays, 1 may have been on core 1, and so may 3 before its first stay. A
        // thread that does not come back is not reported.
        assert_eq!(cut(28), [(1, Some(2)), (3, Some(4))]);
        assert_eq!(cut(35), [(3, Some(4))]);
        assert_eq!(cut(50), []);
    }

    #[test]
    fn whose_switch_is_lost_may_have_run_up_to_the_end_of_its_stretch() {
        let order = [stay(0, 1, (0, 10), Some(5), 20), stay(0, 1, (30, 40), None, 60)];
        assert_eq!(found(&order, &[blind(1, 50, 55)], &[]), [(1, Some(1), 50, 55)]);
        // The decoder of a core reports the missing records to the thread that comes first
        // after them.
        let mut order = order;
        order[1].blind = Some(blind(0, 25, 35));
        assert_eq!(found(&order, &[blind(0, 25, 35)], &[]), []);
    }
}
