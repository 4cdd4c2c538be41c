// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Writes block traces and reads them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use jportal_analyses::Inlined;
use jportal_analyses::select::is_application;
use jportal_bytecode::{Class, ClassLoad, Method, MethodTable, testing::method};
use jportal_flow::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, projected, recovered};
use jportal_flow::{
    Cause, CoreSwitch, Departure, Entry, Event, EventKind, Exclude, Exit, Orphan, SwitchSide, Switches,
    ThreadInfo, Tier,
};
use jportal_units::{Bci, Core, MethodId, Tid, Tsc};

use super::example::{F, Files, G, H, INIT, MAIN, flow, methods};
use super::*;

fn block(method: u32, block: u32) -> BlockTraceRecord {
    BlockTraceRecord::Block { method, block }
}
fn end(method: u32) -> BlockTraceRecord {
    BlockTraceRecord::End { method }
}
fn start(method: u32) -> BlockTraceRecord {
    BlockTraceRecord::Start { method, receiver: None }
}
fn start_of(method: u32, class: u32) -> BlockTraceRecord {
    BlockTraceRecord::Start { method, receiver: Some(Receiver::Declared(class)) }
}

/// The file of thread 1, and the report.
pub(super) fn written(
    methods: Arc<MethodTable>,
    options: BlockTraceOptions,
    scope: impl Fn(&Method) -> bool,
    events: &[Event],
) -> (Vec<u8>, BlockTrace) {
    let files = Files::default();
    let to = files.clone();
    let open = move |info: &ThreadInfo| Ok(to.create(&info.tid.get().to_string()));
    let mut trace =
        BlockTraceAnalysis::new(methods, Arc::new(Inlined::default()), options, scope, open).unwrap();
    feed(&mut trace, 1, events);
    let report = trace.finish().unwrap();
    (files.get("1"), report)
}

pub(super) fn read(file: &[u8]) -> Vec<BlockTraceRecord> {
    let mut all: Vec<BlockTraceRecord> = Reader::new(file).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(matches!(all.pop(), Some(BlockTraceRecord::Mark(Mark::Complete { .. }))));
    all
}

/// The events of two methods `a/A.f` and `a/A.g`, static, `iload_0; ifeq 8; iconst_1; goto 9;
/// iconst_0(8); ireturn(9)`: blocks at 0, 4, 8 and 9.
fn small(options: BlockTraceOptions, events: &[Event]) -> (Vec<BlockTraceRecord>, BlockTrace) {
    let mut t = MethodTable::default();
    t.push(method("f", jportal_bytecode::testing::BRANCHY));
    t.push(method("g", jportal_bytecode::testing::BRANCHY));
    t.push(Method { access_flags: 0x108, ..method("n", &[]) });
    let (file, report) = written(Arc::new(t), options, |_| true, events);
    (read(&file), report)
}

#[test]
fn e1_has_the_blocks_that_were_worked_out_by_hand() {
    let options = BlockTraceOptions::default();
    let (file, report) = written(methods(), options, is_application, &flow(true));
    let records = read(&file);
    let beginning = [
        start(MAIN),
        block(MAIN, 0),
        start(INIT),
        block(INIT, 0),
        end(INIT),
        start_of(F, 7),
        block(F, 0),
        block(F, 1),
        block(F, 2),
        start_of(H, 7),
        block(H, 0),
        end(H),
        start_of(G, 7),
        block(G, 0),
        block(G, 1),
        block(G, 2),
    ];
    assert_eq!(records[..beginning.len()], beginning);
    assert_eq!(records[records.len() - 3..], [block(F, 3), end(F), end(MAIN)]);
    let mut blocks: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for record in &records {
        if let BlockTraceRecord::Block { method, block } = record {
            *blocks.entry((*method, *block)).or_default() += 1;
        }
    }
    let f = [(0, 1), (1, 11), (2, 10), (3, 1)].map(|(b, n)| ((F, b), n));
    let g = [(0, 10), (1, 65), (2, 55), (3, 10)].map(|(b, n)| ((G, b), n));
    let others = [((MAIN, 0), 1), ((INIT, 0), 1), ((H, 0), 65)];
    assert_eq!(blocks, f.into_iter().chain(g).chain(others).collect());
    let t = &report.threads[0];
    assert_eq!((t.starts.total(), t.ends.total(), t.blocks.total()), (78, 78, 230));
    assert!(report.exact && t.exact && t.marks.is_empty(), "{}", report.text());
    assert_eq!(written(methods(), options, is_application, &flow(false)).0, file, "single bytecodes");
}

#[test]
fn the_jre_is_traced_on_request() {
    let (file, _) = written(methods(), BlockTraceOptions::default(), |_| true, &flow(true));
    let header = Reader::new(&file[..]).unwrap().header().clone();
    assert!(!header.scoped && header.methods == 6 && header.name == "t1" && header.tid == 1);
    let constructor = [start(super::example::OBJECT), block(super::example::OBJECT, 0)];
    assert!(read(&file).windows(2).any(|w| w == constructor));
    let (file, _) = written(methods(), BlockTraceOptions::default(), is_application, &flow(true));
    assert!(Reader::new(&file[..]).unwrap().header().scoped);
}

#[test]
fn what_is_not_known_is_marked() {
    let unresolved = Event::decoded(EventKind::Unresolved {
        method: MethodId(0),
        from: Some(Bci(1)),
        to: None,
        cause: Cause::EmptyDiamond,
        callers: 2,
    });
    let orphan = Event::decoded(EventKind::Orphan(Orphan::Bytecode { opcode: 26, taken: None }));
    let events = [
        enter(0),
        bytecode(0, 0),
        gap(false),
        bytecode(0, 5),
        orphan.clone(),
        orphan,
        gap(true),
        enter_as(1, Entry::Found),
        bytecode(1, 8),
        leave_as(1, Exit::Lost),
        recovered(enter(0)),
        recovered(bytecode(0, 0)),
        projected(bytecode(0, 8)),
        unresolved,
        leave_as(0, Exit::Unknown),
        bytecode(77, 3),
        bytecode(77, 4),
    ];
    let (records, report) = small(BlockTraceOptions::default(), &events);
    let lost = |stack_lost| Mark::Gap { stack_lost, bytes: Some(100), reason: "truncated".to_owned() };
    let expected = [
        start(0),
        block(0, 0),
        BlockTraceRecord::Mark(lost(false)),
        BlockTraceRecord::Mark(Mark::At { method: 0, bci: 5 }),
        BlockTraceRecord::Mark(Mark::Orphans { bytecodes: 2 }),
        BlockTraceRecord::Mark(lost(true)),
        BlockTraceRecord::Mark(Mark::Found { method: 1 }),
        block(1, 2),
        BlockTraceRecord::Mark(Mark::Lost { method: 1, ended: false }),
        BlockTraceRecord::Mark(Mark::Known(Known::Recovered)),
        start(0),
        block(0, 0),
        BlockTraceRecord::Mark(Mark::Known(Known::Projected)),
        block(0, 2),
        BlockTraceRecord::Mark(Mark::Unresolved {
            method: 0,
            from: Some(1),
            to: None,
            callers: 2,
            cause: "empty-diamond".to_owned(),
        }),
        BlockTraceRecord::Mark(Mark::Known(Known::Decoded)),
        BlockTraceRecord::Mark(Mark::Lost { method: 0, ended: true }),
        BlockTraceRecord::Mark(Mark::NoBlocks { method: 77, bytecodes: 2 }),
    ];
    assert_eq!(records, expected);
    let t = &report.threads[0];
    assert!(!t.exact && !report.exact);
    assert_eq!((t.blocks.decoded, t.blocks.projected, t.blocks.recovered), (2, 1, 1));
    assert_eq!((t.inexact.gaps, t.inexact.orphans, t.inexact.found, t.no_blocks), (2, 2, 1, 2));
    assert_eq!(t.marks["gap"], 2);
    assert!(report.text().contains("inexact: marks in the files say"), "{}", report.text());
}

#[test]
fn a_stretch_alone_makes_its_method_inexact() {
    let stretch = |method| {
        let (from, to) = (Some(Bci(0)), Some(Bci(9)));
        let cause = Cause::ConditionalMove;
        Event::decoded(EventKind::Unresolved { method: MethodId(method), from, to, cause, callers: 0 })
    };
    let events = |m| [enter(m), bytecode(m, 0), stretch(m), bytecode(m, 9), leave(m)];
    for (scope, exact) in [("f", false), ("g", true)] {
        let mut t = MethodTable::default();
        t.push(method("f", jportal_bytecode::testing::BRANCHY));
        t.push(method("g", jportal_bytecode::testing::BRANCHY));
        let (file, report) =
            written(Arc::new(t), BlockTraceOptions::default(), |m| &*m.name == scope, &events(0));
        assert_eq!(report.exact, exact, "{scope}");
        let marks = read(&file).iter().filter(|r| matches!(r, BlockTraceRecord::Mark(_))).count();
        assert_eq!(marks, 1, "the mark stands there in either scope");
    }
}

#[test]
fn exceptions_are_marked_on_request() {
    let catch = Event::decoded(EventKind::Catch { method: MethodId(0), bci: Bci(8) });
    let events = [
        enter(0),
        bytecode(0, 0),
        enter(1),
        bytecode(1, 0),
        leave_as(1, Exit::Unwind),
        catch,
        bytecode(0, 8),
        enter(1),
        leave_as(1, Exit::Unwind),
        enter(1),
        bytecode(1, 0),
        leave_as(1, Exit::PopFrame),
        enter(1),
        bytecode(1, 0),
        leave_as(1, Exit::EarlyReturn),
        bytecode(0, 9),
        leave(0),
    ];
    let (strict, report) = small(BlockTraceOptions::default(), &events);
    let called = [start(1), block(1, 0)];
    let expected =
        [&[start(0), block(0, 0)][..], &called, &[block(0, 2)], &called, &called, &[block(0, 3), end(0)]];
    let expected = expected.concat();
    assert_eq!(strict, expected, "an end is written at returns only, and the handler's block once");
    let t = &report.threads[0];
    assert_eq!((t.unwinds, t.unstarted, t.forced, t.catches, t.starts.total()), (1, 1, 2, 1, 4));
    let (records, _) = small(BlockTraceOptions { unwinds: true, ..BlockTraceOptions::default() }, &events);
    let left = |how| BlockTraceRecord::Mark(Mark::Left { method: 1, how });
    let with = [
        left(Left::Unwind),
        BlockTraceRecord::Mark(Mark::Catch { method: 0, bci: 8 }),
        left(Left::Unstarted),
        left(Left::PopFrame),
        left(Left::EarlyReturn),
    ];
    let marks: Vec<BlockTraceRecord> =
        records.iter().filter(|r| matches!(r, BlockTraceRecord::Mark(_))).cloned().collect();
    assert_eq!(marks, with);
    let rest: Vec<BlockTraceRecord> =
        records.into_iter().filter(|r| !matches!(r, BlockTraceRecord::Mark(_))).collect();
    assert_eq!(rest, strict);
}

#[test]
fn an_activation_starts_once() {
    let replaced = || leave_as(0, Exit::Replaced);
    let interpreted = || enter_as(0, Entry::Deoptimisation);
    let all = |events: &[Event]| {
        small(BlockTraceOptions::default(), &[&[enter(0)], events, &[leave(0)]].concat()).0
    };
    let whole = [start(0), block(0, 0), block(0, 2), block(0, 3), end(0)];
    let [zero, one, eight, nine] = [0, 1, 8, 9].map(|bci| bytecode(0, bci));
    let (z, o, e, n) = (|| zero.clone(), || one.clone(), || eight.clone(), || nine.clone());
    assert_eq!(all(&[z(), replaced(), enter_as(0, Entry::Osr), o(), e(), n()]), whole, "OSR");
    assert_eq!(all(&[replaced(), interpreted(), z(), o(), e(), n()]), whole, "before the first bytecode");
    assert_eq!(all(&[z(), o(), replaced(), interpreted(), e(), n()]), whole, "before a leader");
    assert_eq!(all(&[z(), o(), e(), replaced(), interpreted(), n()]), whole, "after a leader");
    let twice = all(&[z(), o(), e(), replaced(), interpreted(), e(), n()]);
    assert_eq!(twice, [start(0), block(0, 0), block(0, 2), block(0, 2), block(0, 3), end(0)], "at a leader");
}

#[test]
fn native_methods_and_upcalls() {
    let native = |entry| Event::decoded(EventKind::Enter { method: MethodId(2), tier: Tier::Native, entry });
    let events = [
        enter_as(0, Entry::Upcall),
        bytecode(0, 0),
        native(Entry::Call),
        enter_as(1, Entry::Upcall),
        bytecode(1, 0),
        leave(1),
        leave(2),
        native(Entry::Call),
        leave_as(2, Exit::Unwind),
    ];
    let strict = [start(0), block(0, 0), start(1), block(1, 0), end(1)];
    assert_eq!(small(BlockTraceOptions::default(), &events).0, strict);
    let shown = [start(0), block(0, 0), start(2), start(1), block(1, 0), end(1), end(2), start(2)];
    let (records, report) =
        small(BlockTraceOptions { natives: true, ..BlockTraceOptions::default() }, &events);
    assert_eq!(records, shown);
    assert_eq!((report.threads[0].unwinds, report.threads[0].unstarted), (1, 0));
}

#[test]
fn what_was_left_out_and_times() {
    let time = |t| Event::decoded(EventKind::Time(Tsc(t)));
    let events = [
        enter(0),
        time(5),
        bytecode(0, 0),
        recovered(bytecode(0, 1)),
        recovered(bytecode(0, 8)),
        bytecode(0, 9),
    ];
    let exclude = Exclude { recovered: true, ..Exclude::default() };
    let (records, report) =
        small(BlockTraceOptions { exclude, times: true, ..BlockTraceOptions::default() }, &events);
    let tsc = BlockTraceRecord::Mark(Mark::Time { tsc: 5 });
    let excluded = BlockTraceRecord::Mark(Mark::Excluded { events: 2 });
    assert_eq!(records, [start(0), tsc, block(0, 0), excluded, block(0, 3)]);
    assert_eq!((report.exact, report.threads[0].inexact.excluded), (false, 2));
}

#[test]
fn runs_equal_single_bytecodes_and_leaders_are_blocks() {
    let methods = methods();
    let f = methods.get(MethodId(F)).unwrap();
    let blocks = jportal_bytecode::Blocks::of(f).unwrap();
    let starts = blocks.instruction_starts();
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let (mut singles, mut runs) = (super::example::Flow::new(false), super::example::Flow::new(true));
        let mut leaders = 0;
        for _ in 0..rng.usize(1..20) {
            let from = rng.usize(..starts.len());
            let to = rng.usize(from..starts.len());
            let bcis: Vec<u16> = starts[from..=to].iter().map(|b| b.get()).collect();
            leaders += bcis.iter().filter(|b| blocks.is_leader(Bci(**b))).count() as u64;
            singles.at(F, &bcis);
            runs.at(F, &bcis);
            if rng.u8(..6) == 0 {
                singles.events.push(gap(false));
                runs.events.push(gap(false));
            }
        }
        let (a, report) =
            written(Arc::clone(&methods), BlockTraceOptions::default(), |_| true, &singles.events);
        let (b, _) = written(Arc::clone(&methods), BlockTraceOptions::default(), |_| true, &runs.events);
        assert_eq!(a, b);
        assert_eq!(report.threads[0].blocks.total(), leaders);
    }
}

#[test]
fn loads_of_classes() {
    let class = |number: u32, name: &str, loaded: Option<(u64, u32, u64)>| Class {
        number,
        name: name.into(),
        loaded: loaded.map(|(tsc, tid, started)| ClassLoad {
            tsc: Tsc(tsc),
            tid: Tid(tid),
            started: Tsc(started),
        }),
        interfaces: (number > 1).then(|| [1, 2].into()),
        superclass: (number > 1).then_some(1),
        access_flags: 0x21,
        ..Class::default()
    };
    let table = |all: &[Class]| {
        let mut t = MethodTable::default();
        t.push(method("f", jportal_bytecode::testing::BRANCHY));
        t.set_classes(all.iter().cloned().collect());
        Arc::new(t)
    };
    // The thread's id is 1, and it started at 0: class 4 was loaded by another thread of this id.
    let all = [
        class(1, "a/A", None),
        class(2, "a/B", Some((20, 1, 0))),
        class(3, "a/C", Some((10, 1, 0))),
        class(4, "a/D", Some((12, 1, 9))),
        class(5, "a/E", Some((12, 2, 0))),
        class(6, "java/F", Some((13, 1, 0))),
        class(7, "a/G", Some((99, 1, 0))),
    ];
    let time = |t| Event::decoded(EventKind::Time(Tsc(t)));
    let [zero, eight, nine] = [0, 8, 9].map(|bci| bytecode(0, bci));
    let events = [enter(0), time(10), zero, time(11), eight, time(25), nine, leave(0)];
    let load = |class| BlockTraceRecord::ClassLoaded { class };
    let app = |m: &Method| !m.class_name.starts_with("java/");
    for format in [Format::Jbi32, Format::Jbi64] {
        let options = BlockTraceOptions { format, ..BlockTraceOptions::default() };
        let (file, report) = written(table(&all), options, app, &events);
        // 10 is not before 10, and only a time after 20 proves that class 2 was there.
        let expected = [start(0), block(0, 0), load(3), block(0, 2), load(2), block(0, 3), end(0), load(7)];
        assert_eq!(read(&file), expected);
        assert!(Reader::new(&file[..]).unwrap().header().loads);
        assert_eq!((report.threads[0].loads, report.exact), (Some(3), true));
        assert!(read(&written(table(&all), options, |_| true, &events).0).contains(&load(6)));
    }
    let (file, report) = written(table(&all[..1]), BlockTraceOptions::default(), |_| true, &events);
    assert_eq!(read(&file), [start(0), block(0, 0), block(0, 2), block(0, 3), end(0)]);
    assert!(!Reader::new(&file[..]).unwrap().header().loads && report.threads[0].loads.is_none());
    let mut out = Vec::new();
    write_classes(table(&all[..2]).classes(), &mut out).unwrap();
    let expected = "class_id,loader,class,flags,super,interfaces,loaded_by,loaded\n\
                    1,,a/A,33,,?,,\n\
                    2,,a/B,33,1,1 2,1,20\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn switches_between_events() {
    let sides = [
        SwitchSide::Came { seen: false },
        SwitchSide::Left(Some(Departure::Preempted)),
        SwitchSide::Came { seen: true },
        SwitchSide::Left(Some(Departure::Waited)),
        SwitchSide::Left(None),
    ];
    let switches: Vec<CoreSwitch> = (1..)
        .zip(sides)
        .map(|(n, side)| CoreSwitch { tsc: Tsc((n << 40) + 10), core: Core(n as u32), side })
        .collect();
    let time = |n: u64| Event::decoded(EventKind::Time(Tsc((n << 40) + 10)));
    let [zero, eight, nine] = [0, 8, 9].map(|bci| bytecode(0, bci));
    // The times are those of switches: a switch precedes only what is later.
    let events = [enter(0), time(1), zero, time(3), eight, nine, leave(0)];
    let all = || Switches::new(switches.iter().map(|s| ((Tid(1), Tsc(0)), *s)));
    for format in [Format::Jbi32, Format::Jbi64] {
        let mut t = MethodTable::default();
        t.push(method("f", jportal_bytecode::testing::BRANCHY));
        let options = BlockTraceOptions { format, ..BlockTraceOptions::default() };
        let files = Files::default();
        let to = files.clone();
        let open = move |info: &ThreadInfo| Ok(to.create(&info.tid.get().to_string()));
        let trace = BlockTraceAnalysis::new(Arc::new(t), Arc::default(), options, |_| true, open);
        let mut trace = trace.unwrap().switches(all());
        feed(&mut trace, 1, &events);
        feed(&mut trace, 2, &events[..1]);
        assert!(trace.finish().unwrap().exact);
        let file = files.get("1");
        assert!(Reader::new(&file[..]).unwrap().header().switches);
        let mark = |n: usize| BlockTraceRecord::Mark(Mark::Switch(switches[n]));
        let expected = [
            start(0),
            block(0, 0),
            mark(0),
            mark(1),
            block(0, 2),
            block(0, 3),
            end(0),
            mark(2),
            mark(3),
            mark(4),
        ];
        assert_eq!(read(&file), expected);
        assert_eq!(read(&files.get("2")), [start(0)], "thread 2 has no switches");
    }
}
