// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests of the model on traces that are easy to calculate, and on generated ones.

use super::*;
use proptest::prelude::*;

/// `len` bytes at one byte per tick, a PSB every 64.
fn steady(len: u64) -> Arrivals {
    Arrivals {
        points: (0..=len / 16).map(|i| (16 * i, 1000 + 16 * i)).collect(),
        syncs: (0..len / 64).map(|i| (64 * i, 1000 + 64 * i)).collect(),
        closes: vec![len],
        len,
    }
}

const NEVER: u64 = 1 << 40;

#[test]
fn times_lie_between_those_known() {
    let a = Arrivals { points: vec![(10, 100), (20, 200), (20, 300)], len: 40, ..Arrivals::default() };
    let times: Vec<u64> = [0, 10, 15, 20, 30].iter().map(|&o| a.time(o)).collect();
    assert_eq!(times, [100, 100, 150, 300, 300]);
    assert_eq!(Arrivals::default().time(5), 0);
}

#[test]
fn a_drain_as_fast_as_the_trace_loses_nothing() {
    let run = run(&steady(100_000), 1024, Drain { speed: 2.0, timer: NEVER }, 1, 0);
    assert_eq!(run.lost, []);
    assert!(run.highest <= 1024 && run.passes >= 97, "{run:?}");
}

#[test]
fn a_drain_that_never_ends_keeps_one_buffer() {
    let run = run(&steady(100_000), 1024, Drain { speed: 1e-12, timer: NEVER }, 1, 0);
    let all = Lost { from: 1024, to: 100_000, since: 2024, until: None };
    assert_eq!((run.lost, run.highest), (vec![all], 1024));
}

#[test]
fn tracing_stops_at_a_region_end_and_continues_with_a_psb() {
    let a = steady(100_000);
    let run = run(&a, 1024, Drain { speed: 0.5, timer: NEVER }, 1, 0);
    assert!(run.lost.len() > 10);
    let mut kept = 0;
    let mut before = 0;
    for l in &run.lost {
        kept += l.from - before;
        before = l.to;
        assert_eq!(kept % 256, 0, "not at a region end: {l:?}");
        assert_eq!(l.since, a.time(l.from));
        assert!(l.until.is_none_or(|until| a.syncs.contains(&(l.to, until))), "{l:?}");
    }
    let share = run.bytes() as f64 / 1e5;
    assert!((0.4..0.6).contains(&share), "half the speed loses about half: {share}");
}

/// If less than a quarter of the buffer ever fills, only the timer wakes the drain.
#[test]
fn the_timer_wakes_the_drain() {
    let mut a = steady(4000);
    a.closes = (1..=40).map(|i| 100 * i).collect();
    let woken = |timer| run(&a, 1 << 20, Drain { speed: 1e6, timer }, 1, 0).passes;
    assert_eq!(woken(NEVER), 0);
    assert!((8..=11).contains(&woken(400)), "{}", woken(400));
}

/// A pause of the program gives the drain time.
#[test]
fn a_pause_of_the_program_lets_the_drain_catch_up() {
    let mut a = steady(2048);
    let drain = Drain { speed: 0.5, timer: NEVER };
    assert!(!run(&a, 1024, drain, 1, 0).lost.is_empty());
    a.closes.insert(0, 512);
    a.points.iter_mut().filter(|p| p.0 > 512).for_each(|p| p.1 += 1_000_000);
    a.syncs.iter_mut().filter(|p| p.0 > 512).for_each(|p| p.1 += 1_000_000);
    let lost = run(&a, 1024, drain, 1, 0).lost;
    assert!(lost.iter().all(|l| l.from >= 1536), "{lost:?}");
}

#[test]
fn equal_seeds_lose_equally() {
    let lost = |seed, core| run(&steady(50_000), 1024, Drain { speed: 0.7, timer: 300 }, seed, core).lost;
    assert_eq!(lost(1, 0), lost(1, 0));
    assert_ne!(lost(1, 0), lost(2, 0));
    assert_ne!(lost(1, 0), lost(1, 1));
}

prop_compose! {
    /// Bytes that arrive in bursts: length and duration of each, and whether the thread leaves
    /// after it.
    fn spurts()(
        spurts in prop::collection::vec((1u64..3000, 0u64..4000, any::<bool>(), any::<bool>()), 1..60),
    ) -> Arrivals {
        let mut a = Arrivals::default();
        let mut now = 1000;
        for (bytes, ticks, leaves, psb) in spurts {
            a.points.push((a.len, now));
            if psb {
                a.syncs.push((a.len, now));
            }
            a.len += bytes;
            now += ticks;
            if leaves {
                a.points.push((a.len, now));
                a.closes.push(a.len);
            }
        }
        a
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_twice_and_the_buffer_never_overflows(
        a in spurts(), shift in 5u32..13, speed in 0.001f64..10.0, timer in 1u64..5000, seed in any::<u64>(),
    ) {
        let size = 1u64 << shift;
        let run = run(&a, size, Drain { speed, timer }, seed, 3);
        prop_assert!(run.highest <= size);
        let (mut at, mut kept) = (0, 0);
        for l in &run.lost {
            // Ascending and disjoint: kept and lost bytes together are the whole trace.
            prop_assert!(l.from > at && l.to > l.from && l.to <= a.len, "{:?}", l);
            kept += l.from - at;
            at = l.to;
            prop_assert_eq!(kept % (size / 4), 0);
            match l.until {
                Some(until) => {
                    prop_assert!(until >= l.since);
                    prop_assert!(a.syncs.contains(&(l.to, until)));
                }
                None => prop_assert_eq!(l.to, a.len),
            }
        }
        prop_assert_eq!(kept + (a.len - at) + run.bytes(), a.len);
    }

    #[test]
    fn a_large_buffer_loses_nothing(a in spurts(), speed in 0.001f64..10.0, seed in any::<u64>()) {
        let run = run(&a, 4 * a.len.next_power_of_two(), Drain { speed, timer: 100 }, seed, 0);
        prop_assert_eq!(run.lost, vec![]);
    }
}
