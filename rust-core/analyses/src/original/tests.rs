// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::{Arc, Mutex};

use jportal_flow::{Entry, Event, EventKind, Exit, FlowConsumer, FlowSink, ThreadInfo};

use super::*;
use crate::testing::{BRANCHY, bytecode, enter, enter_as, leave, leave_as, method, methods, pass};

/// `BRANCHY` with a call of m1 before each block, the last one after the code, and with a handler
/// that throws again:
/// `invokestatic; iload_0; ifeq 17; invokestatic; iconst_1; goto 21; nop; nop; nop;`
/// `invokestatic(17); iconst_0(20); goto 25(21); athrow(24); invokestatic(25); goto 31; ireturn`.
const CHANGED: &[u8] = &[
    184, 0, 1, 26, 153, 0, 13, 184, 0, 1, 4, 167, 0, 10, 0, 0, 0, 184, 0, 1, 3, 167, 0, 4, 191, 184, 0, 1,
    167, 0, 3, 172,
];
const PLACES: [u16; 6] = [3, 4, 10, 11, 20, 31];

fn map(code: &str, places: &[u16]) -> String {
    format!(
        r#"{{"hidden": ["agent/"]}}
        {{"class": "a/B", "method": "f", "descriptor": "(I)I", "code": "{code}",
          "exceptions": [[0, 9, 9, ""]], "lines": [[0, 7]], "invokes": [], "places": {places:?}}}"#
    )
}

fn hex(code: &[u8]) -> String {
    code.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn changed() -> MethodTable {
    let mut t = MethodTable::default();
    t.push(method("a/B", "f", CHANGED));
    t.push(method("agent/Probe", "hit", BRANCHY));
    t.push(method("java/lang/Math", "abs", BRANCHY));
    t
}

fn original() -> OriginalMethods {
    OriginalMethods::new(&changed(), &map(&hex(BRANCHY), &PLACES)).unwrap()
}

#[derive(Default)]
struct Kept(Arc<Mutex<Vec<Event>>>);
impl FlowConsumer for Kept {
    fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(Self(Arc::clone(&self.0)))
    }
    fn takes_runs(&self) -> bool {
        true
    }
}
impl FlowSink for Kept {
    fn events(&mut self, events: &[Event]) {
        self.0.lock().unwrap().extend_from_slice(events);
    }
    fn end(self: Box<Self>) {}
}

fn restored(events: &[Event]) -> Vec<Event> {
    let mut kept = Kept::default();
    let mut restored = Restored::new(Arc::new(original()), &mut kept);
    assert!(!restored.takes_runs());
    pass(&mut restored, 1, events);
    Arc::into_inner(kept.0).unwrap().into_inner().unwrap()
}

fn catch(m: u32, bci: u16) -> Event {
    Event::decoded(EventKind::Catch { method: MethodId(m), bci: Bci(bci) })
}

#[test]
fn the_methods_are_the_original_ones() {
    let original = original();
    let method = original.methods().get(MethodId(0)).unwrap();
    assert_eq!((&*method.code, method.line_at(Bci(3)), method.exceptions.len()), (BRANCHY, Some(7), 1));
    assert_eq!(original.methods().get(MethodId(2)).unwrap().code.len(), BRANCHY.len());
}

#[test]
fn inlined_calls_of_the_agent_are_left_out() {
    let call = |caller, bci, callee| (MethodId(caller), Bci(bci), MethodId(callee));
    let inlined = [call(0, 17, 1), call(0, 20, 2), call(2, 4, 1), call(2, 4, 0)];
    let kept: Vec<_> = original().calls(inlined).collect();
    assert_eq!(kept, [call(0, 8, 2), call(2, 4, 0)]);
}

#[test]
fn what_the_agent_added_and_called_is_left_out() {
    let probe = [enter(1), bytecode(1, 0), enter(2), bytecode(2, 0), leave(2), leave(1)];
    let mut events = vec![enter(0), bytecode(0, 0)];
    events.extend(probe.clone());
    events.extend([bytecode(0, 3), bytecode(0, 4), bytecode(0, 17)]);
    // The first call of a class initializes it.
    events.push(enter_as(2, Entry::Upcall));
    events.extend([bytecode(2, 0), leave(2)]);
    events.extend(probe);
    events.extend([bytecode(0, 20), enter(2), bytecode(2, 1), leave(2), bytecode(0, 21), bytecode(0, 25)]);
    events.extend([bytecode(0, 28), bytecode(0, 31), leave(0)]);
    let expected = [
        enter(0),
        bytecode(0, 0),
        bytecode(0, 1),
        bytecode(0, 8),
        enter(2),
        bytecode(2, 1),
        leave(2),
        bytecode(0, 9),
        leave(0),
    ];
    // The goto at 21 is the agent's.
    assert_eq!(restored(&events), expected);
}

#[test]
fn an_exception_that_passes_added_code_arrives_at_the_handler_or_leaves() {
    let led = [enter(0), bytecode(0, 3), catch(0, 25), bytecode(0, 25), bytecode(0, 28), bytecode(0, 31)];
    assert_eq!(restored(&led), [enter(0), bytecode(0, 0), catch(0, 9), bytecode(0, 9)]);
    let left = [enter(0), bytecode(0, 3), catch(0, 24), bytecode(0, 24), leave_as(0, Exit::Unwind)];
    assert_eq!(restored(&left), [enter(0), bytecode(0, 0), leave_as(0, Exit::Unwind)]);
    let own = [enter(0), bytecode(0, 3), catch(0, 20), bytecode(0, 20)];
    assert_eq!(restored(&own), [enter(0), bytecode(0, 0), catch(0, 8), bytecode(0, 8)]);
}

#[test]
fn frames_stay_hidden_when_they_are_replaced() {
    let events = [
        enter(0),
        bytecode(0, 0),
        enter(2),
        bytecode(2, 0),
        leave_as(2, Exit::Replaced),
        leave_as(0, Exit::Replaced),
        enter_as(0, Entry::Deoptimisation),
        enter_as(2, Entry::Deoptimisation),
        bytecode(2, 1),
        leave(2),
        bytecode(0, 3),
    ];
    let expected =
        [enter(0), leave_as(0, Exit::Replaced), enter_as(0, Entry::Deoptimisation), bytecode(0, 0)];
    assert_eq!(restored(&events), expected);
}

#[test]
fn a_lost_stretch_lies_between_original_bytecodes() {
    let unresolved = |from: u16, to: u16| {
        let cause = jportal_flow::Cause::EmptyLoop;
        let (from, to) = (Some(Bci(from)), Some(Bci(to)));
        Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 })
    };
    let events = [enter(0), bytecode(0, 3), bytecode(0, 0), unresolved(0, 25), bytecode(0, 25)];
    assert_eq!(restored(&events), [enter(0), bytecode(0, 0), unresolved(0, 9)]);
}

#[test]
fn a_map_that_does_not_fit_is_refused() {
    let refused = |map: &str| OriginalMethods::new(&changed(), map).unwrap_err().to_string();
    let fits = map(&hex(BRANCHY), &PLACES);
    for (map, why) in [
        (map(&hex(BRANCHY), &[3, 4, 10, 11, 19, 31]), "bci 8 is iconst_0, bci 19 of the changed code is"),
        (map(&hex(BRANCHY), &PLACES[..5]), "an instruction has no place"),
        (map(&hex(BRANCHY), &[&PLACES[..], &[0]].concat()), "more places than instructions"),
        (map("0", &PLACES), "hexadecimal"),
        (fits.clone() + &map(&hex(&[172]), &[31]), "two versions"),
        ("[]".to_owned(), "not a map"),
    ] {
        let message = refused(&map);
        assert!(message.contains(why), "{message}");
    }
    // The same class of two loaders.
    assert!(OriginalMethods::new(&changed(), &(fits.clone() + &fits)).is_ok());
    assert_eq!(OriginalMethods::new(&methods(), "").unwrap().methods().len(), 3);
}
