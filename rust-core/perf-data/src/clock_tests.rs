// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;

const CRYSTAL: Crystal = Crystal { shift: 5, numerator: 188, denominator: 2 };

/// A TMA with the tick and time of a crystal that was 0 when the TSC was 0.
fn tma(tsc: u64) -> Packet {
    let ticks = CRYSTAL.ticks(tsc);
    Packet::Tma { ctc: ticks as u16, fast_counter: (tsc - CRYSTAL.tsc(ticks)) as u16 }
}

fn mtc(tsc: u64) -> Packet {
    Packet::Mtc((CRYSTAL.ticks(tsc) >> CRYSTAL.shift) as u8)
}

#[test]
fn ticks_of_the_crystal_tell_the_time_between_two_tsc_packets() {
    let mut clock = TraceClock::new(Some(CRYSTAL), 1_000_000);
    let start = 1_000_100;
    clock.take(&Packet::Tsc(start));
    clock.take(&tma(start));
    assert_eq!(clock.now(), start);
    for later in [start + 5_000, start + 9_000, start + 700_000] {
        clock.take(&mtc(later));
        let tick = CRYSTAL.tsc(CRYSTAL.ticks(later) >> CRYSTAL.shift << CRYSTAL.shift);
        assert!(clock.now().abs_diff(tick) <= 1, "{later}: {} and not {tick}", clock.now());
    }
}

#[test]
fn without_tma_an_mtc_says_nothing() {
    let mut clock = TraceClock::new(Some(CRYSTAL), 0);
    clock.take(&Packet::Tsc(77));
    clock.take(&Packet::Mtc(9));
    assert_eq!((clock.now(), clock.tma_at(100)), (77, None));
}

#[test]
fn a_tma_that_is_put_in_continues_the_crystals_count() {
    let mut clock = TraceClock::new(Some(CRYSTAL), 0);
    let start = 123_456;
    clock.take(&Packet::Tsc(start));
    clock.take(&tma(start));
    for later in [start, start + 1, start + 93, start + 94, start + 50_000] {
        let (tick, fast) = clock.tma_at(later).unwrap();
        assert_eq!(Packet::Tma { ctc: tick as u16, fast_counter: fast }, tma(later), "{later}");
    }
}
