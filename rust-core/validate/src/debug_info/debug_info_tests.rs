// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Hand-made nmethods, right and with faults, judged at hand-made states.

use std::sync::Arc;

use jportal_bytecode::Opcode;
use jportal_capture::codec::Bytes;
use jportal_capture::schema::*;
use jportal_flow::{Cause, ThreadInfo};
use jportal_reconstruct::{
    CallTarget, Marked, MarkedBlock, RanBlock, ReachedState, StateKind, StateObservers, Unmarked,
};
use jportal_units::{CodeId, MethodId, Tid, Tsc};
use jportal_vm_image::{Builder, VmImage};

use super::*;
use crate::testing::NoCode;

/// `loop`: 0 iload_0; 1 ifeq 14; 4 invokestatic f; 7 invokestatic g; 10 nop; 11 goto 0;
/// 14 return.
const LOOP: &[u8] = &[26, 153, 0, 13, 184, 0, 0, 184, 0, 0, 0, 167, 0xff, 0xf5, 177];
/// `f`: 0 iload_0; 1 ifeq 5; 4 nop; 5 return.
const F: &[u8] = &[26, 153, 0, 4, 0, 177];
/// `g`: 0 return.
const G: &[u8] = &[177];
const LOOP_ID: u32 = 0;
const F_ID: u32 = 1;
const G_ID: u32 = 2;

const STUB: CodeId = CodeId(0);
const ARRAYS: CodeId = CodeId(1);
const NMETHOD: CodeId = CodeId(2);

/// The scopes: `loop` at 4, at 7, at 11, at 14, at 5; `f` at 0, 1 and 5 in `loop` at 4; `g` at
/// 0 in `loop` at 4; `f` at 0; `loop` at 10.
const SCOPES: [(u32, u32, i32); 11] = [
    (NO_SCOPE, LOOP_ID, 4),
    (NO_SCOPE, LOOP_ID, 7),
    (NO_SCOPE, LOOP_ID, 11),
    (NO_SCOPE, LOOP_ID, 14),
    (NO_SCOPE, LOOP_ID, 5),
    (0, F_ID, 0),
    (0, F_ID, 1),
    (0, F_ID, 5),
    (0, G_ID, 0),
    (NO_SCOPE, F_ID, 0),
    (NO_SCOPE, LOOP_ID, 10),
];
const AT_F: u32 = 0;
const AT_G: u32 = 1;
const AT_GOTO: u32 = 2;
const AT_RETURN: u32 = 3;
const INSIDE_AN_INSTRUCTION: u32 = 4;
const IN_F: u32 = 5;
const IN_F_AT_IF: u32 = 6;
const END_OF_F: u32 = 7;
const IN_OTHER: u32 = 8;
const F_ALONE: u32 = 9;
const AT_ATHROW: u32 = 10;

/// Two stubs, and an nmethod of `loop` with `f` inlined at 4 (context 1).
fn image(compiler: u8, pc_descs: &[(u32, u32, u8)], handlers: &[HandlerEntry]) -> VmImage {
    image_of(LOOP, compiler, pc_descs, handlers)
}

/// As [`image`], with this code of `loop`.
fn image_of(outer: &[u8], compiler: u8, pc_descs: &[(u32, u32, u8)], handlers: &[HandlerEntry]) -> VmImage {
    let mut b = Builder::default();
    let mut put = |record| b.record(Stamped { tsc: 1, record }, &mut NoCode);
    put(Record::ClassDefined(ClassDefined { klass: 5, name: "a/A".into(), ..Default::default() }));
    for (method, name, code) in [(50, "loop", outer), (51, "f", F), (52, "g", G)] {
        let call = |bci, name: &str| InvokeTarget {
            bci,
            class_name: "a/A".into(),
            name: name.into(),
            signature: "(I)V".into(),
        };
        let invokes = if name == "loop" { vec![call(4, "f"), call(7, "g")] } else { Vec::new() };
        let lines = vec![LineEntry { bci: 0, line: 1 }, LineEntry { bci: 7, line: 2 }];
        put(Record::MethodDefined(MethodDefined {
            method,
            klass: 5,
            access_flags: 8,
            name: name.into(),
            signature: "(I)V".into(),
            code: Bytes(code.to_vec().into()),
            invokes,
            lines,
            ..Default::default()
        }));
    }
    for (start, name) in [(0x1000, "_new_instance_Java"), (0x1100, "_new_array_Java")] {
        put(Record::BlobDefined(BlobDefined {
            start,
            kind: blob_kinds::RUNTIME_STUB,
            name: name.into(),
            code: Bytes(vec![0x90; 16].into()),
            ..Default::default()
        }));
    }
    put(Record::NMethodInstalled(NMethodInstalled {
        start: 0x2000,
        method: 50,
        nmethod: 7,
        compile_id: 3,
        compiler,
        level: 4,
        osr_bci: INVOCATION_ENTRY_BCI,
        stub: 0x100,
        exception_handler: u32::MAX,
        deopt_handler: u32::MAX,
        deopt_mh_handler: u32::MAX,
        unwind_handler: u32::MAX,
        code: Bytes(vec![0x90; 0x120].into()),
        scopes: SCOPES.iter().map(|s| Scope { parent: s.0, method: 50 + u64::from(s.1), bci: s.2 }).collect(),
        pc_descs: pc_descs
            .iter()
            .map(|&(pc_offset, scope, flags)| PcDescriptor { pc_offset, scope, flags })
            .collect(),
        handlers: handlers.to_vec(),
        ..Default::default()
    }));
    let marks = [(0, 0), (0, 4), (1, 0), (1, 5), (0, 14)];
    put(Record::NMethodMarkers(NMethodMarkers {
        start: 0x2000,
        nmethod: 7,
        compile_id: 3,
        contexts: vec![
            InlineContext { parent: NO_CONTEXT, call_bci: 0, method: 50 },
            InlineContext { parent: 0, call_bci: 4, method: 51 },
        ],
        markers: marks.iter().map(|&(context, bci)| PathMarker { context, bci }).collect(),
        offsets: (0..5).map(|i| MarkedOffset { offset: 0x10 * i, first: i, count: 1 }).collect(),
        ..Default::default()
    }));
    b.finish()
}

const fn block(context: u32, bci: u16) -> Marked {
    Marked::Block(MarkedBlock { context, bci })
}

const CALLS_F: StateKind = StateKind::Call(CallTarget::Java(MethodId(F_ID)));
const CALLS_G: StateKind = StateKind::Call(CallTarget::Java(MethodId(G_ID)));

fn judged(image: &VmImage, kind: StateKind, marked: Marked) -> Option<judge::Judged> {
    let state = ReachedState { code: NMETHOD, offset: 0x18, from: 0x14, kind, marked, held: None };
    judge::Judge::new(image).state(&state)
}

/// The verdict where the state at +24 has this scope and these flags.
fn verdict((scope, flags): (u32, u8), kind: StateKind, marked: Marked) -> StateVerdict {
    let image = image(compilers::C2, &[(0x18, scope, flags)], &[]);
    judged(&image, kind, marked).unwrap().verdict
}

#[test]
fn a_call_is_that_of_the_invoke_that_names_its_callee() {
    use StateVerdict::*;
    let in_block = block(0, 4);
    let cases = [
        (AT_G, CALLS_G, Right),
        (AT_F, CALLS_F, Right),
        // Shifted to the neighbour, into an instruction, and to other bytecodes of the block.
        (AT_F, CALLS_G, WrongBci),
        (AT_G, CALLS_F, WrongBci),
        (INSIDE_AN_INSTRUCTION, CALLS_F, WrongBci),
        (AT_GOTO, CALLS_G, WrongBci),
        (AT_RETURN, CALLS_G, WrongBlock),
        (F_ALONE, CALLS_G, WrongMethod),
        (IN_F, CALLS_G, WrongChain),
    ];
    for (scope, kind, expected) in cases {
        assert_eq!(verdict((scope, 0), kind, in_block), expected, "scope {scope}, {kind:?}");
    }
    let image = image(compilers::C2, &[(0x18, AT_F, 0)], &[]);
    let why = judged(&image, CALLS_G, in_block).unwrap().why;
    assert!(why.contains("possible bci: 7"), "{why}");
}

#[test]
fn an_inlined_callee_that_returned_leaves_control_in_its_caller() {
    use StateVerdict::*;
    let cases = [
        // `f` is in its last block: `g` is called by the caller's rest.
        (AT_G, block(1, 5), Right),
        // The call of `f` is over.
        (AT_F, block(1, 5), WrongChain),
        // `f` has not come to its end.
        (AT_G, block(1, 0), WrongChain),
        (END_OF_F, block(1, 0), WrongBlock),
        (IN_OTHER, block(1, 0), WrongMethod),
        (AT_G, block(0, 0), WrongBlock),
    ];
    for (scope, marked, expected) in cases {
        assert_eq!(verdict((scope, 0), CALLS_G, marked), expected, "scope {scope}, {marked:?}");
    }
}

#[test]
fn a_call_without_debug_info_is_missing_where_the_vm_needs_it() {
    let image = image(compilers::C2, &[(0x40, AT_F, 0)], &[]);
    let missing = |target| judged(&image, StateKind::Call(target), block(0, 4)).map(|j| j.verdict);
    assert_eq!(missing(CallTarget::Java(MethodId(G_ID))), Some(StateVerdict::Missing));
    assert_eq!(missing(CallTarget::Stub(STUB)), Some(StateVerdict::Missing));
    // A leaf of the runtime.
    assert_eq!(missing(CallTarget::Outside), None);
    assert_eq!(missing(CallTarget::Unknown), None);
}

#[test]
fn the_reexecute_bit_is_judged_by_what_the_interpreter_did_or_would_do() {
    use StateVerdict::*;
    let (set, clear) = (pc_flags::REEXECUTE, 0);
    let resumed = |trap, again| StateKind::Resumed { trap, again };
    let cases = [
        (AT_G, set, CALLS_G, WrongReexecute),
        (AT_GOTO, set, StateKind::Inside, Right),
        (AT_GOTO, clear, StateKind::Inside, WrongReexecute),
        (AT_G, clear, resumed(false, false), Fits),
        (AT_G, set, resumed(false, false), WrongReexecute),
        (AT_G, clear, resumed(false, true), WrongReexecute),
        // A trap always executes again.
        (AT_G, clear, resumed(true, true), Fits),
    ];
    for (scope, flags, kind, expected) in cases {
        assert_eq!(verdict((scope, flags), kind, block(0, 4)), expected, "scope {scope}, {flags}, {kind:?}");
    }
    // A moved poll, or the next one if the moved one is not on this path.
    let image = image(compilers::C2, &[(0x18, AT_GOTO, set)], &[]);
    let polls = |marked, held| {
        let state =
            ReachedState { code: NMETHOD, offset: 0x18, from: 0x14, kind: StateKind::Inside, marked, held };
        judge::Judge::new(&image).state(&state).unwrap().verdict
    };
    let (right, other) = (MarkedBlock { context: 0, bci: 4 }, MarkedBlock { context: 0, bci: 14 });
    assert_eq!(polls(Marked::Block(right), Some(other)), Fits);
    assert_eq!(polls(Marked::Block(other), Some(right)), Fits);
    assert_eq!(polls(Marked::Block(other), None), WrongBlock);
    // A bytecode that does not branch cannot poll.
    assert_eq!(verdict((AT_G, set), StateKind::Inside, block(0, 4)), WrongBci);
}

#[test]
fn what_markers_do_not_say_is_not_judged() {
    let reasons = [
        (Unmarked::NoMarkers, "came from debug info"),
        (Unmarked::MovedPoll, "came from debug info"),
        (Unmarked::Found, "inside the activation"),
        (Unmarked::Lost(Cause::ConditionalMove), "conditional-move"),
        (Unmarked::Astray, "contradict"),
    ];
    let image = image(compilers::C2, &[(0x18, AT_RETURN, 0)], &[]);
    for (why, words) in reasons {
        let judged = judged(&image, CALLS_G, Marked::Unknown(why)).unwrap();
        assert_eq!(judged.verdict, StateVerdict::NotJudged);
        assert!(judged.why.contains(words), "{}", judged.why);
    }
}

#[test]
fn a_handler_is_the_one_that_its_row_names() {
    let row = |handler_bci, scope_depth| HandlerEntry {
        pc_offset: 0x18,
        handler_bci,
        scope_depth,
        handler_offset: 0x30,
    };
    let verdict = |row: HandlerEntry, at, marked| {
        let image = image(compilers::C1, &[(0x18, IN_F_AT_IF, 0)], &[row]);
        judged(&image, StateKind::Handler(at), marked).unwrap().verdict
    };
    assert_eq!(verdict(row(5, 0), 0x30, block(1, 5)), StateVerdict::Right);
    assert_eq!(verdict(row(14, 1), 0x30, block(0, 14)), StateVerdict::Right);
    assert_eq!(verdict(row(4, 0), 0x30, block(1, 5)), StateVerdict::WrongBlock);
    assert_eq!(verdict(row(5, 1), 0x30, block(1, 5)), StateVerdict::WrongChain);
    assert_eq!(verdict(row(5, 0), 0x40, block(1, 5)), StateVerdict::Missing);
    assert_eq!(verdict(row(-1, 0), 0x30, block(1, 5)), StateVerdict::NotJudged);
}

#[test]
fn an_allocation_that_the_interpreter_executes_again_is_earlier() {
    // Control calls the stub that allocates arrays.
    let verdict = |code: &[u8], flags| {
        let image = image_of(code, compilers::C2, &[(0x18, AT_G, flags)], &[]);
        judged(&image, StateKind::Call(CallTarget::Stub(ARRAYS)), block(0, 4)).unwrap().verdict
    };
    // As `loop`, with `new` at 7.
    let mut allocates = LOOP.to_vec();
    allocates[7] = 187;
    assert_eq!(verdict(&allocates, pc_flags::REEXECUTE), StateVerdict::Earlier);
    assert_eq!(verdict(&allocates, 0), StateVerdict::WrongBci);
    // The invoke may be of an intrinsic.
    assert_eq!(verdict(LOOP, 0), StateVerdict::Fits);
}

#[test]
fn what_c1_throws_is_judged_at_the_position_before_the_call() {
    let mut throws = LOOP.to_vec();
    throws[7..11].copy_from_slice(&[0, 0, 0, 191]);
    let row = HandlerEntry { pc_offset: 0x18, handler_bci: 14, scope_depth: 0, handler_offset: 0x30 };
    let image = image_of(&throws, compilers::C1, &[(0x18, AT_ATHROW, pc_flags::REEXECUTE)], &[row]);
    let thrown = judged(&image, StateKind::Inside, block(0, 4)).unwrap();
    assert_eq!((thrown.group, thrown.verdict), (StateGroup::RuntimeCall, StateVerdict::Right));
    let state = ReachedState {
        code: NMETHOD,
        offset: 0x20,
        from: 0x14,
        kind: StateKind::Handler(0x30),
        marked: block(0, 14),
        held: None,
    };
    assert_eq!(judge::Judge::new(&image).state(&state).unwrap().verdict, StateVerdict::Right);
}

/// A report on states of two threads that all have the offset 24, each reached twice.
fn report(image: &VmImage, states: &[(StateKind, Marked)], blocks: &[RanBlock]) -> DebugInfoReport {
    let collector = StateCollector::default();
    for tid in [8, 9] {
        let info =
            ThreadInfo { tid: Tid(tid), java_tid: 1, name: format!("t{tid}"), started: Tsc(tid.into()) };
        let mut observer = collector.thread(&info);
        for &(kind, marked) in states {
            let state = ReachedState { code: NMETHOD, offset: 0x18, from: 0x14, kind, marked, held: None };
            observer.reached(&state, 100);
            observer.reached(&state, 200);
        }
        blocks.iter().for_each(|b| observer.ran(b, 100));
        observer.end();
    }
    let every_eight =
        |_, blocks: &[(u32, u32)]| blocks.iter().map(|&(from, to)| (from..to).step_by(8).collect()).collect();
    let limits = ReportLimits {
        findings: 5,
        methods: 5,
        places: Some("a.A".to_owned()),
        capture: "c.jportal".to_owned(),
    };
    DebugInfoReport::new(image, &collector.finish(), &every_eight, &limits)
}

#[test]
fn a_finding_says_where_and_how_to_see_it_again() {
    let image = image(compilers::C2, &[(0x18, AT_F, 0)], &[]);
    let states =
        [(CALLS_G, block(0, 4)), (CALLS_F, block(0, 4)), (CALLS_F, Marked::Unknown(Unmarked::Found))];
    let report = report(&image, &states, &[]);
    assert_eq!((report.all.places, report.all.executions), (1, 12));
    // The place has its worst verdict.
    let counts = |v| (report.verdicts[&v].places, report.verdicts[&v].executions);
    assert_eq!(counts(StateVerdict::WrongBci), (1, 4));
    assert_eq!(counts(StateVerdict::Right), (0, 4));
    assert_eq!(counts(StateVerdict::NotJudged), (0, 4));
    assert!(!report.is_clean());
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.offset, finding.compile_id, finding.executions), (0x18, 3, 4));
    assert_eq!(finding.see, "jportal dev blocks-around c.jportal 100 --thread 8");
    let text = report.text();
    assert!(text.contains("debug info  a.A.loop(I)V @4 invokestatic\n"), "{text}");
    assert!(text.contains("control     called a.A.g(I)V\n"), "{text}");
    // The list of places has it with all executions.
    let [place] = &report.places[..] else { panic!("{:?}", report.places) };
    assert_eq!((place.verdict, place.kind), (StateVerdict::WrongBci, StateGroup::Call));
    assert_eq!((place.offset, place.executions, place.frames[0].bci), (0x18, 12, 4));
    assert!(place.why.contains("possible bci: 7"), "{}", place.why);
}

#[test]
fn samples_are_charged_to_the_next_position() {
    let (near, safepoint) = (pc_flags::NON_SAFEPOINT, 0);
    // The block ends with the call of `g` at +24; the marker of the loop's end is at +64.
    let ran = [
        RanBlock { code: NMETHOD, from: 0x18, to: 0x20, marked: block(0, 4) },
        RanBlock { code: NMETHOD, from: 0x41, to: 0x59, marked: block(0, 14) },
    ];
    // Only the next safepoint counts: that of another block, on another line.
    let without = image(compilers::C1, &[(0x30, AT_RETURN, safepoint), (0x80, IN_F, safepoint)], &[]);
    let report_without = report(&without, &[], &ran);
    let counts = report_without.samples["C1"];
    assert_eq!((counts.instructions, counts.judged()), (8, 8));
    assert_eq!((counts.right, counts.wrong_line, counts.wrong_method), (2, 0, 6));
    // A position for the instructions themselves makes them right.
    let with = image(
        compilers::C1,
        &[(0x30, AT_RETURN, safepoint), (0x60, AT_RETURN, near), (0x80, IN_F, safepoint)],
        &[],
    );
    let report_with = report(&with, &[], &ran);
    assert_eq!(report_with.samples["C1"].right, 8);
    assert_eq!((report_without.debug_non_safepoints, report_with.debug_non_safepoints), (false, true));
    // After the last position there is none.
    let none = report(&image(compilers::C1, &[(0x10, AT_F, safepoint)], &[]), &[], &ran);
    assert_eq!(none.samples["C1"].no_debug_info, 8);
}

#[test]
fn the_opcodes_of_the_rows_are_those_of_the_states() {
    let image = image(compilers::C2, &[(0x18, AT_GOTO, pc_flags::REEXECUTE)], &[]);
    let report = report(&image, &[(StateKind::Inside, block(0, 4))], &[]);
    let [row] = &report.opcodes[..] else { panic!("{:?}", report.opcodes) };
    assert_eq!((row.compiler, row.kind, row.opcode), ("C2", StateGroup::Poll, Some(Opcode::GOTO.name())));
    assert!(report.is_clean());
    let _: Arc<dyn StateObservers> = Arc::new(StateCollector::default());
}

#[test]
fn impossible_debug_info_is_found() {
    // No invoke stands at 4, where `f` and `g` are inlined.
    let mut outer = LOOP.to_vec();
    outer[4..7].fill(0);
    let impossible = report(&image_of(&outer, compilers::C2, &[], &[]), &[], &[]);
    assert!(!impossible.is_clean() && impossible.found == 0);
    let [code] = &impossible.impossible[..] else { panic!("{:?}", impossible.impossible) };
    assert_eq!((code.compiler, code.compile_id, code.method.as_str()), ("C2", 3, "a.A.loop(I)V"));
    assert!(code.why.contains("bci 4 of a.A.loop(I)V, where no invoke stands"), "{}", code.why);
    let text = impossible.text();
    assert!(
        text.contains(
            "impossible debug info; none of this code is judged:\n  a.A.loop(I)V (compile id 3, C2, "
        ),
        "{text}"
    );
    let sound = report(&image(compilers::C2, &[], &[]), &[], &[]);
    assert!(sound.is_clean() && !sound.text().contains("impossible"));
}
