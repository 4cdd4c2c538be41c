// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use jportal_bytecode::testing::BRANCHY;
use jportal_flow::{Cause, Entry, Event, EventKind, Tier};
use jportal_units::{Bci, MethodId, Tsc};
use serde_json::Value;

use super::judge::{JfrAnalysis, JfrOptions};
use super::read::JfrSamples;
use super::report::{JfrReport, JfrVerdict, JfrWhere};
use super::testing::{event, frame, recording};
use super::time::WallClock;
use crate::stacks::compare::{Detail, StackVerdict};
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, methods};

const TID: u32 = 7;
const F: (&str, &str, &str) = ("a/B", "f", "(I)I");
const G: (&str, &str, &str) = ("a/B", "g", "(I)I");
const ABS: (&str, &str, &str) = ("java/lang/Math", "abs", "(I)I");
const HIT: (&str, &str, &str) = ("jportal/oracle/Probe", "hit", "(II)V");

fn time(tsc: u64) -> Event {
    Event::decoded(EventKind::Time(Tsc(tsc)))
}

/// A millisecond is 1000 ticks, and the recording began at TSC 0.
fn judged(samples: &[Value], window_ms: f64, flow: &[Event]) -> JfrReport {
    let samples = JfrSamples::read(recording(samples).as_bytes()).unwrap();
    let clock = WallClock { start_tsc: 0, start_unix_ns: 1_000_000_000, tsc_khz: 1000 };
    let options = JfrOptions { clock, window_ms, findings: 9 };
    let mut analysis = JfrAnalysis::new(methods(), samples, options);
    feed(&mut analysis, TID, flow);
    analysis.finish()
}

/// A sample at a time in milliseconds.
fn sample(ms: u32, frames: &[Value]) -> Value {
    event("jdk.ExecutionSample", &format!("1970-01-01T00:00:01.{ms:03}Z"), TID, false, frames)
}

fn interpreted(method: (&str, &str, &str), bci: u16) -> Value {
    frame(method, bci, "Interpreted")
}

/// `f` calls `g` at bci 2, from 10 ms to 20 ms; `g` executes 0 to 2. Then `f` executes alone, up to
/// 60 ms, and calls `abs` at bci 5 until 80 ms.
fn flow() -> Vec<Event> {
    let run = |method, first, last, len| {
        let (method, first, last) = (MethodId(method), Bci(first), Bci(last));
        Event::decoded(EventKind::Run { method, first, last, len, tier: Tier::Interpreter })
    };
    vec![
        time(5_000),
        enter_as(0, Entry::Upcall),
        bytecode(0, 2),
        time(10_000),
        enter(1),
        run(1, 0, 1, 2),
        time(20_000),
        leave(1),
        bytecode(0, 5),
        time(20_100),
        time(60_000),
        enter(2),
        bytecode(2, 0),
        time(60_100),
        time(80_000),
        leave(2),
        leave(0),
    ]
}

/// The only verdict.
#[track_caller]
fn verdict(report: &JfrReport) -> JfrVerdict {
    let [row] = &report.events[..] else { panic!("{report:?}") };
    let all: Vec<_> = row.verdicts.keys().copied().collect();
    let [one] = all[..] else { panic!("{all:?}") };
    one
}

#[test]
fn branchy_is_what_these_tests_presume() {
    let starts = jportal_bytecode::instructions(BRANCHY).map(|i| i.unwrap().bci.get());
    assert_eq!(starts.collect::<Vec<_>>(), [0, 1, 4, 5, 8, 9]);
}

#[test]
fn a_stack_is_equal_in_its_window_and_at_another_time_outside_of_it() {
    use JfrVerdict::{Equal, Impossible, OtherBytecode, OtherTime, WrongBytecode};
    let (g, f) = (interpreted(G, 1), interpreted(F, 2));
    for (ms, frames, window, expected) in [
        (15, vec![g.clone(), f.clone()], 0.0, Equal),
        (12, vec![interpreted(G, 0), f.clone()], 0.0, Equal),
        (25, vec![g.clone(), f.clone()], 6.0, Equal),
        (25, vec![g.clone(), f.clone()], 2.0, OtherTime),
        (7, vec![g.clone(), f.clone()], 4.0, Equal),
        (7, vec![g.clone(), f.clone()], 2.0, OtherTime),
        (30, vec![interpreted(F, 5)], 0.0, Equal),
        // The caller alone, before it called: only at 5 to 10 ms and after the return.
        (7, vec![f.clone()], 0.0, Equal),
        (70, vec![f.clone()], 9.0, OtherTime),
        (55, vec![f.clone()], 9.0, OtherBytecode),
        (15, vec![interpreted(G, 4), f.clone()], 20.0, WrongBytecode),
        (15, vec![g.clone(), interpreted(F, 5)], 20.0, Impossible),
        (15, vec![interpreted(ABS, 1), f.clone()], 20.0, Impossible),
        (15, vec![interpreted(("x/Y", "z", "()V"), 1), f.clone()], 20.0, Impossible),
        (15, vec![g.clone()], 20.0, Impossible),
        (15, vec![g.clone(), f.clone(), f.clone()], 20.0, Impossible),
    ] {
        let report = judged(&[sample(ms, &frames)], window, &flow());
        assert_eq!(verdict(&report), expected, "{ms} ms, window {window}: {}", report.text());
        assert_eq!(report.is_within(0.0), !expected.is_broken());
        assert_eq!((report.judged, report.findings.len()), (1, usize::from(expected.is_broken())));
    }
}

#[test]
fn findings_show_the_most_similar_stack_of_the_window() {
    let wrong = sample(15, &[interpreted(G, 1), interpreted(F, 5)]);
    let report = judged(&[wrong], 4.0, &flow());
    let [found] = &report.findings[..] else { panic!("{report:?}") };
    assert_eq!((found.compared, found.place), (Some(StackVerdict::WrongLocation), Some(JfrWhere::Caller)));
    assert_eq!((found.at, found.taken_depth, found.true_depth, found.ms), (1, 2, 2, 15.0));
    assert_eq!((found.taken[1].location, found.truth[1].location), (Some(5), Some(2)));
    let text = report.text();
    assert!(
        text.contains("impossible in a caller: sample 0 of jdk.ExecutionSample, thread 7 (main)"),
        "{text}"
    );
    assert!(
        text.contains("=> JFR      1  a.B.f(I)I @5") && text.contains("=> flow     1  a.B.f(I)I @2"),
        "{text}"
    );
    // Two alike and one that is not: one of each group comes first.
    let few = |ms| sample(ms, &[interpreted(G, 1)]);
    let inlined = sample(15, &[frame(ABS, 1, "Inlined"), frame(G, 1, "JIT compiled"), interpreted(F, 2)]);
    let report = judged(&[few(14), few(15), inlined], 4.0, &flow());
    let places: Vec<_> = report.findings.iter().map(|f| (f.place, f.sample)).collect();
    let [first, second] = [Some(JfrWhere::Caller), Some(JfrWhere::Innermost)];
    assert_eq!(places, [(first, 0), (second, 2), (first, 1)]);
    assert_eq!(report.findings[0].detail, Some(Detail::One));
    assert_eq!(report.groups[0].samples, 2);
}

#[test]
fn truncated_stacks_are_compared_in_their_innermost_frames() {
    let cut = |frames: &[Value]| event("jdk.ExecutionSample", "1970-01-01T00:00:01.015Z", TID, true, frames);
    let alone = verdict(&judged(&[cut(&[interpreted(G, 1)])], 1.0, &flow()));
    assert_eq!(alone, JfrVerdict::Equal);
    let whole = verdict(&judged(&[cut(&[interpreted(G, 1), interpreted(F, 2)])], 1.0, &flow()));
    assert_eq!(whole, JfrVerdict::Impossible, "outer frames are missing where there are none");
    let wrong = judged(&[cut(&[interpreted(ABS, 0)])], 1.0, &flow());
    assert_eq!(verdict(&wrong), JfrVerdict::OtherTime);
    let wrong = judged(&[cut(&[interpreted(ABS, 7)])], 1.0, &flow());
    assert_eq!(verdict(&wrong), JfrVerdict::WrongBytecode);
}

#[test]
fn native_frames_have_no_bci() {
    let native = EventKind::Enter { method: MethodId(4), tier: Tier::Native, entry: Entry::Call };
    let flow = [enter_as(3, Entry::Upcall), bytecode(3, 6), Event::decoded(native), time(9_000), leave(4)];
    let of = |top: Value, caller: Value| {
        let event = event("jdk.NativeMethodSample", "1970-01-01T00:00:01.005Z", TID, false, &[top, caller]);
        verdict(&judged(&[event], 1.0, &flow))
    };
    let caller = interpreted(("a/C", "h", "(I)I"), 6);
    assert_eq!(of(frame(HIT, 0, "Native"), caller.clone()), JfrVerdict::Equal);
    assert_eq!(of(frame(HIT, 0, "Interpreted"), caller), JfrVerdict::WrongBytecode);
    let wrong = interpreted(("a/C", "h", "(I)I"), 16);
    assert_eq!(of(frame(HIT, 0, "Native"), wrong), JfrVerdict::Impossible);
}

#[test]
fn a_frame_may_have_begun_no_bytecode() {
    let of = |ms, frames: &[Value]| {
        let mut sample = sample(ms, frames);
        sample["values"]["stackTrace"]["frames"][0]["bytecodeIndex"] = (-1).into();
        verdict(&judged(&[sample], 1.0, &flow()))
    };
    assert_eq!(of(10, &[interpreted(G, 0), interpreted(F, 2)]), JfrVerdict::Equal);
    assert_eq!(of(30, &[interpreted(G, 0), interpreted(F, 2)]), JfrVerdict::OtherTime);
    let reentered = [&flow()[..3], &[time(9_000)]].concat();
    let alone = sample(8, &[interpreted(F, 2)]);
    assert_eq!(verdict(&judged(&[alone], 1.0, &reentered)), JfrVerdict::Equal);
}

#[test]
fn frames_that_are_replaced_do_not_vanish_in_between() {
    use jportal_flow::testing::leave_as;
    let replaced = jportal_flow::Exit::Replaced;
    let flow = [
        vec![enter_as(0, Entry::Upcall), bytecode(0, 2), enter(1), bytecode(1, 1), time(1_000)],
        vec![leave_as(1, replaced), leave_as(0, replaced), enter_as(0, Entry::Deoptimisation)],
        vec![enter_as(1, Entry::Deoptimisation), bytecode(1, 1), time(9_000)],
    ]
    .concat();
    let both = sample(5, &[interpreted(G, 1), interpreted(F, 2)]);
    assert_eq!(verdict(&judged(&[both], 0.0, &flow)), JfrVerdict::Equal);
    let alone = judged(&[sample(5, &[interpreted(F, 2)])], 1.0, &flow);
    assert_eq!(verdict(&alone), JfrVerdict::OtherTime, "before the call");
}

#[test]
fn what_the_flow_does_not_exclude_is_not_judged() {
    let impossible = sample(15, &[interpreted(ABS, 1), interpreted(F, 2)]);
    let why = |samples: &[Value], flow: &[Event]| {
        let report = judged(samples, 1.0, flow);
        assert_eq!(verdict(&report), JfrVerdict::NotJudged, "{}", report.text());
        assert!(report.text().contains(report.not_judged[0].why));
        report.not_judged[0].why
    };
    let lossy = [&flow()[..6], &[gap(false)], &flow()[6..]].concat();
    assert_eq!(why(std::slice::from_ref(&impossible), &lossy), "the thread's flow has a gap");
    let equal = sample(15, &[interpreted(G, 1), interpreted(F, 2)]);
    assert_eq!(verdict(&judged(&[equal], 1.0, &lossy)), JfrVerdict::Equal, "what is there is there");
    let found = [enter_as(0, Entry::Found), bytecode(0, 2)];
    assert_eq!(why(std::slice::from_ref(&impossible), &found), "a frame is older than the trace");
    assert_eq!(why(std::slice::from_ref(&impossible), &[bytecode(0, 2)]), "a frame is older than the trace");
    let unresolved = Event::decoded(EventKind::Unresolved {
        method: MethodId(0),
        from: Some(Bci(2)),
        to: Some(Bci(5)),
        cause: Cause::SharedTarget,
        callers: 0,
    });
    let flow = [&flow()[..9], &[unresolved], &flow()[9..]].concat();
    let inlined = sample(15, &[frame(ABS, 1, "Inlined"), frame(F, 2, "JIT compiled")]);
    let hidden = "compiled code may have had it in bytecodes that are not resolved";
    assert_eq!(why(&[inlined], &flow), hidden);
    assert_eq!(verdict(&judged(std::slice::from_ref(&impossible), 1.0, &flow)), JfrVerdict::Impossible);
    let mut other = impossible;
    other["values"]["sampledThread"]["osThreadId"] = 8.into();
    assert_eq!(why(&[other], &flow), "the capture has no flow of the thread");
}
