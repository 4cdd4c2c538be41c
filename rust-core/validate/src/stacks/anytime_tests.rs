// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::io::Cursor;

use jportal_flow::{ThreadInfo, Tier};
use jportal_reconstruct::{
    MachineFrame, Pause, PausedAt, PausedFrame, StackDepths, StateObserver, StateObservers,
};
use jportal_units::{Address, AddressRange, Bci, MethodId, Tid, Tsc};
use jportal_vm_image::{Builder, VmImage};

use super::anytime::AnytimeJudge;
use super::compare::StackVerdict;
use super::judge::{StacksAnalysis, StacksOptions};
use super::log::MAGIC;
use super::log::{LoggedMethods, StackApi, StackLog};
use super::moments::MomentFinder;
use super::report::StacksReport;
use super::stacks_tests::{F, METHODS, TID, header, sample_at};
use crate::testing::methods;

const CACHE: AddressRange = AddressRange { start: Address(0x1000), end: Address(0x9000) };
/// An address in the code cache, and one outside.
const IP: u64 = 0x1234;
const OUT: u64 = 0xf000;

fn info(tid: u32) -> ThreadInfo {
    ThreadInfo { tid: Tid(tid), java_tid: 1, name: "main".to_owned(), started: Tsc(1) }
}

/// An interpreted frame of f, g or h of [`methods`].
fn frame(method: u32, bci: u16) -> PausedFrame {
    let (method, tier) = (MethodId(method), Tier::Interpreter);
    PausedFrame { method, bci: Some(Bci(bci)), tier, inlined: false }
}

/// `f` at 2 has called `h`, which is at `top`; interrupted at [`IP`].
fn pause((since, until): (u64, u64), top: u16) -> Pause {
    Pause {
        since: Tsc(since),
        until: Tsc(until),
        ip: Some(Address(IP)),
        at: PausedAt::Interpreter,
        frames: vec![frame(0, 2), frame(3, top)],
        machine: vec![MachineFrame::CallStub, MachineFrame::Interpreter, MachineFrame::Interpreter],
        returns: false,
        before: None,
        removing: None,
        last: None,
        recent: vec![Bci(0), Bci(3), Bci(top)],
        throwing: false,
        whole: true,
        lost: false,
        event: 7,
    }
}

/// The pause outside of the code cache.
fn outside(times: (u64, u64), top: u16) -> Pause {
    Pause { ip: None, at: PausedAt::Outside, ..pause(times, top) }
}

fn asgct(tsc: u64, pc: u64, frames: &[F]) -> Vec<u8> {
    sample_at(5, 0, frames.len() as i32, frames, (tsc, pc))
}

fn judged(samples: &[Vec<u8>], pauses: Vec<Pause>) -> StacksReport {
    let bytes = [&[header(MAGIC, 1)][..], samples].concat().concat();
    let log = StackLog::open(Box::new(Cursor::new(bytes))).unwrap();
    let finder = MomentFinder::new(vec![log], Vec::new(), CACHE);
    let mut thread: Box<dyn StateObserver> = finder.thread(&info(TID));
    for pause in pauses {
        if thread.wants(pause.since, pause.until, pause.ip) {
            thread.paused(pause);
        }
    }
    thread.end();
    let logged = LoggedMethods::read(METHODS.as_bytes()).unwrap();
    let apis = StackApi::ALL.to_vec();
    let options = StacksOptions { findings: 9, capture: "x.jportal".into(), apis, anytime: true };
    let (table, image): (_, VmImage) = (methods(), Builder::default().finish());
    let counts =
        AnytimeJudge::new(&image, &table, &logged, StackDepths::default(), options.clone()).judge(finder);
    StacksAnalysis::new(methods(), &logged, Vec::new(), Vec::new(), options).finish_with(counts)
}

fn count(report: &StacksReport, verdict: StackVerdict) -> u64 {
    report.apis.iter().filter_map(|a| a.verdicts.get(&verdict)).sum()
}

const H: F = (0x13, 6);
const BOTTOM: F = (0x10, 2);

#[test]
fn a_stack_is_matched_by_address_and_time() {
    let pauses = || vec![outside((100, 200), 9), pause((300, 400), 6), outside((500, 600), 9)];
    let inside = judged(&[asgct(350, IP, &[H, BOTTOM])], pauses());
    assert_eq!(count(&inside, StackVerdict::Equal), 1, "{}", inside.text());
    // Outside of the code cache the time alone decides.
    let slack = judged(&[asgct(450, OUT, &[(0x13, 9), BOTTOM])], pauses());
    assert_eq!(count(&slack, StackVerdict::Equal), 1, "{}", slack.text());
    let first = judged(&[asgct(150, OUT, &[(0x13, 9), BOTTOM])], pauses());
    assert_eq!(count(&first, StackVerdict::Equal), 1, "{}", first.text());
    for (tsc, pc, why) in [
        (350, IP + 1, "no interrupt of the thread fits its address and time"),
        (900_000, OUT, "no stay outside of the code cache fits its time"),
    ] {
        let none = judged(&[asgct(tsc, pc, &[H, BOTTOM])], pauses());
        assert_eq!((none.judged, none.not_judged[0].why), (0, why));
    }
}

#[test]
fn pauses_that_disagree_are_not_chosen_from() {
    let both = vec![outside((100, 200), 9), outside((150, 300), 6)];
    let report = judged(&[asgct(170, OUT, &[(0x13, 9), BOTTOM])], both);
    assert_eq!(report.not_judged[0].why, "several moments fit, and they disagree");
    let alike = vec![outside((100, 200), 9), outside((150, 300), 9)];
    assert_eq!(judged(&[asgct(170, OUT, &[(0x13, 9), BOTTOM])], alike).judged, 1);
    // A neighbour that explains a stack makes it not broken, and not right.
    let near = vec![outside((100, 200), 9), outside((210, 300), 6)];
    let report = judged(&[asgct(250, OUT, &[(0x13, 9), BOTTOM])], near);
    assert_eq!((report.broken, report.judged), (0, 0));
    assert!(report.not_judged[0].why.contains("neighbouring"), "{}", report.text());
    // One that the flow does not know may be the stack's, too.
    let lost = Pause { lost: true, ..outside((210, 300), 9) };
    let report = judged(&[asgct(150, OUT, &[H, BOTTOM])], vec![outside((100, 200), 9), lost]);
    assert_eq!(report.not_judged[0].why, "a gap in the thread's flow is near");
}

#[test]
fn each_planted_fault_is_broken_and_nothing_else() {
    use StackVerdict::{TooFew, WrongLocation, WrongMethod};
    let g: F = (0x11, 2);
    let all: [(&[F], StackVerdict); 4] = [
        (&[H], TooFew),
        (&[H, (0x10, 3)], WrongLocation),
        (&[H, g], WrongMethod),
        (&[BOTTOM, H], WrongMethod),
    ];
    for (frames, verdict) in all {
        let good = [asgct(350, IP, &[H, BOTTOM]), asgct(550, IP, &[H, BOTTOM])];
        let samples = [&good[..], &[asgct(150, IP, frames)]].concat();
        let pauses = [(100, 200), (300, 400), (500, 600)].map(|times| pause(times, 6));
        let report = judged(&samples, pauses.to_vec());
        assert_eq!((report.judged, report.broken), (3, 1), "{}", report.text());
        assert_eq!(count(&report, verdict), 1, "{}", report.text());
        assert!(report.text().contains("jportal dev blocks-around x.jportal 6 --thread 7"));
    }
}

#[test]
fn the_interpreter_s_stale_bci_is_imprecise_and_another_one_broken() {
    let report = |bci| judged(&[asgct(150, IP, &[(0x13, bci), BOTTOM])], vec![pause((100, 200), 6)]);
    let stale = report(3);
    assert_eq!((stale.broken, count(&stale, StackVerdict::Imprecise)), (0, 1), "{}", stale.text());
    assert_eq!(stale.apis[0].details.get("imprecise/stale-bci"), Some(&1));
    assert_eq!(count(&report(9), StackVerdict::WrongLocation), 1);
    // In the VM or in native code the slot is right.
    let in_vm = Pause { recent: Vec::new(), ..outside((100, 200), 6) };
    let report = judged(&[asgct(150, OUT, &[(0x13, 3), BOTTOM])], vec![in_vm]);
    assert_eq!(count(&report, StackVerdict::WrongLocation), 1, "{}", report.text());
}

#[test]
fn what_the_flow_does_not_know_is_not_judged() {
    let one = |pause: Pause| judged(&[asgct(150, IP, &[H, BOTTOM])], vec![pause]);
    let at = (100, 200);
    for (pause, why) in [
        (Pause { lost: true, ..pause(at, 6) }, "a gap in the thread's flow comes before"),
        (Pause { whole: false, ..pause(at, 6) }, "a frame is older than the trace"),
        (
            Pause { at: PausedAt::Moved, ..pause(at, 6) },
            "control continued elsewhere than where it was interrupted",
        ),
    ] {
        assert_eq!(one(pause).not_judged[0].why, why);
    }
    // The log of a thread without a flow; an error code; a thread without Java frames.
    let log = [header(MAGIC, 1), asgct(150, IP, &[H])].concat();
    let log = StackLog::open(Box::new(Cursor::new(log))).unwrap();
    let finder = MomentFinder::new(vec![log], Vec::new(), CACHE);
    finder.thread(&info(TID + 1)).end();
    assert!(!finder.finish()[0].seen);
    let error = judged(&[sample_at(5, 0, -5, &[], (150, IP))], vec![pause(at, 6)]);
    assert_eq!(error.apis[0].errors.get(&-5), Some(&1));
    let none = Pause { frames: Vec::new(), ..pause(at, 6) };
    assert_eq!(count(&judged(&[sample_at(5, 0, -3, &[], (150, IP))], vec![none]), StackVerdict::Equal), 1);
}

#[test]
fn another_thread_s_view_is_taken_at_a_stay_outside() {
    let gst = |from, to, frames: &[F]| sample_at(6, 0, frames.len() as i32, frames, (from, to));
    let pauses = || vec![pause((100, 200), 9), outside((300, 400), 6), outside((500, 600), 9)];
    let report = judged(&[gst(150, 350, &[H, BOTTOM])], pauses());
    assert_eq!(count(&report, StackVerdict::Equal), 1, "{}", report.text());
    let report = judged(&[gst(150, 550, &[H, BOTTOM])], pauses());
    assert_eq!(report.not_judged[0].why, "several moments fit, and they disagree");
}
