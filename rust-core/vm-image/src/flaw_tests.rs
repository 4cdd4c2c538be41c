// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use jportal_bytecode::Method;
use jportal_capture::schema::{InlineContext, MarkedEdge, MarkedOffset, PathMarker, PcDescriptor, Scope};

const CALLER: u64 = 0x10;
const CALLEE: u64 = 0x20;
const UNKNOWN: u64 = 0x30;
const LEN: u64 = 100;

/// A caller that has an `invokestatic` at bci 1, and a callee that returns.
fn table() -> MethodTable {
    let mut table = MethodTable::default();
    table.push(Method { name: "caller".into(), code: [0, 184, 0, 1, 177].into(), ..Method::default() });
    table.push(Method { name: "callee".into(), code: [0, 177].into(), ..Method::default() });
    table
}

fn resolve(pointer: u64) -> Option<MethodId> {
    match pointer {
        CALLER => Some(MethodId(0)),
        CALLEE => Some(MethodId(1)),
        _ => None,
    }
}

fn of_scopes(scopes: &[(u32, u64, i32)]) -> Option<Flaw> {
    let scopes = scopes.iter().map(|&(parent, method, bci)| Scope { parent, method, bci }).collect();
    let table = table();
    of_debug_info(&NMethodInstalled { scopes, ..Default::default() }, &Methods { table: &table, resolve })
}

fn flaw(change: impl FnOnce(&mut NMethodMarkers)) -> Option<Flaw> {
    let mut r = NMethodMarkers {
        contexts: vec![
            InlineContext { parent: NO_CONTEXT, call_bci: 0, method: CALLER },
            InlineContext { parent: 0, call_bci: 1, method: CALLEE },
        ],
        markers: vec![
            PathMarker { context: 0, bci: 0 },
            PathMarker { context: 1, bci: 0 },
            PathMarker { context: NO_CONTEXT, bci: 1 },
            PathMarker { context: POLL_STATE, bci: 0 },
        ],
        offsets: vec![
            MarkedOffset { offset: 8, first: 0, count: 2 },
            MarkedOffset { offset: 100, first: 2, count: 1 },
        ],
        edges: vec![
            MarkedEdge { from: 8, to: 20, outcome: 0, first: 3, count: 1 },
            MarkedEdge { from: 8, to: 10, outcome: 1, first: 0, count: 0 },
        ],
        ..Default::default()
    };
    change(&mut r);
    let table = table();
    of_markers(&r, LEN, &Methods { table: &table, resolve })
}

#[test]
fn what_the_vm_writes_has_no_flaw() {
    assert_eq!(flaw(|_| {}), None);
    // A child may precede its parent, and a position may precede the first bytecode.
    assert_eq!(of_scopes(&[(1, CALLEE, -1), (NO_SCOPE, CALLER, 1), (1, CALLEE, 1)]), None);
    // Any position is accepted in a method that was never described.
    assert_eq!(of_scopes(&[(NO_SCOPE, UNKNOWN, 7000), (0, CALLEE, 0)]), None);
}

#[test]
fn frames_are_nested_as_deep_as_a_compiler_inlines() {
    let nested = |n: u32| {
        let row = |i: u32| (i.checked_sub(1).unwrap_or(NO_SCOPE), CALLER, 1);
        of_scopes(&(0..n).map(row).collect::<Vec<_>>())
    };
    assert_eq!(nested(MAX_DEPTH), None);
    assert_eq!(nested(MAX_DEPTH + 1), Some(Flaw::TooDeep { list: "scope", row: MAX_DEPTH as usize }));
    // The same chain in the opposite order.
    let n = 20_000;
    let rows: Vec<_> = (1..=n).map(|i| (if i == n { NO_SCOPE } else { i }, CALLER, 1)).collect();
    assert_eq!(of_scopes(&rows), Some(Flaw::TooDeep { list: "scope", row: 0 }));
    let nested = |n: u32| {
        flaw(|r| {
            let context = |i: u32| InlineContext {
                parent: i.checked_sub(1).unwrap_or(NO_CONTEXT),
                call_bci: 1,
                method: CALLER,
            };
            r.contexts = (0..n).map(context).collect();
        })
    };
    assert_eq!(nested(MAX_DEPTH), None);
    assert_eq!(nested(20_000), Some(Flaw::TooDeep { list: "inline context", row: MAX_DEPTH as usize }));
}

#[test]
fn chains_end() {
    assert_eq!(of_scopes(&[(1, CALLER, 1), (0, CALLER, 1)]), Some(Flaw::TooDeep { list: "scope", row: 0 }));
    assert_eq!(of_scopes(&[(0, CALLER, 1)]), Some(Flaw::TooDeep { list: "scope", row: 0 }));
    assert_eq!(of_scopes(&[(9, CALLER, 1)]), Some(Flaw::Dangling { list: "scope", row: 0, to: 9 }));
    let pc_descs = vec![PcDescriptor { pc_offset: 4, scope: 0, flags: 0 }];
    let r = NMethodInstalled { pc_descs, ..Default::default() };
    let table = table();
    let found = of_debug_info(&r, &Methods { table: &table, resolve });
    assert_eq!(found, Some(Flaw::Dangling { list: "PcDesc", row: 0, to: 0 }));
}

#[test]
fn who_is_inlined_was_called() {
    let no_call = |list, row, bci| Some(Flaw::NoCall { list, row, bci, caller: ".caller".into() });
    assert_eq!(of_scopes(&[(NO_SCOPE, CALLER, 0), (0, CALLEE, 0)]), no_call("scope", 1, 0));
    assert_eq!(of_scopes(&[(NO_SCOPE, CALLER, -1), (0, CALLEE, 0)]), no_call("scope", 1, -1));
    assert_eq!(flaw(|r| r.contexts[1].call_bci = 4), no_call("inline context", 1, 4));
    assert_eq!(flaw(|r| r.contexts[1].call_bci = u16::MAX), no_call("inline context", 1, 65_535));
}

#[test]
fn positions_lie_in_their_method() {
    let outside = |list, row, bci, name: &str, len| {
        Some(Flaw::OutsideMethod { list, row, bci, method: name.into(), len })
    };
    assert_eq!(of_scopes(&[(NO_SCOPE, CALLEE, 2)]), outside("scope", 0, 2, ".callee", 2));
    assert_eq!(flaw(|r| r.markers[1].bci = 2), outside("path marker", 1, 2, ".callee", 2));
}

#[test]
fn markers_stand_in_the_code_once_each() {
    let context = Flaw::Repeated { list: "inline context", row: 2 };
    assert_eq!(flaw(|r| r.contexts.push(r.contexts[1].clone())), Some(context));
    assert_eq!(
        flaw(|r| r.markers[0].context = 2),
        Some(Flaw::Dangling { list: "path marker", row: 0, to: 2 })
    );
    let repeated = |list| Some(Flaw::Repeated { list, row: 1 });
    assert_eq!(flaw(|r| r.offsets[1].offset = 8), repeated("marked offset"));
    assert_eq!(flaw(|r| r.edges[1] = r.edges[0].clone()), repeated("marked edge"));
    assert_eq!(flaw(|r| r.offsets.reverse()), None);
    assert_eq!(flaw(|r| r.edges[1].count = 1), Some(Flaw::SharedMarkers { wanted: 5, there: 4 }));
    let outside = |list, row, offset| Some(Flaw::OutsideCode { list, row, offset, len: LEN });
    assert_eq!(flaw(|r| r.offsets[1].offset = 101), outside("marked offset", 1, 101));
    assert_eq!(flaw(|r| r.edges[1].to = u32::MAX), outside("marked edge", 1, u32::MAX));
    let dangling = |list, row, to| Some(Flaw::Dangling { list, row, to });
    assert_eq!(flaw(|r| r.offsets[1].first = 4), dangling("marked offset", 1, 4));
    assert_eq!(flaw(|r| r.edges[0].first = u32::MAX), dangling("marked edge", 0, u32::MAX));
    let many = Flaw::TooManyMarkers { list: "marked offset", row: 0, count: 20_000 };
    assert_eq!(flaw(|r| r.offsets[0].count = 20_000), Some(many));
}
