// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Alignment of the probes in a flow with the probes in the log, in bounded memory.
//!
//! While both agree, they are compared one by one. At a disagreement the aligner collects the
//! next hits of the flow and searches for the cheapest way to agree again: it skips `extra`
//! hits of the flow and `missing` entries of the log, such that a run of hits then equals a run
//! of the log. The more it skips, the longer that run must be (3 for one, 19 for 65,536), so
//! that chance agreements in loops are rare. Small skips are tried in order of `extra +
//! missing`. Large ones are tried mainly on one side, since losses and garbage are one-sided.
//! When nothing fits, half of the collected hits count as extra and the search continues.
//!
//! *Gaps.* After a gap, the aligner collects hits up to the next gap (at most [`SEGMENT`]) and
//! places them at the first index of the log at which they all follow in a row. The entries
//! before that index were lost in the gap. The first index is never too late, so a correct flow
//! always fits. In a loop it may be too early: the flow then disagrees where the loop ends.
//! Therefore a later skip counts as lost in the gap, too, if moving it back to the gap leaves
//! all agreements since then in place.
//!
//! *Unresolved stretches.* Compiled code between two known positions may have several paths.
//! The flow then has an unresolved stretch and no path. Up to [`NEAR`] entries skipped there
//! count as unresolved. The rule for loops applies here, too.
//!
//! *Parts.* If a recording began and ended while the program ran, its flow begins anywhere in
//! the log. Its first hits are placed where most of them agree, apart from unresolved stretches
//! and frames that are older than the recording.

use std::collections::VecDeque;

use jportal_flow::{Cause, Tally, Tier};

use crate::circumstance::{Behind, ByTier, Groups, Hidden, MismatchKind, group};
use crate::verify::log::{LogError, ProbeLog};
use crate::verify::place::{best_place, first_place};
use crate::verify::probes::Hit;

/// Log entries that a search examines.
const WINDOW: usize = 1 << 16;
/// Largest `extra + missing` of the fine search.
const NEAR: usize = 64;
/// Largest distance between the log entries of two successive hits inside a run. A distance
/// above 1 is allowed so that dense small faults do not prevent an agreement.
const LEEWAY: usize = 4;
/// The same after an unresolved stretch.
const LOOSE_LEEWAY: usize = 16;
/// Hits collected before the first search; doubled up to [`QUEUE_MAX`] while nothing fits.
const QUEUE_MIN: usize = 64;
const QUEUE_MAX: usize = 4096;
/// Most agreements that are remembered after a gap or an unresolved stretch.
const SINCE_MAX: usize = 1 << 20;
/// Most hits that are placed together after a gap.
const SEGMENT: usize = 4096;
/// Numbers of log entries in which they are searched for, tried in this order.
const PLACES: [usize; 3] = [1 << 14, 1 << 18, 1 << 22];
/// Most hits that are placed together where the flow of a part of the run begins.
const BEGINNING: usize = 1 << 17;
/// Numbers of log entries in which they are searched for: a VM may have run for long before it
/// was recorded.
const BEGINNINGS: [usize; 6] = [1 << 14, 1 << 18, 1 << 22, 1 << 24, 1 << 26, 1 << 28];

/// A place where flow and log disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disagreement {
    /// Number of the log entry.
    pub(crate) log_index: u64,
    /// Number of the flow event, if the flow has one there.
    pub(crate) event: Option<u64>,
    pub(crate) expected: Option<u32>,
    pub(crate) found: Option<u32>,
    /// Number of the last flow event that agreed.
    pub(crate) agreed: Option<u64>,
}

/// The figures of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct AlignmentFigures {
    /// Entries of the log.
    pub(crate) log: u64,
    /// Hits of the flow.
    pub(crate) flow: u64,
    /// Agreements, by provenance of the hit.
    pub(crate) matched: Tally,
    /// In the log, not in the flow, and not explained by a gap.
    pub(crate) missing: u64,
    /// In the flow, not in the log.
    pub(crate) extra: u64,
    /// In the log, lost in gaps.
    pub(crate) lost: u64,
    /// In the log of a run that was recorded in part: before the flow begins or after its end.
    pub(crate) outside: u64,
    /// In the log, on an unresolved stretch of the flow.
    pub(crate) unresolved: u64,
    /// Gaps in the flow.
    pub(crate) gaps: u64,
    /// Places of disagreement that no gap explains.
    pub(crate) mismatches: u64,
    pub(crate) first: Option<Disagreement>,
    /// By the tier that executed.
    pub(crate) tiers: ByTier,
    /// Entries of the log on unresolved stretches.
    pub(crate) hidden: Hidden,
    /// The places of disagreement.
    pub(crate) groups: Groups<Disagreement>,
    /// Why the log could not be read to its end.
    pub(crate) error: Option<String>,
}

/// A place at which log entries may be missing.
#[derive(Debug)]
struct Since {
    /// The tier and cause of an unresolved stretch; `None` for a gap.
    hole: Option<(Tier, Cause)>,
    /// Ids that agreed since.
    ids: Vec<u32>,
}

impl Since {
    /// Whether the `missing` entries, the first of which are `ids`, may be missing at this
    /// place instead.
    fn explains(&self, missing: u64, ids: &[u32]) -> bool {
        if self.ids.is_empty() {
            // An unresolved stretch is a piece of one method; a gap may have any length.
            return self.hole.is_none() || missing <= NEAR as u64;
        }
        let Ok(shift) = usize::try_from(missing) else { return false };
        let Some(skipped) = ids.get(..shift) else { return false };
        self.ids.iter().eq(self.ids.iter().chain(skipped).skip(shift))
    }
}

#[derive(Debug)]
pub(crate) struct Aligner {
    log: Option<ProbeLog>,
    /// Log entries that were read and are not consumed.
    window: VecDeque<u32>,
    /// Hits that are not placed; empty while both agree.
    queue: VecDeque<Hit>,
    need: usize,
    /// Hits are being collected after a gap.
    placing: bool,
    /// The last place at which entries may be missing; `None` without one, or when too many
    /// hits agreed since.
    since: Option<Since>,
    /// The flow is that of a part of the run.
    part: bool,
    /// The next hit follows a [hole](Self::hole).
    holed: bool,
    /// A hit in doubt: the flow neither claims nor denies it, and the next event is not known.
    perhaps: Option<Hit>,
    consumed: u64,
    /// Agreements before the last mismatch.
    last_place: Option<u64>,
    /// The last hit that agreed.
    last: Option<Hit>,
    out: AlignmentFigures,
}

impl Aligner {
    pub(crate) fn new(log: Option<ProbeLog>) -> Self {
        Self {
            log,
            window: VecDeque::new(),
            queue: VecDeque::new(),
            need: QUEUE_MIN,
            placing: false,
            since: None,
            part: false,
            holed: false,
            perhaps: None,
            consumed: 0,
            last_place: None,
            last: None,
            out: AlignmentFigures::default(),
        }
    }

    /// The flow begins and ends anywhere in the log.
    pub(crate) fn of_part(log: Option<ProbeLog>) -> Self {
        let mut aligner = Self { part: true, ..Self::new(log) };
        aligner.begin_placing();
        aligner
    }

    /// The next hit of the flow.
    pub(crate) fn hit(&mut self, hit: Hit) {
        let hit = self.settle_perhaps(hit);
        let hit = Hit { holed: std::mem::take(&mut self.holed), ..hit };
        self.out.flow += 1;
        if self.placing {
            self.queue.push_back(hit);
            if self.queue.len() >= if self.begins() { BEGINNING } else { SEGMENT } {
                self.place();
            }
            return;
        }
        if self.queue.is_empty() && self.try_agree(hit) {
            return;
        }
        self.queue.push_back(hit);
        if self.queue.len() >= self.need {
            self.resynchronise(false);
        }
    }

    /// A hit that the flow neither claims nor denies. It counts if the log has it at this
    /// place, and is ignored otherwise.
    pub(crate) fn perhaps(&mut self, hit: Hit) {
        self.drop_perhaps();
        self.perhaps = Some(hit);
    }

    /// Decides on the hit in doubt before `next`, which takes over its unresolved stretch. If
    /// both belong to the same probe, the log must have it twice.
    fn settle_perhaps(&mut self, next: Hit) -> Hit {
        let Some(doubt) = self.perhaps.take() else { return next };
        if !self.placing && self.queue.is_empty() {
            self.fill(2);
            let ahead = |n| self.window.get(n).copied();
            if ahead(0) == Some(doubt.id) && (next.id != doubt.id || ahead(1) == Some(next.id)) {
                self.out.flow += 1;
                self.try_agree(doubt);
                return next;
            }
        }
        Hit { loose: next.loose.or(doubt.loose), ..next }
    }

    /// As [`Self::settle_perhaps`], if the flow has no hit next.
    fn drop_perhaps(&mut self) {
        let Some(doubt) = self.perhaps.take() else { return };
        if !self.placing && self.queue.is_empty() && self.front() == Some(doubt.id) {
            self.out.flow += 1;
            self.try_agree(doubt);
        }
    }

    /// Places the hit in doubt at the end of a stretch between two gaps together with the hits
    /// of the stretch, if the log has them all in a row.
    fn place_perhaps(&mut self) {
        if !self.placing || self.begins() {
            return;
        }
        let Some(doubt) = self.perhaps.take() else { return };
        self.queue.push_back(doubt);
        match self.first_place(0) {
            Some(missing) => {
                self.placing = false;
                self.out.flow += 1;
                self.skip(0, missing);
                self.agree_on();
            }
            None => {
                self.queue.pop_back();
            }
        }
    }

    /// A gap in the flow.
    pub(crate) fn gap(&mut self) {
        self.place_perhaps();
        self.settle();
        self.drop_perhaps();
        self.begin_placing();
        self.out.gaps += 1;
    }

    /// A place at which entries may be missing because of an earlier gap. At the beginning of
    /// the flow of a part of the run, that gap is the time before the recording. There, each
    /// frame that was called before the recording ends with such a place, and only a few
    /// entries can be missing at it.
    pub(crate) fn hole(&mut self) {
        if self.begins() && self.placing {
            self.holed = true;
        } else {
            self.settle();
            self.drop_perhaps();
            self.begin_placing();
        }
    }

    fn begin_placing(&mut self) {
        self.since = Some(Since { hole: None, ids: Vec::new() });
        self.placing = true;
    }

    /// The flow is complete. `cut_off`: the thread was still running when the recording
    /// ended, so that log and flow may differ by the probe it was just executing.
    pub(crate) fn finish(mut self, cut_off: bool) -> AlignmentFigures {
        if cut_off && self.queue.len() == 1 && self.front().is_none() {
            self.queue.clear();
            self.out.flow -= 1;
        }
        self.settle();
        self.drop_perhaps();
        let rest = self.rest_of_log();
        let tolerated = !self.part && cut_off && rest.count == 1;
        if self.part {
            self.out.outside += rest.count;
        } else if rest.count > 0 && !tolerated {
            self.skipped(0, rest.count, &rest.first, None);
        }
        self.out.log = self.consumed + rest.count - u64::from(tolerated);
        self.out
    }

    /// Places the hits collected after a gap in the log. If they fit nowhere, the search for an
    /// agreement continues as after a mismatch.
    fn place(&mut self) {
        self.placing = false;
        let found = if self.begins() { self.beginning() } else { self.first_place(0) };
        if let Some(missing) = found {
            self.skip(0, missing);
            self.agree_on();
        }
    }

    /// Whether it is still unknown where in the log the flow of a part of the run begins.
    fn begins(&self) -> bool {
        self.part && self.out.matched.total() == 0
    }

    fn first_place(&mut self, narrowest: usize) -> Option<usize> {
        PLACES.into_iter().skip(narrowest).find_map(|n| {
            self.fill(n);
            first_place(&self.queue, &self.window)
        })
    }

    /// Where the flow of a part of the run begins. A program with a loop passes the first few
    /// probes many times, so the index from which most hits agree is chosen.
    fn beginning(&mut self) -> Option<usize> {
        let mut best = None;
        for n in BEGINNINGS {
            if best.is_some() && self.log.as_ref().is_none_or(ProbeLog::is_done) {
                break;
            }
            self.fill(n);
            match best_place(&self.queue, &self.window, NEAR) {
                Some((place, true)) => return Some(place),
                found => best = found.map(|(place, _)| place),
            }
        }
        best
    }

    /// Takes hits from the queue as long as they agree.
    fn agree_on(&mut self) {
        while let Some(hit) = self.queue.front().copied() {
            if !self.try_agree(hit) {
                break;
            }
            self.queue.pop_front();
        }
    }

    fn settle(&mut self) {
        if self.placing {
            self.place();
        }
        while !self.queue.is_empty() {
            self.resynchronise(true);
        }
    }

    /// Makes `n` log entries available, or all that are left.
    fn fill(&mut self, n: usize) {
        let Some(log) = self.log.as_mut().filter(|l| !l.is_done()) else { return };
        if self.window.len() >= n {
            return;
        }
        let most = (n - self.window.len()).max(4096);
        if let Err(e) = log.read(most, &mut self.window) {
            self.log_failed(&e);
        }
    }
    fn log_failed(&mut self, e: &LogError) {
        self.out.error = Some(e.to_string());
        self.log = None;
    }
    fn front(&mut self) -> Option<u32> {
        self.fill(1);
        self.window.front().copied()
    }

    /// Takes the hit if it agrees with the next entry.
    fn try_agree(&mut self, hit: Hit) -> bool {
        if hit.holed {
            self.skip_hole(hit.id);
        } else if hit.loose.is_some() && !self.just_after_gap() {
            self.since = Some(Since { hole: hit.loose, ids: Vec::new() });
        }
        let agrees = self.front() == Some(hit.id);
        if agrees {
            self.agree(hit);
        }
        agrees
    }

    /// At the beginning of a recording: skips the entries that a [hole](Self::hole) hides.
    fn skip_hole(&mut self, id: u32) {
        self.since = Some(Since { hole: None, ids: Vec::new() });
        self.fill(NEAR + 1);
        if let Some(missing @ 1..) = self.window.iter().take(NEAR + 1).position(|&entry| entry == id) {
            self.skip(0, missing);
        }
    }

    fn just_after_gap(&self) -> bool {
        self.since.as_ref().is_some_and(|s| s.hole.is_none() && s.ids.is_empty())
    }

    fn agree(&mut self, hit: Hit) {
        self.window.pop_front();
        self.consumed += 1;
        self.out.matched.add(hit.provenance);
        self.out.tiers.of(hit.tier).exact += 1;
        self.last = Some(hit);
        if let Some(since) = &mut self.since {
            if since.ids.len() == SINCE_MAX {
                self.since = None;
            } else {
                since.ids.push(hit.id);
            }
        }
    }

    /// Finds the next agreement. With `last`, this stretch has no more hits.
    fn resynchronise(&mut self, last: bool) {
        self.fill(NEAR + QUEUE_MIN);
        let found = self.near(last).or_else(|| {
            self.fill(WINDOW);
            self.far(last).or_else(|| self.farther())
        });
        match found {
            Some((extra, missing)) => {
                self.need = QUEUE_MIN;
                self.skip(extra, missing);
                self.agree_on();
            }
            None => {
                let extra = if last { self.queue.len() } else { self.queue.len().div_ceil(2) };
                self.need = (2 * self.need).min(QUEUE_MAX);
                self.skip(extra, 0);
            }
        }
    }

    /// Whether hits from `extra` on equal log entries from `missing` on, for a long enough run.
    fn fits(&self, extra: usize, missing: usize, last: bool) -> bool {
        let wanted = 3 + (extra + missing).max(1).ilog2() as usize;
        let hits = self.queue.len().saturating_sub(extra);
        let entries = self.window.len().saturating_sub(missing);
        // At the end of a stretch, or of the log, fewer hits and entries may be left to
        // compare.
        let at_end = self.log.as_ref().is_none_or(ProbeLog::is_done);
        let run = match (last, at_end) {
            (true, true) => wanted.min(hits).min(entries),
            (true, false) => wanted.min(hits),
            (false, true) => wanted.min(entries),
            (false, false) => wanted,
        };
        if last && at_end && hits == 0 && entries == 0 {
            // Nothing is left on either side.
            return true;
        }
        run > 0 && run <= hits && run <= entries && self.run_agrees(extra, missing, run)
    }
    /// Whether `run` hits agree, with few entries skipped in between.
    fn run_agrees(&self, extra: usize, missing: usize, run: usize) -> bool {
        let mut at = missing;
        for (k, hit) in self.queue.range(extra..extra + run).enumerate() {
            let leeway = match (k, hit.may_skip()) {
                (0, _) => 1,
                (_, true) => LOOSE_LEEWAY,
                (1, false) => 1,
                (_, false) => LEEWAY,
            };
            let Some(n) =
                self.window.range(at.min(self.window.len())..).take(leeway).position(|&id| id == hit.id)
            else {
                return false;
            };
            at += n + 1;
        }
        true
    }
    fn near(&self, last: bool) -> Option<(usize, usize)> {
        (0..=NEAR)
            .flat_map(|sum| (0..=sum).map(move |extra| (extra, sum - extra)))
            .find(|&(extra, missing)| self.fits(extra, missing, last))
    }
    fn far(&self, last: bool) -> Option<(usize, usize)> {
        (0..NEAR)
            .step_by(8)
            .flat_map(|extra| (NEAR - extra..self.window.len()).map(move |missing| (extra, missing)))
            .chain(
                (0..NEAR).step_by(8).flat_map(|missing| {
                    (NEAR - missing..self.queue.len()).map(move |extra| (extra, missing))
                }),
            )
            .find(|&(extra, missing)| self.fits(extra, missing, last))
    }

    /// After a gap, more than [`WINDOW`] entries may be missing.
    fn farther(&mut self) -> Option<(usize, usize)> {
        self.since.as_ref().filter(|s| s.hole.is_none())?;
        self.first_place(1).map(|missing| (0, missing))
    }

    fn skip(&mut self, extra: usize, missing: usize) {
        let at = self.queue.front().copied();
        for hit in self.queue.iter().take(extra) {
            self.out.tiers.of(hit.tier).extra += 1;
        }
        let ids: Vec<u32> = self.window.iter().take(missing.max(1)).copied().collect();
        self.skipped(extra as u64, missing as u64, &ids, at);
        self.queue.drain(..extra.min(self.queue.len()));
        self.window.drain(..missing.min(self.window.len()));
        self.consumed += missing as u64;
    }

    /// Accounts for a skip; `ids` are the first log entries at the place.
    fn skipped(&mut self, extra: u64, missing: u64, ids: &[u32], at: Option<Hit>) {
        if extra == 0 && missing == 0 {
            return;
        }
        if self.part && extra == 0 && self.out.matched.total() == 0 {
            self.out.outside += missing;
            return;
        }
        match self.since.as_ref().filter(|s| extra == 0 && s.explains(missing, ids)) {
            Some(Since { hole: None, .. }) => self.out.lost += missing,
            Some(Since { hole: Some((tier, cause)), .. }) => {
                self.out.unresolved += missing;
                self.out.tiers.of(*tier).unresolved += missing;
                *self.out.hidden.entry((*tier, *cause)).or_default() += missing;
            }
            None => {
                self.since = None;
                self.disagree(extra, missing, ids, at);
            }
        }
    }

    fn disagree(&mut self, extra: u64, missing: u64, ids: &[u32], at: Option<Hit>) {
        self.out.extra += extra;
        self.out.missing += missing;
        let tier = at.or(self.last).map_or(Tier::Interpreter, |h| h.tier);
        self.out.tiers.of(tier).missing += missing;
        let disagreement = Disagreement {
            log_index: self.consumed,
            event: at.map(|h| h.event),
            expected: ids.first().copied(),
            found: at.map(|h| h.id),
            agreed: self.last.map(|h| h.event),
        };
        // Skips that follow each other without an agreement count as one place.
        let matched = self.out.matched.total();
        if self.last_place != Some(matched) {
            self.out.mismatches += 1;
            let key = (tier, MismatchKind::of(missing, extra), at.map_or(Behind::default(), |h| h.behind));
            group(&mut self.out.groups, key, (missing, extra), disagreement);
        }
        self.last_place = Some(matched);
        self.out.first.get_or_insert(disagreement);
    }

    fn rest_of_log(&mut self) -> UnreachedEntries {
        let mut rest =
            UnreachedEntries { count: self.window.len() as u64, first: self.window.drain(..).collect() };
        while self.log.as_ref().is_some_and(|l| !l.is_done()) {
            self.fill(WINDOW);
            rest.count += self.window.len() as u64;
            let room = WINDOW.saturating_sub(rest.first.len());
            rest.first.extend(self.window.drain(..).take(room));
        }
        rest
    }
}

/// The log entries that the flow never reached.
struct UnreachedEntries {
    count: u64,
    /// At most [`WINDOW`] of them.
    first: Vec<u32>,
}

#[cfg(test)]
#[path = "align_tests.rs"]
mod tests;
