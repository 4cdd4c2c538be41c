// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use allocator_api2::alloc::Global;

use super::*;
use crate::schema::{
    BlobDefined, ClassConstants, ClassDefined, ClassUnloaded, CodeFreed, CodePatched, InlineContext,
    MethodDefined, MethodFreed, MethodStub, NMethodMarkers, NMethodStateChanged, Notice, Resolution, Scope,
    ThreadExited, ThreadRenamed, ThreadStarted,
};

const HORIZON: u64 = 100;

/// Passes records, each with its time, and returns the numbers of those that are kept.
fn kept(records: &[(u64, Record)]) -> Vec<usize> {
    let mut trim = Trim::new(Tsc(HORIZON), Global);
    for (tsc, record) in records {
        trim.pass(&Stamped { tsc: *tsc, record: record.clone() }).unwrap();
    }
    let kept = trim.finish().unwrap();
    (0..records.len()).filter(|n| kept.has(*n)).collect()
}

fn class(klass: u64, super_klass: u64) -> Record {
    Record::ClassDefined(ClassDefined { klass, super_klass, ..ClassDefined::default() })
}
fn constants(klass: u64) -> Record {
    Record::ClassConstants(ClassConstants { klass, ..ClassConstants::default() })
}
fn unloaded(klass: u64) -> Record {
    Record::ClassUnloaded(ClassUnloaded { klass })
}
fn method(method: u64, klass: u64) -> Record {
    Record::MethodDefined(MethodDefined { method, klass, ..MethodDefined::default() })
}
fn stub(method: u64) -> Record {
    Record::MethodStub(MethodStub { method, ..MethodStub::default() })
}
fn nmethod(start: u64, method: u64, inlined: u64) -> Record {
    Record::NMethodInstalled(NMethodInstalled {
        start,
        method,
        nmethod: start - 8,
        code: vec![0x90; 16][..].into(),
        scopes: vec![Scope { method: inlined, ..Scope::default() }],
        ..NMethodInstalled::default()
    })
}
fn markers(start: u64, inlined: u64) -> Record {
    let contexts = vec![InlineContext { method: inlined, ..InlineContext::default() }];
    Record::NMethodMarkers(NMethodMarkers { start, contexts, ..NMethodMarkers::default() })
}
fn freed(start: u64, size: u64) -> Record {
    Record::CodeFreed(CodeFreed { start, size })
}
fn patch(address: u64, bytes: &[u8]) -> Record {
    Record::CodePatched(CodePatched { address, code: bytes.into(), ..CodePatched::default() })
}
fn blob(start: u64, bytes: usize) -> Record {
    Record::BlobDefined(BlobDefined { start, code: vec![1; bytes][..].into(), ..BlobDefined::default() })
}

fn started(tid: u32) -> Record {
    Record::ThreadStarted(ThreadStarted { tid, ..ThreadStarted::default() })
}
fn renamed(tid: u32) -> Record {
    Record::ThreadRenamed(ThreadRenamed { tid, ..ThreadRenamed::default() })
}
fn resolution(tid: u32, return_address: u64) -> Record {
    Record::Resolution(Resolution { tid, return_address })
}

#[test]
fn a_class_that_was_unloaded_before_the_horizon_goes_with_its_methods() {
    let records = [
        (1, class(0x10, 0)),
        (2, class(0x20, 0x10)),
        (3, stub(0x21)),
        (4, method(0x21, 0x20)),
        (5, method(0x11, 0x10)),
        (6, unloaded(0x20)),
        // Another class and method at the same places.
        (7, class(0x20, 0x10)),
        (8, stub(0x21)),
        (9, method(0x21, 0x20)),
        (100, unloaded(0x20)),
    ];
    assert_eq!(kept(&records), [0, 4, 6, 7, 8, 9]);
}

#[test]
fn the_constant_pool_goes_with_its_class() {
    let records = [
        (1, class(0x10, 0)),
        (2, constants(0x10)),
        (3, unloaded(0x10)),
        (4, class(0x10, 0)),
        (5, constants(0x10)),
        // The class was redefined.
        (6, constants(0x10)),
    ];
    assert_eq!(kept(&records), [3, 4, 5]);
}

#[test]
fn code_keeps_the_methods_of_its_debug_info_and_markers() {
    let records = [
        (1, class(0x10, 0)),
        (2, class(0x20, 0x10)),
        (3, method(0x21, 0x20)),
        (4, method(0x22, 0x20)),
        (5, method(0x23, 0x20)),
        (6, method(0x24, 0x20)),
        (7, nmethod(0x1000, 0x21, 0x22)),
        (8, markers(0x1000, 0x23)),
        (9, unloaded(0x20)),
        (100, freed(0x1000, 16)),
    ];
    assert_eq!(kept(&records), [0, 1, 2, 3, 4, 6, 7, 8, 9], "all but a method that nothing inlines");
    let mut earlier = records.to_vec();
    earlier[9].0 = 99;
    assert_eq!(kept(&earlier), [0]);
}

#[test]
fn code_goes_with_all_that_happened_to_it() {
    let change = |at: u64| Record::NMethodStateChanged(NMethodStateChanged { nmethod: at - 8, state: 1 });
    let records = [
        (1, nmethod(0x1000, 0, 0)),
        (2, nmethod(0x2000, 0, 0)),
        (3, patch(0x1004, &[1])),
        (4, patch(0x2004, &[1])),
        (5, change(0x1000)),
        (6, change(0x2000)),
        (7, resolution(7, 0x1010)),
        (8, resolution(7, 0x2010)),
        (9, freed(0x1000, 16)),
        (10, patch(0x1004, &[2])),
        // The next code at the same place.
        (11, nmethod(0x1000, 0, 0)),
        (12, resolution(7, 0x1010)),
        // Installed over code that nothing freed.
        (13, blob(0x2008, 8)),
        (14, blob(0x3000, 8)),
        (15, blob(0x3008, 8)),
        (16, freed(0x3000, 0x100)),
        (17, freed(0x5000, 8)),
    ];
    assert_eq!(kept(&records), [9, 10, 11, 12]);
}

#[test]
fn of_patches_of_the_same_bytes_the_last_one_before_the_horizon_is_kept() {
    let records = [
        (1, blob(0x1000, 64)),
        (2, patch(0x1008, &[1, 1])),
        (3, patch(0x1008, &[2])),
        (4, patch(0x1008, &[3, 3])),
        (5, patch(0x9000, &[1])),
        (6, patch(0x9000, &[2])),
        (100, patch(0x1008, &[4, 4])),
        (101, patch(0x1008, &[5, 5])),
    ];
    assert_eq!(kept(&records), [0, 2, 3, 5, 6, 7]);
}

#[test]
fn threads_and_what_nobody_described() {
    let exited = |tid| Record::ThreadExited(ThreadExited { tid, ..ThreadExited::default() });
    let records = [
        (1, started(7)),
        (2, started(8)),
        (3, exited(7)),
        (4, renamed(7)),
        (5, resolution(7, 0x10)),
        (6, started(7)),
        (7, exited(9)),
        (8, unloaded(0x10)),
        (9, Record::MethodFreed(MethodFreed { method: 0x11 })),
        (10, Record::Notice(Notice { text: "hello".into() })),
        (100, exited(8)),
        (101, unloaded(0x10)),
    ];
    assert_eq!(kept(&records), [1, 5, 9, 10, 11]);
}

#[test]
fn of_the_names_of_a_thread_the_last_one_before_the_horizon_is_kept() {
    let records = [
        (1, started(7)),
        (2, started(8)),
        (3, renamed(7)),
        (4, renamed(8)),
        (5, renamed(7)),
        // Nobody described this one.
        (6, renamed(9)),
        (7, renamed(9)),
        (100, renamed(7)),
        (101, renamed(7)),
    ];
    assert_eq!(kept(&records), [0, 1, 3, 4, 6, 7, 8]);
}

/// The visit that is under way at the horizon may be any of a thread's last visits for a call: each
/// may run a class initialiser, in which the thread makes the next one. Earlier ones are over.
#[test]
fn of_the_visits_for_a_call_the_last_one_before_the_horizon_is_kept() {
    let records = [
        (1, blob(0x1000, 64)),
        (2, started(7)),
        (3, started(8)),
        (4, resolution(7, 0x1010)),
        (5, resolution(8, 0x1010)),
        (6, resolution(7, 0x1010)),
        (7, resolution(7, 0x1020)),
        (100, resolution(7, 0x1010)),
        (101, resolution(7, 0x1010)),
    ];
    assert_eq!(kept(&records), [0, 1, 2, 4, 5, 6, 7, 8]);
}

/// A server may name its threads after each request, and execute a call whose callee changes each
/// time.
#[test]
fn what_a_living_thread_does_again_and_again_is_bounded() {
    let first = [(1, blob(0x1000, 64)), (2, started(7))];
    let again = (0..100_000).flat_map(|n| [(3, renamed(7)), (3, resolution(7, 0x1008 + 8 * (n % 5)))]);
    let records: Vec<_> = first.into_iter().chain(again).collect();
    assert_eq!(kept(&records).len(), 2 + 1 + 5);
}

#[test]
fn a_method_that_was_freed_goes_alone() {
    let records = [
        (1, class(0x10, 0)),
        (2, method(0x11, 0x10)),
        (3, method(0x12, 0x10)),
        (4, Record::MethodFreed(MethodFreed { method: 0x11 })),
        // The next one at its place is of another class.
        (5, class(0x20, 0)),
        (6, method(0x11, 0x20)),
        (7, unloaded(0x20)),
    ];
    assert_eq!(kept(&records), [0, 2]);
}
