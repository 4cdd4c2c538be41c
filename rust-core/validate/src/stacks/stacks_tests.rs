// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::io::Cursor;
use std::sync::Arc;

use jportal_bytecode::{Class, Method, MethodTable};
use jportal_flow::{CodeStep, Entry, Event, EventKind, Exit, Tier};
use jportal_units::{CodeId, MethodId, Tid, Tsc};

use super::compare::{Detail, StackVerdict};
use super::judge::{StacksAnalysis, StacksOptions};
use super::log::{LoggedMethods, MAGIC, StackApi, StackLog, StackLogError};
use super::report::{StacksReport, wilson};
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, methods, probe_call};

/// f, g, h and `Probe.hit` of [`methods`].
pub(super) const METHODS: &str = "id\tclass\tloader\tmethod\tdescriptor\n\
    10\ta/B\t1\tf\t(I)I\n11\ta/B\t1\tg\t(I)I\n13\ta/C\t1\th\t(I)I\n14\tjportal/oracle/Probe\t0\thit\t(II)V\n";
pub(super) const TID: u32 = 7;

/// A frame of the log: method, location.
pub(super) type F = (u64, i32);

pub(super) fn header(magic: [u8; 8], version: u32) -> Vec<u8> {
    let mut b = magic.to_vec();
    b.extend(version.to_le_bytes());
    b.extend(TID.to_le_bytes());
    b.extend([0; 8]);
    b.extend(100u64.to_le_bytes());
    b
}

/// A sample of an interface, 1 or 2, at a call of `Probe.hit`.
fn sample(api: u8, truncated: bool, hit: u64, result: i32, frames: &[F]) -> Vec<u8> {
    let mut b = sample_at(api, hit, result, frames, (0, 0));
    b[5] = truncated.into();
    b
}

/// A sample of any interface, with its time and the address or second time.
pub(super) fn sample_at(api: u8, hit: u64, result: i32, frames: &[F], (tsc, pc): (u64, u64)) -> Vec<u8> {
    let mut b = (40 + 16 * frames.len() as u32).to_le_bytes().to_vec();
    b.extend([api, 0, 0, 0]);
    b.extend(hit.to_le_bytes());
    b.extend(tsc.to_le_bytes());
    b.extend(pc.to_le_bytes());
    b.extend(result.to_le_bytes());
    b.extend([0; 4]);
    for (method, location) in frames {
        b.extend(method.to_le_bytes());
        b.extend(location.to_le_bytes());
        b.extend([0; 4]);
    }
    b
}

fn gst(hit: u64, frames: &[F]) -> Vec<u8> {
    sample(1, false, hit, frames.len() as i32, frames)
}

fn open(bytes: Vec<u8>) -> Result<StackLog, StackLogError> {
    StackLog::open(Box::new(Cursor::new(bytes)))
}

fn report(samples: &[Vec<u8>], flow: &[Event]) -> StacksReport {
    report_of(methods(), METHODS, [&[header(MAGIC, 1)][..], samples].concat().concat(), flow)
}

fn report_of(methods: Arc<MethodTable>, names: &str, bytes: Vec<u8>, flow: &[Event]) -> StacksReport {
    let logged = LoggedMethods::read(names.as_bytes()).unwrap();
    let options = StacksOptions {
        findings: 10,
        capture: "x.jportal".into(),
        apis: StackApi::ALL.to_vec(),
        anytime: false,
    };
    let exits = vec![(Tid(TID), Tsc(1000))];
    let mut analysis = StacksAnalysis::new(methods, &logged, vec![open(bytes).unwrap()], exits, options);
    feed(&mut analysis, TID, flow);
    analysis.finish()
}

/// `f` at bci 2 calls `h`, which calls `Probe.hit` at bci 6.
fn flow() -> Vec<Event> {
    let before = [enter_as(0, Entry::Upcall), bytecode(0, 2), enter(3)];
    [&before[..], &probe_call(6), &[bytecode(3, 9), leave(3), bytecode(0, 5), leave(0)]].concat()
}

/// The only verdict.
#[track_caller]
fn verdict(report: &StacksReport) -> (StackVerdict, String) {
    let [row] = &report.apis[..] else { panic!("{report:?}") };
    let all: Vec<StackVerdict> = row.verdicts.keys().copied().collect();
    let [one] = all[..] else { panic!("{all:?}") };
    let detail = row.details.keys().next().cloned().unwrap_or_default();
    (one, detail.split('/').nth(1).unwrap_or_default().to_owned())
}

const HIT: F = (0x14, -1);
const H: F = (0x13, 6);
const BOTTOM: F = (0x10, 2);

#[test]
fn the_same_stack_is_equal() {
    let both =
        report(&[gst(0, &[HIT, H, BOTTOM]), sample(2, false, 0, 3, &[(0x14, -3), H, BOTTOM])], &flow());
    assert_eq!((both.samples, both.judged, both.broken), (2, 2, 0), "{}", both.text());
    assert!(both.is_within(0.0) && both.findings.is_empty());
    let cut = report(&[sample(1, true, 0, 2, &[HIT, H])], &flow());
    assert_eq!(verdict(&cut).0, StackVerdict::Equal, "{}", cut.text());
}

#[test]
fn each_way_to_be_wrong_has_its_verdict() {
    use StackVerdict::{TooFew, TooMany, WrongLocation, WrongMethod, WrongNativeness};
    let g: F = (0x11, 2);
    let all: [(&[F], StackVerdict, Detail); 11] = [
        (&[HIT, BOTTOM], TooFew, Detail::None),
        (&[HIT], TooFew, Detail::One),
        (&[HIT, H], TooFew, Detail::BottomMissing),
        (&[H, BOTTOM], TooFew, Detail::TopMissing),
        (&[HIT, H, H, BOTTOM], TooMany, Detail::None),
        (&[HIT, BOTTOM, H], WrongMethod, Detail::None),
        (&[g, H, BOTTOM], WrongMethod, Detail::Top),
        (&[HIT, (0, 6), BOTTOM], WrongMethod, Detail::NoMethod),
        (&[HIT, (0x13, -1), BOTTOM], WrongNativeness, Detail::None),
        (&[HIT, (0x13, 7), BOTTOM], WrongLocation, Detail::None),
        (&[(0x14, -3), H, BOTTOM], WrongLocation, Detail::Top),
    ];
    for (frames, expected, detail) in all {
        let report = report(&[gst(0, frames)], &flow());
        assert_eq!(verdict(&report), (expected, detail.name().to_owned()), "{frames:?}");
        assert!(report.broken == 1 && !report.is_within(0.5) && report.is_within(1.0));
        let text = report.text();
        assert!(text.contains("jportal dev blocks-around x.jportal 4 --thread 7"), "{text}");
        assert!(text.contains(expected.name()) && text.contains("given"), "{text}");
    }
}

#[test]
fn missing_inlined_frames_are_named() {
    let call = |m, entry| EventKind::Enter { method: MethodId(m), tier: Tier::C2, entry };
    let run = |m, bci| EventKind::Bytecode { method: MethodId(m), bci, tier: Tier::C2 };
    let code = EventKind::Code(CodeStep::Entered(CodeId(1)));
    let bci = jportal_units::Bci;
    let compiled = [
        call(0, Entry::Upcall),
        code,
        run(0, bci(2)),
        call(1, Entry::Call),
        run(1, bci(4)),
        call(3, Entry::Call),
        run(3, bci(6)),
    ];
    let flow = [&compiled.map(Event::decoded)[..], &probe_call(6)[1..]].concat();
    let g: F = (0x11, 4);
    let whole = report(&[gst(0, &[HIT, H, g, BOTTOM])], &flow);
    assert_eq!(verdict(&whole).0, StackVerdict::Equal, "{}", whole.text());
    let inlined = whole.frames.iter().find(|r| r.inlined).unwrap();
    assert_eq!((inlined.tier, inlined.frames), ("C2", 2));
    assert_eq!((whole.tiers[0].tier, whole.tiers[0].inlined, whole.tiers[0].judged), ("C2", true, 1));
    for frames in [&[HIT, H, BOTTOM][..], &[HIT, BOTTOM]] {
        let report = report(&[gst(0, frames)], &flow);
        assert_eq!(verdict(&report).0, StackVerdict::InlineFramesMissing, "{frames:?}");
    }
    let outer = report(&[gst(0, &[HIT, H, g])], &flow);
    assert_eq!(verdict(&outer), (StackVerdict::TooFew, "bottom-missing".to_owned()));
}

#[test]
fn calls_are_counted() {
    let before = [enter_as(0, Entry::Upcall), bytecode(0, 2), enter(3)];
    let refused = [bytecode(3, 6), probe_call(6)[1].clone(), leave_as(4, Exit::Unwind)];
    let flow = [&before[..], &probe_call(6), &refused, &probe_call(16)].concat();
    let second = report(&[gst(1, &[HIT, (0x13, 16), BOTTOM])], &flow);
    assert_eq!(verdict(&second).0, StackVerdict::Equal, "the call that did not get in counts for nothing");
    let first = report(&[gst(0, &[HIT, (0x13, 16), BOTTOM])], &flow);
    assert_eq!(verdict(&first).0, StackVerdict::WrongLocation);
}

#[test]
fn the_versions_of_a_redefined_class_are_one_class() {
    let mut table = MethodTable::default();
    for m in methods().iter() {
        table.push(m.clone());
    }
    let new = Method { class: 9, ..table.get(MethodId(0)).unwrap().clone() };
    let new = table.push(new).0;
    let call = |f| {
        let before = [enter_as(f, Entry::Upcall), bytecode(f, 2), enter(3)];
        [&before[..], &probe_call(6), &[bytecode(3, 9), leave(3), bytecode(f, 5), leave(f)]].concat()
    };
    let flow = [call(0), call(new)].concat();
    let samples = [header(MAGIC, 1), gst(0, &[HIT, H, BOTTOM]), gst(1, &[HIT, H, BOTTOM])].concat();
    let other = report_of(Arc::new(table.clone()), METHODS, samples.clone(), &flow);
    assert_eq!((other.judged, other.broken), (2, 1), "a class of another loader: {}", other.text());
    table.join_versions(9, 0);
    let version = report_of(Arc::new(table), METHODS, samples, &flow);
    assert_eq!((version.judged, version.broken), (2, 0), "{}", version.text());
}

#[test]
fn a_throwable_has_no_hidden_frames_and_no_descriptors() {
    let mut table = MethodTable::default();
    for m in methods().iter() {
        table.push(m.clone());
    }
    let handle = Method {
        class_name: "java/lang/invoke/LambdaForm$MH".into(),
        ..table.get(MethodId(0)).unwrap().clone()
    };
    let hidden = Method { class_name: "a/B$$Lambda+0x1".into(), class: 9, ..handle.clone() };
    let privileged = Method {
        class_name: "java/security/AccessController".into(),
        name: "executePrivileged".into(),
        ..handle.clone()
    };
    let (handle, hidden, privileged) = (table.push(handle), table.push(hidden), table.push(privileged));
    let class = Class { number: 9, name: "a/B$$Lambda+0x1".into(), hidden: true, ..Class::default() };
    table.set_classes([class].into_iter().collect());
    let between = [hidden, handle, privileged].map(|m| [enter(m.0), bytecode(m.0, 2)]).concat();
    let flow = [&flow()[..2], &between, &flow()[2..]].concat();
    let given = [HIT, (0x53, 6), (0x50, 2)];
    let named = format!("{METHODS}53\ta/C\t0\th\t\n50\ta/B\t0\tf\t\n");
    for (api, samples) in [(4, StackVerdict::Equal), (3, StackVerdict::TooFew)] {
        let bytes = [header(MAGIC, 1), sample(api, false, 0, 3, &given)].concat();
        let report = report_of(Arc::new(table.clone()), &named, bytes, &flow);
        assert_eq!(verdict(&report).0, samples, "{}", report.text());
    }
}

#[test]
fn an_error_is_no_broken_stack() {
    let report = report(&[sample(2, false, 0, -5, &[])], &flow());
    assert_eq!(verdict(&report).0, StackVerdict::Error);
    assert_eq!((report.judged, report.apis[0].errors.get(&-5)), (0, Some(&1)));
}

#[test]
fn what_the_flow_does_not_know_is_not_judged() {
    let right = gst(0, &[HIT, H, BOTTOM]);
    let lost = [&flow()[..2], &[gap(false)], &flow()[2..]].concat();
    let older = [&[enter_as(0, Entry::Found)], &flow()[1..]].concat();
    for (flow, why) in [
        (&lost[..], "a gap in the thread's flow comes before"),
        (&older, "the thread began before the recording"),
        (&flow()[..4], "the flow ends before the call"),
    ] {
        let report = report(std::slice::from_ref(&right), flow);
        assert_eq!(verdict(&report).0, StackVerdict::NotJudged);
        assert_eq!((report.not_judged[0].why, report.not_judged[0].samples), (why, 1));
    }
    let logged = LoggedMethods::read(METHODS.as_bytes()).unwrap();
    let options =
        StacksOptions { findings: 1, capture: String::new(), apis: StackApi::ALL.to_vec(), anytime: false };
    let log = open([header(MAGIC, 1), right].concat()).unwrap();
    let report = StacksAnalysis::new(methods(), &logged, vec![log], Vec::new(), options).finish();
    assert_eq!(report.not_judged[0].why, "the capture has no flow of the thread");
}

#[test]
fn a_malformed_log_is_refused() {
    let error = |bytes| open(bytes).map(|_| ()).unwrap_err().to_string();
    assert!(error(header(*b"JPPROBE\0", 1)).contains("not a log of stacks"));
    assert!(error(header(MAGIC, 2)).contains("version 2, not 1"));
    assert!(error(vec![1]).contains("cannot read"));
    for (wrong, words) in [
        (gst(0, &[HIT])[..30].to_vec(), "30 bytes are left"),
        (gst(0, &[HIT])[..50].to_vec(), "cut off"),
        (sample(9, false, 0, 1, &[HIT]), "no interface 9"),
        (sample(1, false, 0, 5, &[HIT]), "56 bytes and 5 frames"),
    ] {
        let report = report(&[gst(0, &[HIT, H, BOTTOM]), wrong], &flow());
        assert_eq!(report.judged, 1);
        assert!(report.log_errors[0].contains(words), "{:?}", report.log_errors);
    }
    let line = LoggedMethods::read(&b"id\nx\ta\tb\tc\td\n"[..]).unwrap_err().to_string();
    assert!(line.contains("line 2"), "{line}");
}

#[test]
fn wilson_s_interval() {
    let near = |a: [f64; 2], b: [f64; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    // Wilson 1927; the values are those of R's binom.confint(method = "wilson").
    assert!(near(wilson(0, 10), [0.0, 0.2775]), "{:?}", wilson(0, 10));
    assert!(near(wilson(5, 10), [0.2366, 0.7634]), "{:?}", wilson(5, 10));
    assert!(near(wilson(10, 10), [0.7225, 1.0]), "{:?}", wilson(10, 10));
    assert_eq!(wilson(0, 0), [0.0, 1.0]);
}
