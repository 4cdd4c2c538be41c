// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::io::Cursor;

use jportal_flow::run;

use super::log::tests::log_bytes;
use super::*;
use crate::testing::{bytecode, enter, enter_as, feed, feed_as, gap, leave, methods, probe_call, thread};

const FAR: u32 = 0x1_2345;

fn log(tid: u32, tsc: u64, ids: &[u32]) -> ProbeLog {
    ProbeLog::open(Box::new(Cursor::new(log_bytes(tid, tsc, ids)))).unwrap()
}

/// One pass over both probes of method 3.
fn pass() -> Vec<Event> {
    let probes = [6, 16].map(probe_call);
    [
        vec![bytecode(3, 3)],
        probes[0].to_vec(),
        vec![bytecode(3, 9)],
        probes[1].to_vec(),
        vec![bytecode(3, 19)],
    ]
    .concat()
}

#[test]
fn matching_threads_are_complete() {
    let logs = vec![log(7, 5, &[1, FAR]), log(8, 5, &[1, FAR, 1, FAR])];
    let mut v = Verifier::new(methods(), logs, vec![(Tid(7), Tsc(90)), (Tid(8), Tsc(90))]);
    feed(&mut v, 7, &pass());
    feed(&mut v, 8, &[pass(), pass()].concat());
    feed(&mut v, 9, &[bytecode(0, 0)]);
    let r = v.finish();
    assert!(r.complete && r.exact, "{r:?}");
    assert_eq!((r.probes, r.matched, r.threads.len(), r.known_probes), (6, 6, 2, 2));
    assert!(r.text().ends_with("6 of 6 probes matched (100.0%)\n"), "{}", r.text());
    let json = serde_json::to_value(&r).unwrap();
    assert_eq!((&json["probes"], &json["matched"]), (&6.into(), &6.into()));
    assert!(json["first_mismatch"].is_null());
}

#[test]
fn the_first_mismatch_names_both_sides() {
    let logs = vec![log(7, 5, &[1, 1, FAR])];
    let mut v = Verifier::new(methods(), logs, vec![(Tid(7), Tsc(90))]);
    feed(&mut v, 7, &pass());
    let r = v.finish();
    assert!(!r.exact && !r.complete);
    let m = r.first_mismatch.as_ref().unwrap();
    assert_eq!((m.tid, m.log_index, m.event), (7, 1, Some(6)), "where the native method is entered");
    assert_eq!(m.expected.as_ref().unwrap().id, 1);
    assert_eq!(m.found.as_ref().unwrap().method.as_deref(), Some("a.C.h(I)I"));
    assert!(r.text().contains("  ran:  probe 1, a.C.h(I)I @6\n"), "{}", r.text());
}

#[test]
fn threads_without_a_counterpart_are_seen() {
    let mut v = Verifier::new(methods(), vec![log(7, 5, &[1, FAR])], vec![]);
    feed(&mut v, 8, &pass());
    let r = v.finish();
    assert_eq!((r.missing, r.extra, r.mismatches, r.probes), (2, 2, 2, 2));
    assert!(r.text().contains("(not in the flow)"));
}

#[test]
fn a_reused_thread_id_gets_the_log_of_its_life() {
    let info = |started| ThreadInfo { started: Tsc(started), ..thread(7) };
    let logs = vec![log(7, 50, &[1, FAR])];
    let mut v = Verifier::new(methods(), logs, vec![(Tid(7), Tsc(30)), (Tid(7), Tsc(80))]);
    feed_as(&mut v, &info(10), &[]);
    feed_as(&mut v, &info(40), &pass());
    assert!(v.finish().complete);
}

#[test]
fn losses_are_exact_but_not_complete() {
    let logs = vec![log(7, 5, &[1, FAR, 1, FAR, 1, FAR])];
    let mut v = Verifier::new(methods(), logs, vec![(Tid(7), Tsc(90))]);
    feed(&mut v, 7, &[pass(), vec![gap(true)], pass()].concat());
    let r = v.finish();
    assert!(r.exact && !r.complete, "{r:?}");
    assert_eq!((r.lost_in_gaps, r.matched), (2, 4));
}

#[test]
fn nothing_to_compare_is_not_complete() {
    assert!(!Verifier::new(methods(), vec![], vec![]).finish().complete);
}

#[test]
fn threads_that_share_an_os_thread_share_its_log() {
    let info = |started, name: &str| ThreadInfo { started: Tsc(started), name: name.into(), ..thread(7) };
    let logs = vec![log(7, 12, &[1, FAR, 1, FAR])];
    let v = Verifier::new(methods(), logs, vec![(Tid(7), Tsc(30)), (Tid(7), Tsc(80))]);
    let (v, ()) = run(v, |to| {
        let mut main = to.thread(&info(10, "main"));
        main.events(&pass());
        let mut destroy = to.thread(&info(40, "DestroyJavaVM"));
        destroy.events(&pass());
        main.end();
        destroy.end();
    });
    let r = v.finish();
    assert!(r.complete, "{r:?}");
    assert_eq!((r.threads.len(), r.threads[0].name.as_str()), (1, "main"));
}

#[test]
fn frames_that_a_gap_dropped_hide_probes_until_they_are_found_again() {
    let back = || [vec![enter_as(3, Entry::Found)], probe_call(16).to_vec(), vec![bytecode(3, 19)]].concat();
    let run = |flow: &[Event]| {
        let logs = vec![log(7, 5, &[1, 1, FAR])];
        let mut v = Verifier::new(methods(), logs, vec![(Tid(7), Tsc(90))]);
        feed(&mut v, 7, flow);
        v.finish()
    };
    let first = [probe_call(6).to_vec(), vec![bytecode(3, 9)]].concat();
    let r = run(&[first.clone(), vec![gap(true), bytecode(0, 0)], back()].concat());
    assert_eq!((r.exact, r.lost_in_gaps, r.matched), (true, 1, 2), "{r:?}");
    let r = run(&[first, vec![bytecode(0, 0)], back()].concat());
    assert!(!r.exact, "without a gap a frame that is found is no excuse");
}

/// A class loader that resolves the class of the probe passes probes before the hit.
#[test]
fn probes_of_a_class_loader_come_before_the_hit() {
    let loader = [vec![enter_as(3, Entry::Upcall)], pass(), vec![leave(3)]].concat();
    let (call, hit) = (bytecode(3, 6), [enter(4), leave(4)]);
    let flow = [vec![enter_as(3, Entry::Upcall), call], loader, hit.to_vec(), vec![bytecode(3, 9)]].concat();
    let mut v = Verifier::new(methods(), vec![log(7, 5, &[1, FAR, 1])], vec![(Tid(7), Tsc(90))]);
    feed(&mut v, 7, &flow);
    let r = v.finish();
    assert!(r.complete, "{r:?}");
}
