// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exceptions: where they are thrown, which frames catch them, which frames they leave.

use jportal_bytecode::Transfer;
use jportal_flow::Tier;
use jportal_units::{Bci, MethodId};

use crate::check::code::{Code, may_enter_vm};
use crate::check::finding::Names;
use crate::check::frames::due_name;
use crate::check::rule::{Reset, Rule};
use crate::check::stack::{At, CheckedFrame, Due};
use crate::check::walk::Walk;

/// With this many frames a thread may be out of stack. The VM may then skip handlers, because
/// there is no room to re-enable the guard pages
/// (`InterpreterRuntime::exception_handler_for_exception`).
const DEEP: usize = 500;

impl Walk {
    /// A handler of the top frame was entered.
    pub(crate) fn catch(&mut self, method: MethodId, bci: Bci) {
        if let Some(top) = self.top_of(method, Tier::Interpreter, "a handler") {
            self.figures().catches += 1;
            self.caught(&top, bci);
        }
        if let Some(top) = self.stack.top_mut().filter(|t| t.method == method) {
            top.due = Due::Handler(bci);
        }
    }
    fn caught(&mut self, top: &CheckedFrame, bci: Bci) {
        // An unresolved stretch ended at this handler. Which bytecode threw is not known.
        if top.due == Due::Stretch(bci) && self.code(top.method).is_some_and(|c| c.is_handler(bci)) {
            return;
        }
        if !self.can_throw(top) {
            return self.nothing_thrown(Rule::Handler, top);
        }
        let Some(code) = self.code(top.method) else { return };
        // Before the first bytecode the VM looks for handlers of bci 0.
        let thrown_at = match top.at {
            At::Entry => Bci(0),
            At::Unknown if code.is_handler(bci) => return,
            At::Unknown => return self.wrong_handler(top, bci),
            At::Bytecode(at) | At::Resumed(at) | At::Osr(at) => at,
        };
        if code.handlers(thrown_at).any(|e| e.handler == bci) {
            return;
        }
        if around(code, thrown_at, Some(bci)) {
            return self.reset(Reset::HandlerOfHandler);
        }
        let catches = |b: Bci| code.handlers(b).any(|e| e.handler == bci) || around(code, b, Some(bci));
        if polled(code, top).into_iter().any(catches) {
            return self.reset(Reset::Asynchronous);
        }
        self.wrong_handler(top, bci);
    }
    #[cold]
    fn wrong_handler(&mut self, top: &CheckedFrame, bci: Bci) {
        let may: Vec<Bci> = match (self.code(top.method), top.at.bci()) {
            (Some(code), Some(at)) => code.handlers(at).map(|e| e.handler).collect(),
            _ => Vec::new(),
        };
        self.broken(Rule::Handler, |n| {
            format!("{} is no handler here; there are {}", n.bytecode(top.method, bci), Names::bcis(&may))
        });
    }
    /// An exception leaves the top frame.
    pub(crate) fn unwinds(&mut self, top: &CheckedFrame) {
        if matches!(top.due, Due::End { .. }) {
            return;
        }
        if matches!(top.due, Due::Handler(_) | Due::Stretch(_)) {
            return self.broken(Rule::Unwind, |_| {
                format!("the frame is unwound where {} is due", due_name(top.due))
            });
        }
        if !self.can_throw(top) {
            return self.nothing_thrown(Rule::Unwind, top);
        }
        let (Some(at), Some(code)) = (top.at.bci(), self.code(top.method)) else { return };
        if !code.catches_all(at) {
            return;
        }
        if around(code, at, None) {
            return self.reset(Reset::HandlerOfHandler);
        }
        if polled(code, top).into_iter().any(|b| !code.catches_all(b) || around(code, b, None)) {
            return self.reset(Reset::Asynchronous);
        }
        if self.stack.depth() >= DEEP {
            return self.reset(Reset::StackExhausted);
        }
        let all: Vec<Bci> = code.handlers(at).map(|e| e.handler).collect();
        self.broken(Rule::Unwind, |n| {
            let place = n.bytecode(top.method, at);
            format!(
                "an exception leaves the frame at {place} past handlers that take all: {}",
                Names::bcis(&all)
            )
        });
    }
    /// Whether the frame's position can throw an exception. The check is strict only in the
    /// interpreter, where the position is exact: some bytecodes cannot throw.
    fn can_throw(&self, top: &CheckedFrame) -> bool {
        if top.due != Due::Step || top.tier != Tier::Interpreter || !matches!(top.at, At::Bytecode(_)) {
            return !matches!(top.due, Due::Handler(_) | Due::Stretch(_) | Due::End { .. });
        }
        self.opcode_at(top).is_none_or(may_enter_vm)
    }
    #[cold]
    fn nothing_thrown(&mut self, rule: Rule, top: &CheckedFrame) {
        let at = top.at.bci();
        self.broken(rule, |n| match (top.due, at) {
            (Due::Step, Some(at)) => format!("{} cannot throw", n.bytecode(top.method, at)),
            (due, _) => format!("an exception where {} is due", due_name(due)),
        });
    }
}

/// The bytecodes before which the interpreter may have stopped for a safepoint after the
/// frame's last bytecode. A branch polls after it has moved the frame to its target
/// (`InterpreterMacroAssembler::dispatch_base`). An exception that is pending for the thread is
/// thrown at that target.
fn polled(code: &Code, top: &CheckedFrame) -> Vec<Bci> {
    let (At::Bytecode(at) | At::Resumed(at)) = top.at else { return Vec::new() };
    let polls = code.op(at).is_some_and(|op| {
        !matches!(op.transfer, Transfer::None | Transfer::Invoke | Transfer::Return | Transfer::Throw)
    });
    if polls && top.tier == Tier::Interpreter { code.successors(at) } else { Vec::new() }
}

/// Whether `handler` may take (`None`: whether the frame may be left by) an exception that
/// arose while the VM was choosing a handler for `at`, for example because the handler's class
/// could not be loaded. The search then continues as if that handler had thrown.
fn around(code: &Code, at: Bci, handler: Option<Bci>) -> bool {
    let typed = |b: Bci| code.handlers(b).filter(|e| e.catch_type.is_some()).map(|e| e.handler);
    let mut seen: Vec<Bci> = typed(at).collect();
    let mut next = 0;
    while let Some(&b) = seen.get(next) {
        next += 1;
        let found = match handler {
            Some(handler) => code.handlers(b).any(|e| e.handler == handler),
            None => !code.catches_all(b),
        };
        if found {
            return true;
        }
        let more: Vec<Bci> = typed(b).filter(|h| !seen.contains(h)).collect();
        seen.extend(more);
    }
    false
}
