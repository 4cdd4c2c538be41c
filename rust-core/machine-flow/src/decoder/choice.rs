// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Versions of code that time alone does not decide between.
//!
//! A change of code becomes visible to a core at some time between a moment at which its store
//! had not begun and the time of its record. The trace states the time only at some packets.
//! Within that interval both the old and the new bytes are possible. If the difference matters
//! for the flow, the decoder takes the likelier version and remembers the other one with its
//! whole state ([`Choice`]). It returns to the other version when packets and code contradict
//! each other later, or when a return casts doubt on the choice ([`super::doubt`]). A core does
//! not lose sight of a change that it has seen: once the new bytes are taken, the same choice
//! does not arise again.
//!
//! Stores of different threads may become visible out of the order of their records. So where two
//! pending changes touch one block, the decoder also keeps the versions in which only the later
//! one is visible, if times allow it. They are the least likely.
//!
//! Captures before version 2.2 do not say when a store began. For them the decoder assumes that a
//! record follows its store within [`Slack::before`]. Each level that it needs to explain a
//! contradiction multiplies that limit by sixteen.
//!
//! [`Slack::before`]: crate::Slack::before
//!
//! *Which version is likelier.* The packets often do not show the difference between versions of
//! a block: a call leads to one callee or to another, some TIP leaves each of them, and no
//! contradiction ever arises. These criteria decide then, in this order:
//! * The thread's own calls. The VM resolves a call when a thread executes it, and the record
//!   names the thread. The destination is not visible before the thread executed the call in its
//!   previous version, and a second destination is not visible before the thread executed the
//!   call with the first ([`CoreDecoder::visible_by_own_calls`]). A thread that executes a
//!   destination which it wrote itself has already made the record: the present time is at least
//!   the record's, and all calls that the thread resolved earlier are seen
//!   ([`CoreDecoder::execute`]).
//! * The targets of branches. The code at a branch's target was there when the branch was
//!   written, and no other code takes its place before the branch is written again. (Stubs of
//!   inline caches reuse the same addresses within microseconds;
//!   [`CoreDecoder::bounds_by_branch`].)
//! * The place in the trace between two known times ([`CoreDecoder::likely_seen`]).
//!
//! Where the VM records which calls it resolved for a thread, the first criterion is certain for
//! those calls: see [`super::resolutions`].
//!
//! *When an item is settled.* Choices and checkpoints are kept until [`SETTLED`] further branch
//! packets (TNT or TIP) have agreed with them, or until the thread's turn on the core is over.
//! Only items older than the oldest kept choice are handed out. A wrong version of a branch leads
//! into other code. A packet of the wrong kind, or an address that does not fit, follows there
//! within a few branches: one TNT bit too many or too few suffices.

use super::resolutions::Made;
use super::state::{DecoderState, Demand, Visited};
use super::{CoreDecoder, Decided, Decision, OpenGap};
use crate::block::{BasicBlock, MAX_BLOCK, MAX_INSTRUCTION, NoInstruction, Terminator, decode_block};
use crate::cache::{NONE, SCRATCH};
use crate::error::Error;
use crate::image::{CacheChange, ChangeKind, CodeHistory};
use crate::item::{Exit, Item, MachineGapReason};
use crate::view::{Recent, Seen};
use jportal_pt_packet::{Packet, PacketDecoder, find_psb};
use jportal_units::{CodeId, StreamOffset};

/// Branch packets after which a choice is settled.
const SETTLED: u64 = 2048;
/// Branch packets between checkpoints.
const CHECKPOINT: u64 = 1024;
/// Branch packets after a contradiction that must agree before a trial counts as right.
const CONVINCING: u64 = 64;
/// Alternatives tried for one contradiction, per level of tolerance. Each contradiction on this
/// core that nothing explained halves the number, down to [`MIN_TRIALS`]: decoding a trace that
/// is damaged throughout must not take forever.
const MAX_TRIALS: u32 = 1 << 13;
/// Lower limit of the number of trials; see [`MAX_TRIALS`].
const MIN_TRIALS: u32 = 64;
/// Highest level of tolerance. Each level multiplies the tolerance before a change by sixteen.
const MAX_LEVEL: u32 = 4;
/// Pending changes considered together at one place.
const MAX_PENDING: usize = 32;
/// If at most this many changes are pending at one place, the decoder tries each subset that the
/// times allow, not only those in the order of the records.
const MAX_UNORDERED: usize = 4;
/// Number of latest items that are searched for the last execution of a call.
const MAX_ITEMS_BACK: usize = 4096;
const BLOCK_BYTES: usize = (MAX_BLOCK + MAX_INSTRUCTION) as usize;

/// A state to come back to, with the alternatives that were not taken there.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The decoder's state at that point.
    pub state: DecoderState,
    /// Number of items at that point, including those handed out.
    pub items: u64,
    seen: Seen,
    /// Untried alternatives, the likeliest last.
    alternatives: Vec<Alternative>,
    checkpoint: bool,
    decisions: usize,
    window: Window,
}

/// A version of a block: of the changes pending at the block, those with numbers below `until`
/// are visible, except those in `late`. It names the changes rather than their count, because the
/// time may be known more exactly, and fewer changes be pending, when the decoder comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Alternative {
    until: u32,
    late: Vec<u32>,
}

impl Alternative {
    /// The changes of `pending` that are visible in this version.
    fn visible(&self, pending: &[u32]) -> Vec<u32> {
        pending.iter().copied().filter(|c| *c < self.until && !self.late.contains(c)).collect()
    }
}

/// The possible versions of a block.
struct Versions {
    /// The pending changes that touch the block in any of its versions and may be visible.
    pending: Vec<u32>,
    /// The block with none, the first, the first two, ... of them visible.
    in_order: Vec<Result<BasicBlock, Error>>,
    /// Versions in which a change is visible and another one with an earlier record is not.
    out_of_order: Vec<(Alternative, BasicBlock)>,
    /// No pending change touches the block, whether it may be visible at the present time or not.
    lasts: bool,
}

impl Choice {
    /// The untried alternatives, the likeliest last.
    pub fn alternatives(&self) -> &[Alternative] {
        &self.alternatives
    }

    /// Whether an alternative is untried.
    pub fn has_alternatives(&self) -> bool {
        !self.alternatives.is_empty()
    }

    /// The choice after `alternative` has been taken.
    pub fn without(mut self, alternative: &Alternative) -> Self {
        self.alternatives.retain(|a| a != alternative);
        self
    }
}

/// A contradiction that is being resolved. The decoder changes the latest choice that has an
/// untried alternative, then the one before it, and so on (depth first), until [`CONVINCING`]
/// branch packets after the furthest contradiction agree.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// Number of branch packets up to the furthest contradiction.
    reached: u64,
    trials: u32,
    /// Stream offset of the packet at the first contradiction.
    packet: u64,
    /// Latest possible time at the furthest contradiction.
    latest: u64,
}

/// Bounds of the present time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    since: u64,
    since_at: u64,
    /// The present time is not later than this, according to the next PSB+ or the sideband.
    pub latest: u64,
    latest_at: u64,
    /// Time of the record that the thread's next visit makes.
    resolution: u64,
    known: bool,
}

impl Window {
    /// Recomputes the bounds at the next use: the trace or the sideband has new information on
    /// time.
    pub fn forget(&mut self) {
        self.known = false;
    }
}

impl CoreDecoder {
    /// Called after a PSB+: the time is well known, and the flow was just confirmed.
    pub(super) fn at_sync(&mut self, image: &CodeHistory) {
        if self.state.enabled && self.state.own.since == u64::MAX {
            self.state.own.since = self.state.clock.now();
        }
        self.count_resolutions(image);
        self.window.forget();
        self.update_window(image);
        if self.cache.is_worn() {
            self.cache.clear();
            self.state.block = NONE;
        }
        self.settle_choices();
        self.checkpoint();
    }

    /// Updates the set of code changes that are near the present time.
    pub(super) fn update_window(&mut self, image: &CodeHistory) {
        let now = self.state.now();
        if now != self.window.since {
            (self.window.since, self.window.since_at) = (now, self.state.at);
        }
        if !self.window.known || self.state.at > self.window.latest_at {
            self.find_latest();
            self.window.resolution = self.next_resolution(image);
        }
        if self.state.block == SCRATCH {
            self.state.block = NONE;
        }
        let slack = self.config.slack;
        let surely = now.saturating_sub(slack.after);
        let (latest, before) = (self.upper(), self.before());
        self.see_old(image, surely);
        let changes = image.changes();
        if self.view.is_settled() && self.choices.is_empty() {
            let from = self.view.active();
            self.view.settle_directly(image, |tsc| tsc < surely);
            for (i, c) in changes[from..self.view.active()].iter().enumerate() {
                self.cache.invalidate(c.start, c.end());
                self.log((from + i) as u32);
            }
        }
        while image.reaches(self.view.active(), latest, before) {
            let change = &changes[self.view.active()];
            let number = self.view.active() as u32;
            self.view.activate();
            if change.tsc < surely {
                self.see(number);
            }
            self.cache.invalidate(change.start, change.end());
        }
        while self.view.deactivate_last(|c| !image.reaches(c as usize, latest, before)) {}
        let oldest = self.choices.first().map_or(now, |c| c.state.now());
        self.view.settle(image, |tsc| tsc < oldest.saturating_sub(slack.after));
    }

    /// Upper bound of the present time.
    fn upper(&self) -> u64 {
        self.window.latest.min(self.window.resolution)
    }

    /// Whether a change of code may be visible at the present time.
    pub(super) fn is_possible(&self, change: u32, image: &CodeHistory) -> bool {
        image.changes()[change as usize].earliest(self.before()) <= self.upper()
    }

    /// Longest time from a store to its record, for changes that do not say when their store
    /// began.
    fn before(&self) -> u64 {
        self.config.slack.before << (4 * self.level)
    }

    /// Marks pending changes whose record is older than `surely` as seen.
    fn see_old(&mut self, image: &CodeHistory, surely: u64) {
        let changes = image.changes();
        let pending = self.view.pending().iter().copied();
        let old: Vec<u32> = pending.take_while(|&c| changes[c as usize].tsc < surely).collect();
        old.into_iter().for_each(|c| self.see(c));
    }

    /// Marks `change` as seen: from this point this core executes what it wrote.
    fn see(&mut self, change: u32) {
        self.view.see(change);
        self.log(change);
    }

    fn log(&mut self, change: u32) {
        self.decide(|| Decided::Seen(change));
    }

    /// Keeps a decision, if [`crate::Config::record_decisions`] is set.
    fn decide(&mut self, what: impl FnOnce() -> Decided) {
        if self.config.record_decisions {
            self.decisions.push(Decision {
                block: self.state.blocks,
                packet: StreamOffset(self.state.packet),
                walking: self.state.outcomes != 0 || self.state.demand != Demand::None,
                outcomes_left: self.state.outcomes,
                what: what(),
            });
        }
    }

    /// Finds the upper bound of the present time: the TSC of the next PSB+, or a time from the
    /// sideband.
    fn find_latest(&mut self) {
        let (latest, until) = self.stretch.map_or((u64::MAX, u64::MAX), |s| (s.latest.0, s.until.0));
        self.window.known = true;
        (self.window.latest, self.window.latest_at) = (latest, u64::MAX);
        let from = (self.state.at - self.base) as usize;
        if let Some(at) = find_psb(&self.buffer, from) {
            let mut packets = PacketDecoder::at(&self.buffer[at..], StreamOffset(self.base + at as u64));
            let mut clock = self.state.clock;
            while let Ok(Some((_, packet))) = packets.next_packet() {
                match packet {
                    Packet::Tsc(tsc) => {
                        clock.tsc(tsc);
                        self.window.latest = clock.now().min(latest);
                        break;
                    }
                    Packet::PsbEnd => break,
                    _ => {}
                }
            }
            self.window.latest_at = self.base + at as u64;
        } else if until < self.base + self.buffer.len() as u64 {
            self.window.latest_at = until;
        }
        self.window.latest = self.window.latest.max(self.state.now());
    }

    /// Whether the trace's position in the window suggests that a change recorded at `tsc` is
    /// visible.
    fn likely_seen(&self, tsc: u64) -> bool {
        let w = &self.window;
        let latest = w.latest.min(w.resolution);
        if tsc <= w.since || tsc > latest {
            return tsc <= latest;
        }
        let end = w.latest_at.min(self.stretch.map_or(u64::MAX, |s| s.until.0));
        let part =
            |x: u64, from: u64, to: u64| (x - from.min(x)) as f64 / (to.saturating_sub(from)).max(1) as f64;
        part(self.state.packet, w.since_at, end) >= part(tsc, w.since, w.latest)
    }

    /// Decodes the block at `state.ip`. Chooses a version if several are possible.
    pub(super) fn resolve(&mut self, image: &CodeHistory) -> Result<u32, Error> {
        let ip = self.state.ip;
        // A forced alternative applies to this block only.
        let forced = self.forced.take();
        if let Some(stale) = self.stale_bytes(ip) {
            let bytes = stale.into();
            let block = self.decode_stale(image)?;
            self.decide(|| Decided::Stale { start: ip, bytes });
            self.cache.blocks[SCRATCH as usize] = block;
            self.state.block = SCRATCH;
            return Ok(SCRATCH);
        }
        self.state.block = self.cache.find(ip);
        if self.state.block != NONE {
            return Ok(self.state.block);
        }
        let old = self.decode_at(ip, image, &[]);
        let versions = self.versions(old, image);
        let block = match versions.pending.is_empty() {
            true if versions.lasts => {
                self.state.block = self.cache.insert(old?);
                return Ok(self.state.block);
            }
            true => old?,
            false => self.choose(&versions, forced, image)?,
        };
        self.cache.blocks[SCRATCH as usize] = block;
        self.state.block = SCRATCH;
        Ok(SCRATCH)
    }

    /// The possible versions of the block at `state.ip`; `old` is the version without any pending
    /// change.
    fn versions(&self, old: Result<BasicBlock, Error>, image: &CodeHistory) -> Versions {
        let ip = self.state.ip;
        let mut end = old.as_ref().map_or(ip + 1, |b| b.end);
        loop {
            let touches = |&number: &u32| {
                let c = &image.changes()[number as usize];
                c.kind != ChangeKind::Free && c.overlaps(ip, end)
            };
            let touching = || self.view.pending().iter().copied().filter(touches);
            let possible = |&number: &u32| self.is_possible(number, image);
            let pending: Vec<u32> = touching().filter(possible).take(MAX_PENDING).collect();
            let mut in_order = vec![old];
            in_order.extend((1..=pending.len()).map(|n| self.decode_at(ip, image, &pending[..n])));
            let out_of_order = self.out_of_order(&pending, image);
            let blocks = in_order.iter().flatten().chain(out_of_order.iter().map(|(_, b)| b));
            let furthest = blocks.map(|b| b.end).max().unwrap_or(end);
            if furthest <= end {
                let lasts = touching().next().is_none();
                return Versions { pending, in_order, out_of_order, lasts };
            }
            end = furthest;
        }
    }

    /// Versions of the block at `state.ip` in which one of `pending` is visible and another one
    /// with an earlier record is not. They are possible because a store may be much older than
    /// its record.
    fn out_of_order(&self, pending: &[u32], image: &CodeHistory) -> Vec<(Alternative, BasicBlock)> {
        let considered = &pending[..pending.len().min(MAX_UNORDERED)];
        let overtakes = |later: u32, earlier: u32| {
            let [later, earlier] = [later, earlier].map(|c| &image.changes()[c as usize]);
            let same_writer = later.writer != 0 && later.writer == earlier.writer;
            let limit = earlier.tsc.saturating_add(self.config.slack.after);
            !same_writer
                && !later.overlaps(earlier.start, earlier.end())
                && later.earliest(self.before()) < limit
        };
        let mut versions = Vec::new();
        // A bit of a set for each change. The sets of the first ones are the versions in order.
        for set in (1u32..1 << considered.len()).filter(|set| set & (set + 1) != 0) {
            let (seen, unseen): (Vec<_>, Vec<_>) =
                considered.iter().enumerate().partition(|(i, _)| set >> i & 1 == 1);
            let possible = |&(i, &change): &(usize, &u32)| {
                unseen.iter().filter(|(u, _)| *u < i).all(|&(_, &earlier)| overtakes(change, earlier))
            };
            let Some(&(_, &last)) = seen.last() else { continue };
            if !seen.iter().all(possible) {
                continue;
            }
            let late = unseen.iter().map(|&(_, &c)| c).filter(|&c| c < last).collect();
            let alternative = Alternative { until: last + 1, late };
            let visible = alternative.visible(pending);
            // A set of changes that leaves no valid instruction here is not a version.
            if let Ok(block) = self.decode_at(self.state.ip, image, &visible) {
                versions.push((alternative, block));
            }
        }
        versions
    }

    /// The block at `ip` if exactly those pending changes that `new` contains are visible.
    fn decode_at(&self, ip: u32, image: &CodeHistory, new: &[u32]) -> Result<BasicBlock, Error> {
        let visible = |r: &Recent| r.seen || new.contains(&r.change);
        let offset = StreamOffset(self.state.packet);
        let Some((code, end)) = self.view.owner(image, ip, visible) else {
            return Err(Error::NoCode { address: self.address(ip), offset });
        };
        let mut room = [0u8; BLOCK_BYTES];
        let bytes = &mut room[..((end - ip) as usize).min(BLOCK_BYTES)];
        self.view.read(image, ip, bytes, visible);
        decode_block(bytes, ip, code, self.bounds)
            .map_err(|NoInstruction { at }| Error::NoInstruction { address: self.address(at), offset })
    }

    /// The bytes that the unit reported for the next block, if that block begins at `ip`.
    fn stale_bytes(&self, ip: u32) -> Option<&[u8]> {
        let (stale, blocks) = self.state.stale?;
        let stale = self.stale.get(stale).filter(|s| s.start == ip && blocks == self.state.blocks)?;
        Some(&stale.bytes)
    }

    /// The block at `state.ip`, decoded from the bytes that the unit reported.
    fn decode_stale(&self, image: &CodeHistory) -> Result<BasicBlock, Error> {
        let (ip, offset) = (self.state.ip, StreamOffset(self.state.packet));
        let Some((code, end)) = self.view.owner(image, ip, |r| r.seen) else {
            return Err(Error::NoCode { address: self.address(ip), offset });
        };
        let mut room = [0u8; BLOCK_BYTES];
        let bytes = &mut room[..((end - ip) as usize).min(BLOCK_BYTES)];
        self.read_seen(ip, image, bytes);
        decode_block(bytes, ip, code, self.bounds)
            .map_err(|NoInstruction { at }| Error::NoInstruction { address: self.address(at), offset })
    }

    /// The bytes from `at` that this core executes next.
    pub(super) fn read_seen(&self, at: u32, image: &CodeHistory, out: &mut [u8]) {
        self.view.read(image, at, out, |r| r.seen);
        if let Some(stale) = self.stale_bytes(at) {
            let n = stale.len().min(out.len());
            out[..n].copy_from_slice(&stale[..n]);
        }
    }

    /// Takes the likeliest version of the block at `state.ip` and remembers the other versions.
    fn choose(
        &mut self,
        versions: &Versions,
        forced: Option<Alternative>,
        image: &CodeHistory,
    ) -> Result<BasicBlock, Error> {
        let Versions { pending, in_order: all, out_of_order, .. } = versions;
        if let Some(alternative) = forced {
            let visible = alternative.visible(pending);
            let block = self.decode_at(self.state.ip, image, &visible)?;
            let n = pending.partition_point(|&c| c < alternative.until);
            alternative.late.iter().for_each(|&c| self.decide(|| Decided::NotYet(c)));
            self.pass_over(&pending[n..], &all[n..]);
            let unseen: Vec<u32> = pending.iter().copied().filter(|c| !visible.contains(c)).collect();
            self.visit(&unseen, &block, image);
            self.execute(&visible, image);
            return Ok(block);
        }
        let near = pending;
        let pending = &near[..self.visible_by_own_calls(near, image)];
        let versions_of_all = all;
        let all = &all[..=pending.len()];
        let changes = image.changes();
        // A thread seldom comes to this core with the call already executed elsewhere and only
        // the destination left to write. Usually it still has to execute the call here.
        let seen = |&c: &u32| {
            let change = &changes[c as usize];
            if let Some(made) = self.made(change, image) {
                return made == Made::Yes;
            }
            let to_come = self.is_own(change) && change.tsc > self.state.own.since.max(self.window.since);
            let brought = to_come && self.state.own.brought == Some(change.start);
            let resolved =
                self.is_own(change) && (self.visited(c) == Some(false) || self.left_from(c, near, image));
            resolved || (!brought && self.likely_seen(change.tsc))
        };
        let (least, most) = self.bounds_by_branch(pending, image);
        let goes_again =
            |c: u32| self.visited(c) == Some(true) && self.made(&changes[c as usize], image).is_none();
        let again = pending.iter().position(|&c| goes_again(c));
        let most = again.unwrap_or(most).clamp(least, most);
        let likely = pending.iter().take_while(|c| seen(c)).count().clamp(least, most);
        let (mut versions, refused) = flows(all, least);
        // The code from which control branched here was not replaced before the branch.
        if let Some(from) = self.running_code()
            && versions.iter().any(|(_, b)| b.code == from)
        {
            versions.retain(|(_, b)| b.code == from);
        }
        // A jump to itself (the placeholder in a call's stub) never ends, so the flow does not
        // continue there. A trap is an unlikely version.
        let circle = |b: &BasicBlock| b.kind == Terminator::Jump && b.target == b.start;
        if versions.iter().any(|(_, b)| !circle(b)) {
            versions.retain(|(_, b)| !circle(b));
        }
        // Sorts the likeliest version last: the one with the most visible changes that does not
        // exceed `likely`, then the others.
        let rank = |&(n, ref b): &(usize, BasicBlock)| {
            let odd = !(least..=most).contains(&n);
            (b.kind == Terminator::Far, odd, if n <= likely { likely - n } else { pending.len() + n })
        };
        versions.sort_by_key(|v| std::cmp::Reverse(rank(v)));
        let Some((visible, block)) = versions.pop() else {
            let offset = StreamOffset(self.state.packet);
            return Err(refused.unwrap_or(Error::NoCode { address: self.address(self.state.ip), offset }));
        };
        // Versions out of the order of records are the least likely. They come first, so that they
        // are tried last.
        let other = |(a, b): &(Alternative, BasicBlock)| {
            let flows = || versions.iter().map(|(_, b)| b).chain([&block]);
            let called = a.visible(near).iter().all(|c| pending.contains(c));
            called && !circle(b) && flows().all(|f| !f.same_flow(b))
        };
        let mut alternatives: Vec<Alternative> =
            out_of_order.iter().filter(|v| other(v)).map(|(a, _)| a.clone()).collect();
        let until = |n: usize| near.get(n).copied().unwrap_or(u32::MAX);
        alternatives.extend(versions.iter().map(|&(n, _)| Alternative { until: until(n), late: Vec::new() }));
        if !alternatives.is_empty() && !self.surrender {
            self.statistics.choices += 1;
            self.remember(alternatives, false);
        }
        self.pass_over(&near[visible..], &versions_of_all[visible..]);
        self.visit(&near[visible..], &block, image);
        self.execute(&pending[..visible], image);
        Ok(block)
    }

    /// The block runs without `unseen`: records those of them that make a difference for the
    /// flow. `versions` holds the block without them, with the first, the first two, ...
    fn pass_over(&mut self, unseen: &[u32], versions: &[Result<BasicBlock, Error>]) {
        for (&change, pair) in unseen.iter().zip(versions.windows(2)) {
            let neutral = matches!(pair, [Ok(without), Ok(with)] if without.same_flow(with));
            if !neutral {
                self.decide(|| Decided::NotYet(change));
            }
        }
    }

    /// Whether the running thread wrote `change`.
    pub(super) fn is_own(&self, change: &CacheChange) -> bool {
        change.writer != 0 && self.stretch.is_some_and(|s| s.tid.0 == change.writer)
    }

    /// Whether the running thread wrote `change` and it is the destination of a call, that is,
    /// the thread resolved that call.
    fn is_own_call(&self, change: &CacheChange) -> bool {
        change.is_call() && self.is_own(change)
    }

    /// How many of `pending` this core can have seen, according to the thread's own calls: the
    /// destination of a call that the thread itself resolved is not visible before the thread
    /// executed the call in its previous version.
    fn visible_by_own_calls(&mut self, pending: &[u32], image: &CodeHistory) -> usize {
        let changes = image.changes();
        if !pending.iter().any(|&c| self.is_own(&changes[c as usize])) {
            return pending.len();
        }
        let brought = self.brought(image);
        // A destination that was stored before the switch to this core and recorded after it is the
        // first own destination after the switch, which is `brought`.
        let before = match self.level {
            0 if brought != u32::MAX => 0,
            _ => self.before(),
        };
        let to_come = |&c: &u32| {
            let change = &changes[c as usize];
            let late = change.tsc.saturating_sub(before) > self.state.own.since;
            let guess = self.is_own_call(change)
                && late
                && change.start != brought
                && self.visited(c).is_none()
                && !self.left_from(c, pending, image)
                && !self.was_on_its_way(change, image);
            self.made(change, image).map_or(guess, |made| made == Made::NotYet)
        };
        pending.iter().position(to_come).unwrap_or(pending.len())
    }

    /// The call that the thread may have executed elsewhere, before it came to this core to write
    /// the destination; `u32::MAX` for none.
    fn brought(&mut self, image: &CodeHistory) -> u32 {
        let since = self.state.own.since;
        let first = self.state.own.brought.unwrap_or_else(|| {
            let changes = image.changes();
            let later = changes.partition_point(|c| c.tsc <= since);
            changes[later..].iter().find(|c| self.is_own_call(c)).map_or(u32::MAX, |c| c.start)
        });
        self.state.own.brought = Some(first);
        first
    }

    /// The least and the greatest number of `pending`, which touch the block at `state.ip`, that
    /// should be seen if a branch leads here. The destination was there when the branch was
    /// written, and no other code took its place before the branch was written again: the VM does
    /// not free memory while a branch leads to it.
    fn bounds_by_branch(&self, pending: &[u32], image: &CodeHistory) -> (usize, usize) {
        let all = (0, pending.len());
        let mut back = self.items.iter().rev().filter(|i| !matches!(i, Item::Time(_)));
        let Some(Item::Block { end, exit, .. }) = back.next() else { return all };
        if !matches!(exit, Exit::Call | Exit::Jump | Exit::Taken) {
            return all;
        }
        let changes = image.changes();
        let writes = |c: u32| changes[c as usize].overlaps(end - 1, *end);
        let installed = |c: u32| matches!(changes[c as usize].kind, ChangeKind::Install(_));
        let written = self.view.latest_seen(writes);
        let anew = self.view.pending().iter().copied().find(|&c| writes(c));
        let least =
            written.map_or(0, |w| pending.iter().rposition(|&c| c < w && installed(c)).map_or(0, |n| n + 1));
        let most = anew.and_then(|a| pending.iter().position(|&c| c > a && installed(c)));
        (least, most.unwrap_or(pending.len()).max(least))
    }

    /// The block runs without `unseen`. If some of them are destinations of calls in this block,
    /// the VM may resolve those calls from this point. A later destination that the same thread
    /// wrote for the same call requires that the thread executes the call once more.
    fn visit(&mut self, unseen: &[u32], block: &BasicBlock, image: &CodeHistory) {
        let changes = image.changes();
        let pending = self.view.pending();
        self.state.visited.retain(|v| pending.binary_search(&v.change).is_ok());
        for (i, &c) in unseen.iter().enumerate() {
            let change = &changes[c as usize];
            if change.writer == 0 || !change.is_call() || !change.overlaps(block.start, block.end) {
                continue;
            }
            let same = |&e: &u32| {
                let earlier = &changes[e as usize];
                self.is_own_call(earlier) && earlier.start == change.start
            };
            let again = self.is_own(change) && unseen[..i].iter().any(same);
            match self.state.visited.iter_mut().find(|v| v.change == c) {
                Some(visited) => visited.again &= again,
                None => self.state.visited.push(Visited { change: c, again }),
            }
        }
    }

    /// Whether the thread executed the call whose destination `change` is, and left the range
    /// after that. If the time still excluded the change when the call ran, [`Self::visit`] did
    /// not note the call; the store is made later, outside the range. If a call has several
    /// changes, this applies to the first of them only.
    fn left_from(&self, change: u32, pending: &[u32], image: &CodeHistory) -> bool {
        let changes = image.changes();
        let call = &changes[change as usize];
        let same =
            |&c: &u32| self.is_own_call(&changes[c as usize]) && changes[c as usize].start == call.start;
        if !self.is_own_call(call) || pending.iter().find(|c| same(c)) != Some(&change) {
            return false;
        }
        let mut left = false;
        self.items.iter().rev().take(MAX_ITEMS_BACK).any(|item| {
            left |= matches!(item, Item::Leave { .. });
            matches!(*item, Item::Block { start, end, .. } if left && start <= call.start && call.end() <= end)
        })
    }

    /// If the flow executed the call whose destination `change` is: whether it should do so once
    /// more before the change is visible. `None` if the flow did not execute the call.
    fn visited(&self, change: u32) -> Option<bool> {
        self.state.visited.iter().find(|v| v.change == change).map(|v| v.again)
    }

    /// This core executes what `changes`, in order of time, wrote. That bounds the present time
    /// and so settles earlier changes elsewhere, too. A thread sees its own changes in order, and
    /// it returns from writing one after the record is made. A change by another thread may have
    /// been visible before the time of its record, within the tolerance.
    fn execute(&mut self, changes: &[u32], image: &CodeHistory) {
        let all = image.changes();
        let own = |c: &u32| self.is_own(&all[*c as usize]);
        let latest = changes.iter().copied().rfind(own).unwrap_or(0);
        let passed = |c: &u32| *c < latest && own(c) && !changes.contains(c);
        let earlier: Vec<u32> = self.view.pending().iter().copied().filter(passed).collect();
        let before = self.before();
        let proves = |c: &u32| {
            let change = &all[*c as usize];
            if own(c) { change.tsc } else { change.earliest(before) }
        };
        let floor = changes.iter().map(proves).max().unwrap_or(0);
        changes.iter().chain(&earlier).for_each(|&c| self.see(c));
        if floor > self.state.now() {
            self.state.floor = floor;
            self.update_window(image);
        }
    }

    /// The code that was running when the flow reached `state.ip`: the code that branched here,
    /// or that was interrupted here.
    fn running_code(&self) -> Option<CodeId> {
        let mut back = self.items.iter().rev().filter(|i| !matches!(i, Item::Time(_)));
        match (back.next()?, back.next(), back.next()) {
            (Item::Block { code, .. }, _, _) => Some(*code),
            (Item::Enter { ip }, Some(Item::Interrupt { ip: from }), Some(Item::Block { code, .. })) => {
                (ip == from).then_some(*code)
            }
            _ => None,
        }
    }

    fn remember(&mut self, alternatives: Vec<Alternative>, checkpoint: bool) {
        self.choices.push(Choice {
            state: DecoderState { block: NONE, ..self.state.clone() },
            items: self.handed + self.items.len() as u64,
            seen: self.view.seen(),
            alternatives,
            checkpoint,
            decisions: self.decisions.len(),
            window: self.window,
        });
    }

    /// Adds a state to come back to that has no alternatives of its own.
    pub(super) fn checkpoint(&mut self) {
        self.next_checkpoint = self.state.branches + CHECKPOINT;
        if self.state.demand == Demand::None {
            self.settle_choices();
            self.remember(Vec::new(), true);
        }
    }

    /// Drops choices that enough packets have agreed with.
    pub(super) fn settle_choices(&mut self) {
        self.surrender &= self.state.packet <= self.give_up_at;
        if self.trouble.as_ref().is_some_and(|t| self.state.branches > t.reached + CONVINCING) {
            self.trouble = None;
        }
        if self.doubt.as_ref().is_some_and(|d| d.is_over(self.state.branches)) {
            self.doubt = None;
        }
        if self.trouble.is_some() || self.doubt.is_some() {
            return;
        }
        let agreed = |c: &Choice| c.checkpoint && c.state.branches + SETTLED <= self.state.branches;
        if let Some(n) = self.choices.iter().rposition(agreed) {
            self.choices.drain(..n);
            self.level = 0;
        }
    }

    /// Packets and code contradict each other: tries another version of the code, or gives up.
    pub(super) fn fail(&mut self, error: Error, image: &CodeHistory) {
        let (reached, packet) = (self.state.branches, self.state.packet);
        if matches!(error, Error::Circle { .. }) {
            self.leave_circle();
        }
        if self.doubt(&error, image) {
            return;
        }
        // At the second failure at this packet nothing else is tried, whatever was settled in
        // between.
        if self.surrender || self.give_up_at == packet {
            return self.give_up(error, image);
        }
        let latest = self.window.latest;
        let new = Trouble { reached, trials: 0, packet, latest };
        match &mut self.trouble {
            Some(t) if reached <= t.reached + CONVINCING => {
                t.reached = t.reached.max(reached);
                t.latest = t.latest.max(latest);
            }
            other => *other = Some(new),
        }
        if self.next_trial(image) || self.widen(image) {
            return;
        }
        let untouched = self.trouble.take().is_none_or(|t| t.trials == 0 && t.packet == packet);
        if untouched {
            return self.give_up(error, image);
        }
        // Nothing explains the trace: decode once more with only the likeliest versions, as far as
        // they lead.
        self.level = 0;
        self.surrender = true;
        self.give_up_at = packet;
        self.start_over(image);
    }

    /// Of the choices made in a circle, keeps only the first that has an untried alternative. The
    /// code of a circle without a packet never leaves it, so no round of it ran.
    fn leave_circle(&mut self) {
        let before = self.handed + self.items.len().saturating_sub(self.circled) as u64;
        let first = self.choices.iter().position(|c| c.items >= before && c.has_alternatives());
        if let Some(first) = first {
            self.choices.truncate(first + 1);
        }
    }

    /// Goes back to the latest choice that has an untried alternative.
    fn next_trial(&mut self, image: &CodeHistory) -> bool {
        let unexplained = self.statistics.errors.min(31) as u32;
        let limit = (MAX_TRIALS >> unexplained).max(MIN_TRIALS);
        let Some(trouble) = &mut self.trouble else { return false };
        let Some(last) = self.choices.iter().rposition(|c| !c.alternatives.is_empty()) else { return false };
        if trouble.trials >= limit {
            return false;
        }
        trouble.trials += 1;
        self.statistics.backtracks += 1;
        self.choices.truncate(last + 1);
        let Some(mut choice) = self.choices.pop() else { return false };
        let alternative = choice.alternatives.pop();
        self.restore(&choice, image);
        if last == 0 || choice.checkpoint || !choice.alternatives.is_empty() {
            self.choices.push(choice);
        }
        self.forced = alternative;
        true
    }

    /// Widens the clock tolerance if further changes become possible by it.
    fn widen(&mut self, image: &CodeHistory) -> bool {
        let Some(trouble) = self.trouble.as_ref().filter(|_| !self.choices.is_empty()) else { return false };
        if !image.is_vague() {
            return false;
        }
        let slack = self.config.slack.before;
        let reach = |level: u32| {
            let possibly = trouble.latest.saturating_add(slack << (4 * level));
            image.changes().partition_point(|c| c.tsc <= possibly)
        };
        let now = reach(self.level);
        let Some(level) = (self.level + 1..=MAX_LEVEL).find(|&l| reach(l) > now) else { return false };
        self.statistics.widenings += 1;
        self.level = level;
        if let Some(t) = &mut self.trouble {
            t.trials = 1;
        }
        self.start_over(image);
        true
    }

    /// Decodes once more from the earliest kept choice.
    fn start_over(&mut self, image: &CodeHistory) {
        self.choices.truncate(1);
        if let Some(first) = self.choices.pop() {
            self.restore(&first, image);
            self.choices.push(Choice { alternatives: Vec::new(), ..first });
        }
    }

    pub(super) fn restore(&mut self, choice: &Choice, image: &CodeHistory) {
        self.items.truncate((choice.items - self.handed) as usize);
        self.decisions.truncate(choice.decisions);
        self.come_back(&choice.state, &choice.seen, choice.window, image);
    }

    /// Resumes decoding from `state`; does not restore items and decisions.
    pub(super) fn come_back(
        &mut self,
        state: &DecoderState,
        seen: &Seen,
        window: Window,
        image: &CodeHistory,
    ) {
        self.state = state.clone();
        self.forced = None;
        self.next_checkpoint = self.state.branches + CHECKPOINT;
        let mut differing = Vec::new();
        self.view.restore(seen, &mut differing);
        for number in differing {
            let change = &image.changes()[number as usize];
            self.cache.invalidate(change.start, change.end());
        }
        self.window = window;
        self.window.forget();
        self.update_window(image);
    }

    fn give_up(&mut self, error: Error, image: &CodeHistory) {
        if matches!(error, Error::Circle { .. }) {
            // The blocks of the circle did not run.
            let back = self.circled.min(self.items.len());
            self.items.truncate(self.items.len() - back);
            self.state.blocks -= back as u64;
        }
        let address = self.state.enabled.then(|| self.address(self.state.ip));
        // A PSB+ that contradicts the flow before it is still a good place to resume.
        if matches!(self.state.demand, Demand::Sync(_)) && self.state.psb >= self.base {
            self.state.at = self.state.psb;
        }
        let reason = MachineGapReason::Undecodable(error);
        self.lost = Some(OpenGap::new(reason, self.state.packet, address, self.state.clock.now()));
        self.choices.clear();
        self.trouble = None;
        self.doubt = None;
        self.level = 0;
        self.surrender = false;
        self.give_up_at = u64::MAX;
        self.state.lose();
        // The flow seemed to prove that some changes were visible whose records are later than the
        // present time. The contradiction makes that void.
        let now = self.state.clock.now();
        let changes = image.changes();
        for number in self.view.unsee(|c| changes[c as usize].tsc > now) {
            let change = &changes[number as usize];
            self.cache.invalidate(change.start, change.end());
        }
        self.window.forget();
        self.update_window(image);
    }
}

/// Takes the versions of a block with none, the first, the first two, ... of the pending changes
/// visible. Returns one version for each different flow, with the number of visible changes: the
/// smallest number, but `least` if the flow is the same at `least`. Also returns the last error,
/// if some version does not decode.
fn flows(all: &[Result<BasicBlock, Error>], least: usize) -> (Vec<(usize, BasicBlock)>, Option<Error>) {
    let mut flows: Vec<(usize, BasicBlock)> = Vec::new();
    let mut refused = None;
    for (visible, version) in all.iter().enumerate() {
        match version {
            Ok(block) => match flows.last_mut().filter(|(_, last)| last.same_flow(block)) {
                Some((n, _)) if *n < least => *n = visible,
                Some(_) => {}
                None => flows.push((visible, *block)),
            },
            Err(error) => refused = Some(*error),
        }
    }
    (flows, refused)
}
