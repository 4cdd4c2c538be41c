// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Timing packets: TSC, TMA, MTC, CYC, CBR.

use jportal_pt_packet::Encoder;

use crate::clock::CTC_SHIFT;
use crate::config::{Config, Timing};

/// MTC carries 8 bits; behind a longer silence TSC and TMA restate the time.
const MTC_CATCH_UP: u64 = 200;
/// TSC ticks between two packets that are a jump of the clock.
const JUMP: u64 = 1 << 14;
/// The same if it may be that the host did not run the guest's code meanwhile: twenty microseconds, for a frequency in kHz. Eight
/// tenths of the time in which QEMU translates is told so.
pub const fn held_up(khz: u64) -> u64 {
    khz / 50
}

/// What the timing packets of one core remember.
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
    /// The time at which the block that begins with that event was surely chosen.
    ///
    /// When the clock has jumped since the event before, the host may have suspended the thread after QEMU's choice of the
    /// block: for that block the time of the event before is the sure one, and the next event tells the jump.
    sure: u64,
    /// The time of the event before the clock made a jump of more than [`held_up`], until it is asked for; 0: none did.
    held_since: u64,
    held_up: u64,
    /// TSC at the last CYC.
    last_cyc: u64,
}

impl TimingState {
    /// A clock that has sent nothing yet.
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

    /// CBR.
    pub fn cbr(&self, out: &mut Encoder) {
        out.cbr(self.cbr);
    }

    /// The latest time that has been sent.
    pub fn latest(&self) -> u64 {
        self.last_tsc.max(self.last_mtc << self.mtc_shift).max(self.last_cyc)
    }

    /// Whether packets in mid-stream depend on the time.
    #[inline]
    pub fn runs(&self) -> bool {
        self.timing != Timing::Tsc
    }

    /// TSC, and TMA where MTC is on. Decoders count cycles from here on.
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

    /// An event of the running thread at `now`: a block begins, or control leaves the range. What happened before it happened
    /// no later than the event before, but for the block that began with that.
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

    /// The MTC packets due.
    #[inline]
    pub fn mtc(&mut self, out: &mut Encoder) {
        let ticks = self.sure >> self.mtc_shift;
        if ticks != self.last_mtc {
            self.mtc_due(out, self.sure, ticks);
        }
    }

    #[cold]
    fn mtc_due(&mut self, out: &mut Encoder, now: u64, ticks: u64) {
        // Read on another processor of the host the counter may lag by a few ticks.
        if ticks < self.last_mtc {
            return;
        }
        if ticks - self.last_mtc > MTC_CATCH_UP {
            self.tsc(out, now);
            return;
        }
        // Decoders count cycles from the last MTC, too.
        if self.counts_cycles() {
            self.cycles_to(out, now);
        }
        for tick in self.last_mtc + 1..=ticks {
            out.mtc(tick as u8);
        }
        self.last_mtc = ticks;
    }

    /// Whether the clock has made a jump since this was asked last; the time of the event before it.
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

    /// CYC, which precedes every packet that cycles are counted for.
    pub fn cyc(&mut self, out: &mut Encoder) {
        self.cycles_to(out, self.sure);
    }

    fn cycles_to(&mut self, out: &mut Encoder, now: u64) {
        out.cyc(now.saturating_sub(self.last_cyc));
        self.last_cyc = self.last_cyc.max(now);
    }
}
