// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::support::{at, calling, catching, graph, method};
use jportal_units::Bci;

/// 0 main calls f, then n, throws, and catches all of these exceptions; 1 f calls g; 2 n is
/// native; 3 g; 4 h, which is never called.
fn program() -> Icfg {
    let main = calling(method("main", &[184, 0, 1, 184, 0, 2, 1, 191, 75, 177]), &["f", "n"]);
    let mut native = method("n", &[]);
    native.access_flags = 0x108;
    let f = calling(method("f", &[184, 0, 1, 177]), &["g"]);
    graph(vec![catching(main, 0, 8, 8), f, native, method("g", &[1, 191]), method("h", &[26, 177])])
}

/// The knowledge beyond the graph: the tier of all methods, and whether n and h were called
/// from main.
struct Told(Tier, bool, bool);
impl Methods for Told {
    fn tier(&self, _: MethodId) -> Tier {
        self.0
    }
    fn native_callee(&self, site: Node) -> Option<MethodId> {
        (self.1 && site == Node(1)).then_some(MethodId(2))
    }
    fn silent_callee(&self, _: Node) -> Option<MethodId> {
        None
    }
    fn was_called(&self, _: Node, callee: MethodId) -> bool {
        self.2 && callee == MethodId(4)
    }
}
/// The interpreter has a special entry for f that executes no bytecode.
struct Silent;
impl Methods for Silent {
    fn tier(&self, _: MethodId) -> Tier {
        Tier::Interpreter
    }
    fn native_callee(&self, _: Node) -> Option<MethodId> {
        None
    }
    fn silent_callee(&self, site: Node) -> Option<MethodId> {
        (site == Node(0)).then_some(MethodId(1))
    }
    fn was_called(&self, _: Node, _: MethodId) -> bool {
        false
    }
}
const INTERPRETED: Told = Told(Tier::Interpreter, false, false);

fn node(g: &Icfg, method: u32, bci: u16) -> Node {
    at(g, method, &[bci])[0]
}
fn enter(method: u32, tier: Tier, entry: Entry) -> EventKind {
    EventKind::Enter { method: MethodId(method), tier, entry }
}
fn leave(method: u32, exit: Exit) -> EventKind {
    EventKind::Leave { method: MethodId(method), exit }
}
fn caught(method: u32, bci: u16) -> EventKind {
    EventKind::Catch { method: MethodId(method), bci: Bci(bci) }
}
/// A whole stack after the instructions at these positions.
fn stack<'g>(g: &'g Icfg, told: &Told, path: &[(u32, u16)]) -> ShadowStack<'g> {
    let mut stack = ShadowStack::new(g);
    for (method, bci) in path {
        let to = node(g, *method, *bci);
        stack.advance(to, told, &mut Vec::new()).unwrap();
        stack.execute(to, &mut Vec::new());
    }
    stack
}
/// The events that lead to an instruction.
fn to(
    stack: &ShadowStack<'_>,
    g: &Icfg,
    told: &dyn Methods,
    (method, bci): (u32, u16),
) -> Result<Vec<EventKind>, NoWay> {
    let mut out = Vec::new();
    stack.clone().advance(node(g, method, bci), told, &mut out).map(|()| out)
}

#[test]
fn exceptions_unwind_frames_and_are_caught() {
    let g = program();
    let at_throw = stack(&g, &INTERPRETED, &[(0, 0), (1, 0), (3, 0), (3, 1)]);
    let events = to(&at_throw, &g, &INTERPRETED, (0, 8)).unwrap();
    assert_eq!(events, [leave(3, Exit::Unwind), leave(1, Exit::Unwind), caught(0, 8)]);
    // The exception that a callee has thrown cannot be ignored.
    let mut unwound = stack(&g, &INTERPRETED, &[(0, 0), (1, 0)]);
    unwound.follow(&leave(1, Exit::Unwind));
    assert_eq!(to(&unwound, &g, &INTERPRETED, (0, 3)), Err(NoWay::Frames));
    assert_eq!(to(&unwound, &g, &INTERPRETED, (0, 8)), Ok(vec![caught(0, 8)]));
    // It is caught once.
    unwound.follow(&caught(0, 8));
    assert_eq!(to(&unwound, &g, &INTERPRETED, (0, 8)), Ok(vec![]));
    assert_eq!(to(&unwound, &g, &INTERPRETED, (0, 3)), Err(NoWay::Frames));
    // A constant throws nothing.
    assert_eq!(
        to(&stack(&g, &INTERPRETED, &[(0, 0), (1, 0), (3, 0)]), &g, &INTERPRETED, (0, 8)),
        Err(NoWay::Frames)
    );
}

#[test]
fn the_interpreter_calls_what_compiled_code_passes() {
    let g = program();
    let begun = |told| stack(&g, told, &[(0, 0)]);
    assert_eq!(
        to(&begun(&INTERPRETED), &g, &INTERPRETED, (0, 3)),
        Err(NoWay::Interpreted { method: MethodId(0), site: Node(0) })
    );
    let compiled = Told(Tier::C1, false, false);
    assert_eq!(to(&begun(&compiled), &g, &compiled, (0, 3)), Ok(vec![]));
    let native = Told(Tier::C1, true, false);
    let at_native = stack(&g, &native, &[(0, 0), (0, 3)]);
    let passes = vec![enter(2, Tier::Native, Entry::Call), leave(2, Exit::Return)];
    assert_eq!(to(&at_native, &g, &native, (0, 6)), Ok(passes));
    // A method that a native method calls is not the callee of the native method's caller.
    let calls = vec![enter(2, Tier::Native, Entry::Call), enter(4, Tier::C1, Entry::Upcall)];
    assert_eq!(to(&at_native, &g, &native, (4, 0)), Ok(calls));
}

#[test]
fn the_interpreter_has_entries_that_execute_nothing() {
    let g = program();
    let begun = stack(&g, &INTERPRETED, &[(0, 0)]);
    let passes = vec![enter(1, Tier::Interpreter, Entry::Call), leave(1, Exit::Return)];
    assert_eq!(to(&begun, &g, &Silent, (0, 3)), Ok(passes));
    // Where the interpreter is seen to execute f's bytecodes, it does.
    assert_eq!(to(&begun, &g, &Silent, (1, 0)), Ok(vec![enter(1, Tier::Interpreter, Entry::Call)]));
}

#[test]
fn what_an_invoke_does_not_name_was_seen_to_be_called_or_the_vm_calls() {
    let g = program();
    for (path, told, entry) in [
        (&[(0, 0)][..], Told(Tier::Interpreter, false, false), Some(Entry::Upcall)),
        (&[(0, 0)], Told(Tier::Interpreter, false, true), Some(Entry::Call)),
        // `aconst_null` does not make the interpreter call the VM; compiled code may be at any
        // instruction.
        (&[(3, 0)], Told(Tier::Interpreter, false, false), None),
        (&[(3, 0)], Told(Tier::C1, false, false), Some(Entry::Upcall)),
    ] {
        let events = to(&stack(&g, &told, path), &g, &told, (4, 0));
        let expected = entry.map(|entry| vec![enter(4, told.0, entry)]).ok_or(NoWay::Frames);
        assert_eq!(events, expected, "{path:?}");
    }
    // After its callee has returned the invoke calls nothing more.
    let returned = stack(&g, &INTERPRETED, &[(0, 0), (1, 0), (3, 0)]);
    let mut returned = returned;
    returned.follow(&leave(3, Exit::Return));
    assert_eq!(to(&returned, &g, &INTERPRETED, (1, 3)), Ok(vec![]));
    assert_eq!(to(&returned, &g, &INTERPRETED, (3, 0)), Ok(vec![enter(3, Tier::Interpreter, Entry::Upcall)]));
}
