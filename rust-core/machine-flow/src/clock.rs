// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Time from TSC, TMA, MTC, CBR and CYC packets.

use crate::config::MtcConfig;

/// The time according to the packets so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// Latest time that is known to have passed.
    now: u64,
    /// The point from which MTC packets count; `None` without a TMA since the last TSC packet.
    anchor: Option<Anchor>,
    last_tsc: u64,
    ratio: u8,
}

/// The point from which MTC packets count.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// TSC at a crystal clock tick: the tick of the TMA's CTC, rounded down to a multiple of the
    /// MTC period.
    tsc: u64,
    /// Crystal clock ticks from there to the last MTC.
    ticks: u64,
    /// CTC\[freq+7:freq\] of the last MTC.
    last: u8,
    /// Mask of the known bits of `last` (TMA carries only 16 bits of CTC).
    known: u8,
}

impl Clock {
    /// Latest time that is known to have passed.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The sideband says that this time has passed.
    pub fn at_least(&mut self, tsc: u64) {
        self.now = self.now.max(tsc);
    }

    /// TSC packet. The packet lacks the top byte; the value nearest to `now` is taken.
    pub fn tsc(&mut self, low56: u64) {
        const TOP: u64 = 1 << 56;
        let near = self.now & !(TOP - 1) | low56;
        let candidates = [near.wrapping_sub(TOP), near, near.wrapping_add(TOP)];
        let tsc = candidates.into_iter().min_by_key(|c| c.abs_diff(self.now)).unwrap_or(near);
        // `now` never decreases. `last_tsc`, from which a TMA computes the anchor, always takes the
        // TSC packet's value.
        self.now = self.now.max(tsc);
        self.last_tsc = tsc;
        self.anchor = None;
    }

    /// TMA packet: relates the crystal clock to the TSC packet before it.
    pub fn tma(&mut self, ctc: u16, fast_counter: u16, config: Option<MtcConfig>) {
        let Some(c) = config else { return };
        let frequency = c.frequency.min(15);
        let rest = u64::from(ctc) & ((1 << frequency) - 1);
        self.anchor = Some(Anchor {
            tsc: self.last_tsc.wrapping_sub(fast_counter.into()).wrapping_sub(ticks_to_tsc(rest, c)),
            ticks: 0,
            last: (ctc >> frequency) as u8,
            known: (0xffffu16 >> frequency).min(0xff) as u8,
        });
    }

    /// MTC packet.
    pub fn mtc(&mut self, value: u8, config: Option<MtcConfig>) {
        let (Some(c), Some(anchor)) = (config, &mut self.anchor) else { return };
        // A repeated value means a full cycle of the known bits.
        let delta = match value.wrapping_sub(anchor.last) & anchor.known {
            0 => u64::from(anchor.known) + 1,
            delta => delta.into(),
        };
        anchor.known = 0xff;
        anchor.last = value;
        anchor.ticks += delta << c.frequency.min(15);
        let time = anchor.tsc.wrapping_add(ticks_to_tsc(anchor.ticks, c));
        self.now = self.now.max(time);
    }

    /// CBR packet.
    pub fn cbr(&mut self, ratio: u8) {
        self.ratio = ratio;
    }

    /// CYC packet; `nominal` is the ratio at which the TSC counts (MSR_PLATFORM_INFO\[15:8\]).
    pub fn cyc(&mut self, cycles: u64, nominal: Option<u8>) {
        let (Some(nominal), true) = (nominal, self.ratio != 0) else { return };
        let ticks = u128::from(cycles) * u128::from(nominal) / u128::from(self.ratio);
        self.now = self.now.saturating_add(u64::try_from(ticks).unwrap_or(0));
    }
}

fn ticks_to_tsc(ticks: u64, c: MtcConfig) -> u64 {
    match c.denominator {
        0 => 0,
        d => (u128::from(ticks) * u128::from(c.numerator) / u128::from(d)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Option<MtcConfig> = Some(MtcConfig { frequency: 3, numerator: 84, denominator: 2 });

    #[test]
    fn the_top_byte_is_the_nearest() {
        let mut clock = Clock::default();
        clock.at_least(0x01ff_ffff_ffff_fff0);
        clock.tsc(0x10);
        assert_eq!(clock.now(), 0x0200_0000_0000_0010);
    }

    #[test]
    fn mtc_counts_from_tma() {
        let mut clock = Clock::default();
        clock.tsc(1_000_000);
        // CTC = 0x1005: MTC field (frequency 3) is 0x200, low byte 0; 5 ticks and 7 TSC past it.
        clock.tma(0x1005, 7, CONFIG);
        clock.mtc(1, CONFIG);
        assert_eq!(clock.now(), 1_000_000 - 7 - 5 * 42 + 8 * 42);
        clock.mtc(1, CONFIG); // a whole turn
        assert_eq!(clock.now(), 1_000_000 - 7 - 5 * 42 + 257 * 8 * 42);
        clock.tsc(1_000_500); // earlier than that: time does not run backwards
        assert_eq!(clock.now(), 1_000_000 - 7 - 5 * 42 + 257 * 8 * 42);
        clock.mtc(9, CONFIG); // without a TMA since the TSC: not usable
        assert_eq!(clock.now(), 1_000_000 - 7 - 5 * 42 + 257 * 8 * 42);
    }

    #[test]
    fn cyc_needs_both_ratios() {
        let mut clock = Clock::default();
        clock.tsc(1000);
        clock.cyc(100, Some(20));
        assert_eq!(clock.now(), 1000);
        clock.cbr(40);
        clock.cyc(100, Some(20));
        assert_eq!(clock.now(), 1050);
        clock.cyc(100, None);
        assert_eq!(clock.now(), 1050);
    }
}
