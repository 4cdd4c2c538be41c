// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests what an observer of compiled code gets, on a hand-made nmethod.

use std::sync::{Arc, Mutex};

use crate::driver::Positions;
use crate::machine::{Machine, Shared};
use crate::machine_tests::{DEOPT_REEXECUTE, NMETHOD, Script};
use crate::marked_tests::nmethod;
use crate::states::{RanBlock, ReachedState, StateObserver, States};
use jportal_machine_flow::Exit;

/// Writes what it gets as text.
#[derive(Debug, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl StateObserver for Notes {
    fn reached(&mut self, s: &ReachedState, event: u64) {
        let held = s.held.map_or_else(String::new, |b| format!(" or {b:?}"));
        let line = format!("{:#x} {:?} {:?}{held} event {event}", s.offset, s.kind, s.marked);
        self.0.lock().unwrap().push(line);
    }
    fn ran(&mut self, b: &RanBlock, _: u64) {
        self.0.lock().unwrap().push(format!("{:#x}..{:#x} {:?}", b.from, b.to, b.marked));
    }
    fn end(self: Box<Self>) {
        self.0.lock().unwrap().push("end".to_owned());
    }
}

/// What an observer gets of the script if the state at 0x18 is that of `context` and `bci`.
fn observed(script: &Script, (context, bci): (u32, i32)) -> Vec<String> {
    let at: &[(u32, &[(u32, u16)])] =
        &[(0, &[(0, 0)]), (0x10, &[(0, 4), (1, 0)]), (0x20, &[(1, 5), (0, 10)])];
    let vm = nmethod(at, &[], &[(0x14, 0, 1), (0x18, context, bci)], &[]);
    let shared = Shared::new(&vm.image, &vm.history, Positions::Markers, false);
    let mut machine = Machine::new(&shared);
    let notes = Notes::default();
    let lines = Arc::clone(&notes.0);
    machine.states = Some(Box::new(States::new(Box::new(notes))));
    machine.automatic = false;
    script.0.iter().for_each(|i| machine.item(i));
    machine.finish();
    machine.states.take().unwrap().end();
    std::mem::take(&mut *lines.lock().unwrap())
}

fn script() -> Script {
    Script::default().upcall().block(NMETHOD, NMETHOD + 8, Exit::NotTaken).block(
        NMETHOD + 0x10,
        NMETHOD + 0x18,
        Exit::Call,
    )
}

const IN_M1: &str = "Block(MarkedBlock { context: 1, bci: 0 })";

#[test]
fn states_are_placed_by_markers_whatever_debug_info_says() {
    let called = script().call(1);
    let expected = [
        "0x0..0x8 Entry".to_owned(),
        "0x10..0x18 Block(MarkedBlock { context: 0, bci: 0 })".to_owned(),
        format!("0x14 Inside {IN_M1} event 6"),
        format!("0x18 Call(Java(MethodId(m1))) {IN_M1} event 6"),
        "end".to_owned(),
    ];
    let [in_m1, in_m0] = [(1, 0), (0, 10)].map(|state| observed(&called, state));
    assert_eq!(in_m1, expected);
    assert_eq!(in_m0, expected);
    // The call returns without a callee.
    let returned = script().block(NMETHOD + 0x18, NMETHOD + 0x1c, Exit::Jump);
    let lines = observed(&returned, (1, 0)).join("\n");
    assert!(lines.contains(&format!("0x18 Call(Outside) {IN_M1}")), "{lines}");
}

#[test]
fn a_deoptimised_frame_says_how_the_interpreter_continued() {
    let lines = observed(&script().at(DEOPT_REEXECUTE, Exit::IndirectJump), (1, 0));
    let resumed = "0x18 Resumed { trap: false, again: true }";
    assert!(lines.iter().any(|l| l.starts_with(&format!("{resumed} {IN_M1}"))), "{lines:?}");
}

#[test]
fn what_follows_a_call_is_not_known_where_the_flow_ends() {
    let lines = observed(&script(), (1, 0)).join("\n");
    assert!(lines.contains(&format!("0x18 Call(Unknown) {IN_M1}")), "{lines}");
}
