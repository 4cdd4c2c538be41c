// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the decoder knows at one point of the trace: all that a choice must bring back.

use crate::clock::Clock;
use jportal_pt_packet::{BlockItemSize, LastIp};

/// What the packet at hand still demands of the walk through the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// Nothing.
    None,
    /// TIP: the next branch that needs a target goes here.
    Target(u64),
    /// FUP of an asynchronous event: go on to this instruction, and cut the block there.
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

/// Where the decoder stands in the packet grammar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Looking for a PSB.
    Lost,
    /// Between PSB and PSBEND; whether this is a resynchronisation, and the FUP if it came.
    PsbPlus { fresh: bool, fup: Option<u64> },
    /// Elsewhere.
    Running,
}

/// Next FUP or TIP.PGD's special meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pending {
    /// None.
    No,
    /// The next FUP belongs to a packet that is no branch (PTW, EXSTOP …).
    OwnedFup,
    /// After OVF: the next FUP or TIP.PGE says where execution goes on.
    Overflow,
    /// That FUP came; a TIP.PGD may follow at once (erratum APL11).
    OverflowFup(u64),
    /// An asynchronous event's FUP came: TIP.PGD or TIP follows.
    Event(u64),
}

/// Entries of the unit's return stack (SDM, "Indirect Transfer Compression for Returns").
const DEPTH: usize = 64;

/// Return stack; the oldest entry is dropped when it is full.
#[derive(Clone, Debug)]
pub(crate) struct ReturnStack {
    entries: [u32; DEPTH],
    top: u8,
    len: u8,
    /// Entries above the mark, `len` at most.
    above: u8,
}

impl ReturnStack {
    pub const EMPTY: Self = Self { entries: [0; DEPTH], top: 0, len: 0, above: 0 };

    pub fn push(&mut self, offset: u32) {
        self.top = (self.top + 1) % DEPTH as u8;
        self.entries[self.top as usize] = offset;
        self.len = (self.len + 1).min(DEPTH as u8);
        self.above = (self.above + 1).min(DEPTH as u8);
    }
    pub fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        self.above = self.above.saturating_sub(1);
        let offset = self.entries[self.top as usize];
        self.top = (self.top + DEPTH as u8 - 1) % DEPTH as u8;
        Some(offset)
    }
    pub fn clear(&mut self) {
        (self.len, self.above) = (0, 0);
    }
    /// Sets the mark on top of the last entry.
    pub fn mark(&mut self) {
        self.above = 0;
    }
    /// Whether an entry stands above the mark.
    pub fn is_above_mark(&self) -> bool {
        self.above > 0
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Takes entries away down to `offset`, which goes, too; `false`, and nothing is taken, if it is not there.
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

/// Since when all that the running thread executed is in this core's trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnCalls {
    /// A call whose destination the thread wrote later was executed here before; `u64::MAX` if not known.
    pub since: u64,
    /// But not this one (offset of the change), on whose way out of the range the thread may have come to
    /// this core; `None` until it is asked for.
    pub brought: Option<u32>,
}

impl OwnCalls {
    /// Nothing can be said.
    pub const UNKNOWN: Self = Self { since: u64::MAX, brought: Some(u32::MAX) };
}

/// A pending destination of a call that was executed as it was before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    /// Number of the change.
    pub change: u32,
    /// The same thread wrote another destination there in between: it ought to go through the call with that first.
    pub again: bool,
}

/// The visits of the running thread to the VM for the destinations of calls (see [`super::resolutions`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resolutions {
    /// Index of the next one's record in [`crate::CodeHistory::resolutions`]; `None` if not known.
    pub next: Option<u32>,
    /// The thread has come to this core and not entered the range yet.
    pub came: bool,
    /// The thread came in the middle of a visit: the next record may be that one's.
    pub under_way: bool,
    /// Time of the last record: it has passed when the thread is back.
    pub made: u64,
}

impl Resolutions {
    /// Nothing can be said.
    pub const UNKNOWN: Self = Self { next: None, came: false, under_way: false, made: 0 };
    /// A thread has come to the core.
    pub const CAME: Self = Self { came: true, ..Self::UNKNOWN };
}

/// One point of the trace.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Stream offset of the next packet.
    pub at: u64,
    /// Stream offset of the packet being followed.
    pub packet: u64,
    /// Stream offset of the last PSB.
    pub psb: u64,
    /// Between BBP and BEP.
    pub block_items: Option<BlockItemSize>,
    /// Start of the block that executes next.
    pub ip: u32,
    /// Its index in the cache, or [`crate::cache::NONE`].
    pub block: u32,
    /// TNT outcomes not consumed: the oldest in bit `outcomes - 1`.
    pub tnt: u64,
    pub outcomes: u8,
    pub demand: Demand,
    pub mode: Mode,
    pub pending: Pending,
    /// PacketEn: execution is inside the range.
    pub enabled: bool,
    pub last_ip: LastIp,
    pub clock: Clock,
    /// The last branch that was followed came no earlier. A TIP, FUP or TIP.PGD is sent with its branch. A TNT is sent when it is full, or
    /// before another packet: its outcomes may be older than the timing packets before it, so it says the time of its last branch only if
    /// a TNT follows (SDM, "Packet Generation", "TNT Packet", "CYC").
    pub passed: u64,
    /// Time at the last branch packet.
    pub sent: u64,
    /// Time at the last MTC or TSC packet that may make changes visible, until it has passed; 0 for none.
    pub later: u64,
    /// Time that must have passed because of the versions of code that ran.
    pub floor: u64,
    /// What is known of the calls that the running thread has resolved.
    pub own: OwnCalls,
    /// What is known of the running thread's visits to the VM.
    pub resolutions: Resolutions,
    /// Pending destinations of calls that this core has executed as they were before.
    pub visited: Vec<Visited>,
    /// Last time said in an item.
    pub told: u64,
    /// The unit's, if it compresses returns.
    pub stack: ReturnStack,
    /// Where the calls return that the running thread has made on this core; marked where tracing was switched on last.
    pub calls: ReturnStack,
    /// Number of the next stale block the unit told of ([`super::CoreDecoder::stale`]).
    pub next_stale: usize,
    /// The next block is this one of them, if so many blocks came before.
    pub stale: Option<(usize, u64)>,
    /// TNT and TIP packets so far.
    pub branches: u64,
    /// Block items so far.
    pub blocks: u64,
}

impl State {
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
            mode: Mode::Lost,
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

    /// The time that has passed at least, from packets, sideband and code.
    pub fn now(&self) -> u64 {
        let packets = if self.enabled { self.passed } else { self.clock.now() };
        packets.max(self.floor)
    }

    /// Forgets everything about the flow, keeps place and time.
    pub fn lose(&mut self) {
        self.mode = Mode::Lost;
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
        let mut s = State::new().stack;
        assert_eq!(s.pop(), None);
        (0..70).for_each(|i| s.push(i));
        let popped: Vec<u32> = std::iter::from_fn(|| s.pop()).collect();
        assert_eq!(popped, (6..70).rev().collect::<Vec<_>>());
    }

    #[test]
    fn the_return_stack_is_unwound_to_an_entry_that_it_has() {
        let mut s = State::new().stack;
        assert!(!s.unwind_to(0));
        (0..70).for_each(|i| s.push(i));
        assert!(!s.unwind_to(5) && s.unwind_to(69) && s.unwind_to(60));
        assert_eq!(s.pop(), Some(59));
        assert!(s.unwind_to(6) && s.is_empty());
        s.push(1);
        assert!(s.unwind_to(1) && s.is_empty());
    }
}
