// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Lengths worked out by hand. One tick is one nanosecond.

use fastrand::Rng;
use jportal_bytecode::MethodTable;
use jportal_flow::{Entry, EventKind, Exit};

use jportal_units::Tsc;

use super::*;
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, method, methods, recovered};

const KHZ: u64 = 1_000_000;

fn time(t: u64) -> Event {
    Event::decoded(EventKind::Time(Tsc(t)))
}

fn analysis(events: &[Event]) -> LatencyAnalysis {
    let mut a = LatencyAnalysis::new(methods(), Arc::default(), 3, |m| &*m.name == "f");
    feed(&mut a, 1, events);
    a
}

fn report(events: &[Event]) -> Latencies {
    analysis(events).report(10, Tsc(100), KHZ)
}

/// The only method.
fn only(r: &Latencies) -> &MethodLatency {
    assert_eq!(r.methods.len(), 1);
    &r.methods[0]
}

/// Three activations.
fn three() -> [Event; 15] {
    [
        enter_as(1, Entry::Upcall),
        time(100),
        enter(0), // begins in 100..130
        bytecode(0, 0),
        time(130),
        time(200),
        leave(0), // ends in 200..250
        time(250),
        enter(0), // within 250..260
        leave(0),
        time(260),
        enter(0), // begins in 260..300
        time(300),
        leave(0), // no time follows
        leave(1),
    ]
}

#[test]
fn lengths_with_their_limits() {
    let r = report(&three());
    let m = only(&r);
    assert_eq!((m.calls.total(), m.measured, m.exact, r.exact), (3, 3, true, true));
    let wall = m.wall.unwrap();
    assert_eq!((wall.min_ns, wall.median_ns, wall.p99_ns, wall.max_ns, wall.sum_ns), (0, 40, 100, 100, 140));
    // 100: 70 to 150; 0: 0 to 10; 40: at least 0.
    assert_eq!((m.least_sum_ns, m.most_sum_ns), (70, None));
    assert_eq!((m.mean_resolution_ns, m.worst_resolution_ns), (Some((80 + 10) / 2), Some(80)));
    let slow: Vec<_> = r.slowest.iter().map(|s| (s.start_ns, s.wall_ns, s.least_ns, s.most_ns)).collect();
    assert_eq!(slow, [(0, 100, 70, Some(150)), (160, 40, 0, None), (150, 0, 0, Some(10))]);
    assert_eq!((r.slowest[0].thread.as_str(), r.slowest[0].tid), ("t1", 1));
    assert!(r.text().contains("A single length is known to within 80 ns."), "{}", r.text());
}

#[test]
fn histograms_of_lengths() {
    let all = analysis(&three()).lengths();
    // Limits 80 and 10 apart, each at a beginning and an end.
    assert_eq!((all.resolution, all.exact, all.methods.len()), (Some((80 + 10) / 4), true, 1));
    let m = &all.methods[0];
    assert_eq!((m.method.as_str(), m.measured, m.unmeasured, m.exact), ("a.B.f(I)I", 3, 0, true));
    // 0, 40 and 100
    assert_eq!((m.sum, m.quantiles), (140, [0, 40, 100, 100, 100]));
    assert_eq!(m.buckets, [(0, 1), (16, 0), (32, 1), (48, 0), (96, 1)]);
    let slow = [(100, 100), (260, 40), (250, 0)];
    assert_eq!(m.slowest, slow.map(|(begin, ticks)| Length { begin, ticks, tid: 1 }));

    let all = analysis(&[time(0), enter(0), gap(true), time(9)]).lengths();
    let m = &all.methods[0];
    assert_eq!((all.resolution, all.exact, all.inexact.gaps), (None, false, 1));
    assert_eq!((m.measured, m.unmeasured, m.exact), (0, 1, false));
    assert!(m.quantiles == [0; 5] && m.buckets.is_empty() && m.slowest.is_empty(), "{m:?}");
}

#[test]
fn a_sum_has_limits_when_a_time_follows() {
    let r = report(&[time(0), enter(0), time(10), time(50), leave(0), time(55)]);
    let m = only(&r);
    assert_eq!((m.wall.unwrap().sum_ns, m.least_sum_ns, m.most_sum_ns), (50, 40, Some(55)));
}

#[test]
fn nested_activations_are_not_added() {
    let events = [time(0), enter(0), time(10), enter(0), time(30), leave(0), time(60), leave(0), time(60)];
    let m = report(&events).methods.remove(0);
    let wall = m.wall.unwrap();
    assert_eq!((m.measured, m.nested, wall.sum_ns, wall.max_ns, wall.min_ns), (2, 1, 60, 60, 20));
    assert_eq!((m.least_sum_ns, m.most_sum_ns), (50, Some(60)));
}

#[test]
fn an_activation_survives_replacement() {
    let once = |replace: &[Event]| {
        let mut events = vec![time(0), enter(1), enter(0), bytecode(0, 0), time(10)];
        events.extend_from_slice(replace);
        events.extend([time(40), leave(0), leave(1), time(50)]);
        let r = report(&events);
        let m = only(&r);
        assert_eq!((m.calls.total(), m.measured, m.cut, m.found), (1, 1, 0, 0));
        assert_eq!((m.wall.unwrap().max_ns, m.least_sum_ns, m.most_sum_ns), (40, 30, Some(50)));
    };
    once(&[]);
    once(&[leave_as(0, Exit::Replaced), enter_as(0, Entry::Osr)]);
    let both = [leave_as(0, Exit::Replaced), leave_as(1, Exit::Replaced)];
    let again = [1, 0].map(|m| enter_as(m, Entry::Deoptimisation));
    once(&[&both[..], &again[..]].concat());
}

#[test]
fn what_was_not_seen_whole_is_not_measured() {
    let cut = |events: &[Event]| {
        let r = report(events);
        let m = only(&r);
        assert_eq!((m.measured, m.wall, m.exact, r.exact), (0, None, false, false));
        (m.calls.total(), m.found, m.cut, m.inferred, m.untimed)
    };
    assert_eq!(cut(&[time(0), enter(0), gap(true), time(9), enter(1)]), (1, 0, 1, 0, 0));
    assert_eq!(cut(&[time(0), enter(0), gap(false), time(9), leave(0)]), (1, 0, 1, 0, 0));
    assert_eq!(cut(&[time(0), enter_as(0, Entry::Found), time(9), leave(0)]), (0, 1, 0, 0, 0));
    assert_eq!(cut(&[time(0), bytecode(0, 4), time(9), leave(0)]), (0, 1, 0, 0, 0));
    assert_eq!(cut(&[time(0), enter(0), time(9), leave_as(0, Exit::Lost)]), (1, 0, 1, 0, 0));
    assert_eq!(cut(&[time(0), enter(0), time(9)]), (1, 0, 1, 0, 0));
    assert_eq!(cut(&[time(0), enter(0), time(9), recovered(leave(0))]), (1, 0, 0, 1, 0));
    assert_eq!(cut(&[time(0), recovered(enter(0)), time(9), leave(0)]), (1, 0, 0, 1, 0));
    assert_eq!(cut(&[enter(0), time(9), leave(0)]), (1, 0, 0, 0, 1));
}

#[test]
fn frames_of_a_lost_loop_are_cut() {
    let lost = |callers| {
        Event::decoded(EventKind::Unresolved {
            method: MethodId(0),
            from: None,
            to: None,
            cause: jportal_flow::Cause::EmptyLoop,
            callers,
        })
    };
    let cut = |callers| {
        let events = [time(0), enter(0), enter(0), enter(0), lost(callers), time(9)];
        let r = report(&[&events[..], &[leave(0), leave(0), leave(0)]].concat());
        (only(&r).measured, only(&r).cut)
    };
    assert_eq!([cut(0), cut(1), cut(2), cut(9)], [(3, 0), (2, 1), (1, 2), (0, 3)]);
}

#[test]
fn time_on_cores_comes_from_the_clock() {
    // On a core during the first half of each 100 ticks.
    let clock: OnCore = Arc::new(|_, t| t.0 / 100 * 50 + (t.0 % 100).min(50));
    let mut a = LatencyAnalysis::new(methods(), Arc::default(), 3, |_| true).on_core(clock);
    let events = [time(0), enter(1), time(20), enter(0), time(130), leave(0), time(300), leave(1), time(301)];
    feed(&mut a, 1, &events);
    let r = a.report(10, Tsc(0), KHZ);
    let rows: Vec<_> = r
        .methods
        .iter()
        .map(|m| (m.method.as_str(), m.wall.unwrap().sum_ns, m.on_core.unwrap().sum_ns))
        .collect();
    assert_eq!(rows, [("a.B.g(I)I", 300, 150), ("a.B.f(I)I", 110, 60)]);
    assert_eq!(r.slowest[1].on_core_ns, Some(60));
}

#[test]
fn merging_threads_in_any_order_is_the_same() {
    let mut t = MethodTable::default();
    for i in 0..4 {
        t.push(method("a/B", &format!("m{i}"), &[177]));
    }
    let t = Arc::new(t);
    let mut rng = Rng::with_seed(11);
    let flow = |rng: &mut Rng| {
        let (mut events, mut open, mut now) = (vec![time(0)], Vec::new(), 0);
        for _ in 0..400 {
            match rng.u8(..4) {
                0 => {
                    now += rng.u64(..50);
                    events.push(time(now));
                }
                1 if !open.is_empty() => events.push(leave(open.pop().unwrap())),
                _ if open.len() < 6 => {
                    open.push(rng.u32(..4));
                    events.push(enter(*open.last().unwrap()));
                }
                _ => {}
            }
        }
        events.push(time(now + 1));
        events
    };
    let flows: Vec<Vec<Event>> = (0..5).map(|_| flow(&mut rng)).collect();
    let run = |order: &[usize]| {
        let mut a = LatencyAnalysis::new(Arc::clone(&t), Arc::default(), 7, |_| true);
        order.iter().for_each(|i| feed(&mut a, *i as u32, &flows[*i]));
        a.report(10, Tsc(0), KHZ)
    };
    let r = run(&[0, 1, 2, 3, 4]);
    assert_eq!(r, run(&[3, 1, 4, 0, 2]));
    assert_eq!(r.slowest.len(), 7);
    for m in &r.methods {
        let wall = m.wall.unwrap();
        assert_eq!(m.measured + m.cut, m.calls.total());
        assert!(m.least_sum_ns <= wall.sum_ns && wall.sum_ns <= m.most_sum_ns.unwrap());
        assert!(wall.min_ns <= wall.median_ns && wall.median_ns <= wall.p99_ns && wall.p99_ns <= wall.max_ns);
    }
}
