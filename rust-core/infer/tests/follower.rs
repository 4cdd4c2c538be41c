// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The filling method of [`Follower`].

mod support;

use jportal_bytecode::{Icfg, Node};
use jportal_infer::cut::FrameSites;
use jportal_infer::fill::{
    Basic, Captured, Confidence, Expected, Follower, Gap, Hole, Learned, Parameters, Recovered, SegmentId,
    Settings, recover,
};
use jportal_infer::project::paths::Below;
use support::{at, calling, catching, graph, method};

/// 0 iload_0; 1 ifeq 9; 4 iload_1, nop; 6 goto 0; 9 return.
const LOOP: [u8; 10] = [26, 153, 0, 8, 27, 0, 167, 0xff, 0xfa, 177];

fn looping() -> Icfg {
    graph(vec![method("f", &LOOP)])
}

fn rounds(g: &Icfg, count: usize) -> Vec<Node> {
    at(g, 0, &[0, 1, 4, 5, 6]).into_iter().cycle().take(5 * count).collect()
}

fn push(captured: &mut Captured, g: &Icfg, nodes: &[Node], from: u64) -> SegmentId {
    // One instruction takes 10 ticks.
    let marks: Vec<(usize, u64)> = (0..nodes.len()).map(|i| (i, from + 10 * i as u64)).collect();
    captured.push(g, nodes, &marks).unwrap()
}

/// `seen` captured rounds, and 20 rounds on each side of a gap.
fn lost_rounds(g: &Icfg, seen: usize) -> (Captured, SegmentId, SegmentId) {
    let mut captured = Captured::default();
    let later = 100 * seen as u64;
    push(&mut captured, g, &rounds(g, seen), 0);
    let before = push(&mut captured, g, &rounds(g, 20), later);
    let after = push(&mut captured, g, &rounds(g, 20), 2 * later);
    (captured, before, after)
}

fn one(g: &Icfg, captured: &Captured, gap: Gap<'_>) -> Option<Recovered> {
    recovered(g, captured, Settings::default(), gap)
}

fn recovered(g: &Icfg, captured: &Captured, settings: Settings, gap: Gap<'_>) -> Option<Recovered> {
    Follower::new(g, captured, &Learned::new(g, captured), settings).recover_gap(&gap).0
}

fn unknown(hole: Hole) -> Gap<'static> {
    gap(hole, Below::Unknown, Below::Unknown)
}

/// A gap with the length that there was time for.
fn gap<'a>(hole: Hole, before: Below<'a>, after: Below<'a>) -> Gap<'a> {
    let expected = hole.time.map(|time| Expected { instructions: time as f64 / 10.0, slack: 0.0 });
    Gap { hole, before, entered: None, after, sure: (1.0, 1.0), expected }
}

#[test]
fn loops_make_the_rounds_there_was_time_for() {
    let g = looping();
    let (captured, before, after) = lost_rounds(&g, 1000);
    for lost in [1, 7, 300] {
        let hole = Hole { before, after, time: Some(5 * 10 * lost as u64) };
        let fill = one(&g, &captured, unknown(hole)).unwrap();
        assert_eq!(fill.nodes, rounds(&g, lost));
        assert!(fill.misfit.is_some_and(|m| m < 0.05), "{fill:?}");
        assert_eq!(fill.confidence.len(), fill.nodes.len());
        // Algorithm 3 joins at the first possible place.
        let basic = recover(&captured, &[hole], &Basic, None, &Parameters::default()).remove(0);
        assert_eq!(basic.fill.unwrap().nodes.len(), 0);
    }
}

#[test]
fn a_trail_ends_where_no_better_joint_can_come() {
    let g = looping();
    let (captured, before, after) = lost_rounds(&g, 4000);
    let learned = Learned::new(&g, &captured);
    let follower = Follower::new(&g, &captured, &learned, Settings::default());
    // A small gap and a large one.
    for len in [3000, 10_000] {
        let hole = Hole { before, after, time: Some(10 * len as u64) };
        let (fill, work) = follower.recover_gap(&unknown(hole));
        // Joints that are only a little better are not looked for.
        let found = fill.unwrap().nodes.len();
        assert!(found.abs_diff(len) < len / 50, "{found} for {len}");
        // The follower reads the whole length backwards, and little more than half of it
        // forwards from each place.
        assert!(work.read > len as u64 && work.read < 9 * len as u64 / 4, "{} for {len}", work.read);
    }
}

/// Settings that exclude paths through the ICFG.
fn seen_only() -> Settings {
    Settings { visits: 0, ..Settings::default() }
}

#[test]
fn nothing_is_filled_when_nothing_joins_in_time() {
    let g = looping();
    let mut captured = Captured::default();
    push(&mut captured, &g, &rounds(&g, 1000), 0);
    let before = push(&mut captured, &g, &rounds(&g, 20), 100_000);
    let after = push(&mut captured, &g, &at(&g, 0, &[9]), 200_000);
    // The loop was never seen to end.
    for time in [Some(500), None] {
        let gap = unknown(Hole { before, after, time });
        assert_eq!(recovered(&g, &captured, seen_only(), gap), None);
    }
    let empty = captured.push(&g, &[], &[]).unwrap();
    assert_eq!(one(&g, &captured, unknown(Hole { before, after: empty, time: None })), None);
}

#[test]
fn nothing_is_read_for_a_gap_that_is_too_long() {
    let g = looping();
    let (captured, before, after) = lost_rounds(&g, 1000);
    let settings = Settings { longest: 1000, ..Settings::default() };
    let learned = Learned::new(&g, &captured);
    let follower = Follower::new(&g, &captured, &learned, settings);
    // A fill may be half as long as expected.
    for (instructions, fits) in [(1990, true), (2010, false)] {
        let hole = Hole { before, after, time: Some(10 * instructions) };
        let (fill, work) = follower.recover_gap(&unknown(hole));
        assert_eq!((fill.is_some(), work.read > 0), (fits, fits), "{instructions} {work:?}");
    }
}

#[test]
fn the_icfg_leads_where_nothing_was_seen_to_go() {
    let g = looping();
    let mut captured = Captured::default();
    push(&mut captured, &g, &rounds(&g, 1000), 0);
    let before = push(&mut captured, &g, &rounds(&g, 20), 100_000);
    let after = push(&mut captured, &g, &at(&g, 0, &[9]), 200_000);
    for lost in [1, 10, 100] {
        let time = Some(10 * (5 * lost + 2) as u64);
        let fill = one(&g, &captured, unknown(Hole { before, after, time })).unwrap();
        // The more rounds, the less a single one matters.
        let most = fill.nodes.len() / 5;
        assert_eq!(fill.nodes, [rounds(&g, most), at(&g, 0, &[0, 1])].concat());
        assert!(most.abs_diff(lost) <= lost / 20, "{most} rounds instead of {lost}");
        // Ten other places continued with another round, and no place did otherwise; the first
        // two instructions are the only possible ones.
        assert!(fill.confidence.iter().skip(2).all(|c| c < 0.92), "{:?}", fill.confidence);
    }
    // Ten thousand rounds are too many to visit in the ICFG: the fill has captured rounds, and
    // then the way out of the loop.
    let gap = unknown(Hole { before, after, time: Some(500_000) });
    let fill = one(&g, &captured, gap).unwrap();
    let most = fill.nodes.len() / 5;
    assert_eq!(fill.nodes, [rounds(&g, most), at(&g, 0, &[0, 1])].concat());
    assert!(most.abs_diff(10_000) <= 5000 && fill.misfit.is_some_and(|m| m <= 0.5), "{most}");
}

#[test]
fn exceptions_on_the_way_through_the_icfg_leave_frames() {
    let main = calling(method("main", &[184, 0, 1, 177, 75, 177]), &["f"]);
    let other = calling(method("other", &[184, 0, 1, 177]), &["main"]);
    let g = graph(vec![catching(main, 0, 3, 4), other, method("f", &[1, 191])]);
    let mut captured = Captured::default();
    push(&mut captured, &g, &[at(&g, 2, &[0, 1]), at(&g, 0, &[4, 5])].concat(), 0);
    let before = push(&mut captured, &g, &at(&g, 2, &[0]), 1000);
    let after = push(&mut captured, &g, &at(&g, 0, &[4, 5]), 2000);
    let frames = [at(&g, 1, &[0]), at(&g, 0, &[0])].concat();
    let fill = |after_frames: &[Node]| {
        let hole = Hole { before, after, time: Some(10) };
        let gap = gap(hole, Below::Frames(&frames), Below::Frames(after_frames));
        let through_icfg = Settings { tries: 0, ..Settings::default() };
        recovered(&g, &captured, through_icfg, gap).map(|f| f.nodes)
    };
    assert_eq!(fill(&frames[..1]), Some(at(&g, 2, &[1])));
    assert_eq!(fill(&frames), None);
}

#[test]
fn what_cannot_be_reached_stays_a_gap() {
    let g = graph(vec![method("f", &[26, 177]), method("g", &[27, 177])]);
    let mut captured = Captured::default();
    let before = push(&mut captured, &g, &at(&g, 0, &[0]), 0);
    let after = push(&mut captured, &g, &at(&g, 1, &[1]), 1000);
    for below in [Below::Unknown, Below::Frames(&[])] {
        let gap = gap(Hole { before, after, time: Some(100) }, below, Below::Unknown);
        assert_eq!(one(&g, &captured, gap), None);
    }
}

/// f calls h at 0 and continues with iconst_1; g calls it at 0 and continues with iconst_2.
fn two_callers() -> Icfg {
    let caller =
        |name: &str, constant: u8| calling(method(name, &[184, 0, 1, constant, 0, 0, 0, 172]), &["h"]);
    graph(vec![caller("f", 4), caller("g", 5), method("h", &[26, 27, 96, 59, 177])])
}

#[test]
fn a_method_returns_to_where_the_thread_called_it() {
    let g = two_callers();
    let call = |m: u32| [at(&g, m, &[0]), at(&g, 2, &[0, 1, 2, 3, 4]), at(&g, m, &[3, 4, 5, 6, 7])].concat();
    let mut captured = Captured::default();
    push(&mut captured, &g, &call(0), 0);
    // The calls from g are more frequent and more recent.
    for _ in 0..500 {
        push(&mut captured, &g, &call(1), 1000);
    }
    let before = push(&mut captured, &g, &at(&g, 2, &[0, 1]), 2000);
    let after = push(&mut captured, &g, &at(&g, 0, &[5, 6, 7]), 3000);
    let site = at(&g, 0, &[0]);
    let hole = Hole { before, after, time: Some(50) };
    let fill = one(&g, &captured, gap(hole, Below::Frames(&site), Below::Unknown)).unwrap();
    assert_eq!(fill.nodes, [at(&g, 2, &[2, 3, 4]), at(&g, 0, &[3, 4])].concat());
    // If the interrupted call was g's, f cannot follow so soon.
    let site = at(&g, 1, &[0]);
    assert_eq!(one(&g, &captured, gap(hole, Below::Frames(&site), Below::Unknown)), None);
}

#[test]
fn a_method_that_has_been_called_is_gone_through() {
    // The VM initialises a class, c, after f's first instruction; in most runs of f it does not
    // need to.
    let g = graph(vec![method("f", &[26, 27, 177]), method("c", &[4, 177])]);
    let f = at(&g, 0, &[0, 1, 2]);
    let mut captured = Captured::default();
    push(&mut captured, &g, &[&f[..1], &at(&g, 1, &[0, 1]), &f[1..]].concat(), 0);
    (0..10).for_each(|_| _ = push(&mut captured, &g, &f, 1000));
    let before = push(&mut captured, &g, &f[..1], 2000);
    let after = push(&mut captured, &g, &f[1..], 3000);
    let gap = Gap { before: Below::Frames(&[]), ..unknown(Hole { before, after, time: None }) };
    assert_eq!(one(&g, &captured, gap).unwrap().nodes, []);
    let entered = at(&g, 1, &[0]).first().copied();
    assert_eq!(one(&g, &captured, Gap { entered, ..gap }).unwrap().nodes, at(&g, 1, &[0, 1]));
}

#[test]
fn a_call_of_what_was_never_loaded_is_not_gone_past() {
    // 0 iload_0; 1 ifne 0; 4 invokestatic n; 7 iload_1; 8 ifne 7; 11 return
    let f = calling(method("f", &[26, 154, 255, 255, 184, 0, 1, 27, 154, 255, 255, 177]), &["n"]);
    let mut native = method("n", &[]);
    native.access_flags = 0x108;
    let fills = |methods| {
        let g = graph(methods);
        let loops = |at_bci: &[u16]| at(&g, 0, at_bci).repeat(4000);
        let mut captured = Captured::default();
        let before = push(&mut captured, &g, &loops(&[0, 1]), 0);
        let after = push(&mut captured, &g, &loops(&[7, 8]), 200_000);
        let hole = Hole { before, after, time: Some(40_000) };
        let below = Below::Frames(&[]);
        let settings = Settings { visits: 1, ..Settings::default() };
        recovered(&g, &captured, settings, gap(hole, below, below))
    };
    let fill = fills(vec![f.clone(), native]).unwrap();
    assert!(fill.nodes.contains(&Node(2)) && fill.broken.is_none(), "{:?}", &fill.nodes[..8]);
    // The fill has both loops and a break between them: no way from one to the other is known.
    let fill = fills(vec![f]).unwrap();
    let (front, back) = fill.nodes.split_at(fill.broken.unwrap());
    assert_eq!((front, back), (&fills_of(0, front.len())[..], &fills_of(3, back.len())[..]));
    assert!(front.len() >= 2000 && fill.nodes.len().abs_diff(4000) < 100, "{}", fill.nodes.len());
}

/// Node `first` and the next one in turn.
fn fills_of(first: u32, len: usize) -> Vec<Node> {
    [Node(first), Node(first + 1)].into_iter().cycle().take(len).collect()
}

#[test]
fn frames_after_the_gap_must_be_reached() {
    let g = two_callers();
    let call = |m: u32| [at(&g, m, &[0]), at(&g, 2, &[0, 1, 2, 3, 4]), at(&g, m, &[3, 4, 5, 6, 7])].concat();
    let mut captured = Captured::default();
    for m in [0, 1] {
        push(&mut captured, &g, &call(m), 0);
    }
    let before = push(&mut captured, &g, &at(&g, 0, &[0]), 1000);
    let after = push(&mut captured, &g, &at(&g, 2, &[2, 3]), 2000);
    let hole = Hole { before, after, time: Some(20) };
    let (f, other) = (at(&g, 0, &[0]), at(&g, 1, &[0]));
    let fill = |after: &[Node]| one(&g, &captured, gap(hole, Below::Frames(&[]), Below::Frames(after)));
    assert_eq!(fill(&f).unwrap().nodes, at(&g, 2, &[0, 1]));
    assert_eq!(fill(&other), None);
    // The instructions after the gap show where h returns to, although no frames are given.
    let settings = Settings { join: 2, ..Settings::default() };
    let mut fills = |to: u32| {
        let after = push(&mut captured, &g, &[at(&g, 2, &[2, 3, 4]), at(&g, to, &[3])].concat(), 3000);
        let gap = gap(Hole { after, ..hole }, Below::Frames(&[]), Below::Unknown);
        recovered(&g, &captured, settings, gap).is_some()
    };
    assert!(fills(0) && !fills(1));
}

#[test]
fn a_fill_runs_into_all_of_the_join() {
    let g = looping();
    let mut captured = Captured::default();
    push(&mut captured, &g, &rounds(&g, 1000), 0);
    let before = push(&mut captured, &g, &rounds(&g, 2), 1000);
    // The loop was never seen to end.
    let after = push(&mut captured, &g, &at(&g, 0, &[0, 1, 9]), 2000);
    let gap = unknown(Hole { before, after, time: Some(500) });
    assert_eq!(recovered(&g, &captured, seen_only(), gap), None);
    let settings = Settings { join: 2, ..seen_only() };
    assert!(recovered(&g, &captured, settings, gap).is_some());
}

#[test]
fn of_two_ways_the_one_with_the_right_time_is_taken() {
    // 0 iload_0; 1 ifeq 9; 4 nop, nop; 6 goto 17; 9 eight nops; 17 iload_1, iconst_1, iadd, return
    let code = [26, 153, 0, 8, 0, 0, 167, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 27, 4, 96, 177];
    let g = graph(vec![method("f", &code)]);
    let end = at(&g, 0, &[17, 18, 19, 20]);
    let ways = [at(&g, 0, &[4, 5, 6]), at(&g, 0, &[9, 10, 11, 12, 13, 14, 15, 16])];
    for first in [0, 1] {
        let mut captured = Captured::default();
        for way in [first, 1 - first] {
            push(&mut captured, &g, &[at(&g, 0, &[0, 1]), ways[way].clone(), end.clone()].concat(), 0);
        }
        let before = push(&mut captured, &g, &at(&g, 0, &[0, 1]), 1000);
        let after = push(&mut captured, &g, &end, 2000);
        for way in &ways {
            let time = Some(10 * way.len() as u64);
            assert_eq!(&one(&g, &captured, unknown(Hole { before, after, time })).unwrap().nodes, way);
        }
    }
}

#[test]
fn the_only_way_may_miss_the_time_by_half_of_it() {
    // 0 iload_0; 1 ifeq 4; 4 forty nops; 44 iload_1, iconst_1, iadd, return
    let code = [&[26, 153, 0, 3][..], &[0; 40], &[27, 4, 96, 177]].concat();
    let g = graph(vec![method("f", &code)]);
    let lost: Vec<Node> = (4..44).flat_map(|bci| at(&g, 0, &[bci])).collect();
    let end = at(&g, 0, &[44, 45, 46, 47]);
    let mut captured = Captured::default();
    push(&mut captured, &g, &[at(&g, 0, &[0, 1]), lost.clone(), end.clone()].concat(), 0);
    let before = push(&mut captured, &g, &at(&g, 0, &[0, 1]), 1000);
    let after = push(&mut captured, &g, &end, 2000);
    let fill = |len: u64| {
        let hole = Hole { before, after, time: Some(10 * len) };
        recovered(&g, &captured, seen_only(), unknown(hole)).map(|fill| fill.nodes)
    };
    for len in [27, 40, 64, 79] {
        assert_eq!(fill(len).as_ref(), Some(&lost), "{len}");
    }
    assert_eq!([fill(26), fill(81)], [None, None]);
}

#[test]
fn the_end_of_the_block_is_all_that_is_lost() {
    let g = looping();
    let mut captured = Captured::default();
    push(&mut captured, &g, &rounds(&g, 10), 0);
    let before = push(&mut captured, &g, &at(&g, 0, &[0, 1, 4]), 1000);
    let after = push(&mut captured, &g, &at(&g, 0, &[6, 0, 1, 4]), 2000);
    let fill = one(&g, &captured, unknown(Hole { before, after, time: Some(10) })).unwrap();
    assert_eq!(fill.nodes, at(&g, 0, &[5]));
    assert!(fill.confidence.at(0).unwrap().0 > 0.9);
}

#[test]
fn confidence_is_what_other_places_say() {
    // 0 iload_0; 1 ifeq 6; 4 iconst_1; 5 return; 6 iconst_2; 7 return
    let g = graph(vec![method("f", &[26, 153, 0, 5, 4, 177, 5, 177])]);
    let mut captured = Captured::default();
    let one_way = at(&g, 0, &[0, 1, 4, 5]);
    for _ in 0..8 {
        captured.push(&g, &one_way, &[]).unwrap();
    }
    let other = at(&g, 0, &[0, 1, 6, 7]);
    captured.push(&g, &other, &[]).unwrap();
    let before = captured.push(&g, &one_way[..2], &[]).unwrap();
    let after = captured.push(&g, &one_way[3..], &[]).unwrap();
    let settings = Settings { join: 1, ..Settings::default() };
    let gap = unknown(Hole { before, after, time: None });
    let fill = recovered(&g, &captured, settings, gap).unwrap();
    assert_eq!(fill.nodes, one_way[2..3]);
    // Only the instruction at 4 leads to 5.
    assert_eq!(fill.confidence, Confidence::uniform(1, 0.99));
}

#[test]
fn what_led_to_other_places_is_asked_too() {
    // 0 iload_0; 1 ifeq 8; 4 iconst_1; 5 goto 9; 8 iconst_2; 9 ireturn
    let g = graph(vec![method("f", &[26, 153, 0, 7, 4, 167, 0, 4, 5, 172])]);
    let ways = [at(&g, 0, &[0, 1, 4, 5, 9]), at(&g, 0, &[0, 1, 8, 9])];
    let mut captured = Captured::default();
    for way in [0, 0, 0, 1, 0, 0] {
        captured.push(&g, &ways[way], &[]).unwrap();
    }
    let before = captured.push(&g, &at(&g, 0, &[0]), &[]).unwrap();
    let after = captured.push(&g, &at(&g, 0, &[9]), &[]).unwrap();
    let settings = Settings { join: 1, ..Settings::default() };
    let gap = unknown(Hole { before, after, time: None });
    let fill = recovered(&g, &captured, settings, gap).unwrap();
    assert_eq!(fill.nodes, at(&g, 0, &[1, 4, 5]));
    // Besides the place that was followed, four places came the same way, and one did not. The
    // instruction before the branch is common to all.
    let expected = [0.99, 5.0 / 7.0, 5.0 / 7.0];
    let close =
        |sure: &Confidence, part: f32| sure.iter().zip(expected).all(|(a, b)| (a - part * b).abs() < 1e-6);
    assert!(close(&fill.confidence, 1.0), "{:?}", fill.confidence);
    // Each end of the gap is one of two possible places.
    let fill = recovered(&g, &captured, settings, Gap { sure: (0.5, 0.5), ..gap }).unwrap();
    assert!(close(&fill.confidence, 0.5), "{:?}", fill.confidence);
    let fill = recovered(&g, &captured, settings, Gap { sure: (0.5, 1.0), ..gap }).unwrap();
    assert!(
        fill.confidence.at(0).unwrap().0 < 0.99 && fill.confidence.iter().skip(1).all(|c| c >= 0.5),
        "{:?}",
        fill.confidence
    );
}

/// 0 main calls a, then b; 1 a and 2 b are loops.
#[test]
fn from_one_loop_to_another() {
    let main = calling(method("main", &[184, 0, 1, 184, 0, 2, 177]), &["a", "b"]);
    let g = graph(vec![main, method("a", &LOOP), method("b", &LOOP)]);
    let rounds = |m: u32, count: usize| at(&g, m, &[0, 1, 4, 5, 6]).into_iter().cycle().take(5 * count);
    let mut captured = Captured::default();
    let before: Vec<Node> = at(&g, 0, &[0]).into_iter().chain(rounds(1, 1000)).collect();
    let before = push(&mut captured, &g, &before, 0);
    let after: Vec<Node> =
        rounds(2, 1000).skip(2).chain(at(&g, 2, &[0, 1, 9])).chain(at(&g, 0, &[6])).collect();
    let after = push(&mut captured, &g, &after, 200_000);
    let frames = [at(&g, 0, &[0]), at(&g, 0, &[3])];
    let hole = Hole { before, after, time: Some(100_000) };
    let gap = gap(hole, Below::Frames(&frames[0]), Below::Frames(&frames[1]));
    let fill = one(&g, &captured, gap).unwrap();
    let out = fill.nodes.iter().position(|n| *n == at(&g, 0, &[3])[0]).unwrap();
    // Some rounds of a, out of a, into b, some rounds of b.
    assert_eq!(fill.nodes[..out], rounds(1, out / 5).chain(at(&g, 1, &[0, 1, 9])).collect::<Vec<_>>());
    let rest = fill.nodes.len() - out - 1;
    let into_b: Vec<Node> = rounds(2, rest / 5).chain(at(&g, 2, &[0, 1])).collect();
    assert_eq!(fill.nodes[out + 1..], into_b);
    assert!(out > 1000 && rest > 1000 && fill.misfit.is_some_and(|m| m <= 0.5), "{out} {rest}");
    // Without the ICFG there is no fill: a was never seen to end.
    assert_eq!(recovered(&g, &captured, seen_only(), gap), None);
}

/// 0 main calls mid, then b; 1 mid calls a; 2 a and 3 b are loops. mid was never captured.
#[test]
fn out_of_frames_that_nobody_knows() {
    let main = calling(method("main", &[184, 0, 1, 184, 0, 2, 177]), &["mid", "b"]);
    let mid = calling(method("mid", &[184, 0, 1, 177]), &["a"]);
    let g = graph(vec![main, mid, method("a", &LOOP), method("b", &LOOP)]);
    let rounds = |m: u32, count: usize| at(&g, m, &[0, 1, 4, 5, 6]).into_iter().cycle().take(5 * count);
    let mut captured = Captured::default();
    let before = push(&mut captured, &g, &rounds(2, 1000).collect::<Vec<_>>(), 0);
    // The return of b shows where it was called.
    let after: Vec<Node> =
        rounds(3, 1000).skip(2).chain(at(&g, 3, &[0, 1, 9])).chain(at(&g, 0, &[6])).collect();
    let after = push(&mut captured, &g, &after, 200_000);
    let gap = unknown(Hole { before, after, time: Some(100_000) });
    let fill = one(&g, &captured, gap).unwrap();
    let out = fill.nodes.iter().position(|n| *n == at(&g, 1, &[3])[0]).unwrap();
    assert_eq!(
        fill.nodes[out - 3..=out + 1],
        [at(&g, 2, &[0, 1, 9]), at(&g, 1, &[3]), at(&g, 0, &[3])].concat()
    );
    assert!(out > 1000 && fill.nodes.len() - out > 1000, "{out} {}", fill.nodes.len());
}

/// 0 main calls f, of which there are two; 1 f returns; 2 f calls g and returns; 3 g: nop,
/// return.
#[test]
fn a_callee_is_the_one_that_was_seen_most_with_all_that_it_calls() {
    let main = calling(method("main", &[184, 0, 1, 177]), &["f"]);
    let long = calling(method("f", &[184, 0, 1, 177]), &["g"]);
    let g = graph(vec![main, method("f", &[177]), long, method("g", &[0, 177])]);
    let site = at(&g, 0, &[0])[0];
    let short = at(&g, 1, &[0]);
    let long = [at(&g, 2, &[0]), at(&g, 3, &[0, 1]), at(&g, 2, &[3])].concat();
    for (often, seldom) in [(&short, &long), (&long, &short)] {
        let mut captured = Captured::default();
        for callee in [often, often, often, seldom] {
            let nodes = [&at(&g, 0, &[0])[..], callee, &at(&g, 0, &[3])].concat();
            push(&mut captured, &g, &nodes, 0);
        }
        let learned = Learned::new(&g, &captured);
        let follower = Follower::new(&g, &captured, &learned, Settings::default());
        assert_eq!(follower.callee_of(site).as_ref(), Some(often));
        assert_eq!(follower.callee_of(at(&g, 2, &[0])[0]), Some(at(&g, 3, &[0, 1])));
    }
    // Where no callee was captured, the graph names some.
    let captured = Captured::default();
    let learned = Learned::new(&g, &captured);
    let follower = Follower::new(&g, &captured, &learned, Settings::default());
    assert_eq!(follower.callee_of(site), Some(short));
    // A callee that never returns is rejected.
    let main = calling(method("main", &[184, 0, 1, 177]), &["f"]);
    let g = graph(vec![main, method("f", &[167, 0, 0])]);
    let learned = Learned::new(&g, &captured);
    let follower = Follower::new(&g, &captured, &learned, Settings::default());
    assert_eq!(follower.callee_of(at(&g, 0, &[0])[0]), None);
}

/// 0 main calls mid, then other; 1 mid calls a; 2 other calls b; 3 a and 4 b are loops. Only
/// the loops were captured.
#[test]
fn by_way_of_a_caller_of_both() {
    let main = calling(method("main", &[184, 0, 1, 184, 0, 2, 177]), &["mid", "other"]);
    let caller = |name, callee| calling(method(name, &[184, 0, 1, 177]), &[callee]);
    let (mid, other) = (caller("mid", "a"), caller("other", "b"));
    let g = graph(vec![main, mid, other, method("a", &LOOP), method("b", &LOOP)]);
    let rounds = |m: u32| at(&g, m, &[0, 1, 4, 5, 6]).into_iter().cycle().take(5000).collect::<Vec<_>>();
    let mut captured = Captured::default();
    let before = push(&mut captured, &g, &rounds(3), 0);
    let after = push(&mut captured, &g, &rounds(4)[2..], 200_000);
    let hole = Hole { before, after, time: Some(100_000) };
    let fill = one(&g, &captured, unknown(hole)).unwrap();
    let out = fill.nodes.iter().position(|n| *n == at(&g, 1, &[3])[0]).unwrap();
    let way =
        [at(&g, 3, &[0, 1, 9]), at(&g, 1, &[3]), at(&g, 0, &[3]), at(&g, 2, &[0]), at(&g, 4, &[0, 1, 4])];
    assert_eq!(fill.nodes[out - 3..out + 6], way.concat());
    assert!(out > 1000 && fill.nodes.len() - out > 1000, "{out} {}", fill.nodes.len());
    // Without frames below, the thread cannot return to main.
    let gap = gap(hole, Below::Frames(&[]), Below::Unknown);
    let fill = one(&g, &captured, gap).unwrap();
    let (front, back) = fill.nodes.split_at(fill.broken.unwrap());
    assert!(front.iter().all(|n| g.method(*n) == g.method(rounds(3)[0])), "{front:?}");
    assert!(back.iter().all(|n| g.method(*n) == g.method(rounds(4)[0])), "{back:?}");
    assert!(front.len() > 4000 && back.len() > 4000, "{} {}", front.len(), back.len());
}

/// 0 main calls f, which calls g, which may call f or return.
#[test]
fn methods_that_call_each_other_have_an_end() {
    let caller = |name, callee| calling(method(name, &[184, 0, 1, 177]), &[callee]);
    let either = calling(method("g", &[26, 153, 0, 6, 184, 0, 1, 177]), &["f"]);
    let g = graph(vec![caller("main", "f"), caller("f", "g"), either]);
    let captured = Captured::default();
    let learned = Learned::new(&g, &captured);
    let follower = Follower::new(&g, &captured, &learned, Settings::default());
    let through_g = at(&g, 2, &[0, 1, 7]);
    let through_f = [at(&g, 1, &[0]), through_g.clone(), at(&g, 1, &[3])].concat();
    // The result does not depend on the order of the requests.
    assert_eq!(follower.callee_of(at(&g, 2, &[4])[0]), Some(through_f.clone()));
    assert_eq!(follower.callee_of(at(&g, 0, &[0])[0]), Some(through_f));
    assert_eq!(follower.callee_of(at(&g, 1, &[0])[0]), Some(through_g));
}

#[test]
fn frames_after_a_gap_are_those_that_its_fill_leads_to() {
    // 0 main calls 1 f, which calls 2 g.
    let caller = |name, callee| calling(method(name, &[184, 0, 1, 177]), &[callee]);
    let g = graph(vec![caller("main", "f"), caller("f", "g"), method("g", &[26, 177])]);
    let mut captured = Captured::default();
    let before = push(&mut captured, &g, &at(&g, 0, &[0]), 0);
    let after = push(&mut captured, &g, &at(&g, 2, &[1]), 1000);
    let gap = unknown(Hole { before, after, time: None });
    let gap = Gap { before: Below::Frames(&[]), ..gap };
    let learned = Learned::new(&g, &captured);
    let follower = Follower::new(&g, &captured, &learned, Settings::default());
    let fill = |broken| Recovered {
        nodes: [at(&g, 1, &[0]), at(&g, 2, &[0])].concat(),
        confidence: Confidence::uniform(2, 1.0),
        misfit: None,
        before: 0,
        after: 0,
        hops: 0,
        broken,
        frames: None,
    };
    let sites = [at(&g, 0, &[0]), at(&g, 1, &[0])].concat();
    let behind = |broken| follower.frames_after(&gap, &fill(broken));
    assert_eq!(behind(None), FrameSites { sites: sites.clone(), whole: true });
    // No frames lead to the instruction at the break, so only the frames entered after it are
    // known.
    assert_eq!(behind(Some(1)), FrameSites::default());
    assert_eq!(behind(Some(0)), FrameSites { sites: sites[1..].to_vec(), whole: false });
}
