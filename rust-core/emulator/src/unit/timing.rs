// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Timing packets: TSC, TMA, MTC, CYC, CBR.

use jportal_pt_packet::Encoder;

use crate::clock::CTC_SHIFT;
use crate::config::{Config, Timing};

/// Maximum number of MTC periods to catch up with. MTC carries 8 bits; after a longer pause,
/// TSC and TMA restate the time.
const MTC_CATCH_UP: u64 = 200;
/// The clock has jumped if more than this many TSC ticks lie between two events.
const JUMP: u64 = 1 << 14;
/// The same limit for a jump during which the host may not have run the guest's code: 20
/// microseconds, for a TSC of `khz` kHz. Eight tenths of the time in which QEMU translates lies
/// in jumps above this limit and is therefore recorded.
pub const fn held_up(khz: u64) -> u64 {
    khz / 50
}

/// State of the timing packets of one core.
#[derive(Debug)]
pub struct TimingState {
    timing: Timing,
    cbr: u8,
    mtc_shift: u32,
    /// `CTC >> MTCFreq` as of the last MTC or TMA.
    last_mtc: u64,
    /// The last TSC packet.
    last_tsc: u64,
    /// The time of the last event ([`TimingState::look`]).
    looked: u64,
    /// The time that may be sent for the block that begins with the last event: normally the
    /// time of that event.
    ///
    /// If the clock has jumped since the previous event, the host may have suspended the thread
    /// after QEMU chose the block, and code may have changed before the thread resumed. Then
    /// the time of the previous event is the sure one for that block, and the jump is sent with
    /// the next event.
    sure: u64,
    /// The time of the event before the clock jumped by more than [`held_up`], until
    /// [`TimingState::take_jump`] takes it; 0 if the clock did not jump.
    held_since: u64,
    held_up: u64,
    /// TSC at the last CYC.
    last_cyc: u64,
}

impl TimingState {
    /// The state before the first packet.
    pub fn new(config: &Config) -> Self {
        let mtc_shift = CTC_SHIFT + u32::from(config.mtc_freq);
        TimingState {
            timing: config.timing,
            cbr: config.cbr,
            mtc_shift,
            last_mtc: 0,
            last_tsc: 0,
            looked: 0,
            sure: 0,
            held_since: 0,
            held_up: if config.tsc_khz == 0 { u64::MAX } else { held_up(config.tsc_khz) },
            last_cyc: 0,
        }
    }

    /// Sends CBR.
    pub fn cbr(&self, out: &mut Encoder) {
        out.cbr(self.cbr);
    }

    /// The latest time that has been sent.
    pub fn latest(&self) -> u64 {
        self.last_tsc.max(self.last_mtc << self.mtc_shift).max(self.last_cyc)
    }

    /// Whether MTC or CYC packets are sent, so that the time of every event matters.
    #[inline]
    pub fn runs(&self) -> bool {
        self.timing != Timing::Tsc
    }

    /// Sends TSC, and TMA if MTC is on. Decoders count cycles from this packet on.
    pub fn tsc(&mut self, out: &mut Encoder, now: u64) {
        out.tsc(now);
        self.last_tsc = now;
        self.looked = self.looked.max(now);
        self.sure = self.sure.max(now);
        self.last_cyc = now;
        if self.timing != Timing::Tsc {
            out.tma((now >> CTC_SHIFT) as u16, (now & ((1 << CTC_SHIFT) - 1)) as u16);
            self.last_mtc = now >> self.mtc_shift;
        }
    }

    /// An event of the running thread at `now`: a block begins, or control leaves the range.
    /// What happened before this event happened no later than the previous event, except for
    /// the execution of the block that began with the previous event.
    #[inline]
    pub fn look(&mut self, now: u64) {
        let passed = now.saturating_sub(self.looked);
        self.sure = if passed > JUMP { self.looked } else { now };
        if passed > self.held_up {
            self.held_since = self.looked;
        }
        self.looked = self.looked.max(now);
    }

    /// The time of the last event.
    #[inline]
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// Sends the MTC packets that are due.
    #[inline]
    pub fn mtc(&mut self, out: &mut Encoder) {
        let ticks = self.sure >> self.mtc_shift;
        if ticks != self.last_mtc {
            self.mtc_due(out, self.sure, ticks);
        }
    }

    #[cold]
    fn mtc_due(&mut self, out: &mut Encoder, now: u64, ticks: u64) {
        // The counter may lag by a few ticks when it is read on another processor of the host.
        if ticks < self.last_mtc {
            return;
        }
        if ticks - self.last_mtc > MTC_CATCH_UP {
            self.tsc(out, now);
            return;
        }
        // Decoders count cycles from the last MTC as well.
        if self.counts_cycles() {
            self.cycles_to(out, now);
        }
        for tick in self.last_mtc + 1..=ticks {
            out.mtc(tick as u8);
        }
        self.last_mtc = ticks;
    }

    /// If the clock has jumped since the last call: the time of the event before the jump.
    #[inline]
    pub fn take_jump(&mut self) -> Option<u64> {
        if self.held_since == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.held_since))
    }

    /// Whether CYC packets are sent.
    #[inline]
    pub fn counts_cycles(&self) -> bool {
        self.timing == Timing::Cyc
    }

    /// Sends CYC, which precedes every packet that cycles are counted for.
    pub fn cyc(&mut self, out: &mut Encoder) {
        self.cycles_to(out, self.sure);
    }

    fn cycles_to(&mut self, out: &mut Encoder, now: u64) {
        out.cyc(now.saturating_sub(self.last_cyc));
        self.last_cyc = self.last_cyc.max(now);
    }
}
