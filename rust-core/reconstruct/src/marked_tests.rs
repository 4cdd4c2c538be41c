// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests path markers on a hand-made nmethod.

use crate::machine_tests::{
    BLOB, CALL_STUB_RETURN, DEOPT_REEXECUTE, FORWARD_EXCEPTION, NMETHOD, NMETHOD_2, POP_FRAME, RETHROW,
    RETURN_ENTRY, REVEAL_HANDLER, Script, Vm, address, code_steps, orphans, run, run_on, vm_with,
};
use jportal_bytecode::Opcode;
use jportal_capture::codec::Bytes;
use jportal_capture::schema::*;
use jportal_machine_flow::{Exit, Item};
use jportal_units::Address;

/// The code of the two methods:
/// * `m0`: 0 iload_0; 1 ifeq 10; 4 invokestatic; 7 goto 0; 10 return.
/// * `m1`: 0 iload_0; 1 ifeq 5; 4 nop; 5 return.
const M0: [u8; 11] = [26, 153, 0, 9, 184, 0, 0, 167, 0xff, 0xf9, 177];
const M1: [u8; 6] = [26, 153, 0, 4, 0, 177];
/// Method pointers of `vm_with`.
const POINTERS: [u64; 2] = [0x9000, 0x9001];

/// Positions whose bytecode the interpreter executes again.
const REEXECUTED: [u32; 1] = [0x1a];

/// (offset, markers); a marker is (context, bci), or (`NO_CONTEXT`, cause).
pub(crate) type Marks<'a> = &'a [(u32, &'a [(u32, u16)])];
/// (from, outcome, to, markers).
pub(crate) type Edges<'a> = &'a [(u32, u8, u32, &'a [(u32, u16)])];

/// A C2 nmethod of `m0` in which `m1` is inlined at bci 4. Its positions: (offset, context, bci).
pub(crate) fn nmethod(
    at: Marks<'_>,
    on: Edges<'_>,
    positions: &[(u32, u32, i32)],
    caught: &[ExceptionEntry],
) -> Vm {
    nmethod_of(&M0, at, on, positions, caught)
}

fn nmethod_of(
    m0: &[u8],
    at: Marks<'_>,
    on: Edges<'_>,
    positions: &[(u32, u32, i32)],
    caught: &[ExceptionEntry],
) -> Vm {
    let nmethod = nmethod_records(NMETHOD, at, on, positions);
    vm_with(&[(m0, caught), (&M1, &[])], &nmethod)
}

/// As `nmethod`, but with this `m1`.
fn nmethod_with(m0: &[u8], m1: &[u8], at: Marks<'_>, caught: &[ExceptionEntry]) -> Vm {
    vm_with(&[(m0, caught), (m1, &[])], &nmethod_records(NMETHOD, at, &[], &[]))
}

pub(crate) fn nmethod_records(
    start: u32,
    at: Marks<'_>,
    on: Edges<'_>,
    positions: &[(u32, u32, i32)],
) -> [Record; 2] {
    let pointer = u64::from(start);
    let mut m = NMethodMarkers { start: address(start), nmethod: pointer, ..Default::default() };
    m.contexts = vec![
        InlineContext { parent: NO_CONTEXT, call_bci: 0, method: POINTERS[0] },
        InlineContext { parent: 0, call_bci: 4, method: POINTERS[1] },
    ];
    let mut list = |marks: &[(u32, u16)]| {
        let first = m.markers.len() as u32;
        m.markers.extend(marks.iter().map(|&(context, bci)| PathMarker { context, bci }));
        (first, marks.len() as u32)
    };
    for &(offset, marks) in at {
        let (first, count) = list(marks);
        m.offsets.push(MarkedOffset { offset, first, count });
    }
    for &(from, outcome, to, marks) in on {
        let (first, count) = list(marks);
        m.edges.push(MarkedEdge { from, to, outcome, first, count });
    }
    // A compiler records no context that it does not use.
    if m.markers.iter().all(|marker| marker.context != 1) {
        m.contexts.truncate(1);
    }
    let mut scopes = Vec::new();
    let mut pc_descs = Vec::new();
    for &(pc_offset, context, bci) in positions {
        let outer = scopes.len() as u32;
        let scope = |parent, method: usize, bci| Scope { parent, method: POINTERS[method], bci };
        if context == 1 {
            scopes.push(scope(NO_SCOPE, 0, 4));
            scopes.push(scope(outer, 1, bci));
        } else {
            scopes.push(scope(NO_SCOPE, 0, bci));
        }
        let flags = if REEXECUTED.contains(&pc_offset) { pc_flags::REEXECUTE } else { 0 };
        pc_descs.push(PcDescriptor { pc_offset, scope: scopes.len() as u32 - 1, flags });
    }
    let installed = NMethodInstalled {
        start: address(start),
        method: POINTERS[0],
        nmethod: pointer,
        compiler: compilers::C2,
        level: 4,
        osr_bci: INVOCATION_ENTRY_BCI,
        stub: 0x100,
        exception_handler: 0x100,
        deopt_handler: 0x110,
        deopt_mh_handler: u32::MAX,
        unwind_handler: u32::MAX,
        code: Bytes(vec![0x90; 0x120].into()),
        scopes,
        pc_descs,
        ..Default::default()
    };
    [Record::NMethodInstalled(installed), Record::NMethodMarkers(m)]
}

fn start() -> Script {
    Script::default().upcall()
}

impl Script {
    /// A block of the nmethod.
    fn nm(self, from: u32, to: u32, exit: Exit) -> Self {
        self.block(NMETHOD + from, NMETHOD + to, exit)
    }
    pub(crate) fn push(mut self, item: Item) -> Self {
        self.0.push(item);
        self
    }
}

const TAKEN: u8 = edge_outcomes::TAKEN;
const NOT_TAKEN: u8 = edge_outcomes::NOT_TAKEN;

#[test]
fn markers_at_blocks_and_on_edges_give_every_bytecode() {
    // m1's test falls through over an empty block; 0x20 is the loop's exit.
    let vm = nmethod(
        &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)]), (0x30, &[(1, 5), (0, 0)]), (0x20, &[(0, 10)])],
        &[(0x16, NOT_TAKEN, 0x18, &[(1, 4)]), (0x1e, TAKEN, 0x30, &[])],
        &[],
        &[],
    );
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::NotTaken).nm(0x18, 0x20, Exit::Taken);
    let s = s.nm(0x30, 0x38, Exit::Taken).nm(0x20, 0x28, Exit::Return);
    let lines = run(&vm, s.at(CALL_STUB_RETURN, Exit::Jump));
    let expected = "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@4 m1@5 < m1 m0@7 m0@0 m0@1 m0@10 < m0";
    assert_eq!(lines.join(" "), expected);
}

#[test]
fn only_a_frame_that_is_known_continues_by_osr() {
    let [Record::NMethodInstalled(n), markers] = nmethod_records(NMETHOD, &[(0x40, &[(0, 0)])], &[], &[])
    else {
        unreachable!()
    };
    let n = Record::NMethodInstalled(NMethodInstalled { osr_bci: 0, osr_entry: 0x40, ..n });
    let vm = vm_with(&[(&M0, &[]), (&M1, &[])], &[n, markers]);
    let osr = |s: Script| s.nm(0x40, 0x48, Exit::Jump);
    let known = osr(start().call(0).op(Opcode::ILOAD_0).branch(Opcode::IFEQ, true).op(Opcode::INVOKESTATIC));
    assert_eq!(run(&vm, known).join(" "), "> m0 m0@0 m0@1 m0@4 < m0 osr m0 m0@0");
    // The trace begins in the loop: it is not known which frame was replaced.
    assert_eq!(run(&vm, osr(Script::default())).join(" "), "> m0 m0@0");
}

#[test]
fn where_the_compiler_lost_the_path_nothing_is_guessed() {
    let cmove = (NO_CONTEXT, ambiguities::CONDITIONAL_MOVE);
    let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), cmove, (1, 5)])], &[], &[], &[]);
    let lines = run(&vm, start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump));
    assert_eq!(lines.join(" "), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 ? m1 conditional-move m1@5");
}

#[test]
fn a_branch_to_the_next_instruction_needs_a_unit_that_tells_its_direction() {
    // Both directions of the branch that ends at 0x18 lead to 0x18; one of them passes the
    // block at 4 of `m1`.
    let on: Edges<'_> = &[(0x16, TAKEN, 0x18, &[(1, 5)]), (0x16, NOT_TAKEN, 0x18, &[(1, 4), (1, 5)])];
    let at: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)]), (0x18, &[(0, 0)]), (0x28, &[(0, 10)])];
    let vm = nmethod(at, on, &[], &[]);
    for (exit, way) in [(Exit::Taken, "m1@1 m1@5"), (Exit::NotTaken, "m1@1 m1@4 m1@5")] {
        let s = || {
            let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, exit).nm(0x18, 0x20, Exit::Taken);
            s.nm(0x28, 0x30, Exit::Return).at(CALL_STUB_RETURN, Exit::Jump)
        };
        let flow = |way| format!("> m0 m0@0 m0@1 m0@4 > m1 m1@0 {way} m0@0 m0@1 m0@10 < m0");
        assert_eq!(run(&vm, s()).join(" "), flow(format!("{way} < m1 m0@7")));
        // The lost path may be the caller's as well.
        let lost = "? m1 shared-target < m1 ? m0 shared-target".to_owned();
        assert_eq!(run_on(&vm, s(), true).join(" "), flow(lost));
    }
}

#[test]
fn a_callee_that_does_not_show_is_noticed() {
    // The callee is inlined, but only the code after it is left.
    let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &[(0, 4), (0, 0)])], &[], &[], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 ? m0 hidden-callee m0@0");
    // The callee of a real call is visible.
    let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &[(0, 4)]), (0x18, &[(0, 0)])], &[], &[(0x18, 0, 4)], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Call).nm(0x18, 0x20, Exit::Jump);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 m0@7 m0@0");
}

/// `m0` makes a call that returns to 0x1a. The state there lies before the inlined call, which
/// has ended by then.
fn at_state_before(then: fn(Script) -> Script) -> String {
    let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (1, 5)])], &[], &[(0x1a, 0, 0)], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x1a, Exit::Call);
    let flow = run(&vm, then(s)).join(" ");
    flow.strip_prefix("> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@5 ").expect("the way to the call").to_owned()
}

#[test]
fn a_state_to_start_again_from_is_no_position() {
    let returned = at_state_before(|s| s.nm(0x1a, 0x20, Exit::Return).at(CALL_STUB_RETURN, Exit::Jump));
    assert_eq!(returned, "< m1 ? m0 missing-marker < m0");
    // The position of an uncommon trap is its state.
    let trapped = at_state_before(|s| s.at(DEOPT_REEXECUTE, Exit::IndirectJump));
    assert_eq!(trapped, "< m1 m0@7 m0@0 < m0 > m0");
    let invalid = |s: Script| s.nm(0x110, 0x118, Exit::Jump).at(DEOPT_REEXECUTE, Exit::IndirectJump);
    assert_eq!(at_state_before(invalid), "< m1 ? m0 string-concatenation m0@0 < m0 > m0");
}

/// The slow call of C2's intrinsic `clone` has the reexecute bit (`inline_native_clone`). If the
/// frame is invalidated meanwhile, the interpreter makes the call a second time.
#[test]
fn a_call_that_has_ended_is_made_again_by_the_reexecute_bit() {
    // 0 iload_0; 1 iload_1; 2 invokestatic; 5 return.
    let code = [26, 27, 184, 0, 0, 177];
    let marks: Marks<'_> = &[(0, &[(0, 0)])];
    let at_call = || start().nm(0, 0x1a, Exit::Call);
    let vm = nmethod_of(&code, marks, &[], &[(0x1a, 0, 2)], &[]);
    let again = |s: Script| s.nm(0x110, 0x118, Exit::Jump).at(DEOPT_REEXECUTE, Exit::IndirectJump);
    let known = "> m0 m0@0 m0@1 m0@2";
    let called = at_call().call(1).op(Opcode::ILOAD_0).branch(Opcode::IFEQ, true);
    let called = called.op(Opcode::NOP).op(Opcode::RETURN);
    let lines = run(&vm, again(called).op(Opcode::INVOKESTATIC).call(1));
    assert_eq!(lines.join(" "), format!("{known} > m1 m1@0 m1@1 m1@4 m1@5 < m1 < m0 > m0 m0@2 > m1"));
    // A stub of the runtime has returned: the interpreter makes the call for the first time.
    let stub = at_call().at(BLOB, Exit::Return);
    let lines = run(&vm, again(stub).op(Opcode::INVOKESTATIC).call(1));
    assert_eq!(lines.join(" "), format!("{known} < m0 > m0 > m1"));
}

/// C2 allocates the destination of an array copy after the checks of the copy, which follow it
/// in the bytecodes. The slow path of the allocation, a call, has the state of the allocation.
#[test]
fn a_moved_allocation_is_no_position() {
    // 0 iload_0; 1 newarray; 3 goto 6; 6 pop; 7 return.
    let code = [26, 188, 10, 167, 0, 3, 87, 177];
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 6)])];
    let flow = |return_address: u32, then: fn(Script) -> Script| {
        let vm = nmethod_of(&code, marks, &[], &[(return_address, 0, 1)], &[]);
        let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, return_address, Exit::Call);
        run(&vm, then(s)).join(" ")
    };
    let known = "> m0 m0@0 m0@1 m0@3 m0@6";
    let returned = flow(0x18, |s| s.nm(0x18, 0x20, Exit::Return).at(CALL_STUB_RETURN, Exit::Jump));
    assert_eq!(returned, format!("{known} m0@7 < m0"));
    // The state of an uncommon trap of the checks: the allocation is executed again.
    let trapped = flow(0x1a, |s| s.at(DEOPT_REEXECUTE, Exit::IndirectJump));
    assert_eq!(trapped, format!("{known} ? m0 moved-allocation m0@1 < m0 > m0"));
}

/// The automaton must not keep the orphan with what the code does.
#[test]
fn an_orphan_is_reported_before_the_code_that_it_calls() {
    let vm = nmethod(&[(0, &[(0, 0)]), (4, &[(0, 4), (1, 0)])], &[], &[], &[]);
    let call = |s: Script| {
        let s = s.op(Opcode::INVOKESTATIC).block(NMETHOD, NMETHOD + 8, Exit::Return);
        s.at(RETURN_ENTRY, Exit::IndirectJump).op(Opcode::POP)
    };
    let lines = run(&vm, call(call(orphans())).op(Opcode::NOP));
    let calls: Vec<_> = lines.windows(2).filter(|w| w[1] == "> m0").map(|w| &w[0][..]).collect();
    assert_eq!(calls, ["orphan invokestatic"; 2], "{lines:?}");
}

#[test]
fn a_lost_marker_is_noticed() {
    let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (1, 5), (0, 10)])], &[], &[], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Return).at(CALL_STUB_RETURN, Exit::Jump);
    // It is not known either how `m1` ended.
    let expected =
        "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@5 ? m1 missing-marker !? m1 ? m0 missing-marker < m0";
    assert_eq!(run(&vm, s).join(" "), expected);
}

/// One iteration of the loop of `m0`, then the marker of its head again, which is misplaced,
/// then another iteration. From 0x18 on, `then` continues the script. The calls that return to
/// 0x28 and 0x30 have these positions.
fn astray(positions: &[(u32, u32, i32)], then: fn(Script) -> Script) -> String {
    let marks: Marks<'_> = &[
        (0, &[(0, 0)]),
        (0x10, &[(0, 4), (1, 0), (1, 5), (0, 0), (0, 0), (0, 4), (1, 0), (1, 5), (0, 0)]),
        (0x20, &[(0, 4), (1, 0)]),
        (0x28, &[(0, 10)]),
    ];
    let vm = nmethod(marks, &[], positions, &[]);
    let flow = run(&vm, then(start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump))).join(" ");
    let known = "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@5 < m1 m0@7 m0@0";
    flow.strip_prefix(known).expect("what precedes the contradiction").trim().to_owned()
}

#[test]
fn nothing_that_markers_say_after_a_contradiction_counts() {
    assert_eq!(astray(&[], |s| s), "");
    let returned = astray(&[], |s| s.nm(0x20, 0x28, Exit::Return).at(CALL_STUB_RETURN, Exit::Jump));
    assert_eq!(returned, "? m0 missing-marker < m0");
    // A call without debug info does not give the position of control.
    let called = astray(&[], |s| s.nm(0x20, 0x28, Exit::Call).nm(0x28, 0x30, Exit::Return));
    assert_eq!(called, "");
}

#[test]
fn debug_info_ends_a_contradiction_of_markers() {
    // In a callee: any number of iterations may have been executed before.
    let called = astray(&[(0x28, 1, 0)], |s| s.nm(0x20, 0x28, Exit::Call));
    assert_eq!(called, "? m0 missing-marker m0@4 > m1 ? m1 missing-marker m1@0");
    // At the position of the last valid marker: nothing shows that anything happened in
    // between.
    let called = astray(&[(0x28, 0, 0)], |s| s.nm(0x20, 0x28, Exit::Call));
    assert_eq!(called, "");
    // Markers are valid again after that.
    let called = astray(&[(0x28, 0, 0)], |s| s.nm(0x20, 0x28, Exit::Call).nm(0x28, 0x2c, Exit::Jump));
    assert_eq!(called, "? m0 missing-marker m0@10");
    let called = astray(&[(0x28, 0, 1)], |s| s.nm(0x20, 0x28, Exit::Call).nm(0x28, 0x2c, Exit::Jump));
    assert_eq!(called, "? m0 missing-marker m0@1 m0@10");
}

#[test]
fn an_exception_of_an_inlined_callee_is_caught_by_the_caller() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 7, handler_bci: 10, ..Default::default() };
    let vm = nmethod(
        &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)])],
        &[(0x18, edge_outcomes::EXCEPTION, 0x40, &[(0, 10)])],
        &[(0x18, 1, 0)],
        &[row],
    );
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Call);
    // The stub of the exception handler jumps into the VM, which jumps to the handler.
    let s = s.nm(0x100, 0x108, Exit::Jump).nm(0x40, 0x48, Exit::Return);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 ! m1 catch m0@10 m0@10");
}

#[test]
fn an_inlined_constructor_returns_before_the_exception_is_thrown() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 8, handler_bci: 10, ..Default::default() };
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (1, 5)]), (0x40, &[(0, 10)])];
    let vm = nmethod_of(&THROWS, marks, &[], &[], &[row]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump).nm(0x40, 0x48, Exit::Return);
    let expected = "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@5 < m1 m0@7 catch m0@10 m0@10";
    assert_eq!(run(&vm, s).join(" "), expected);
}

/// The flow of `m0` after its call at 4, in which `m1` is inlined. Control is in the block at 0
/// of `m1` and throws or returns; the handler at 10 of `m0` is next.
fn to_handler(m0: &[u8], m1: &[u8], caught: (u16, u16)) -> String {
    let row =
        ExceptionEntry { start_bci: caught.0, end_bci: caught.1, handler_bci: 10, ..Default::default() };
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)]), (0x40, &[(0, 10)])];
    let vm = nmethod_with(m0, m1, marks, &[row]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump).nm(0x40, 0x48, Exit::Return);
    let flow = run(&vm, s).join(" ");
    flow.strip_prefix("> m0 m0@0 m0@1 m0@4 > m1 m1@0 ").expect("the way to the call").to_owned()
}

/// As `M0`, but with an athrow at 7.
const THROWS: [u8; 11] = [26, 153, 0, 9, 184, 0, 0, 191, 0, 0, 177];

#[test]
fn an_exception_that_only_one_bytecode_can_have_thrown() {
    // 0 iload_0; 1 iload_0; 2 idiv; 3 pop; 4 aload_0; 5 athrow: an exception of the division
    // would show as a fault.
    let flow = to_handler(&M0, &[26, 26, 108, 87, 42, 191], (4, 7));
    assert_eq!(flow, "m1@1 m1@2 m1@3 m1@4 m1@5 ! m1 catch m0@10 m0@10");
    // A callee that has no `athrow` returns, and its caller throws.
    let flow = to_handler(&THROWS, &[42, 26, 181, 0, 0, 177], (4, 8));
    assert_eq!(flow, "m1@1 m1@2 m1@5 < m1 m0@7 catch m0@10 m0@10");
}

#[test]
fn nothing_but_athrow_throws_without_a_call() {
    // 0 iload_0; 1 iload_0; 2 idiv; 3 ireturn
    let flow = to_handler(&M0, &[26, 26, 108, 172], (4, 7));
    assert_eq!(flow, "? m1 missing-marker !? m1 ? m0 unknown-thrower catch m0@10 m0@10");
}

#[test]
fn an_exception_that_is_thrown_after_a_branch_has_no_place() {
    // 0 iload_0; 1 ifeq 5; 4 nop; 5 aload_0; 6 athrow: a marker would have given the direction.
    let flow = to_handler(&THROWS, &[26, 153, 0, 4, 0, 42, 191], (4, 8));
    assert_eq!(flow, "? m1 missing-marker !? m1 ? m0 unknown-thrower catch m0@10 m0@10");
}

#[test]
fn a_callee_that_may_have_thrown_or_returned() {
    // 0 iload_0; 1 invokestatic; 4 ireturn: according to the markers, an intrinsic.
    let flow = to_handler(&THROWS, &[26, 184, 0, 0, 172], (4, 8));
    assert_eq!(flow, "? m1 unknown-end !? m1 ? m0 unknown-thrower catch m0@10 m0@10");
}

#[test]
fn a_callee_that_can_neither_throw_nor_return_where_it_stands() {
    let flow = to_handler(&M0, &M1, (4, 7));
    assert_eq!(flow, "? m1 missing-marker !? m1 ? m0 unknown-thrower catch m0@10 m0@10");
}

#[test]
fn an_exception_past_a_callee_that_does_not_show_has_no_place() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 8, handler_bci: 10, ..Default::default() };
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4)]), (0x40, &[(0, 10)])];
    let vm = nmethod_with(&THROWS, &M1, marks, &[row]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump).nm(0x40, 0x48, Exit::Return);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 ? m0 hidden-callee catch m0@10 m0@10");
}

#[test]
fn a_marker_of_a_method_that_was_never_described() {
    let mut records =
        nmethod_records(NMETHOD, &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (0, 0)])], &[], &[]);
    let [_, Record::NMethodMarkers(m)] = &mut records else { unreachable!("as built") };
    m.contexts[1].method = 0xdead;
    let vm = vm_with(&[(&M0, &[]), (&M1, &[])], &records);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 ? m0 unknown-method m0@0");
}

#[test]
fn what_a_fold_hides_may_lie_after_the_return_of_the_callee() {
    let loop_gone = (NO_CONTEXT, ambiguities::EMPTY_LOOP);
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (1, 5), loop_gone, (0, 0)])];
    let vm = nmethod(marks, &[], &[], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump);
    let expected = "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@5 < m1 ? m0 empty-loop m0@0";
    assert_eq!(run(&vm, s).join(" "), expected);
}

#[test]
fn a_loop_that_is_gone_may_have_called_the_callee_anew() {
    let flow = |rest: &[(u32, u16)]| {
        let loop_gone = (NO_CONTEXT, ambiguities::EMPTY_LOOP);
        let marks = [&[(0, 4)], rest, &[loop_gone, (1, 4)]].concat();
        let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &marks)], &[], &[], &[]);
        run(&vm, start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump)).join(" ")
    };
    // The call of `m0` is in its loop. The loss is in `m1`, and before it.
    assert_eq!(flow(&[(1, 0)]), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 ? m1 empty-loop over 1 m1@4");
    assert_eq!(flow(&[]), "> m0 m0@0 m0@1 m0@4 > m1 ? m1 empty-loop over 1 m1@4");
}

#[test]
fn what_a_fold_hides_may_lie_in_the_caller_and_in_the_callee() {
    let fold = (NO_CONTEXT, ambiguities::TOO_MANY);
    // Control goes from `m0` into `m1`, whose first block is not marked.
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[fold, (1, 4)])];
    let vm = nmethod(marks, &[], &[], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump);
    let expected = "> m0 m0@0 ? m0 too-many-markers m0@4 > m1 ? m1 too-many-markers m1@4";
    assert_eq!(run(&vm, s).join(" "), expected);
    // Control goes from the callee into the callee again, and nothing in between is marked.
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), fold, (0, 4)])];
    let vm = nmethod(marks, &[], &[], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump);
    let expected = "> m0 m0@0 m0@1 m0@4 > m1 m1@0 ? m1 too-many-markers < m1 ? m0 too-many-markers m0@4";
    assert_eq!(run(&vm, s).join(" "), expected);
}

#[test]
fn what_a_fold_hides_may_have_thrown_after_the_return_of_the_callee() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 7, handler_bci: 10, ..Default::default() };
    let flow = |cause| {
        let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (NO_CONTEXT, cause), (0, 10)])];
        let vm = nmethod(marks, &[], &[], std::slice::from_ref(&row));
        run(&vm, start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump)).join(" ")
    };
    let expected = "> m0 m0@0 m0@1 m0@4 > m1 m1@0 ? m1 too-many-markers !? m1 ? m0 too-many-markers m0@10";
    assert_eq!(flow(ambiguities::TOO_MANY), expected);
    let expected = "> m0 m0@0 m0@1 m0@4 > m1 m1@0 ? m1 prepared-exception ! m1 ? m0 prepared-exception m0@10";
    assert_eq!(flow(ambiguities::PREPARED_EXCEPTION), expected);
}

fn safepoint_handler() -> Record {
    let (start, code) = (address(BLOB), Bytes(vec![0x90; 0x40].into()));
    Record::BlobDefined(BlobDefined { start, kind: blob_kinds::SAFEPOINT, code, ..Default::default() })
}

/// `m0` at its call at 4. The callee is a second nmethod, also of `m0`, which has executed
/// `0..8`.
fn at_call(m0: &[u8], on: Edges<'_>, caught: &[ExceptionEntry]) -> (Vm, Script) {
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4)]), (0x20, &[(0, 10)]), (0x30, &[(0, 0)])];
    let mut records = Vec::from(nmethod_records(NMETHOD, marks, on, &[(0x18, 0, 4)]));
    records.extend(nmethod_records(NMETHOD_2, marks, &[], &[]));
    records.push(safepoint_handler());
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Call);
    (vm_with(&[(m0, caught), (&M1, &[])], &records), s)
}

impl Script {
    /// A block of the second nmethod.
    fn callee(self, from: u32, to: u32, exit: Exit) -> Self {
        self.block(NMETHOD_2 + from, NMETHOD_2 + to, exit)
    }
    fn enter(self, at: u32) -> Self {
        self.push(Item::Enter { ip: Address(address(at)) })
    }
}

const CALLED: &str = "> m0 m0@0 m0@1 m0@4 > m0 m0@0 m0@1 m0@10";

#[test]
fn a_callee_returns_through_the_safepoint_at_its_return() {
    let (vm, s) = at_call(&M0, &[], &[]);
    // The poll's stub jumps to the handler, which enters the VM and returns to the caller.
    let s = s.callee(0, 8, Exit::Taken).callee(0x20, 0x28, Exit::Jump);
    let s =
        s.block(BLOB, BLOB + 4, Exit::IndirectCall).enter(BLOB + 4).block(BLOB + 4, BLOB + 8, Exit::Return);
    let s = s.nm(0x18, 0x20, Exit::Jump).nm(0x30, 0x38, Exit::NotTaken);
    assert_eq!(run(&vm, s).join(" "), format!("{CALLED} < m0 m0@7 m0@0"));
}

#[test]
fn a_recursive_callee_returns_through_the_safepoint_at_its_return() {
    let (vm, s) = at_call(&M0, &[], &[]);
    let s = s.nm(0, 8, Exit::Taken).nm(0x20, 0x28, Exit::Jump).block(BLOB, BLOB + 8, Exit::Return);
    let s = s.nm(0x18, 0x20, Exit::Jump).nm(0x30, 0x38, Exit::NotTaken);
    assert_eq!(run(&vm, s).join(" "), format!("{CALLED} < m0 m0@7 m0@0"));
}

#[test]
fn the_lowest_frame_known_returns_to_one_that_is_not() {
    let (vm, _) = at_call(&M0, &[], &[]);
    let caller = |s: Script| s.nm(0x18, 0x20, Exit::Jump).nm(0x30, 0x38, Exit::NotTaken);
    let found = |at: u32| Script::default().enter(at + 0x20);
    // The frame returns to other code, and to another activation of the same code.
    let s = caller(found(NMETHOD_2).callee(0x20, 0x28, Exit::Return));
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@10 < m0 > m0 m0@0");
    let s = caller(found(NMETHOD).nm(0x20, 0x28, Exit::Return));
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@10 < m0 > m0 m0@0");
    // The same through the safepoint at its return.
    let polled = |s: Script| caller(s.block(BLOB, BLOB + 8, Exit::Return));
    let s = polled(found(NMETHOD_2).callee(0x20, 0x28, Exit::Jump));
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@10 < m0 > m0 m0@0");
    let s = polled(found(NMETHOD).nm(0x20, 0x28, Exit::Jump));
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@10 < m0 > m0 m0@0");
    // If the jump leads to an instruction that faults, the same handler returns to that
    // instruction.
    let s = found(NMETHOD)
        .nm(0x20, 0x28, Exit::Jump)
        .push(Item::Interrupt { ip: Address(address(NMETHOD + 0x18)) });
    // The frame still exists. Markers cannot say that the loop begins again after the return.
    assert_eq!(run(&vm, polled(s.enter(BLOB))).join(" "), "> m0 m0@10");
    // The frame returns from the interpreter, whose return is a jump.
    let s = Script::default()
        .enter(CALL_STUB_RETURN)
        .at(CALL_STUB_RETURN, Exit::Jump)
        .call(1)
        .op(Opcode::ILOAD_0);
    let s = s.branch(Opcode::IFEQ, false);
    let returned = caller(s.clone().op(Opcode::RETURN));
    assert_eq!(run(&vm, returned).join(" "), "> m1 m1@0 m1@1 m1@5 < m1 > m0 m0@0");
    // A frame that has not returned, or that has a caller on the stack, does not vanish.
    assert!(run(&vm, caller(s)).join(" ").contains("gap"));
    let s = found(NMETHOD_2).callee(0x20, 0x28, Exit::Jump);
    assert!(run(&vm, caller(s)).join(" ").contains("gap"));
    // A stub that the code called returns to the code.
    let s = Script::default().enter(NMETHOD + 0x10).nm(0x10, 0x18, Exit::Call).block(
        BLOB,
        BLOB + 4,
        Exit::Return,
    );
    assert_eq!(run(&vm, caller(s)).join(" "), "> m0 m0@4 m0@7 m0@0");
}

#[test]
fn the_lowest_frame_known_is_a_native_one_and_returns() {
    let mut records = Vec::from(nmethod_records(NMETHOD, &[(0x10, &[(0, 4)]), (0x30, &[(0, 0)])], &[], &[]));
    records.extend(nmethod_records(NMETHOD_2, &[], &[], &[]));
    if let Record::NMethodInstalled(wrapper) = &mut records[2] {
        wrapper.compiler = compilers::NATIVE_WRAPPER;
        wrapper.method = POINTERS[1];
    }
    let vm = vm_with(&[(&M0, &[]), (&M1, &[])], &records);
    // The trace begins where the call was resolved.
    let called =
        Script::default().enter(NMETHOD_2).callee(0, 0x20, Exit::IndirectCall).enter(NMETHOD_2 + 0x20);
    let caller = |s: Script| s.nm(0x18, 0x20, Exit::Jump).nm(0x30, 0x38, Exit::NotTaken);
    let returned = caller(called.clone().callee(0x20, 0x28, Exit::Return));
    assert_eq!(run(&vm, returned).join(" "), "> m1 < m1 > m0 m0@0");
    // A frame that has not returned does not vanish.
    assert!(run(&vm, caller(called.callee(0x20, 0x28, Exit::Jump))).join(" ").contains("gap"));
}

#[test]
fn an_exception_of_a_callee_that_is_gone_arrives_at_the_handler() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 7, handler_bci: 10, ..Default::default() };
    let (vm, s) = at_call(&M0, &[], &[row]);
    let s = s.callee(0, 8, Exit::Call).enter(NMETHOD + 0x100);
    let s = s.nm(0x100, 0x108, Exit::Jump).nm(0x20, 0x28, Exit::Return);
    let called = CALLED.strip_suffix(" m0@1 m0@10").unwrap();
    assert_eq!(run(&vm, s).join(" "), format!("{called} ! m0 catch m0@10 m0@10"));
}

#[test]
fn a_callee_that_is_gone_without_a_sign() {
    let (vm, s) = at_call(&M0, &[], &[]);
    // The VM continues in the caller.
    let s = s.callee(0, 8, Exit::Taken).callee(0x20, 0x28, Exit::Jump).enter(NMETHOD + 0x18);
    let s = s.nm(0x18, 0x20, Exit::Jump).nm(0x30, 0x38, Exit::NotTaken);
    assert_eq!(run(&vm, s).join(" "), format!("{CALLED} ? m0 unknown-end !? m0 m0@7 m0@0"));
}

#[test]
fn an_exception_may_arrive_at_the_return_address() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 7, handler_bci: 10, ..Default::default() };
    let on: Edges<'_> = &[(0x18, edge_outcomes::EXCEPTION, 0x18, &[(0, 10)])];
    let (vm, s) = at_call(&M0, on, &[row]);
    let s = s.enter(NMETHOD + 0x100).nm(0x100, 0x108, Exit::Jump).block(BLOB, BLOB + 8, Exit::IndirectJump);
    let s = s.nm(0x18, 0x20, Exit::Return);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 catch m0@10 m0@10");
}

#[test]
fn a_fault_without_debug_info_does_not_say_which_bytecode_threw() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 7, handler_bci: 10, ..Default::default() };
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4)]), (0x40, &[(0, 10)])];
    let vm = nmethod(marks, &[], &[], &[row]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x14, Exit::Cut).nm(0x50, 0x58, Exit::Jump);
    let lines = run(&vm, s.nm(0x40, 0x48, Exit::Return));
    assert_eq!(lines.join(" "), "> m0 m0@0 m0@1 m0@4 ? m0 hidden-callee catch m0@10 m0@10");
}

#[test]
fn the_first_instruction_of_a_block_may_be_patched_for_a_later_bytecode() {
    let marks: Marks<'_> = &[(0x10, &[(0, 0)]), (0x20, &[(0, 10)])];
    let vm = c1(marks, &[(0xe5, 0, 1)]);
    let s = start().nm(0, 8, Exit::Taken).nm(0x10, 0x15, Exit::Jump).nm(0xe0, 0xe5, Exit::Call);
    // The thread is interrupted in the stub.
    let cut = Address(address(NMETHOD + 0xe7));
    let s = s.nm(0xe5, 0xe7, Exit::Cut).push(Item::Interrupt { ip: cut }).push(Item::Enter { ip: cut });
    let s = s.nm(0xe7, 0xea, Exit::Jump).nm(0x10, 0x18, Exit::Taken).nm(0x20, 0x28, Exit::Return);
    assert_eq!(run(&vm, s.at(CALL_STUB_RETURN, Exit::Jump)).join(" "), "> m0 m0@0 m0@1 m0@10 < m0");
}

#[test]
fn c2_patches_nothing() {
    let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &[(0, 4)]), (0x30, &[(0, 0)])], &[], &[(0x25, 0, 4)], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x20, Exit::Jump);
    // A loop that begins with a jump.
    let s = s.nm(0x30, 0x35, Exit::Jump).nm(0x20, 0x25, Exit::Call).nm(0x25, 0x2a, Exit::Jump);
    let s = s.nm(0x30, 0x35, Exit::Jump);
    let expected = "> m0 m0@0 m0@1 m0@4 ? m0 hidden-callee m0@0 m0@1 m0@4 m0@7 m0@0";
    assert_eq!(run(&vm, s).join(" "), expected);
}

/// An nmethod of `m0` only, compiled by C1.
fn c1(at: Marks<'_>, positions: &[(u32, u32, i32)]) -> Vm {
    let mut records = nmethod_records(NMETHOD, at, &[], positions);
    let [Record::NMethodInstalled(n), _] = &mut records else { unreachable!("as built") };
    n.compiler = compilers::C1;
    vm_with(&[(&M0, &[]), (&M1, &[])], &records)
}

#[test]
fn code_of_another_compiler_is_positioned_by_its_debug_info() {
    // 200 is a compiler of a later version.
    for compiler in [compilers::C2, compilers::JVMCI, 200] {
        let [mut installed, _] = nmethod_records(NMETHOD, &[], &[], &[(0x18, 0, 4), (0x38, 0, 7)]);
        let Record::NMethodInstalled(n) = &mut installed else { unreachable!("as built") };
        n.compiler = compiler;
        let vm = vm_with(&[(&M0, &[]), (&M1, &[])], &[installed]);
        let s = start().nm(0, 0x18, Exit::Call).nm(0x18, 0x38, Exit::Jump).nm(0x38, 0x40, Exit::Return);
        let flow = run(&vm, s.at(CALL_STUB_RETURN, Exit::Jump)).join(" ");
        assert_eq!(flow, "> m0 m0@0 m0@1 m0@4 m0@7 ? m0 several-paths < m0", "compiler {compiler}");
    }
}

#[test]
fn a_class_that_is_being_initialised_is_not_patched_yet() {
    let vm = c1(&[(0, &[(0, 0)]), (0x10, &[(0, 4)]), (0x30, &[(0, 0)])], &[(0xe5, 0, 4)]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x15, Exit::Jump).nm(0xe0, 0xe5, Exit::Call);
    // The instruction is still a jump into the stub. The stub continues at the instruction
    // after it.
    let s = s.nm(0xe5, 0xea, Exit::Jump).nm(0x10, 0x15, Exit::Jump).nm(0xd0, 0xe0, Exit::Jump);
    let s = s.nm(0x15, 0x20, Exit::Jump).nm(0x30, 0x38, Exit::NotTaken);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 m0@7 m0@0");
}

#[test]
fn a_call_without_a_position_says_nothing_of_the_instructions_before_it() {
    // 0 iload_0; 1 ifeq 10; 4 aload_0; 5 athrow; 10 return
    let m0 = [26, 153, 0, 9, 42, 191, 0, 0, 0, 0, 177];
    let flow = |compiler, offset, bci| {
        let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4)])];
        let mut records = nmethod_records(NMETHOD, marks, &[], &[(offset, 0, bci)]);
        let [Record::NMethodInstalled(n), _] = &mut records else { unreachable!("as built") };
        n.compiler = compiler;
        let vm = vm_with(&[(&m0, &[])], &records);
        run(&vm, start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Call)).join(" ")
    };
    // For an `athrow`, C1 records the position before the call.
    assert_eq!(flow(compilers::C1, 0x12, 5), "> m0 m0@0 m0@1 m0@4 m0@5");
    assert_eq!(flow(compilers::C1, 0x12, 1), "> m0 m0@0 m0@1 m0@4");
    assert_eq!(flow(compilers::C2, 0x12, 5), "> m0 m0@0 m0@1 m0@4");
    // The position is that of another call, which ends before the block.
    assert_eq!(flow(compilers::C1, 0x10, 5), "> m0 m0@0 m0@1 m0@4");
}

#[test]
fn an_instruction_that_was_patched_is_the_same_bytecode_again() {
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4)]), (0x30, &[(0, 0)])];
    let vm = c1(marks, &[(0xe5, 0, 4)]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x15, Exit::Jump);
    let s = s.nm(0xe0, 0xe5, Exit::Call).nm(0xe5, 0xea, Exit::Jump).nm(0x10, 0x18, Exit::Jump);
    let s = s.nm(0x30, 0x38, Exit::NotTaken);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 m0@7 m0@0");
}

/// Two bytecode blocks in one machine block, which is interrupted at the first one's position.
fn interrupted() -> (Vm, Script) {
    let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (1, 4)])], &[], &[(0x14, 1, 1)], &[]);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x14, Exit::Cut);
    (vm, s.push(Item::Interrupt { ip: Address(address(NMETHOD + 0x14)) }))
}

#[test]
fn an_interrupted_block_continues() {
    let (vm, s) = interrupted();
    let s = s.push(Item::Enter { ip: Address(address(NMETHOD + 0x14)) }).nm(0x14, 0x18, Exit::Jump);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@4");
}

#[test]
fn the_check_in_front_of_a_method_may_be_interrupted() {
    let mut records = nmethod_records(NMETHOD, &[(0x10, &[(0, 0)]), (0x20, &[(0, 10)])], &[], &[]);
    if let Record::NMethodInstalled(n) = &mut records[0] {
        n.verified_entry = 0x10;
    }
    let vm = vm_with(&[(&M0, &[]), (&M1, &[])], &records);
    // At the entry, or in the padding before it.
    for at in [0x10, 0xc] {
        let ip = Address(address(NMETHOD + at));
        let check = start().nm(0, 8, Exit::NotTaken).nm(8, at, Exit::Cut);
        let s = check.push(Item::Interrupt { ip }).push(Item::Enter { ip }).nm(at, 0x18, Exit::Taken);
        let lines = run(&vm, s.nm(0x20, 0x28, Exit::Return).at(CALL_STUB_RETURN, Exit::Jump));
        assert_eq!(lines.join(" "), "> m0 m0@0 m0@1 m0@10 < m0", "interrupted at {at:#x}");
    }
}

#[test]
fn an_interrupted_block_that_is_deoptimised_has_not_gone_on() {
    let (vm, s) = interrupted();
    let s = s.push(Item::Enter { ip: Address(address(DEOPT_REEXECUTE)) });
    let s = s.at(DEOPT_REEXECUTE, Exit::IndirectJump).branch(Opcode::IFEQ, true).op(Opcode::NOP);
    // The test is not reported twice.
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 < m1 < m0 > m0 > m1 m1@4");
}

#[test]
fn steps_of_code_name_the_code_and_where_it_was_left() {
    use jportal_flow::{CodeStep, CodeStop};
    use jportal_units::CodeId;
    let code = CodeId(2);
    let (vm, s) = interrupted();
    let s = s.push(Item::Enter { ip: Address(address(DEOPT_REEXECUTE)) });
    let s = s.at(DEOPT_REEXECUTE, Exit::IndirectJump);
    let stop = Some(CodeStop::Before(0x14));
    let steps = [(1, CodeStep::Entered(code)), (7, CodeStep::Deoptimised { code, stop })];
    assert_eq!(code_steps(&vm, &s), steps);
    // The same by a call.
    let vm = nmethod(&[(0, &[(0, 0)]), (0x10, &[(0, 10)])], &[], &[(0x18, 0, 10)], &[]);
    let s = start().nm(0, 8, Exit::Taken).nm(0x10, 0x18, Exit::Call);
    let s = s.at(DEOPT_REEXECUTE, Exit::IndirectJump);
    let stop = Some(CodeStop::Call(0x18));
    let steps = [(1, CodeStep::Entered(code)), (4, CodeStep::Deoptimised { code, stop })];
    assert_eq!(code_steps(&vm, &s), steps);
}

/// `m0` from its first block to the one at 0x10, whose first instruction faults. `state` is the
/// debug info there. `implicit` are the instructions that C2 expects to fault.
fn faulted_at_start(state: &[(u32, u32, i32)], implicit: &[u32]) -> String {
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (1, 5)]), (0x30, &[(0, 10)])];
    let mut records = nmethod_records(NMETHOD, marks, &[], state);
    if let Record::NMethodInstalled(n) = &mut records[0] {
        n.implicit =
            implicit.iter().map(|&pc_offset| ImplicitEntry { pc_offset, continuation: 0x40 }).collect();
    }
    let vm = vm_with(&[(&M0, &[]), (&M1, &[])], &records);
    let s = start().nm(0, 8, Exit::Taken).push(Item::Interrupt { ip: Address(address(NMETHOD + 0x10)) });
    let s = s.enter(NMETHOD + 0x40).nm(0x40, 0x48, Exit::Jump);
    run(&vm, s).join(" ")
}

#[test]
fn a_block_whose_first_instruction_faults_was_reached() {
    assert_eq!(faulted_at_start(&[], &[]), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@5");
    // The block was not reached if the state says so.
    assert_eq!(faulted_at_start(&[(0x10, 1, 1)], &[0x18]), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1");
    assert_eq!(faulted_at_start(&[(0x10, 0, 1)], &[]), "> m0 m0@0 m0@1");
    // A state that belongs to the call before the block says nothing.
    assert_eq!(faulted_at_start(&[(0x10, 1, 1)], &[0x10]), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@5");
}

/// Two iterations of the loop of `m0`, whose test C2 has moved into the previous iteration.
/// There is a poll at 0x24, which finds work to do. Its state is the end of the previous
/// iteration, at 7.
fn polled() -> (Vm, Script) {
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (1, 5), (0, 0)]), (0x30, &[(0, 10)])];
    let mut records = Vec::from(nmethod_records(NMETHOD, marks, &[], &[(0x24, 0, 7)]));
    records.push(safepoint_handler());
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump).poll();
    (vm_with(&[(&M0, &[]), (&M1, &[])], &records), s)
}

const POLLED: &str = "> m0 m0@0 m0@1 m0@4 > m1 m1@0 m1@1 m1@5 < m1 m0@7 m0@0";

#[test]
fn a_poll_after_the_blocks_that_follow_its_state_lets_control_continue() {
    let (vm, s) = polled();
    let s =
        s.block(BLOB + 4, BLOB + 8, Exit::Return).nm(0x28, 0x30, Exit::NotTaken).nm(0x30, 0x38, Exit::Return);
    let lines = run(&vm, s.at(CALL_STUB_RETURN, Exit::Jump));
    assert_eq!(lines.join(" "), format!("{POLLED} m0@1 m0@10 < m0"));
}

#[test]
fn what_is_on_the_way_after_a_poll_is_passed_when_control_continues() {
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4)]), (0x20, &[(0, 10)])];
    let on: Edges<'_> = &[(0x14, NOT_TAKEN, 0x18, &[(0, 0)])];
    let mut records = Vec::from(nmethod_records(NMETHOD, marks, on, &[(0x14, 0, 7)]));
    records.push(safepoint_handler());
    // 0 iload_0; 1 ifeq 10; 4 nop; 5 nop; 6 nop; 7 goto 0; 10 return
    let vm = vm_with(&[(&[26, 153, 0, 9, 0, 0, 0, 167, 0xff, 0xf9, 177], &[])], &records);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x14, Exit::Cut);
    let s = s.push(Item::Interrupt { ip: Address(address(NMETHOD + 0x14)) }).enter(BLOB);
    let s = s.block(BLOB, BLOB + 8, Exit::Return).nm(0x18, 0x20, Exit::Taken).nm(0x20, 0x28, Exit::Return);
    let lines = run(&vm, s.at(CALL_STUB_RETURN, Exit::Jump));
    assert_eq!(lines.join(" "), "> m0 m0@0 m0@1 m0@4 m0@5 m0@6 m0@7 m0@0 m0@1 m0@10 < m0");
}

#[test]
fn the_first_instruction_of_a_block_may_be_a_poll() {
    let marks: Marks<'_> =
        &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0), (1, 5)]), (0x24, &[(0, 0)]), (0x30, &[(0, 10)])];
    let mut records = Vec::from(nmethod_records(NMETHOD, marks, &[], &[(0x24, 0, 7)]));
    records.push(safepoint_handler());
    let vm = vm_with(&[(&M0, &[]), (&M1, &[])], &records);
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x24, Exit::NotTaken);
    let s = s.push(Item::Interrupt { ip: Address(address(NMETHOD + 0x24)) }).enter(BLOB);
    let s = s.block(BLOB, BLOB + 8, Exit::Return).nm(0x28, 0x30, Exit::NotTaken).nm(0x30, 0x38, Exit::Jump);
    assert_eq!(run(&vm, s).join(" "), format!("{POLLED} m0@1 m0@10"));
}

const POLL_STATE_HERE: (u32, u16) = (POLL_STATE, 0);

/// As `polled`, but C2 marks the place of the poll's state. After it, the block at 0 begins.
fn polled_early(behind: &[(u32, u16)]) -> (Vm, Script) {
    let round = [&[(0, 4), (1, 0), (1, 5), POLL_STATE_HERE, (0, 0)], behind].concat();
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &round), (0x30, &[(0, 10)])];
    let mut records = Vec::from(nmethod_records(NMETHOD, marks, &[], &[(0x24, 0, 7), (0x48, 0, 1)]));
    records.push(safepoint_handler());
    let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::Jump);
    (vm_with(&[(&M0, &[]), (&M1, &[])], &records), s)
}

impl Script {
    /// The poll at 0x24 is reached and finds work to do; the handler has called the VM.
    fn poll(self) -> Self {
        let s = self.nm(0x20, 0x24, Exit::Cut).push(Item::Interrupt { ip: Address(address(NMETHOD + 0x24)) });
        s.enter(BLOB).block(BLOB, BLOB + 4, Exit::IndirectCall).enter(BLOB + 4)
    }
}

#[test]
fn what_was_passed_before_its_time_has_happened_if_the_poll_lets_control_continue() {
    let (vm, s) = polled_early(&[]);
    let s = s.poll().block(BLOB + 4, BLOB + 8, Exit::Return).nm(0x28, 0x30, Exit::NotTaken);
    let s = s.nm(0x30, 0x38, Exit::Return).at(CALL_STUB_RETURN, Exit::Jump);
    assert_eq!(run(&vm, s).join(" "), format!("{POLLED} m0@1 m0@10 < m0"));
    // Nothing else takes it back either: an idle poll, another interruption, the next
    // iteration, a return or a call.
    let (vm, s) = polled_early(&[]);
    let s = s.nm(0x20, 0x30, Exit::NotTaken).nm(0x30, 0x38, Exit::Jump);
    assert_eq!(run(&vm, s).join(" "), format!("{POLLED} m0@1 m0@10"));
    let (vm, s) = polled_early(&[]);
    let there = Address(address(NMETHOD + 0x22));
    let s = s.nm(0x20, 0x22, Exit::Cut).push(Item::Interrupt { ip: there }).push(Item::Enter { ip: there });
    assert_eq!(run(&vm, s.nm(0x22, 0x28, Exit::NotTaken)).join(" "), POLLED);
    let (vm, s) = polled_early(&[]);
    let again = POLLED.strip_prefix("> m0 m0@0").unwrap();
    let s = s.nm(0x10, 0x18, Exit::Jump).nm(0x20, 0x30, Exit::NotTaken);
    assert_eq!(run(&vm, s).join(" "), format!("{POLLED}{again}"));
    let (vm, s) = polled_early(&[(0, 10)]);
    let s = s.nm(0x40, 0x44, Exit::Return).at(CALL_STUB_RETURN, Exit::Jump);
    assert_eq!(run(&vm, s).join(" "), format!("{POLLED} m0@1 m0@10 < m0"));
    let (vm, s) = polled_early(&[]);
    assert_eq!(run(&vm, s.nm(0x40, 0x48, Exit::Call)).join(" "), format!("{POLLED} m0@1"));
}

#[test]
fn what_was_passed_before_its_time_has_not_happened_if_the_poll_deoptimises() {
    let (vm, s) = polled_early(&[]);
    // The handler returns to the deoptimisation handler; the interpreter resumes with the goto
    // at 7.
    let s = s
        .poll()
        .block(BLOB + 4, BLOB + 8, Exit::Return)
        .push(Item::Enter { ip: Address(address(DEOPT_REEXECUTE)) });
    let s = s.at(DEOPT_REEXECUTE, Exit::IndirectJump).op(Opcode::GOTO).op(Opcode::ILOAD_0);
    let told = POLLED.strip_suffix(" m0@0").unwrap();
    assert_eq!(run(&vm, s).join(" "), format!("{told} < m0 > m0 m0@0"));
}

impl Script {
    /// The handler of the poll before a return finds an exception that came from outside, and
    /// forwards it.
    fn stopped_at_return(self) -> Self {
        let s = self.block(BLOB, BLOB + 4, Exit::IndirectCall).enter(BLOB + 4);
        s.block(BLOB + 4, BLOB + 8, Exit::Jump).at(FORWARD_EXCEPTION, Exit::IndirectJump)
    }
}

#[test]
fn an_exception_from_outside_at_a_return_is_thrown_in_the_caller() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 7, handler_bci: 10, ..Default::default() };
    let (vm, s) = at_call(&M0, &[], std::slice::from_ref(&row));
    let callee = |s: Script| s.callee(0, 8, Exit::Taken).callee(0x20, 0x28, Exit::Jump).stopped_at_return();
    // The caller is compiled.
    let s = callee(s).nm(0x100, 0x108, Exit::Jump).nm(0x20, 0x28, Exit::Return);
    assert_eq!(run(&vm, s).join(" "), format!("{CALLED} < m0 catch m0@10 m0@10"));
    // The caller is interpreted.
    let s = start().call(0).op(Opcode::ILOAD_0).branch(Opcode::IFEQ, true).op(Opcode::INVOKESTATIC);
    let s = callee(s).at(RETHROW, Exit::Call).reveal(REVEAL_HANDLER, 10);
    let s = s.block(0x3400, 0x3408, Exit::IndirectJump).op(Opcode::RETURN);
    assert_eq!(run(&vm, s).join(" "), format!("{CALLED} < m0 catch m0@10 m0@10"));
}

#[test]
fn a_callee_that_is_not_entrant_has_no_frame_to_return_from() {
    let row = ExceptionEntry { start_bci: 4, end_bci: 7, handler_bci: 10, ..Default::default() };
    let (vm, s) = at_call(&M0, &[], &[row]);
    // The callee is the same code, whose entry has become a jump. The stub that looks for other
    // code throws.
    let s = s.nm(0, 5, Exit::Jump).stopped_at_return().nm(0x100, 0x108, Exit::Jump);
    let lines = run(&vm, s.nm(0x20, 0x28, Exit::Return));
    assert_eq!(lines.join(" "), "> m0 m0@0 m0@1 m0@4 catch m0@10 m0@10");
}

#[test]
fn an_exception_that_code_has_the_vm_rethrow_has_left_the_inlined_frames() {
    // `m0` catches a class that is not loaded. The inlined callee is: 0 aload_0; 1 athrow.
    let row = ExceptionEntry { start_bci: 4, end_bci: 7, handler_bci: 10, ..Default::default() };
    let marks: Marks<'_> = &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)]), (0x40, &[(0, 10)])];
    let mut records = Vec::from(nmethod_records(NMETHOD, marks, &[], &[(0x18, 0, 4)]));
    records.extend(nmethod_records(NMETHOD_2, marks, &[], &[]));
    let (at, kind) = (address(BLOB), blob_kinds::RUNTIME_STUB);
    let name = jportal_capture::codec::Str::from("_rethrow_Java");
    let code = Bytes(vec![0x90; 0x40].into());
    records.push(Record::BlobDefined(BlobDefined { start: at, kind, name, code, ..Default::default() }));
    let flow = |m1: &[u8], then: fn(Script) -> Script| {
        let vm = vm_with(&[(&M0, std::slice::from_ref(&row)), (m1, &[])], &records);
        let s = start().nm(0, 8, Exit::NotTaken).nm(0x10, 0x18, Exit::IndirectCall);
        // The stub removes no frame: the exception comes back to the code that called it.
        let s = s.block(BLOB, BLOB + 8, Exit::IndirectJump).nm(0x100, 0x108, Exit::Jump);
        let flow = run(&vm, then(s)).join(" ");
        flow.strip_prefix("> m0 m0@0 m0@1 m0@4 > m1 m1@0 ").expect("the way to the call").to_owned()
    };
    let caught = |s: Script| s.nm(0x40, 0x48, Exit::Return);
    assert_eq!(flow(&[42, 191], caught), "m1@1 ! m1 catch m0@10 m0@10");
    // No frame catches it.
    let unwound = |s: Script| s.nm(0x50, 0x58, Exit::Jump).block(BLOB, BLOB + 8, Exit::IndirectJump);
    assert_eq!(flow(&[42, 191], unwound), "m1@1 ! m1 ! m0");
    // No bytecode of the callee can have thrown.
    assert_eq!(flow(&[0, 177], caught), "? m1 missing-marker !? m1 catch m0@10 m0@10");
}

#[test]
fn a_debugger_pops_frames_of_compiled_code() {
    let (vm, s) = at_call(&M0, &[], &[]);
    // The caller is compiled: it is deoptimised and makes its call again.
    let popped = s.call(1).op(Opcode::ILOAD_0).at(POP_FRAME, Exit::IndirectJump);
    let again = popped.nm(0x110, 0x118, Exit::Jump).at(DEOPT_REEXECUTE, Exit::IndirectJump);
    let lines = run(&vm, again.op(Opcode::INVOKESTATIC).call(1));
    assert_eq!(lines.join(" "), "> m0 m0@0 m0@1 m0@4 > m1 m1@0 pop m1 < m0 > m0 m0@4 > m1");
    // The popped frame was compiled: an interpreted frame replaces it first.
    let s = start().call(0).op(Opcode::ILOAD_0).branch(Opcode::IFEQ, true).op(Opcode::INVOKESTATIC);
    let s = s.callee(0, 8, Exit::Taken).at(POP_FRAME, Exit::IndirectJump).op(Opcode::INVOKESTATIC);
    assert_eq!(run(&vm, s).join(" "), "> m0 m0@0 m0@1 m0@4 > m0 m0@0 < m0 > m0 pop m0 m0@4");
}
