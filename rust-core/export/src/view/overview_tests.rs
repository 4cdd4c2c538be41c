// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests of the overview.

use jportal_flow::testing::{bytecode, enter, feed, feed_as, recovered, thread};
use jportal_flow::{Cause, GapReason};
use jportal_units::{Bci, Core, MethodId, StreamOffset, Tid, Tsc};

use super::*;

fn time(tsc: u64) -> Event {
    Event::decoded(EventKind::Time(Tsc(tsc)))
}

fn run(tier: Tier, len: u16) -> Event {
    let (method, first, last) = (MethodId(0), Bci(0), Bci(9));
    Event::decoded(EventKind::Run { method, first, last, len, tier })
}

fn gap(since: Option<u64>, until: Option<u64>) -> Event {
    Event::decoded(EventKind::Gap(Box::new(Gap {
        reason: GapReason::Truncated,
        core: Core(0),
        offset: StreamOffset(0),
        address: None,
        since: since.map(Tsc),
        until: until.map(Tsc),
        bytes: None,
        stack_lost: false,
    })))
}

/// The overview of one thread's events.
fn of(events: &[Event]) -> Overview {
    let mut analysis = OverviewAnalysis::default();
    feed(&mut analysis, 1, events);
    analysis.overview(None)
}

#[test]
fn bytecodes_count_at_the_last_time_before_them() {
    let native = Event::decoded(EventKind::Enter {
        method: MethodId(1),
        tier: Tier::Native,
        entry: jportal_flow::Entry::Call,
    });
    let o = of(&[
        enter(0),
        bytecode(0, 0),
        time(100),
        run(Tier::C1, 7),
        bytecode(0, 1),
        native,
        time(103),
        recovered(run(Tier::C2, 5)),
    ]);
    assert_eq!((o.start, o.width, o.buckets, o.on_core), (100, 1, 4, false));
    let t = &o.threads[0];
    assert_eq!(t.before.tiers, [1, 0, 0]);
    let first = Bucket { tiers: [1, 7, 0], native_calls: 1, ..Bucket::default() };
    let last = Bucket { tiers: [0, 0, 5], inferred: 5, ..Bucket::default() };
    assert_eq!(t.buckets, [(0, first), (3, last)]);
}

#[test]
fn a_gap_lasts_until_its_end_or_the_next_time() {
    let o = of(&[time(10), gap(Some(12), Some(15)), time(20), gap(None, None), time(22), bytecode(0, 0)]);
    let lost: Vec<_> = o.threads[0].buckets.iter().map(|(n, b)| (*n, b.lost, b.gaps)).collect();
    assert_eq!(lost, [(0, 0, 1), (2, 1, 0), (3, 1, 0), (4, 1, 0), (10, 1, 1), (11, 1, 0), (12, 0, 0)]);
}

#[test]
fn what_is_unknown_shows() {
    let orphan = Event::decoded(EventKind::Orphan(Orphan::Bytecode { opcode: 0, taken: None }));
    let throw = Event::decoded(EventKind::Orphan(Orphan::Throw));
    let (method, from, to, cause, callers) = (MethodId(0), None, None, Cause::EmptyLoop, 0);
    let lost = Event::decoded(EventKind::Unresolved { method, from, to, cause, callers });
    let o = of(&[time(1), orphan, throw, lost]);
    assert_eq!(o.threads[0].buckets, [(0, Bucket { orphans: 1, unresolved: 1, ..Bucket::default() })]);
}

#[test]
fn the_width_doubles_and_no_bytecode_is_lost() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let (mut now, mut events, mut all) = (random.u64(0..1 << 50), Vec::new(), [0u64; 3]);
        let mut lost = 0;
        for _ in 0..random.usize(1..60) {
            now += 1 + (random.u64(..) >> random.u32(24..64));
            events.push(time(now));
            let (tier, len) = (random.usize(0..3), random.u16(2..));
            all[tier] += u64::from(len);
            events.push(run([Tier::Interpreter, Tier::C1, Tier::C2][tier], len));
            if random.bool() {
                let ticks = random.u64(0..1 << 30);
                events.push(gap(Some(now), Some(now + ticks)));
                (now, lost) = (now + ticks, lost + ticks);
            }
        }
        let o = of(&events);
        let buckets = &o.threads[0].buckets;
        assert!(o.buckets <= BUCKETS as u32 && o.width.is_power_of_two() && o.start.is_multiple_of(o.width));
        assert!(buckets.iter().all(|(n, _)| *n < o.buckets));
        let mut sum = Bucket::default();
        buckets.iter().for_each(|(_, b)| sum.add(b));
        assert_eq!((sum.tiers, sum.lost), (all, lost));
        // Runs and single bytecodes are the same.
        let single: Vec<Event> = events.iter().flat_map(singles).collect();
        assert_eq!(of(&single), o);
    }
}

/// The event, a run as at most 8 single bytecodes and a shorter run.
fn singles(e: &Event) -> Vec<Event> {
    let EventKind::Run { method, first, last, len, tier } = e.kind else { return vec![e.clone()] };
    let one = Event::decoded(EventKind::Bytecode { method, bci: Bci(0), tier });
    let n = len.min(8);
    let mut all = vec![one; n.into()];
    if len > n {
        all.push(Event::decoded(EventKind::Run { method, first, last, len: len - n, tier }));
    }
    all
}

#[test]
fn threads_share_their_buckets_in_any_order() {
    let threads = [(1, 1000, 2000), (2, 1 << 40, 5), (3, 1 << 20, 1 << 41)];
    let overview = |order: [usize; 3]| {
        let mut analysis = OverviewAnalysis::default();
        for i in order {
            let (tid, begin, length) = threads[i];
            let info = ThreadInfo { started: Tsc(begin), ..thread(tid) };
            feed_as(
                &mut analysis,
                &info,
                &[time(begin), bytecode(0, 0), time(begin + length), bytecode(0, 1)],
            );
        }
        analysis.overview(None)
    };
    let o = overview([0, 1, 2]);
    assert_eq!(o, overview([2, 1, 0]));
    assert_eq!(o, overview([1, 2, 0]));
    assert_eq!(o.threads.iter().map(|t| t.tid).collect::<Vec<_>>(), [1, 3, 2]);
    assert_eq!((o.start, o.width, o.buckets), (0, 1 << 31, 1025));
    let places = |t: usize| o.threads[t].buckets.iter().map(|b| (b.0, b.1.tiers[0])).collect::<Vec<_>>();
    assert_eq!((places(0), places(1), places(2)), (vec![(0, 2)], vec![(0, 1), (1024, 1)], vec![(512, 2)]));
}

#[test]
fn time_on_cores_comes_from_the_visits() {
    let mut visits = Visits::default();
    visits.add((1, Tsc(0)), Core(0), (Tsc(100), Tsc(102)));
    visits.add((1, Tsc(0)), Core(1), (Tsc(105), Tsc(200)));
    visits.add((2, Tsc(0)), Core(1), (Tsc(0), Tsc(900)));
    let mut analysis = OverviewAnalysis::default();
    feed(&mut analysis, 1, &[time(99), time(103), bytecode(0, 0), time(106)]);
    let o = analysis.overview(Some(&visits));
    let ticks: Vec<_> = o.threads[0].buckets.iter().map(|(n, b)| (*n, b.on_core)).collect();
    assert_eq!((o.on_core, o.start), (true, 99));
    assert_eq!(ticks, [(1, 1), (2, 1), (4, 0), (6, 1), (7, 1)]);
}

#[test]
fn excluded_events_do_not_count() {
    let exclude = Exclude { recovered: true, lost: true, ..Exclude::default() };
    let mut analysis = OverviewAnalysis::default().excluding(exclude);
    feed(&mut analysis, 1, &[time(1), recovered(bytecode(0, 0)), gap(Some(1), Some(9)), bytecode(0, 1)]);
    let o = analysis.overview(None);
    assert_eq!(o.threads[0].buckets, [(0, Bucket { tiers: [1, 0, 0], ..Bucket::default() })]);
    assert_eq!(o.threads[0].tid, Tid(1).get());
}

#[test]
fn damaged_times_are_no_reason_to_stop() {
    let o = of(&[time(u64::MAX), bytecode(0, 0), time(0), bytecode(0, 1), gap(Some(u64::MAX), Some(3))]);
    assert_eq!(o.threads[0].buckets.iter().map(|b| b.1.tiers[0]).sum::<u64>(), 2);
    assert_eq!((of(&[]).buckets, of(&[bytecode(0, 0)]).threads[0].before.tiers[0]), (0, 1));
}
