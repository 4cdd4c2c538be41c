// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Follows one core's trace through the code image.
//!
//! Packets drive the decoder: each packet moves the walk through the code exactly as far as the
//! packet decides (`walk`). So a later interrupt never takes back a block that was handed out.
//! Where the code image is not known for certain, `choice` remembers the alternatives.

mod choice;
mod doubt;
mod packets;
mod resolutions;
mod state;
mod walk;

use crate::block::CodeBounds;
use crate::cache::Cache;
use crate::config::{Config, Progress, Stretch};
use crate::error::Error;
use crate::image::CodeHistory;
use crate::item::{Item, MachineGap, MachineGapReason};
use crate::leaps::Leaps;
use crate::view::View;
use choice::{Choice, Trouble, Window};
use doubt::Doubt;
use jportal_pt_packet::{Error as PacketError, HEAD, decode_packet, find_psb, hot_tip, hot_tnt};
use jportal_units::{Address, StreamOffset, Tsc};
use state::{DecoderState, OwnCalls, Resolutions, SyncMode};
use std::collections::VecDeque;

/// Approximate number of items that are handed out at a time. Several thousand are held back until
/// they are settled, and are moved each time.
const BATCH: usize = 1 << 14;

/// Counts of what a decoder did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Packets read. Packets that are read again after a wrong choice count again.
    pub packets: u64,
    /// Blocks handed out.
    pub blocks: u64,
    /// Places where the time did not select one version of the code.
    pub choices: u64,
    /// Alternatives tried after a contradiction.
    pub backtracks: u64,
    /// Times the clock tolerance had to be widened to explain the trace.
    pub widenings: u64,
    /// Gaps because data was lost.
    pub losses: u64,
    /// Gaps because the trace could not be explained.
    pub errors: u64,
    /// Bytes of trace skipped in gaps.
    pub skipped: u64,
}

/// A decision about the code that a core executed, which the time alone did not determine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Number of [`Item::Block`]s before the decision.
    pub block: u64,
    /// The packet for which the next block runs. If [`Decision::walking`] is false, the next
    /// block runs for a later packet.
    pub packet: StreamOffset,
    /// Whether the walk for that packet had begun.
    pub walking: bool,
    /// Outcomes of TNT packets up to that packet that were not used yet.
    pub outcomes_left: u8,
    /// What was decided.
    pub what: Decided,
}

/// What a [`Decision`] decided.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Decided {
    /// From here, the core sees this change of code ([`CodeHistory::change`]).
    Seen(u32),
    /// The next block runs without this change, which would have altered the flow of the block.
    NotYet(u32),
    /// The next block, and only that one, consists of these bytes, which the unit reported
    /// ([`CoreDecoder::stale`]).
    Stale {
        /// Offset from the start of the code cache.
        start: u32,
        /// The bytes.
        bytes: Box<[u8]>,
    },
}

/// A block that ran although memory did not hold its bytes at that time.
#[derive(Clone, Debug)]
struct Stale {
    offset: u64,
    start: u32,
    bytes: Vec<u8>,
}

/// A gap that has not ended.
#[derive(Clone, Debug)]
struct OpenGap {
    reason: MachineGapReason,
    offset: u64,
    resumed: Option<u64>,
    address: Option<Address>,
    since: u64,
    /// The gap began in an earlier stretch and was reported there. It is reported again only if
    /// bytes are skipped.
    carried: bool,
}

impl OpenGap {
    fn new(reason: MachineGapReason, offset: u64, address: Option<Address>, since: u64) -> Self {
        Self { reason, offset, resumed: None, address, since, carried: false }
    }

    /// The same gap for a thread that came to the core during it. The address was another
    /// thread's.
    fn of(self, came: Option<Tsc>) -> Self {
        match came {
            Some(Tsc(since)) if self.carried => Self { since, address: None, ..self },
            _ => self,
        }
    }
}

/// Follows one core's trace.
///
/// See the crate's documentation for the order of calls. Memory is bounded by the trace that was
/// pushed and not decoded yet, the code image, and the decoded blocks.
#[derive(Debug)]
pub struct CoreDecoder {
    config: Config,
    bounds: CodeBounds,
    /// Contiguous trace from stream offset `base`.
    buffer: Vec<u8>,
    base: u64,
    /// Contiguous trace after holes: stream offset and bytes of each part.
    later: VecDeque<(u64, Vec<u8>)>,
    losses: VecDeque<u64>,
    /// In order of stream offset.
    stale: Vec<Stale>,
    state: DecoderState,
    view: View,
    cache: Cache,
    leaps: Leaps,
    items: Vec<Item>,
    /// Items handed out so far.
    handed: u64,
    full_at: usize,
    choices: Vec<Choice>,
    next_checkpoint: u64,
    trouble: Option<Trouble>,
    doubt: Option<Box<Doubt>>,
    /// The return at this packet is accepted without doubt.
    trusted_at: u64,
    /// Number of blocks in the last circle.
    circled: usize,
    /// Current level of the widened clock tolerance.
    level: u32,
    /// Nothing explains the trace: no alternatives are remembered up to `give_up_at`.
    surrender: bool,
    give_up_at: u64,
    /// The alternative to take for the next block that has several versions.
    forced: Option<choice::Alternative>,
    window: Window,
    stretch: Option<Stretch>,
    lost: Option<OpenGap>,
    /// See [`CoreDecoder::came_while_lost`].
    came: Option<Tsc>,
    /// See [`CoreDecoder::blind`].
    blind_until: Tsc,
    decisions: Vec<Decision>,
    statistics: Statistics,
}

impl CoreDecoder {
    /// A decoder for one core's trace of the code cache that `image` describes.
    pub fn new(config: Config, image: &CodeHistory) -> Self {
        let range = image.range();
        Self {
            config,
            bounds: CodeBounds { low: range.start.0, len: range.len() as u32 },
            buffer: Vec::new(),
            base: 0,
            later: VecDeque::new(),
            losses: VecDeque::new(),
            stale: Vec::new(),
            state: DecoderState::new(),
            view: View::new(range.len()),
            cache: Cache::new(range.len()),
            leaps: Leaps::new(),
            items: Vec::new(),
            handed: 0,
            full_at: BATCH,
            choices: Vec::new(),
            next_checkpoint: 0,
            trouble: None,
            doubt: None,
            trusted_at: u64::MAX,
            circled: 0,
            level: 0,
            surrender: false,
            give_up_at: u64::MAX,
            forced: None,
            window: Window::default(),
            stretch: None,
            lost: None,
            came: None,
            blind_until: Tsc(0),
            decisions: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Counts of the work done so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The decisions on the code that this core executed, in order, if
    /// [`Config::record_decisions`] is set.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Appends trace. A hole before `offset` counts as a loss.
    pub fn push(&mut self, offset: StreamOffset, bytes: &[u8]) {
        if self.lost.is_none() && self.buffer.is_empty() && self.state.at == 0 {
            self.base = offset.0;
            self.state.at = offset.0;
            self.lost =
                Some(OpenGap { carried: true, ..OpenGap::new(MachineGapReason::Start, offset.0, None, 0) });
        }
        self.drop_consumed();
        let (end, run) = match self.later.back_mut() {
            Some((start, run)) => (*start + run.len() as u64, run),
            None => (self.base + self.buffer.len() as u64, &mut self.buffer),
        };
        if offset.0 > end {
            self.later.push_back((offset.0, bytes.to_vec()));
        } else {
            // Bytes that are pushed twice are used once.
            let known = (end - offset.0) as usize;
            run.extend_from_slice(bytes.get(known..).unwrap_or(&[]));
        }
        self.window.forget();
    }

    /// Trace was lost at `offset` (`PERF_AUX_FLAG_TRUNCATED`): the bytes from there on do not
    /// continue the bytes before. Decoding resumes at the next PSB.
    pub fn loss(&mut self, offset: StreamOffset) {
        let at = self.losses.partition_point(|&l| l < offset.0);
        if offset.0 >= self.state.at && self.losses.get(at) != Some(&offset.0) {
            self.losses.insert(at, offset.0);
        }
    }

    /// The thread of the next stretch came to the core at `tsc`, while trace was being lost. The
    /// part of the loss before decoding resumes becomes a gap of its own for this thread,
    /// whatever caused the loss. Call this before the stretch is decoded.
    pub fn came_while_lost(&mut self, tsc: Tsc) {
        self.came = Some(tsc);
    }

    /// Leaves out the trace up to `to`, where a PSB is. Items of the trace so far are not handed
    /// out any more. The decoder keeps what it knows about the code and the time. Push the trace
    /// from `to` on next.
    pub fn leave_out(&mut self, to: StreamOffset) {
        let to = to.0.max(self.state.at);
        self.end_turn();
        self.handed += std::mem::take(&mut self.items).len() as u64;
        self.full_at = BATCH;
        self.state.lose();
        (self.state.at, self.state.block_items) = (to, None);
        self.buffer.clear();
        self.later.clear();
        self.base = to;
        self.losses.retain(|loss| *loss >= to);
        (self.stretch, self.forced) = (None, None);
        let now = self.state.clock.now();
        self.lost = Some(OpenGap { carried: true, ..OpenGap::new(MachineGapReason::Start, to, None, now) });
        self.window.forget();
    }

    /// Sideband records were lost: nothing is known of the trace that follows the decoded part,
    /// up to the time `until`. Decoding resumes at the first PSB that is not earlier. `since` is
    /// the time at which knowledge ended.
    pub fn blind(&mut self, since: Tsc, until: Tsc) {
        let at = self.state.at;
        self.lost = None;
        self.lose(at);
        self.lost = Some(OpenGap::new(MachineGapReason::Sideband, at, None, since.0));
        self.blind_until = until;
    }

    /// The unit reports that the block entered by the first TIP.PGE at or after `offset` executed
    /// `bytes`, whatever the code image holds there. The report has no effect if that block does
    /// not begin at `address`. Emulated units need this occasionally; processors never report it.
    /// Call this before the trace at `offset` is decoded.
    pub fn stale(&mut self, offset: StreamOffset, address: Address, bytes: &[u8]) {
        let start = self.bounds.offset(address.0);
        let at = self.stale.partition_point(|s| s.offset <= offset.0);
        if start < self.bounds.len && !bytes.is_empty() && at >= self.state.next_stale {
            self.stale.insert(at, Stale { offset: offset.0, start, bytes: bytes.to_vec() });
        }
    }

    /// Decodes packets below `stretch.until` and appends items to `out`.
    ///
    /// `image` must hold all changes up to the stretch's latest time.
    pub fn decode(&mut self, stretch: Stretch, image: &CodeHistory, out: &mut Vec<Item>) -> Progress {
        self.begin(stretch, image);
        loop {
            match self.advance(stretch.until.0, image) {
                Ok(true) => break,
                Ok(false) => {
                    self.settle_choices();
                    let handed = self.hand_out(out);
                    self.full_at = self.items.len() + BATCH;
                    if handed > 0 {
                        return Progress::More;
                    }
                }
                Err(error) => self.fail(error, image),
            }
        }
        if stretch.continues {
            self.settle_choices();
        } else {
            self.end_turn();
        }
        self.hand_out(out);
        self.full_at = self.items.len() + BATCH;
        Progress::Done
    }

    /// The core's trace is over: hands out the items that were held back.
    pub fn finish(&mut self, out: &mut Vec<Item>) {
        self.end_turn();
        self.hand_out(out);
    }

    fn begin(&mut self, stretch: Stretch, image: &CodeHistory) {
        if self.stretch != Some(stretch) {
            if self.stretch.is_none_or(|s| !s.continues || s.tid != stretch.tid) {
                self.state.calls.clear();
                let known = self.state.mode == SyncMode::Running && stretch.left.0 != 0;
                self.state.own = match known {
                    true => OwnCalls { since: stretch.left.0, brought: None },
                    false => OwnCalls::UNKNOWN,
                };
                let comes = self.state.mode != SyncMode::Lost && !self.state.enabled;
                self.state.resolutions = if comes { Resolutions::CAME } else { Resolutions::UNKNOWN };
            }
            let later = self.stretch.is_some_and(|s| s.since < stretch.since);
            self.stretch = Some(stretch);
            self.state.clock.at_least(stretch.since.0);
            if later && self.state.mode == SyncMode::Running {
                self.count_resolutions(image);
            }
            self.window.forget();
            self.update_window(image);
        }
        if self.choices.is_empty() && self.state.mode == SyncMode::Running {
            self.checkpoint();
        }
    }

    /// The current thread's turn on the core is over. No item of this thread may come later.
    fn end_turn(&mut self) {
        self.choices.clear();
        self.trouble = None;
        self.doubt = None;
        self.level = 0;
        self.surrender = false;
        let came = self.came.take();
        if let Some(lost) = self.lost.take() {
            let rest = OpenGap { offset: self.state.at, carried: true, ..lost.clone() };
            if !lost.carried || lost.offset < self.state.at || came.is_some() {
                self.push_gap(lost.of(came), None);
            }
            self.lost = Some(rest);
        }
    }

    fn hand_out(&mut self, out: &mut Vec<Item>) -> usize {
        let ready = match self.choices.first() {
            Some(choice) => (choice.items - self.handed) as usize,
            None => self.items.len(),
        };
        if out.is_empty() && ready > 0 {
            // The items that stay are usually fewer.
            std::mem::swap(out, &mut self.items);
            self.items.extend(out.drain(ready..));
        } else {
            out.extend(self.items.drain(..ready));
        }
        self.handed += ready as u64;
        ready
    }

    fn drop_consumed(&mut self) {
        let oldest = self.choices.first().map_or(self.state.at, |c| c.state.at).min(self.state.at);
        // A PSB+ that is not complete may turn out to contradict the flow. Decoding then resumes
        // at it.
        let oldest = match self.state.mode {
            SyncMode::PsbPlus { .. } => oldest.min(self.state.psb),
            _ => oldest,
        };
        let consumed = oldest.saturating_sub(self.base) as usize;
        if consumed >= self.buffer.len() / 2 {
            self.buffer.drain(..consumed);
            self.base += consumed as u64;
        }
    }

    /// Decodes up to `until` or a loss (`true`), or until enough items are waiting (`false`).
    fn advance(&mut self, until: u64, image: &CodeHistory) -> Result<bool, Error> {
        self.walk(image)?;
        loop {
            let run_end = self.base + self.buffer.len() as u64;
            let loss = self.losses.front().copied().unwrap_or(u64::MAX);
            let limit = until.min(loss).min(run_end);
            if !self.packets_below(limit, image)? {
                return Ok(false);
            }
            let hole = limit == run_end && self.later.front().is_some_and(|(start, _)| *start <= until);
            if limit == loss {
                self.losses.pop_front();
                self.lose(loss);
            } else if hole {
                self.lose(run_end);
            }
            if limit < run_end || !hole {
                if limit == loss && loss < until {
                    continue;
                }
                return Ok(true);
            }
            if let Some((start, run)) = self.later.pop_front() {
                (self.base, self.buffer) = (start, run);
                self.state.at = start;
                self.window.forget();
            }
        }
    }

    /// Trace was lost at `offset`: the bytes from there on follow the loss.
    fn lose(&mut self, offset: u64) {
        let address = self.state.enabled.then(|| self.address(self.state.ip));
        let since = self.state.clock.now();
        match &self.lost {
            Some(lost) if lost.reason != MachineGapReason::Start || !lost.carried => {}
            _ => self.lost = Some(OpenGap::new(MachineGapReason::Truncated, offset, address, since)),
        }
        self.choices.clear();
        self.trouble = None;
        self.doubt = None;
        self.state.at = offset.max(self.base);
        self.state.lose();
    }

    /// Decodes all complete packets below `limit`; `false` when enough items are waiting.
    fn packets_below(&mut self, limit: u64, image: &CodeHistory) -> Result<bool, Error> {
        let end = limit.saturating_sub(self.base) as usize;
        loop {
            if self.items.len() >= self.full_at {
                return Ok(false);
            }
            if self.state.mode == SyncMode::Lost && !self.find_sync(end) {
                return Ok(true);
            }
            let from = (self.state.at - self.base) as usize;
            if from >= end {
                return Ok(true);
            }
            self.state.packet = self.state.at;
            self.statistics.packets += 1;
            if !self.hot_packet(from, end, image)? && !self.any_packet(from, end, image)? {
                self.statistics.packets -= 1;
                return Ok(true);
            }
            if self.state.branches >= self.next_checkpoint {
                self.checkpoint();
            }
        }
    }

    /// Fast path for the packets that make up most of a trace; `false` for other packets.
    #[inline(always)]
    fn hot_packet(&mut self, from: usize, end: usize, image: &CodeHistory) -> Result<bool, Error> {
        let Some(head) = self.buffer.get(from..from + HEAD) else { return Ok(false) };
        if from + HEAD > end || self.state.mode != SyncMode::Running || self.state.block_items.is_some() {
            return Ok(false);
        }
        if let Some(tnt) = hot_tnt(head[0]) {
            self.state.at += 1;
            self.tnt(tnt, image)?;
        } else if let Some((payload, len)) = hot_tip(head) {
            self.state.at += len as u64;
            if let Some(ip) = self.state.last_ip.update(payload) {
                self.tip(ip, image)?;
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Decodes one packet; `false` if the packet is incomplete.
    fn any_packet(&mut self, from: usize, end: usize, image: &CodeHistory) -> Result<bool, Error> {
        let offset = StreamOffset(self.state.at);
        match decode_packet(&self.buffer[from..end], offset, &mut self.state.block_items) {
            Ok((packet, len)) => {
                self.state.at += len as u64;
                self.packet(packet, image)?;
                Ok(true)
            }
            Err(PacketError::Truncated { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves to the next PSB before index `end`. If there is none, moves to the first place at
    /// which an incomplete PSB may begin.
    fn find_sync(&mut self, end: usize) -> bool {
        let from = (self.state.at - self.base) as usize;
        if from >= end {
            return false;
        }
        match find_psb(&self.buffer[..end], from) {
            Some(at) => {
                self.state.at = self.base + at as u64;
                true
            }
            None => {
                self.state.at = self.state.at.max((self.base + end as u64).saturating_sub(15));
                false
            }
        }
    }

    /// Decoding resumes after a gap.
    fn resumed(&mut self) {
        let skipped = self.stale[self.state.next_stale..].iter();
        self.state.next_stale += skipped.take_while(|s| s.offset < self.state.psb).count();
        let now = Tsc(self.state.clock.now());
        let came = self.came.take().filter(|&came| now > came);
        if let Some(lost) = self.lost.take()
            && (!lost.carried || lost.resumed != Some(lost.offset) || came.is_some())
        {
            self.push_gap(lost.of(came), Some(now));
        }
    }

    fn push_gap(&mut self, lost: OpenGap, until: Option<Tsc>) {
        match lost.reason.is_loss() {
            true => self.statistics.losses += 1,
            false => self.statistics.errors += 1,
        }
        self.statistics.skipped += lost.resumed.unwrap_or(self.state.at).saturating_sub(lost.offset);
        self.items.push(Item::Gap(Box::new(MachineGap {
            reason: lost.reason,
            offset: StreamOffset(lost.offset),
            resumed: lost.resumed.map(StreamOffset),
            address: lost.address,
            since: (lost.since != 0).then_some(Tsc(lost.since)),
            until: until.filter(|t| t.0 != 0 && t.0 != u64::MAX),
        })));
    }
}
