// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The decoder's state at one point of the trace: everything that a choice must restore.

use crate::clock::Clock;
use jportal_pt_packet::{BlockItemSize, LastIp};

/// What the current packet still requires of the walk through the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// Nothing.
    None,
    /// TIP: the next branch that needs a target goes here.
    Target(u64),
    /// FUP of an asynchronous event: walk to this instruction, and cut the block there.
    Event(u64),
    /// FUP in PSB+: the next instruction is this one.
    Sync(u64),
    /// TIP.PGD: the next branch that leaves the range goes here.
    Leave(u64),
    /// TIP.PGD without an address or event: the next far transfer leaves.
    FarLeave,
}

impl Demand {
    /// SDM name of the packet.
    pub fn packet(self) -> &'static str {
        match self {
            Self::None => "TNT",
            Self::Target(_) => "TIP",
            Self::Event(_) => "FUP",
            Self::Sync(_) => "FUP in PSB+",
            Self::Leave(_) | Self::FarLeave => "TIP.PGD",
        }
    }
}

/// The decoder's position in the packet grammar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncMode {
    /// Looking for a PSB.
    Lost,
    /// Between PSB and PSBEND. `fresh`: this is a resynchronisation. `fup`: the address of the
    /// FUP, if it has come.
    PsbPlus { fresh: bool, fup: Option<u64> },
    /// Outside PSB+, in step with the trace.
    Running,
}

/// The special meaning of the next FUP or TIP.PGD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pending {
    /// It has none.
    No,
    /// The next FUP belongs to a packet that is no branch (PTW, EXSTOP …).
    OwnedFup,
    /// After OVF: the next FUP or TIP.PGE says where execution resumes.
    Overflow,
    /// The FUP after an OVF came, with this address; a TIP.PGD may follow at once (erratum
    /// APL11).
    OverflowFup(u64),
    /// The FUP of an asynchronous event came, with this address; TIP.PGD or TIP follows.
    Event(u64),
}

/// Number of entries of the unit's return stack (SDM, "Indirect Transfer Compression for
/// Returns").
const DEPTH: usize = 64;

/// A return stack; the oldest entry is dropped when it is full.
#[derive(Clone, Debug)]
pub(crate) struct ReturnStack {
    entries: [u32; DEPTH],
    top: u8,
    len: u8,
    /// Number of entries above the mark, `len` at most.
    above: u8,
}

impl ReturnStack {
    /// A stack without entries.
    pub const EMPTY: Self = Self { entries: [0; DEPTH], top: 0, len: 0, above: 0 };

    /// Pushes an entry above the mark; drops the oldest entry if the stack is full.
    pub fn push(&mut self, offset: u32) {
        self.top = (self.top + 1) % DEPTH as u8;
        self.entries[self.top as usize] = offset;
        self.len = (self.len + 1).min(DEPTH as u8);
        self.above = (self.above + 1).min(DEPTH as u8);
    }
    /// Removes the last entry and returns it.
    pub fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        self.above = self.above.saturating_sub(1);
        let offset = self.entries[self.top as usize];
        self.top = (self.top + DEPTH as u8 - 1) % DEPTH as u8;
        Some(offset)
    }
    /// Removes all entries.
    pub fn clear(&mut self) {
        (self.len, self.above) = (0, 0);
    }
    /// Sets the mark above the last entry.
    pub fn mark(&mut self) {
        self.above = 0;
    }
    /// Whether an entry lies above the mark.
    pub fn is_above_mark(&self) -> bool {
        self.above > 0
    }
    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Removes the entries down to `offset`, inclusive. If there is no entry `offset`, removes
    /// nothing and returns `false`.
    pub fn unwind_to(&mut self, offset: u32) -> bool {
        let place = |depth: u8| usize::from((self.top + DEPTH as u8 - depth) % DEPTH as u8);
        let Some(depth) = (0..self.len).find(|&depth| self.entries[place(depth)] == offset) else {
            return false;
        };
        self.top = (self.top + DEPTH as u8 - (depth + 1) % DEPTH as u8) % DEPTH as u8;
        self.len -= depth + 1;
        self.above = self.above.saturating_sub(depth + 1);
        true
    }
}

/// The time since which all that the running thread executed is in this core's trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnCalls {
    /// If the thread wrote the destination of a call after this time, it executed the call on this
    /// core before that; `u64::MAX` if the time is unknown.
    pub since: u64,
    /// The exception (offset of the change): the thread may have executed this call elsewhere,
    /// left the range by it, and come to this core before it wrote the destination. `None` until
    /// it is computed.
    pub brought: Option<u32>,
}

impl OwnCalls {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { since: u64::MAX, brought: Some(u32::MAX) };
}

/// A pending destination of a call that was executed in its previous version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    /// Number of the change.
    pub change: u32,
    /// The same thread wrote another destination of the call before this one, and that one is
    /// pending, too: the thread should execute the call with that destination first.
    pub again: bool,
}

/// The visits of the running thread to the VM for the destinations of calls (see
/// [`super::resolutions`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resolutions {
    /// Index of the next visit's record in [`crate::CodeHistory::resolutions`]; `None` if
    /// unknown.
    pub next: Option<u32>,
    /// The thread has come to this core and has not entered the range since.
    pub came: bool,
    /// The thread came in the middle of a visit: the next record may be the record of that visit.
    pub under_way: bool,
    /// Time of the last visit's record: it has passed when the thread returns to the range.
    pub made: u64,
}

impl Resolutions {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { next: None, came: false, under_way: false, made: 0 };
    /// A thread has come to the core.
    pub const CAME: Self = Self { came: true, ..Self::UNKNOWN };
}

/// The decoder's state at one point of the trace.
#[derive(Clone, Debug)]
pub(crate) struct DecoderState {
    /// Stream offset of the next packet.
    pub at: u64,
    /// Stream offset of the current packet.
    pub packet: u64,
    /// Stream offset of the last PSB.
    pub psb: u64,
    /// The size of block items, between BBP and BEP.
    pub block_items: Option<BlockItemSize>,
    /// Start of the block that executes next.
    pub ip: u32,
    /// Its index in the cache, or [`crate::cache::NONE`].
    pub block: u32,
    /// Unused TNT outcomes: the oldest in bit `outcomes - 1`.
    pub tnt: u64,
    /// Number of unused TNT outcomes.
    pub outcomes: u8,
    /// What the current packet still requires of the walk.
    pub demand: Demand,
    /// Position in the packet grammar.
    pub mode: SyncMode,
    /// Special meaning of the next FUP or TIP.PGD.
    pub pending: Pending,
    /// PacketEn: execution is inside the range.
    pub enabled: bool,
    /// Last IP, from which compressed IPs are computed.
    pub last_ip: LastIp,
    /// Time according to the timing packets.
    pub clock: Clock,
    /// The branch that the walk followed last was executed at or after this time. A TIP, FUP or
    /// TIP.PGD is sent with its branch. A TNT is sent when it is full or before another packet.
    /// Its outcomes may be older than the timing packets before it, so the time of a TNT applies
    /// to its last branch only if another TNT follows (SDM, "Packet Generation", "TNT Packet",
    /// "CYC").
    pub passed: u64,
    /// Time at the last branch packet.
    pub sent: u64,
    /// Time at the last MTC or TSC packet, which may make changes visible once the flow has
    /// passed it; 0 for none.
    pub later: u64,
    /// A time that must have passed because of the versions of code that ran.
    pub floor: u64,
    /// Since when the calls that the running thread resolved can be checked against this core's
    /// trace.
    pub own: OwnCalls,
    /// What is known of the running thread's visits to the VM.
    pub resolutions: Resolutions,
    /// Pending destinations of calls that this core has executed in their previous versions.
    pub visited: Vec<Visited>,
    /// The last time that was emitted as an item.
    pub told: u64,
    /// The unit's return stack, if it compresses returns.
    pub stack: ReturnStack,
    /// The return offsets of the calls that the running thread has made on this core. The mark is
    /// set where tracing was last switched on.
    pub calls: ReturnStack,
    /// Index of the next stale block that the unit reported ([`super::CoreDecoder::stale`]).
    pub next_stale: usize,
    /// Index of the report and number of blocks: the next block is that stale block, if the
    /// number of blocks before it equals [`DecoderState::blocks`].
    pub stale: Option<(usize, u64)>,
    /// Number of TNT and TIP packets up to here.
    pub branches: u64,
    /// Number of block items up to here.
    pub blocks: u64,
}

impl DecoderState {
    /// The state before the first packet.
    pub fn new() -> Self {
        Self {
            at: 0,
            packet: 0,
            psb: 0,
            block_items: None,
            ip: 0,
            block: 0,
            tnt: 0,
            outcomes: 0,
            demand: Demand::None,
            mode: SyncMode::Lost,
            pending: Pending::No,
            enabled: false,
            last_ip: LastIp::default(),
            clock: Clock::default(),
            passed: 0,
            sent: 0,
            later: 0,
            floor: 0,
            own: OwnCalls::UNKNOWN,
            resolutions: Resolutions::UNKNOWN,
            visited: Vec::new(),
            told: 0,
            stack: ReturnStack::EMPTY,
            calls: ReturnStack::EMPTY,
            next_stale: 0,
            stale: None,
            branches: 0,
            blocks: 0,
        }
    }

    /// Lower bound of the present time, from packets, sideband and code.
    pub fn now(&self) -> u64 {
        let packets = if self.enabled { self.passed } else { self.clock.now() };
        packets.max(self.floor)
    }

    /// Forgets everything about the flow; keeps the position and the time.
    pub fn lose(&mut self) {
        self.mode = SyncMode::Lost;
        self.floor = 0;
        self.own = OwnCalls::UNKNOWN;
        self.visited.clear();
        self.forget_flow();
    }

    /// After OVF or an error: no address, no outcomes, no calls.
    pub fn forget_flow(&mut self) {
        self.resolutions = Resolutions::UNKNOWN;
        self.calls.clear();
        self.enabled = false;
        self.block = 0;
        self.tnt = 0;
        self.outcomes = 0;
        self.stale = None;
        self.demand = Demand::None;
        self.pending = Pending::No;
        self.last_ip.reset();
        self.stack.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_return_stack_drops_its_oldest_entry() {
        let mut s = DecoderState::new().stack;
        assert_eq!(s.pop(), None);
        (0..70).for_each(|i| s.push(i));
        let popped: Vec<u32> = std::iter::from_fn(|| s.pop()).collect();
        assert_eq!(popped, (6..70).rev().collect::<Vec<_>>());
    }

    #[test]
    fn the_return_stack_is_unwound_to_an_entry_that_it_has() {
        let mut s = DecoderState::new().stack;
        assert!(!s.unwind_to(0));
        (0..70).for_each(|i| s.push(i));
        assert!(!s.unwind_to(5) && s.unwind_to(69) && s.unwind_to(60));
        assert_eq!(s.pop(), Some(59));
        assert!(s.unwind_to(6) && s.is_empty());
        s.push(1);
        assert!(s.unwind_to(1) && s.is_empty());
    }
}
