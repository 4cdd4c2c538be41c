// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Models the time that perf has when it reaches a packet (`tools/perf/util/intel-pt.c` and
//! `intel-pt-decoder/intel-pt-decoder.c` of the kernel's sources).

use jportal_capture::PtConfig;
use jportal_capture::header::packet_flags;
use jportal_pt_packet::{Packet, nearest_tsc};

/// The crystal clock and its ratio to the TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crystal {
    /// An MTC packet comes every 2^`shift` crystal ticks.
    pub shift: u8,
    /// TSC ticks per crystal tick: `numerator` / `denominator`.
    pub numerator: u32,
    pub denominator: u32,
}

impl Crystal {
    /// `None` if the trace has no MTC packets, or their relation to the TSC is not known.
    pub fn of(pt: &PtConfig) -> Option<Self> {
        let (numerator, denominator) = (pt.tsc_ctc_numerator, pt.tsc_ctc_denominator);
        let known = pt.has(packet_flags::MTC) && numerator != 0 && denominator != 0;
        known.then_some(Self { shift: pt.mtc_period.min(15), numerator, denominator })
    }

    /// TSC ticks in `n` crystal ticks.
    fn tsc(self, n: u64) -> u64 {
        (u128::from(n) * u128::from(self.numerator) / u128::from(self.denominator)) as u64
    }

    /// Whole crystal ticks in `n` TSC ticks.
    fn ticks(self, n: u64) -> u64 {
        (u128::from(n) * u128::from(self.denominator) / u128::from(self.numerator)) as u64
    }
}

/// The crystal tick that the last TMA names.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// The TSC at that tick.
    tsc: u64,
    /// The count of that tick. Its low 16 bits are those of the packet.
    count: u64,
    /// The tick of the last MTC, on the same scale as `count`.
    last: u64,
}

/// The clock, fed with all packets in order.
#[derive(Clone, Debug)]
pub(crate) struct TraceClock {
    crystal: Option<Crystal>,
    /// A full TSC value near the next one.
    near: u64,
    now: u64,
    /// The time of the last TSC packet.
    tsc: u64,
    anchor: Option<Anchor>,
}

impl TraceClock {
    /// `near`: a full TSC value near the first one of the trace.
    pub fn new(crystal: Option<Crystal>, near: u64) -> Self {
        Self { crystal, near, now: 0, tsc: 0, anchor: None }
    }

    /// The latest time according to the packets so far.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Takes the next packet.
    pub fn take(&mut self, packet: &Packet) {
        match *packet {
            Packet::Tsc(low) => {
                self.tsc = nearest_tsc(low, self.near);
                self.near = self.tsc;
                self.now = self.now.max(self.tsc);
                self.anchor = None;
            }
            Packet::Tma { ctc, fast_counter } if self.crystal.is_some() => {
                let count = u64::from(ctc) | 1 << 32;
                self.anchor =
                    Some(Anchor { tsc: self.tsc.wrapping_sub(fast_counter.into()), count, last: count });
            }
            Packet::Mtc(value) => self.mtc(value),
            _ => {}
        }
    }

    fn mtc(&mut self, value: u8) {
        let (Some(crystal), Some(anchor)) = (self.crystal, &mut self.anchor) else { return };
        let before = anchor.last >> crystal.shift;
        let delta = match value.wrapping_sub(before as u8) {
            0 => 256,
            n => u64::from(n),
        };
        anchor.last = (before + delta) << crystal.shift;
        let time = anchor.tsc.wrapping_add(crystal.tsc(anchor.last.saturating_sub(anchor.count)));
        self.now = self.now.max(time);
    }

    /// CTC and fast counter of a TMA that follows a TSC packet of `tsc`; `None` if they are not
    /// known.
    pub fn tma_at(&self, tsc: u64) -> Option<(u64, u16)> {
        let (crystal, anchor) = (self.crystal?, self.anchor?);
        let ticks = crystal.ticks(tsc.checked_sub(anchor.tsc)?);
        let fast = tsc - anchor.tsc - crystal.tsc(ticks);
        Some((anchor.count + ticks, u16::try_from(fast).ok().filter(|&f| f < 1 << 9)?))
    }

    /// The tick of the last MTC, on the scale of [`TraceClock::tma_at`].
    pub fn last_tick(&self) -> Option<u64> {
        self.anchor.map(|a| a.last)
    }

    /// Number of low bits of the crystal's count that an MTC does not carry.
    pub fn mtc_shift(&self) -> u8 {
        self.crystal.map_or(0, |c| c.shift)
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
