// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Versions of code that time alone does not decide between.
//!
//! A change of code becomes visible to a core between the time when its store had not begun and the time of its record, and the
//! trace says the time only now and then. In between both the old and the new bytes are possible. If they make a difference
//! for the flow, the decoder takes the likelier version, remembers the other one with its whole state ([`Choice`]), and
//! comes back to it when packets and code contradict each other later on, or when a return doubts it ([`super::doubt`]). What a
//! core has seen it does not unsee: once the new bytes are taken, the choice does not come again.
//!
//! Captures before version 2.2 do not say when a store began. There a record is taken to come at most [`Slack::before`] after it,
//! and sixteen times as much for each level that is needed to explain a contradiction.
//!
//! [`Slack::before`]: crate::Slack::before
//!
//! *Which version is the likelier.* Versions of a block often differ in what packets do not show: a call leads to the one
//! callee or to the other, each is left by some TIP, and no contradiction ever comes. What stands then, in this order:
//! * The thread's own calls. The VM resolves a call when a thread goes through it, and the record names the thread: the
//!   destination is not there before the thread passed the call as it was, and a second one not before it passed the call
//!   with the first ([`CoreDecoder::possibly_called`]). A thread that takes its own new destination has made the record:
//!   the present time is at least the record's, and all calls that it resolved before are seen ([`CoreDecoder::execute`]).
//! * Where branches lead. The code that a branch leads to stood there when the branch was written, and nothing else takes
//!   its place before the branch is written anew: stubs of inline caches share addresses within microseconds
//!   ([`CoreDecoder::led_here`]).
//! * The place in the trace between two known times ([`CoreDecoder::likely_seen`]).
//!
//! Where the VM says which calls it resolved for a thread, the first of these is certain for those calls:
//! [`super::resolutions`].
//!
//! *When an item is settled.* Choices and checkpoints are kept until [`SETTLED`] further branch
//! packets (TNT or TIP) have agreed with them, or until the thread's turn on the core is over;
//! items are handed out only as far as the oldest one kept. A wrong version of a branch leads
//! into other code, in which a packet of the wrong kind or an address that does not fit comes
//! within a few branches: one TNT bit too many or too few suffices.

use super::resolutions::Made;
use super::state::{Demand, State, Visited};
use super::{CoreDecoder, Decided, Decision, Lost};
use crate::block::{Block, Kind, MAX_BLOCK, MAX_INSTRUCTION, NoInstruction, decode_block};
use crate::cache::{NONE, SCRATCH};
use crate::error::Error;
use crate::image::{Change, ChangeKind, CodeHistory};
use crate::item::{Exit, Item, MachineGapReason};
use crate::view::{Recent, Seen};
use jportal_pt_packet::{Packet, PacketDecoder, find_psb};
use jportal_units::{CodeId, StreamOffset};

/// Branch packets after which a choice is settled.
const SETTLED: u64 = 2048;
/// Branch packets between checkpoints.
const CHECKPOINT: u64 = 1024;
/// Branch packets behind a contradiction that prove a trial right.
const CONVINCING: u64 = 64;
/// Alternatives tried for one contradiction, per level of tolerance; each contradiction on this
/// core that nothing explained halves the number, down to [`MIN_TRIALS`]: a trace that was
/// damaged all over must not take for ever.
const MAX_TRIALS: u32 = 1 << 13;
/// See [`MAX_TRIALS`].
const MIN_TRIALS: u32 = 64;
/// Each level multiplies the tolerance before a change by sixteen.
const MAX_LEVEL: u32 = 4;
/// Pending changes considered together at one place.
const MAX_PENDING: usize = 32;
/// Pending changes at one place of which each set that times allow is tried, not only those in the order of records.
const MAX_UNORDERED: usize = 4;
/// Items among which the latest execution of a call is looked for.
const MAX_ITEMS_BACK: usize = 4096;
const BLOCK_BYTES: usize = (MAX_BLOCK + MAX_INSTRUCTION) as usize;

/// A point to come back to.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub state: State,
    /// Items there were, those handed out included.
    pub items: u64,
    seen: Seen,
    /// Untried alternatives, the likeliest last.
    alternatives: Vec<Alternative>,
    checkpoint: bool,
    decisions: usize,
    window: Window,
}

/// A version of a block: of the changes pending there, those with lower numbers than `until` are visible, except for `late`. (Not how
/// many are visible: when the decoder comes back, time may say more of them than it did.)
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Alternative {
    until: u32,
    late: Vec<u32>,
}

impl Alternative {
    /// Those of `pending` that are visible.
    fn visible(&self, pending: &[u32]) -> Vec<u32> {
        pending.iter().copied().filter(|c| *c < self.until && !self.late.contains(c)).collect()
    }
}

/// The versions of a block.
struct Versions {
    /// The pending changes that touch the block in any of its versions and may be visible.
    pending: Vec<u32>,
    /// The block with none, the first, the first two ... of them visible.
    in_order: Vec<Result<Block, Error>>,
    /// Versions in which a change is visible and one with an earlier record is not.
    out_of_order: Vec<(Alternative, Block)>,
    /// No pending change touches the block, visible now or not.
    lasts: bool,
}

impl Choice {
    pub fn alternatives(&self) -> &[Alternative] {
        &self.alternatives
    }

    pub fn has_alternatives(&self) -> bool {
        !self.alternatives.is_empty()
    }

    /// After `alternative` has been taken.
    pub fn without(mut self, alternative: &Alternative) -> Self {
        self.alternatives.retain(|a| a != alternative);
        self
    }
}

/// A contradiction that is being worked on: the latest choice with an untried alternative is
/// changed, and so on back (depth first), until [`CONVINCING`] branch packets behind the
/// furthest contradiction agree.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// Branch packets at the furthest contradiction.
    reached: u64,
    trials: u32,
    /// Packet of the first one.
    packet: u64,
    /// Latest time at the furthest one.
    latest: u64,
}

/// Bounds of the present time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    since: u64,
    since_at: u64,
    pub latest: u64,
    latest_at: u64,
    /// Time of the record that the thread's next visit to the VM makes.
    resolution: u64,
    known: bool,
}

impl Window {
    /// The trace or the sideband has more to say about time.
    pub fn forget(&mut self) {
        self.known = false;
    }
}

impl CoreDecoder {
    /// After a PSB+: time is known well, and the flow was just confirmed.
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

    /// Takes in which changes of code are near the present time.
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

    /// The present time is not later.
    fn upper(&self) -> u64 {
        self.window.latest.min(self.window.resolution)
    }

    /// Whether a change of code may be visible at the present time.
    pub(super) fn is_possible(&self, change: u32, image: &CodeHistory) -> bool {
        image.changes()[change as usize].earliest(self.before()) <= self.upper()
    }

    /// How long after its store a record may have been made of which that is not known.
    fn before(&self) -> u64 {
        self.config.slack.before << (4 * self.level)
    }

    /// Marks pending changes that are older than `surely`.
    fn see_old(&mut self, image: &CodeHistory, surely: u64) {
        let changes = image.changes();
        let pending = self.view.pending().iter().copied();
        let old: Vec<u32> = pending.take_while(|&c| changes[c as usize].tsc < surely).collect();
        old.into_iter().for_each(|c| self.see(c));
    }

    /// From here on this core executes what `change` wrote.
    fn see(&mut self, change: u32) {
        self.view.see(change);
        self.log(change);
    }

    fn log(&mut self, change: u32) {
        self.decide(|| Decided::Seen(change));
    }

    /// Keeps a decision, if that is asked for.
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

    /// Upper bound of the present time: the TSC of the next PSB+, or what sideband knows.
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

    /// Whether the trace's place in the window suggests that a change at `tsc` is over.
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

    /// Decodes the block at `state.ip`; chooses if several versions are possible.
    pub(super) fn resolve(&mut self, image: &CodeHistory) -> Result<u32, Error> {
        let ip = self.state.ip;
        // For this block and no other.
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

    /// The versions of the block at `state.ip`, which is `old` if no pending change is visible.
    fn versions(&self, old: Result<Block, Error>, image: &CodeHistory) -> Versions {
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

    /// Versions of the block at `state.ip` in which one of `pending` is visible and one with an earlier record is not: a store may be
    /// much older than its record.
    fn out_of_order(&self, pending: &[u32], image: &CodeHistory) -> Vec<(Alternative, Block)> {
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
        for set in 1u32..1 << considered.len() {
            let is_prefix = set & (set + 1) == 0;
            let (seen, unseen): (Vec<_>, Vec<_>) =
                considered.iter().enumerate().partition(|(i, _)| set >> i & 1 == 1);
            let possible = |&(i, &change): &(usize, &u32)| {
                unseen.iter().filter(|(u, _)| *u < i).all(|&(_, &earlier)| overtakes(change, earlier))
            };
            let Some(&(_, &last)) = seen.last() else { continue };
            if is_prefix || !seen.iter().all(possible) {
                continue;
            }
            let late = unseen.iter().map(|&(_, &c)| c).filter(|&c| c < last).collect();
            let alternative = Alternative { until: last + 1, late };
            let visible = alternative.visible(pending);
            // A version without an instruction there is none.
            if let Ok(block) = self.decode_at(self.state.ip, image, &visible) {
                versions.push((alternative, block));
            }
        }
        versions
    }

    /// The block at `ip` if, of the pending changes, those in `new` are visible.
    fn decode_at(&self, ip: u32, image: &CodeHistory, new: &[u32]) -> Result<Block, Error> {
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

    /// The bytes that the unit said the next block consisted of, if it begins at `ip`.
    fn stale_bytes(&self, ip: u32) -> Option<&[u8]> {
        let (stale, blocks) = self.state.stale?;
        let stale = self.stale.get(stale).filter(|s| s.start == ip && blocks == self.state.blocks)?;
        Some(&stale.bytes)
    }

    /// The block at `state.ip` as the unit said.
    fn decode_stale(&self, image: &CodeHistory) -> Result<Block, Error> {
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

    /// The bytes from `at` on as this core executes them next.
    pub(super) fn read_seen(&self, at: u32, image: &CodeHistory, out: &mut [u8]) {
        self.view.read(image, at, out, |r| r.seen);
        if let Some(stale) = self.stale_bytes(at) {
            let n = stale.len().min(out.len());
            out[..n].copy_from_slice(&stale[..n]);
        }
    }

    /// Takes the likeliest version of the block at `state.ip` and remembers the others.
    fn choose(
        &mut self,
        versions: &Versions,
        forced: Option<Alternative>,
        image: &CodeHistory,
    ) -> Result<Block, Error> {
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
        let pending = &near[..self.possibly_called(near, image)];
        let versions_of_all = all;
        let all = &all[..=pending.len()];
        let changes = image.changes();
        // That the thread brought the destination of a call along is rarer than that it is yet to resolve it.
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
        let (least, most) = self.led_here(pending, image);
        let goes_again =
            |c: u32| self.visited(c) == Some(true) && self.made(&changes[c as usize], image).is_none();
        let again = pending.iter().position(|&c| goes_again(c));
        let most = again.unwrap_or(most).clamp(least, most);
        let likely = pending.iter().take_while(|c| seen(c)).count().clamp(least, most);
        let (mut versions, refused) = flows(all, least);
        // The code that branched here was not replaced before it did.
        if let Some(from) = self.running_code()
            && versions.iter().any(|(_, b)| b.code == from)
        {
            versions.retain(|(_, b)| b.code == from);
        }
        // A jump to itself (the placeholder in a call's stub) goes nowhere; a trap is a rare way on.
        let circle = |b: &Block| b.kind == Kind::Jump && b.target == b.start;
        if versions.iter().any(|(_, b)| !circle(b)) {
            versions.retain(|(_, b)| !circle(b));
        }
        // The likeliest last: the greatest number visible that is not above `likely`, then others.
        let rank = |&(n, ref b): &(usize, Block)| {
            let odd = !(least..=most).contains(&n);
            (b.kind == Kind::Far, odd, if n <= likely { likely - n } else { pending.len() + n })
        };
        versions.sort_by_key(|v| std::cmp::Reverse(rank(v)));
        let Some((visible, block)) = versions.pop() else {
            let offset = StreamOffset(self.state.packet);
            return Err(refused.unwrap_or(Error::NoCode { address: self.address(self.state.ip), offset }));
        };
        // Those that are out of order are the least likely, and come first.
        let other = |(a, b): &(Alternative, Block)| {
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

    /// The block runs without `unseen`: notes those that make a difference for the flow. `versions` are the block without
    /// them, with the first, the first two …
    fn pass_over(&mut self, unseen: &[u32], versions: &[Result<Block, Error>]) {
        for (&change, pair) in unseen.iter().zip(versions.windows(2)) {
            let neutral = matches!(pair, [Ok(without), Ok(with)] if without.same_flow(with));
            if !neutral {
                self.decide(|| Decided::NotYet(change));
            }
        }
    }

    /// Whether the running thread wrote `change`.
    pub(super) fn is_own(&self, change: &Change) -> bool {
        change.writer != 0 && self.stretch.is_some_and(|s| s.tid.0 == change.writer)
    }

    /// Whether it is the destination of a call, too: one that the thread has resolved.
    fn is_own_call(&self, change: &Change) -> bool {
        change.is_call() && self.is_own(change)
    }

    /// How many of `pending` this core can have seen as far as the thread's own calls tell: the destination
    /// of a call that the thread itself has resolved is not there before the thread went through the call
    /// as it was.
    fn possibly_called(&mut self, pending: &[u32], image: &CodeHistory) -> usize {
        let changes = image.changes();
        if !pending.iter().any(|&c| self.is_own(&changes[c as usize])) {
            return pending.len();
        }
        let brought = self.brought(image);
        // A destination whose record came late, behind the switch to this core, is the first one there.
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

    /// The call whose destination the thread may have brought along to this core; `u32::MAX` for none.
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

    /// How many of `pending`, which touch the block at `state.ip`, ought to be seen at least and at most, if a branch led
    /// here: its destination stood there when the branch was written, and nothing else took the place before the branch
    /// was written anew (the VM gives memory back when nothing leads there any more).
    fn led_here(&self, pending: &[u32], image: &CodeHistory) -> (usize, usize) {
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

    /// The block runs without `unseen`: calls whose destinations they are may be resolved now. What the same thread wrote
    /// there later ought to come of going through the call once more.
    fn visit(&mut self, unseen: &[u32], block: &Block, image: &CodeHistory) {
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

    /// Whether the thread went through the call whose destination `change` is, and out of the range after that. If time still
    /// excluded the change when the call ran, it was not [visited](Self::visit): the store is made outside the range, later. Of
    /// several changes of a call this says nothing of any but the first.
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

    /// Whether the flow went through the call whose destination `change` is, and whether it ought to do so again.
    fn visited(&self, change: u32) -> Option<bool> {
        self.state.visited.iter().find(|v| v.change == change).map(|v| v.again)
    }

    /// This core executes what `changes`, in order of time, wrote. That tells the present time and so settles earlier
    /// changes elsewhere, too: a thread sees its own changes in order, and comes back from writing one when the record
    /// is made; what another one wrote may have been there before its record's time, within the tolerance.
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

    /// The code that was running when the flow came to `state.ip`: from which a branch led here,
    /// or which was interrupted here.
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
            state: State { block: NONE, ..self.state.clone() },
            items: self.handed + self.items.len() as u64,
            seen: self.view.seen(),
            alternatives,
            checkpoint,
            decisions: self.decisions.len(),
            window: self.window,
        });
    }

    /// A point to come back to without an alternative of its own.
    pub(super) fn checkpoint(&mut self) {
        self.next_checkpoint = self.state.branches + CHECKPOINT;
        if self.state.demand == Demand::None {
            self.settle_choices();
            self.remember(Vec::new(), true);
        }
    }

    /// Forgets choices that enough packets agreed with.
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
        if self.doubt(&error, image) {
            return;
        }
        // The second time round nothing else is tried, whatever was settled in between.
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
        // Nothing explains the trace: decode once more as far as the likeliest versions lead.
        self.level = 0;
        self.surrender = true;
        self.give_up_at = packet;
        self.start_over(image);
    }

    /// Goes back to the latest choice that has another alternative.
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

    /// Widens the clock tolerance if that brings further changes into view.
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

    /// Decodes once more from the earliest point kept.
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

    /// Takes up decoding from `state`; items and decisions are as they were.
    pub(super) fn come_back(&mut self, state: &State, seen: &Seen, window: Window, image: &CodeHistory) {
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
        let address = self.state.enabled.then(|| self.address(self.state.ip));
        // A PSB+ that contradicts the flow before it is as good a start as any other.
        if matches!(self.state.demand, Demand::Sync(_)) && self.state.psb >= self.base {
            self.state.at = self.state.psb;
        }
        let reason = MachineGapReason::Undecodable(error);
        self.lost = Some(Lost::new(reason, self.state.packet, address, self.state.clock.now()));
        self.choices.clear();
        self.trouble = None;
        self.doubt = None;
        self.level = 0;
        self.surrender = false;
        self.give_up_at = u64::MAX;
        self.state.lose();
        // What the flow seemed to prove about changes that time leaves open, or puts in the future, it
        // did not.
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

/// Of the versions of a block, with none, the first, the first two … of the pending changes visible, one for each different
/// flow, with the number visible: the smallest, but `least` if it is the same flow. And why others are none.
fn flows(all: &[Result<Block, Error>], least: usize) -> (Vec<(usize, Block)>, Option<Error>) {
    let mut flows: Vec<(usize, Block)> = Vec::new();
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
