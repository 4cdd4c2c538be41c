// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The PT unit of one core: which packets it sends for which event.
//!
//! SDM means Intel's Software Developer's Manual, volume 3, chapter "Intel Processor Trace".
//! The unit traces user mode only, with one filter range: "enabled" (PacketEn) means that the
//! core executes inside that range. Deferred TIPs, TraceStop, TSX, PTWRITE and power events are
//! not emulated.

mod returns;
pub mod timing;

use jportal_pt_packet::{CodeSize, Encoder};

use crate::clock;
use crate::config::{Config, Pop};
use returns::ReturnStack;
use timing::TimingState;

/// What the unit has sent, for the log.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Branch outcomes in TNT packets.
    pub tnt_bits: u64,
    /// TIP packets.
    pub tip: u64,
    /// TIP.PGE packets.
    pub pge: u64,
    /// TIP.PGD packets.
    pub pgd: u64,
    /// FUP packets outside PSB+.
    pub fup: u64,
    /// PSB packets.
    pub psb: u64,
    /// OVF packets.
    pub ovf: u64,
    /// Near returns.
    pub returns: u64,
    /// Near returns that were compressed.
    pub compressed: u64,
}

impl Sent {
    /// Adds `other`.
    pub fn add(&mut self, other: &Sent) {
        self.tnt_bits += other.tnt_bits;
        self.tip += other.tip;
        self.pge += other.pge;
        self.pgd += other.pgd;
        self.fup += other.fup;
        self.psb += other.psb;
        self.ovf += other.ovf;
        self.returns += other.returns;
        self.compressed += other.compressed;
    }
}

/// State of one core's PT unit.
#[derive(Debug)]
pub struct Unit {
    out: Encoder,
    /// Stream position of the first byte in `out`.
    base: u64,
    /// Stream position from which a PSB is due.
    psb_due: u64,
    psb_distance: u64,
    tnt: u64,
    tnt_len: u32,
    tnt_full: u32,
    enabled: bool,
    mode_sent: bool,
    compress_returns: bool,
    pop: Pop,
    returns: ReturnStack,
    timing: TimingState,
    /// The unit's clock does not pass this TSC.
    clock_limit: u64,
    sent: Sent,
}

impl Unit {
    /// A unit whose stream begins with a PSB as soon as tracing starts.
    pub fn new(config: &Config) -> Unit {
        Unit {
            out: Encoder::new(),
            base: 0,
            psb_due: 0,
            psb_distance: config.psb,
            tnt: 0,
            tnt_len: 0,
            tnt_full: config.tnt_bits,
            enabled: false,
            mode_sent: false,
            compress_returns: config.return_compression,
            pop: config.pop,
            returns: ReturnStack::default(),
            timing: TimingState::new(config),
            clock_limit: u64::MAX,
            sent: Sent::default(),
        }
    }

    /// From this call on, no time later than `tsc` is sent.
    pub fn limit_clock(&mut self, tsc: u64) {
        self.clock_limit = tsc;
    }

    /// An event of the running thread, see [`TimingState::look`]. If no packet depends on the
    /// time, the clock is not read: to read it at each block would cost a sixth of the run
    /// time.
    #[inline]
    pub fn look(&mut self) {
        if self.timing.runs() {
            let now = self.now();
            self.timing.look(now);
        }
    }

    /// A time that no event of the running thread exceeds.
    pub fn looked(&self) -> u64 {
        if self.timing.runs() { self.timing.looked() } else { self.now() }
    }

    #[inline]
    fn now(&self) -> u64 {
        clock::tsc().min(self.clock_limit)
    }

    /// Bytes not yet taken by [`Unit::clear`].
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.out.bytes()
    }

    /// Forgets the bytes, which were copied elsewhere.
    pub fn clear(&mut self) {
        self.base += self.out.len() as u64;
        self.out.clear();
    }

    /// Stream position after the last byte.
    #[inline]
    pub fn position(&self) -> u64 {
        self.base + self.out.len() as u64
    }

    /// Whether the core is inside the range and traced (PacketEn).
    #[inline]
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// Stream position of the last PSB.
    pub fn last_psb(&self) -> u64 {
        self.psb_due - self.psb_distance
    }

    /// What has been sent so far.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// See [`TimingState::take_jump`].
    #[inline]
    pub fn take_jump(&mut self) -> Option<u64> {
        self.timing.take_jump()
    }

    /// The latest time that has been sent.
    pub fn latest(&self) -> u64 {
        self.timing.latest()
    }

    /// TraceEn changes from 0 to 1 at `tsc`. `fresh` says that the byte counter was cleared, so
    /// a PSB+ comes first; otherwise the time is restated.
    pub fn start(&mut self, fresh: bool, tsc: u64) {
        debug_assert!(!self.enabled);
        if fresh {
            self.psb_due = self.position();
        }
        if self.position() >= self.psb_due {
            self.psb(None, tsc);
        } else {
            self.timing.tsc(&mut self.out, tsc);
            self.timing.cbr(&mut self.out);
        }
        self.mode_sent = false;
    }

    /// Sends a PSB+ if the byte counter requires one; `ip` is the next instruction. Returns
    /// whether it was sent.
    #[inline]
    pub fn psb_if_due(&mut self, ip: u64) -> bool {
        if self.position() < self.psb_due {
            return false;
        }
        let now = self.now();
        self.psb(self.enabled.then_some(ip), now);
        true
    }

    /// Sends a PSB+: PSB, TSC, TMA, CBR, with PacketEn also MODE.Exec and FUP, PSBEND. The last
    /// IP and the return stack are reset (SDM, "PSB").
    #[cold]
    fn psb(&mut self, ip: Option<u64>, now: u64) {
        self.flush_tnt();
        self.psb_due = self.position() + self.psb_distance;
        self.sent.psb += 1;
        self.out.psb();
        self.returns.clear();
        self.timing.tsc(&mut self.out, now);
        self.timing.cbr(&mut self.out);
        self.mode_sent = false;
        if let Some(ip) = ip {
            self.out.mode_exec(CodeSize::Bits64);
            self.mode_sent = true;
            self.out.fup(ip);
        }
        self.out.psbend();
    }

    /// Sends the MTC packets that are due. A branch packet comes before them, because the
    /// branch belongs to a block that began earlier, and code may have changed since.
    #[inline]
    fn mtc(&mut self) {
        if self.timing.runs() {
            self.timing.mtc(&mut self.out);
        }
    }

    #[inline]
    fn cyc(&mut self) {
        if self.timing.counts_cycles() {
            self.timing.cyc(&mut self.out);
        }
    }

    #[inline]
    fn flush_tnt(&mut self) {
        if self.tnt_len == 0 {
            return;
        }
        self.cyc();
        self.out.tnt(self.tnt, self.tnt_len as u8);
        self.tnt = 0;
        self.tnt_len = 0;
    }

    /// A conditional branch, or a compressed return, which counts as taken.
    #[inline]
    pub fn conditional(&mut self, taken: bool) {
        self.sent.tnt_bits += 1;
        self.tnt = self.tnt << 1 | u64::from(taken);
        self.tnt_len += 1;
        if self.tnt_len == self.tnt_full {
            self.flush_tnt();
            self.mtc();
        }
    }

    /// An indirect branch to `ip`. Buffered outcomes are sent first: a decoder that reaches a
    /// return takes a pending TNT bit for a compressed return (SDM, "RET Compression").
    #[inline]
    pub fn indirect(&mut self, ip: u64) {
        self.flush_tnt();
        self.cyc();
        self.sent.tip += 1;
        self.out.tip(ip);
        self.mtc();
    }

    /// A near call that returns to `next`.
    #[inline]
    pub fn call(&mut self, next: u64) {
        if self.compress_returns {
            self.returns.push(next);
        }
    }

    /// A near return to `ip`.
    #[inline]
    pub fn ret(&mut self, ip: u64) {
        self.sent.returns += 1;
        if self.compress_returns {
            let hit = self.returns.top() == Some(ip);
            if hit || self.pop == Pop::Always {
                self.returns.pop();
            }
            if hit {
                self.sent.compressed += 1;
                self.conditional(true);
                return;
            }
        }
        self.indirect(ip);
    }

    /// Execution enters the range at `ip`: TIP.PGE, after MODE.Exec if the decoder cannot know
    /// the mode (without MODE.Exec, a decoder starts in 32-bit mode).
    pub fn enter(&mut self, ip: u64) {
        debug_assert!(!self.enabled && self.tnt_len == 0);
        self.cyc();
        self.mtc();
        if !self.mode_sent {
            self.mode_sent = true;
            self.out.mode_exec(CodeSize::Bits64);
        }
        self.sent.pge += 1;
        self.out.tip_pge(ip);
        self.enabled = true;
        self.returns.clear();
    }

    /// A branch leaves the range for `ip`: TIP.PGD with the target and nothing else, also for a
    /// conditional branch.
    pub fn leave(&mut self, ip: u64) {
        self.disable(Some(ip));
    }

    /// `syscall`: a far branch into code that is not traced.
    pub fn syscall(&mut self) {
        self.disable(None);
    }

    /// An interrupt, fault or signal before the instruction at `ip`: FUP, TIP.PGD without IP.
    pub fn interrupt(&mut self, ip: u64) {
        self.flush_tnt();
        self.cyc();
        self.sent.fup += 1;
        self.out.fup(ip);
        self.disable(None);
    }

    fn disable(&mut self, ip: Option<u64>) {
        debug_assert!(self.enabled);
        self.flush_tnt();
        self.cyc();
        self.sent.pgd += 1;
        self.out.tip_pgd(ip);
        self.enabled = false;
        self.returns.clear();
    }

    /// The unit begins to lose packets internally. Buffered outcomes are lost as well.
    pub fn begin_overflow(&mut self) {
        self.lose();
    }

    /// The unit has recovered: OVF, and FUP with a full IP when the core is inside the range,
    /// about to execute `ip`.
    pub fn end_overflow(&mut self, ip: Option<u64>) {
        self.sent.ovf += 1;
        self.out.ovf();
        if let Some(ip) = ip {
            self.out.fup(ip);
            self.enabled = true;
        }
    }

    /// Output stopped at stream position `at` because the buffer is full: bytes that were not
    /// written are lost, and tracing is off until [`Unit::start`].
    pub fn stop(&mut self, at: u64) {
        self.lose();
        self.out.clear();
        self.base = at;
    }

    fn lose(&mut self) {
        self.tnt = 0;
        self.tnt_len = 0;
        self.enabled = false;
        self.returns.clear();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
