// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Comparisons of lists, made from flows by hand and read from documents.

use std::sync::Arc;

use jportal_bytecode::MethodTable;
use jportal_flow::{Cause, Entry, Event, EventKind};
use jportal_units::{Bci, MethodId};
use serde::Serialize;
use serde_json::Value;

use super::*;
use crate::calls::{Calls, CallsAnalysis};
use crate::coverage::{Coverage, CoverageAnalysis};
use crate::hot::{HotAnalysis, HotMethods};
use crate::testing::{BRANCHY, bytecode, enter, enter_as, feed, gap, leave, method, methods};

/// `f` calls `g`, `rounds` times; `g` takes the given way.
fn events(rounds: usize, way: &[u16]) -> Vec<Event> {
    let mut all = vec![enter_as(0, Entry::Upcall), bytecode(0, 0), bytecode(0, 1)];
    for _ in 0..rounds {
        all.extend([bytecode(0, 4), enter(1)]);
        all.extend(way.iter().map(|bci| bytecode(1, *bci)));
        all.push(leave(1));
    }
    all.extend([bytecode(0, 9), leave(0)]);
    all
}
fn hot_of(table: Arc<MethodTable>, events: &[Event]) -> HotMethods {
    let mut a = HotAnalysis::new(table, Arc::default());
    feed(&mut a, 1, events);
    a.report(usize::MAX, |_| true)
}
fn hot(events: &[Event]) -> HotMethods {
    hot_of(methods(), events)
}
fn calls(events: &[Event]) -> Calls {
    let mut a = CallsAnalysis::new(methods(), Arc::default());
    feed(&mut a, 1, events);
    a.report(usize::MAX, |_| true)
}
fn coverage(events: &[Event]) -> Coverage {
    let mut a = CoverageAnalysis::new(methods(), Arc::default());
    feed(&mut a, 1, events);
    a.report(|_| true)
}
fn diff(a: impl Into<Document>, b: impl Into<Document>, options: &DiffOptions) -> Result<Diff, DiffError> {
    Diff::new(&a.into(), &b.into(), options)
}
fn plain(a: impl Into<Document>, b: impl Into<Document>) -> Diff {
    diff(a, b, &DiffOptions::default()).unwrap()
}
fn only(class: &str) -> DiffOptions {
    DiffOptions { classes: vec![class.parse().unwrap()], ..DiffOptions::default() }
}
/// As the command writes it.
fn document(kind: &str, result: &impl Serialize) -> Vec<u8> {
    let mut value = serde_json::to_value(result).unwrap();
    value["schema"] = format!("jportal/{kind}/1").into();
    value["execution"] = serde_json::json!({"total": 1});
    serde_json::to_vec_pretty(&value).unwrap()
}
/// Path, figure, before and after of each change.
fn changes(d: &Diff) -> Vec<(String, &'static str, u64, u64)> {
    let of = |d: &Difference| {
        let path = d.path.join(" > ");
        d.changes.iter().map(move |c| (path.clone(), c.figure, c.before, c.after)).collect::<Vec<_>>()
    };
    d.differences.iter().flat_map(of).collect()
}

/// What a document says.
fn fields(d: &Document) -> Value {
    let value = match d {
        Document::CallTree(r) => serde_json::to_value(r),
        Document::HotMethods(r) => serde_json::to_value(r),
        Document::Calls(r) => serde_json::to_value(r),
        Document::Coverage(r) => serde_json::to_value(r),
    };
    value.unwrap()
}

const THEN: &[u16] = &[0, 1, 4, 5, 9];
const ELSE: &[u16] = &[0, 1, 8, 9];

#[test]
fn results_are_read_back_as_they_were_and_equal_themselves() {
    let cause = Cause::ConditionalMove;
    let (from, to) = (Some(Bci(1)), Some(Bci(9)));
    let lost = Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 });
    let unresolved = [enter(0), bytecode(0, 0), bytecode(0, 1), lost, bytecode(0, 9), leave(0), gap(true)];
    let allowed = DiffOptions { allow_inexact: true, ..DiffOptions::default() };
    for events in [&events(2, THEN)[..], &unresolved, &[]] {
        let originals: [(&str, Vec<u8>, Document); 3] = [
            ("report-hot-methods", document("report-hot-methods", &hot(events)), hot(events).into()),
            ("report-calls", document("report-calls", &calls(events)), calls(events).into()),
            ("report-coverage", document("report-coverage", &coverage(events)), coverage(events).into()),
        ];
        for (schema, json, original) in originals {
            let read = Document::parse(&json).unwrap();
            assert_eq!((read.kind(), read.kind().schema()), (original.kind(), schema));
            assert_eq!(fields(&read), fields(&original));
            let d = Diff::new(&read, &original, &allowed).unwrap();
            assert!(d.equal && d.numbers.differences() == 0, "{d:?}");
            assert_eq!(d.exact, events.len() != unresolved.len());
        }
    }
}

#[test]
fn counts_of_methods() {
    let d = plain(hot(&events(2, THEN)), hot(&events(3, THEN)));
    let expected = [
        ("a.B.f(I)I".to_owned(), "bytecodes", 5, 6),
        ("a.B.g(I)I".to_owned(), "bytecodes", 10, 15),
        ("a.B.g(I)I".to_owned(), "calls", 2, 3),
    ];
    assert_eq!(changes(&d), expected);
    assert_eq!((d.numbers.changed, d.differences[0].loader.as_str()), (2, "app"));
    let text = d.text();
    let first: Vec<&str> = text.lines().nth(1).unwrap().split("  ").filter(|c| !c.is_empty()).collect();
    assert_eq!(first.iter().map(|c| c.trim()).collect::<Vec<_>>(), ["~", "+1 (5 → 6)", "a.B.f(I)I"]);
    assert!(text.contains("~  +5 (10 → 15)  +1 (2 → 3)  a.B.g(I)I\n"), "{text}");
    assert!(text.contains("15 → 21 bytecodes, 3 → 4 calls\n2 differences: 2 changed"), "{text}");
    let d = plain(hot(&events(0, THEN)), hot(&events(1, THEN)));
    assert_eq!(
        d.differences.iter().map(|d| d.presence).collect::<Vec<_>>(),
        [Presence::Both, Presence::After]
    );
    assert!(d.text().contains("\n+          +5     +1  a.B.g(I)I\n"), "{}", d.text());
    let tolerant = DiffOptions { tolerance: 1, ..DiffOptions::default() };
    let d = diff(hot(&events(2, THEN)), hot(&events(3, THEN)), &tolerant).unwrap();
    assert_eq!(changes(&d), [("a.B.g(I)I".to_owned(), "bytecodes", 10, 15)]);
    assert_eq!(d.numbers.within_tolerance, 1);
    let d = diff(hot(&events(2, THEN)), hot(&events(3, THEN)), &only("a.B#f")).unwrap();
    assert_eq!((d.numbers.compared, changes(&d).len()), (1, 1));
}

#[test]
fn methods_of_equal_stable_names_are_added_up() {
    let table = |classes: [&str; 2]| {
        let mut t = MethodTable::default();
        for class in classes {
            t.push(method(class, "run", BRANCHY));
        }
        Arc::new(t)
    };
    let one = |m| [enter_as(m, Entry::Upcall), bytecode(m, 0), leave(m)];
    let a = hot_of(
        table(["M$$Lambda$14+0x0000000800c01208", "M$$Lambda$15+0x0000000800c01400"]),
        &[one(0), one(1)].concat(),
    );
    let b = hot_of(
        table(["M$$Lambda$2+0x0000000801000000", "M$$Lambda$3+0x0000000801000400"]),
        &[one(1), one(1)].concat(),
    );
    assert_eq!((a.methods.len(), b.methods.len()), (2, 1));
    let d = plain(a.clone(), b);
    assert_eq!((d.equal, d.numbers.compared), (true, 1));
    let c = hot_of(table(["M$$Lambda$2+0x0000000801000000", "x"]), &one(0));
    assert_eq!(changes(&plain(a, c))[0], ("M$$Lambda.run(I)I".to_owned(), "bytecodes", 2, 1));
}

#[test]
fn counts_of_calls() {
    let d = plain(calls(&events(2, THEN)), calls(&events(5, THEN)));
    assert_eq!(changes(&d), [("a.B.f(I)I @4 > a.B.g(I)I".to_owned(), "calls", 2, 5)]);
    let mut moved = calls(&events(2, THEN));
    moved.calls.iter_mut().filter(|c| c.bci.is_some()).for_each(|c| c.bci = Some(5));
    let d = plain(calls(&events(2, THEN)), moved);
    assert_eq!((d.numbers.only_before, d.numbers.only_after), (1, 1));
    let d = diff(calls(&events(2, THEN)), calls(&events(5, THEN)), &only("a.B#f")).unwrap();
    assert_eq!((d.equal, d.numbers.compared), (true, 1), "only the call of f by the VM");
}

#[test]
fn coverage_by_number_and_by_line() {
    let d = plain(coverage(&events(1, THEN)), coverage(&events(7, THEN)));
    assert!(d.equal && d.numbers.compared > 1);
    let d = plain(coverage(&events(1, THEN)), coverage(&events(1, ELSE)));
    let [g] = &d.differences[..] else { panic!("{d:?}") };
    assert_eq!((&g.path[..], &g.newly_missed[..]), (&["a.B".to_owned(), "g(I)I".to_owned()][..], &[11][..]));
    assert_eq!(
        changes(&d).iter().map(|c| (c.1, c.2, c.3)).collect::<Vec<_>>(),
        [("bytecodes", 5, 4), ("lines", 3, 2)]
    );
    assert!(d.text().contains("a.B > g(I)I; newly missed lines: 11\n"), "{}", d.text());
    // Other lines, in the same number.
    let mut other = coverage(&events(1, ELSE));
    other.classes[0].methods[1].missed_lines = vec![10];
    let d = plain(coverage(&events(1, ELSE)), other.clone());
    assert_eq!((d.equal, &d.differences[0].changes[..]), (false, &[][..]));
    assert_eq!(
        (&d.differences[0].newly_missed[..], &d.differences[0].no_longer_missed[..]),
        (&[10][..], &[11][..])
    );
    let tolerant = DiffOptions { tolerance: 2, ..DiffOptions::default() };
    let d = diff(coverage(&events(1, ELSE)), other, &tolerant).unwrap();
    assert_eq!((d.equal, d.numbers.within_tolerance), (true, 1));
    assert!(diff(coverage(&events(1, THEN)), coverage(&events(1, ELSE)), &only("a.B#f")).unwrap().equal);
}

#[test]
fn each_planted_change_of_coverage_is_found() {
    for (figure, name) in ["bytecodes", "lines", "branches"].into_iter().zip([0, 3, 6]) {
        for (field, at) in [("present", 1), ("unknown", 2), ("executed", 0)] {
            let mut value = serde_json::to_value(coverage(&events(1, THEN))).unwrap();
            let ratio = &mut value["classes"][0]["methods"][0][figure];
            let count =
                if field == "executed" { &mut ratio["executed"]["decoded"] } else { &mut ratio[field] };
            *count = Value::from(count.as_u64().unwrap() + 1);
            let changed: Coverage = serde_json::from_value(value).unwrap();
            let allowed = DiffOptions { allow_inexact: true, ..DiffOptions::default() };
            let d = diff(coverage(&events(1, THEN)), changed, &allowed).unwrap();
            assert_eq!(d.differences[0].changes[0].figure, d.totals[name + at].figure);
            assert_eq!((d.totals[name + at].delta, d.differences.len()), (1, 1));
        }
    }
}

#[test]
fn inexact_and_shortened_results_are_refused() {
    let (exact, lossy) = (events(1, THEN), [events(1, THEN), vec![gap(true)]].concat());
    for (a, b) in [
        (Document::from(hot(&exact)), Document::from(hot(&lossy))),
        (calls(&exact).into(), calls(&lossy).into()),
        (coverage(&exact).into(), coverage(&lossy).into()),
    ] {
        for options in [DiffOptions::default(), only("a.B")] {
            let error = Diff::new(&a, &b, &options).unwrap_err();
            assert_eq!(error, DiffError::Inexact { side: Side::After, why: "1 gap".to_owned() });
            assert!(Diff::new(&b, &a, &options).is_err());
            let allowed = DiffOptions { allow_inexact: true, ..options };
            assert!(!Diff::new(&a, &b, &allowed).unwrap().exact);
        }
    }
    let mut first = hot(&exact);
    first.methods.truncate(1);
    let error = diff(hot(&exact), first, &DiffOptions::default()).unwrap_err();
    assert_eq!(error, DiffError::Shortened { side: Side::After, shown: 1, all: 2 });
    let mut first = calls(&exact);
    first.calls.truncate(1);
    assert!(matches!(diff(first.clone(), first, &DiffOptions::default()), Err(DiffError::Shortened { .. })));
    let error = diff(hot(&exact), calls(&exact), &DiffOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the first result is a list of hot methods, the second is a list of calls; \
         compare two of the same kind"
    );
}

#[test]
fn selected_methods_may_be_exact_where_others_are_not() {
    let cause = Cause::ConditionalMove;
    let (from, to) = (Some(Bci(1)), Some(Bci(9)));
    let lost = Event::decoded(EventKind::Unresolved { method: MethodId(2), from, to, cause, callers: 0 });
    let inside = [enter_as(2, Entry::Upcall), bytecode(2, 0), bytecode(2, 1), lost, bytecode(2, 9), leave(2)];
    let events = [events(1, THEN), inside.to_vec()].concat();
    for document in [Document::from(hot(&events)), coverage(&events).into()] {
        assert!(Diff::new(&document, &document, &DiffOptions::default()).is_err());
        assert!(Diff::new(&document, &document, &only("java.lang")).is_err());
        assert!(Diff::new(&document, &document, &only("a.B")).unwrap().exact);
    }
}

#[test]
fn other_documents_are_refused() {
    let refused = |json: &[u8]| Document::parse(json).unwrap_err().to_string();
    assert!(refused(b"PK\x03\x04").starts_with("this is no JSON document (expected value at line 1"));
    assert!(refused(b"{\"exact\": true}").contains("no field `schema`"));
    assert!(refused(b"{\"schema\": \"jportal/info/1\"}").contains("\"jportal/info/1\" cannot be compared"));
    assert!(refused(b"{\"schema\": \"jportal/report-callsx/1\"}").contains("cannot be compared"));
    let newer = refused(b"{\"schema\": \"jportal/report-calls/2\"}");
    assert!(newer.contains("this version reads \"jportal/report-calls/1\""), "{newer}");
    let cut = refused(b"{\"schema\": \"jportal/report-calls/1\", \"exact\": true}");
    assert!(cut.contains("does not have the form of its schema") && cut.contains("missing field"), "{cut}");
}

#[test]
fn causes_of_newer_versions_are_kept() {
    let mut value = serde_json::to_value(hot(&events(1, THEN))).unwrap();
    value["inexact"]["unresolved"] = serde_json::json!({"empty-loop": 2, "new-cause": 3});
    let read: HotMethods = serde_json::from_value(value).unwrap();
    assert_eq!(read.inexact.stretches(), 5);
    assert_eq!(read.inexact.unresolved.into_iter().collect::<Vec<_>>(), [("(other)", 3), ("empty-loop", 2)]);
}
