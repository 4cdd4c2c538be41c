// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Plans when perf sees each change of code and each switch of threads.
//!
//! perf knows the code by time alone, and the time in a trace is coarse: between two timing
//! packets, either the old bytes or the new ones may have run. JPortal's decoder has found out
//! which (`uses`). The plan gives each change a time at which the trace of every core has
//! passed the last walk through the old bytes, and has not reached a walk through the new ones.
//! Where the timing packets leave no room for such a time, a TSC packet is inserted into the
//! trace.

use crate::scan::{InsertionPlace, Scan, Stop};
use crate::time::PerfClock;
use jportal_machine_flow::{CodeHistory, Slack};
use jportal_units::{Core, Tsc};
use std::collections::{BTreeMap, HashMap};

/// TSC packets to insert into a core's trace: their places and times.
pub(crate) type Insertions = BTreeMap<InsertionPlace, u64>;

/// The plan of one core.
#[derive(Debug)]
pub(crate) struct CorePlan {
    /// The core.
    pub core: Core,
    /// Its stops.
    pub scan: Scan,
    /// Offsets after which trace was lost.
    pub losses: Vec<u64>,
    /// When each turn's thread was switched to the core.
    pub switched: Vec<u64>,
    /// The packets to insert.
    pub insertions: Insertions,
    /// The time to report for the switch to each turn's thread; 0: nothing runs in the turn.
    pub turn_times: Vec<u64>,
}

/// The result of planning.
#[derive(Debug, Default)]
pub(crate) struct PlannedTimes {
    /// By number of the change.
    pub changes: Vec<Tsc>,
    /// Changes that perf will see too early or too late.
    pub misplaced: u64,
    /// Switches at which perf attributes branches to the wrong thread.
    pub misattributed: u64,
}

/// The most rounds. Packets inserted for one change may move another change, which takes
/// another round.
const ROUNDS: usize = 8;
/// Bytes of code that share one order of changes.
const LINE: u64 = 64;

/// A core's insertions, each with the greatest time up to it.
struct Raised(Vec<(InsertionPlace, u64)>);

impl Raised {
    fn of(insertions: &Insertions) -> Self {
        let mut latest = 0;
        let raise = |(&place, &time): (&InsertionPlace, &u64)| {
            latest = time.max(latest);
            (place, latest)
        };
        Self(insertions.iter().map(raise).collect())
    }

    /// perf's time at `stop`.
    fn at(&self, stop: &Stop) -> u64 {
        let Some(place) = stop.place else { return stop.time };
        let n = self.0.partition_point(|i| i.0 <= place);
        n.checked_sub(1).map_or(stop.time, |i| self.0[i].1.max(stop.time))
    }
}

/// The sights of one change, old and new: core and stop.
#[derive(Default)]
struct Sights {
    old: Vec<(usize, Stop)>,
    new: Vec<(usize, Stop)>,
}

/// For places of a core's trace: the time of the earliest change that the core had not seen at
/// this place or at a later one. The clock of a change is read after the store (the thread may
/// lose its core in between). So everything that the core does up to the place happens before
/// that time.
struct Unseen(Vec<(InsertionPlace, u64)>);

impl Unseen {
    fn of(core: &CorePlan, history: &CodeHistory) -> Self {
        let mut first = u64::MAX;
        let old = core.scan.sights.iter().rev().filter(|s| !s.new);
        let mut all: Vec<(InsertionPlace, u64)> = old
            .filter_map(|s| {
                first = first.min(history.change(s.change)?.0.0);
                Some((s.stop.place?, first))
            })
            .collect();
        all.reverse();
        Self(all)
    }

    /// The time before which the core passed `stop`.
    fn before(&self, stop: &Stop) -> u64 {
        let Some(place) = stop.place else { return u64::MAX };
        let n = self.0.partition_point(|u| u.0 < place);
        self.0.get(n).map_or(u64::MAX, |u| u.1)
    }
}

/// Determines all times and fills in the insertions.
pub(crate) fn settle(history: &CodeHistory, clock: &PerfClock, cores: &mut [CorePlan]) -> PlannedTimes {
    let mut sights: HashMap<u32, Sights> = HashMap::new();
    for (n, core) in cores.iter().enumerate() {
        for s in &core.scan.sights {
            let entry = sights.entry(s.change).or_default();
            if s.new { entry.new.push((n, s.stop)) } else { entry.old.push((n, s.stop)) }
        }
    }
    let unseen: Vec<Unseen> = cores.iter().map(|c| Unseen::of(c, history)).collect();
    let mut times = PlannedTimes::default();
    for _ in 0..ROUNDS {
        let turns = settle_turns(clock, cores);
        let before: usize = cores.iter().map(|c| c.insertions.len()).sum();
        times.changes = settle_changes(history, clock, cores, (&sights, &unseen));
        let after: usize = cores.iter().map(|c| c.insertions.len()).sum();
        if !turns && before == after {
            break;
        }
    }
    let raised: Vec<Raised> = cores.iter().map(|c| Raised::of(&c.insertions)).collect();
    let wrong = |(&n, s): (&u32, &Sights)| {
        let t = times.changes.get(n as usize).map_or(0, |t| t.0);
        let early = s.old.iter().any(|(c, stop)| stop.place.is_some() && raised[*c].at(stop) >= t);
        early || s.new.iter().any(|(c, stop)| stop.place.is_some() && raised[*c].at(stop) < t)
    };
    times.misplaced = sights.iter().filter(|s| wrong((s.0, s.1))).count() as u64;
    times.misattributed = cores.iter().zip(&raised).map(|(c, r)| misattributed(c, r)).sum();
    times
}

/// Determines one time for each change.
fn settle_changes(
    history: &CodeHistory,
    clock: &PerfClock,
    cores: &mut [CorePlan],
    (sights, unseen): (&HashMap<u32, Sights>, &[Unseen]),
) -> Vec<Tsc> {
    let mut raised: Vec<Raised> = cores.iter().map(|c| Raised::of(&c.insertions)).collect();
    let mut lines: HashMap<u64, u64> = HashMap::new();
    let mut all = Vec::with_capacity(history.len());
    let none = Sights::default();
    for number in 0..history.len() as u32 {
        let Some(change) = history.code_change(number) else { break };
        let s = sights.get(&number).unwrap_or(&none);
        let range = change.range.start.0 / LINE..change.range.end.0.div_ceil(LINE);
        let ordered = range.clone().filter_map(|l| lines.get(&l).copied()).max().unwrap_or(0);
        // A time is late enough if it is after `low`, and early enough if it is not after
        // `high`.
        let low = s.old.iter().map(|(c, stop)| raised[*c].at(stop)).max().unwrap_or(0);
        let placed = s.new.iter().filter(|(_, stop)| stop.place.is_some());
        let high = placed.map(|(c, stop)| raised[*c].at(stop)).min().unwrap_or(u64::MAX);
        let least = clock.up(Tsc(low.saturating_add(1).max(ordered))).0;
        let stamped = clock.up(change.tsc).0;
        // The decoder did not examine walks through the old bytes that lie before this time.
        let estimated = Tsc(change.tsc.0.saturating_sub(Slack::default().before));
        let earliest = clock.down(change.since.unwrap_or(estimated)).0;
        // A core that had seen this change but not an older one saw it before the older one's
        // time.
        let before = s.new.iter().map(|(c, stop)| unseen[*c].before(stop)).min().unwrap_or(u64::MAX);
        let wanted = if before < stamped { clock.down(Tsc(before - 1)).0 } else { stamped };
        let time = match wanted > high && high > earliest {
            true => clock.down(Tsc(high)).0.max(least),
            false => wanted.max(least),
        };
        for &(c, stop) in &s.new {
            if let Some(place) = stop.place.filter(|_| raised[c].at(&stop) < time) {
                let slot = cores[c].insertions.entry(place).or_default();
                *slot = time.max(*slot);
                raised[c] = Raised::of(&cores[c].insertions);
            }
        }
        range.for_each(|l| _ = lines.insert(l, time));
        all.push(Tsc(time));
    }
    all
}

/// Determines the times of switches. Returns whether packets were inserted.
fn settle_turns(clock: &PerfClock, cores: &mut [CorePlan]) -> bool {
    let mut more = false;
    for core in cores {
        let raised = Raised::of(&core.insertions);
        for turn in &core.scan.turns {
            let switched = core.switched.get(turn.turn).copied().unwrap_or(0);
            let least = raised.at(&turn.before).saturating_add(turn.before.place.is_some().into());
            let time = clock.up(Tsc(switched.max(least))).0;
            if let Some(slot) = core.turn_times.get_mut(turn.turn) {
                *slot = time;
            }
            if let Some(place) = turn.first.place.filter(|_| raised.at(&turn.first) < time) {
                let slot = core.insertions.entry(place).or_default();
                *slot = time.max(*slot);
                more = true;
            }
        }
    }
    more
}

fn misattributed(core: &CorePlan, raised: &Raised) -> u64 {
    let wrong = |turn: &&crate::scan::TurnChange| {
        let time = core.turn_times.get(turn.turn).copied().unwrap_or(0);
        raised.at(&turn.first) < time || (turn.before.place.is_some() && raised.at(&turn.before) >= time)
    };
    core.scan.turns.iter().filter(wrong).count() as u64
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
