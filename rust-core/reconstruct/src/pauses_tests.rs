// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests what an observer learns of pauses, on scripts.

use std::sync::{Arc, Mutex};

use crate::driver::Positions;
use crate::machine::{Machine, Shared};
use crate::machine_tests::{
    BLOB, CALL_STUB_RETURN, NMETHOD, NMETHOD_2, Script, Vm, address, op_address, vm_with,
};
use crate::marked_tests::{nmethod, nmethod_records};
use crate::pauses::{Pause, PausedAt};
use crate::states::{Marked, MarkedBlock, RanBlock, ReachedState, StateObserver, States};
use jportal_bytecode::Opcode;
use jportal_capture::codec::{Bytes, Str};
use jportal_capture::schema::{BlobDefined, MethodDefined, NMethodInstalled, Record, blob_kinds, compilers};
use jportal_flow::Tier;
use jportal_machine_flow::{Exit, Item, Target};
use jportal_units::{Address, Tsc};

/// Keeps the pauses that contain a time.
#[derive(Debug)]
struct At(u64, Arc<Mutex<Vec<Pause>>>);

impl StateObserver for At {
    fn reached(&mut self, _: &ReachedState, _: u64) {}
    fn ran(&mut self, _: &RanBlock, _: u64) {}
    fn wants(&mut self, since: Tsc, until: Tsc, _: Option<Address>) -> bool {
        (since.0..=until.0).contains(&self.0)
    }
    fn paused(&mut self, pause: Pause) {
        if (pause.since.0..=pause.until.0).contains(&self.0) {
            self.1.lock().unwrap().push(pause);
        }
    }
    fn end(self: Box<Self>) {}
}

fn paused(vm: &Vm, script: &Script, time: u64) -> Vec<Pause> {
    let shared = Shared::new(&vm.image, &vm.history, Positions::Markers, false);
    let mut machine = Machine::new(&shared);
    let pauses = Arc::new(Mutex::new(Vec::new()));
    machine.states = Some(Box::new(States::new(Box::new(At(time, Arc::clone(&pauses))))));
    machine.automatic = false;
    script.0.iter().for_each(|i| machine.item(i));
    machine.finish();
    machine.states.take().unwrap().end();
    std::mem::take(&mut *pauses.lock().unwrap())
}

/// The frames as method number, bci.
fn frames(pause: &Pause) -> Vec<(u32, Option<u16>)> {
    pause.frames.iter().map(|f| (f.method.0, f.bci.map(|b| b.0))).collect()
}

fn time(tsc: u64) -> Item {
    Item::Time(Tsc(tsc))
}

/// The thread is interrupted at `ip` from 10 to 20 and continues there.
fn interrupted(script: Script, ip: u64) -> Script {
    let ip = Address(ip);
    script.push(time(10)).push(Item::Interrupt { ip }).push(time(20)).push(Item::Enter { ip })
}

/// 0 iload_0; 1 iload_1; 2 iadd; 3 ireturn
const SUM: [u8; 4] = [26, 27, 96, 172];

#[test]
fn an_interrupt_in_the_interpreter_is_at_the_bytecode_that_was_dispatched() {
    let vm = vm_with(&[(&SUM, &[])], &[]);
    let start = Script::default().upcall().call(0).op(Opcode::ILOAD_0);
    let iload_1 = op_address(Opcode(27));
    let script = interrupted(start, iload_1).op(Opcode(27)).push(time(30)).op(Opcode(96));
    let [pause] = &paused(&vm, &script, 15)[..] else { panic!("one pause") };
    assert_eq!((pause.since, pause.until, pause.ip), (Tsc(10), Tsc(30), Some(Address(iload_1))));
    assert_eq!((pause.at, frames(pause)), (PausedAt::Interpreter, vec![(0, Some(1))]));
    // The frame's slot may name any bytecode since its entry.
    assert_eq!(pause.recent.iter().map(|b| b.0).collect::<Vec<_>>(), [0, 1]);
    assert!(pause.whole && !pause.lost && !pause.throwing);
    assert_eq!(pause.event, 3, "after the entry and two bytecodes");
    assert!(paused(&vm, &script, 9).is_empty() && paused(&vm, &script, 31).is_empty());
}

#[test]
fn control_outside_of_the_code_cache_is_a_pause_until_the_thread_runs() {
    let vm = vm_with(&[(&SUM, &[])], &[]);
    let leave = Item::Leave { target: Target::new(Address(0x9999)) };
    let back = Address(op_address(Opcode(27)) + 4);
    let start = Script::default().upcall().call(0).op(Opcode::ILOAD_0);
    let away = start.block(op_at(27), op_at(27) + 4, Exit::Call).push(time(10)).push(leave).push(time(20));
    let script = away.clone().push(Item::Enter { ip: back }).push(time(30)).op(Opcode(96)).push(time(40));
    let [pause] = &paused(&vm, &script, 15)[..] else { panic!("one pause") };
    assert_eq!((pause.at, pause.ip, pause.until), (PausedAt::Outside, None, Tsc(30)));
    // The thread is interrupted before it executes anything: the pause continues.
    let held = away.clone().push(Item::Enter { ip: back }).push(Item::Interrupt { ip: back });
    let held = held.push(time(50)).push(Item::Enter { ip: back }).push(time(60)).op(Opcode(96));
    let found = paused(&vm, &held, 45);
    assert!(found.iter().any(|p| (p.since, p.ip, p.until) == (Tsc(10), None, Tsc(60))), "{found:?}");
    // It never comes back.
    let [pause] = &paused(&vm, &away, 99)[..] else { panic!("one pause") };
    assert_eq!((pause.at, pause.until), (PausedAt::Outside, Tsc(u64::MAX)));
}

fn op_at(op: u8) -> u32 {
    (op_address(Opcode(op)) - address(0)) as u32
}

#[test]
fn an_interrupt_in_compiled_code_says_where_markers_place_control() {
    let at: &[(u32, &[(u32, u16)])] =
        &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)]), (0x20, &[(1, 5), (0, 10)])];
    let vm = nmethod(at, &[], &[], &[]);
    let before = Script::default().upcall().block(NMETHOD, NMETHOD + 8, Exit::NotTaken);
    let script = interrupted(before, address(NMETHOD + 0x10));
    let script = script.block(NMETHOD + 0x10, NMETHOD + 0x18, Exit::Call).push(time(30));
    let [pause] = &paused(&vm, &script, 15)[..] else { panic!("one pause") };
    let PausedAt::Compiled { from, offset, marked, returns, .. } = pause.at else { panic!("{pause:?}") };
    // The markers at the instruction itself have not been passed.
    assert_eq!((from, offset, returns), (0x10, 0x10, false));
    assert_eq!(marked, Marked::Block(MarkedBlock { context: 0, bci: 0 }));
    assert_eq!(pause.frames.len(), 1);
}

#[test]
fn an_interrupt_inside_a_machine_block_says_where_it_began() {
    let at: &[(u32, &[(u32, u16)])] =
        &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)]), (0x20, &[(1, 5), (0, 10)])];
    let vm = nmethod(at, &[], &[], &[]);
    let before = Script::default().upcall().block(NMETHOD, NMETHOD + 8, Exit::NotTaken);
    let before = before.block(NMETHOD + 0x10, NMETHOD + 0x14, Exit::Cut);
    let script = interrupted(before, address(NMETHOD + 0x14));
    let script = script.block(NMETHOD + 0x14, NMETHOD + 0x18, Exit::Call).push(time(30));
    let [pause] = &paused(&vm, &script, 15)[..] else { panic!("one pause") };
    let PausedAt::Compiled { from, offset, marked, .. } = pause.at else { panic!("{pause:?}") };
    // C2 puts all markers of a machine block at its start, so those from there on count.
    assert_eq!((from, offset), (0x10, 0x14));
    assert_eq!(marked, Marked::Block(MarkedBlock { context: 0, bci: 0 }));
}

#[test]
fn a_wrapper_entered_through_its_inline_cache_check_has_a_frame() {
    let native = MethodDefined {
        method: 0x7777,
        name: Str::from("n"),
        access_flags: 0x100,
        entry_kind: 2,
        ..Default::default()
    };
    let wrapper = NMethodInstalled {
        method: 0x7777,
        nmethod: u64::from(NMETHOD),
        start: address(NMETHOD),
        compiler: compilers::NATIVE_WRAPPER,
        verified_entry: 0x10,
        stub: 0x40,
        code: Bytes(vec![0x90; 0x40].into()),
        ..Default::default()
    };
    let vm = vm_with(&[(&SUM, &[])], &[Record::MethodDefined(native), Record::NMethodInstalled(wrapper)]);
    let script = Script::default().upcall().call(0).op(Opcode::ILOAD_0);
    // The check jumps to the verified entry in the same code.
    let script =
        script.block(NMETHOD, NMETHOD + 8, Exit::Taken).block(NMETHOD + 0x10, NMETHOD + 0x20, Exit::Call);
    let leave = Item::Leave { target: Target::new(Address(0x9999)) };
    let script = script.push(time(10)).push(leave).push(time(20));
    let [pause] = &paused(&vm, &script, 15)[..] else { panic!("one pause") };
    assert_eq!(pause.frames.last().map(|f| f.tier), Some(Tier::Native), "{pause:?}");
    assert_eq!(pause.frames.len(), 2);
}

#[test]
fn a_stub_that_jumps_to_the_callee_has_removed_its_frame() {
    let blob = BlobDefined {
        start: address(BLOB),
        kind: blob_kinds::RUNTIME_STUB,
        name: Str::from("resolve_virtual_call"),
        code: Bytes(vec![0x90; 0x40].into()),
        ..Default::default()
    };
    let nmethods = [NMETHOD, NMETHOD_2].map(|at| nmethod_records(at, &[(0, &[(0, 0)])], &[], &[]));
    let records = [&nmethods.concat()[..], &[Record::BlobDefined(blob)]].concat();
    let vm = vm_with(&[(&SUM, &[])], &records);
    let returns = |last: (u32, Exit)| {
        let before =
            Script::default().upcall().call(0).op(Opcode::ILOAD_0).block(BLOB, BLOB + 0x10, Exit::Cut);
        let script = interrupted(before, address(BLOB + 0x10));
        let script = script.block(BLOB + 0x10, BLOB + 0x10 + last.0, last.1).push(time(30));
        let [pause] = &paused(&vm, &script, 15)[..] else { panic!("one pause") };
        assert!(matches!(pause.at, PausedAt::Stub { offset: 0x10, .. }), "{pause:?}");
        pause.returns
    };
    // `ret`; `pop rbp; jmp rax`; and instructions before these, which need the frame.
    assert!(returns((1, Exit::Return)) && returns((3, Exit::IndirectJump)));
    assert!(!returns((8, Exit::Return)) && !returns((10, Exit::IndirectJump)) && !returns((2, Exit::Taken)));
}

#[test]
fn frames_after_a_loss_are_not_trusted() {
    let vm = vm_with(&[(&SUM, &[])], &[]);
    let start = Script::default().push(crate::machine_tests::overflow()).upcall().call(0).op(Opcode::ILOAD_0);
    let script = interrupted(start, op_address(Opcode(27)))
        .op(Opcode(27))
        .push(time(30))
        .at(CALL_STUB_RETURN, Exit::Return);
    assert!(paused(&vm, &script, 15)[0].lost);
}
