// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Calls, returns and changes of frame kind.

use jportal_bytecode::{Method, Transfer};
use jportal_flow::{Entry, Exit, Tier};
use jportal_units::{Bci, MethodId};

use crate::check::callee;
use crate::check::code::may_enter_vm;
use crate::check::rule::{Reset, Rule};
use crate::check::stack::{At, CheckedFrame, Due};
use crate::check::walk::Walk;

/// The first of HotSpot's `AbstractInterpreter::MethodKind`s whose interpreter entry may do the
/// whole work and return without executing a bytecode (intrinsics; `abstractInterpreter.hpp`,
/// JDK 17).
const FIRST_INTRINSIC_ENTRY: u8 = 8;

impl Walk {
    /// A frame was pushed.
    pub(crate) fn enter(&mut self, method: MethodId, tier: Tier, entry: Entry) {
        self.executor(method, tier);
        let mut frame = match entry {
            Entry::Call => {
                self.call(method);
                CheckedFrame::new(method, tier, At::Entry)
            }
            Entry::Upcall => {
                self.vm_call(method);
                CheckedFrame { upcall: true, ..CheckedFrame::new(method, tier, At::Entry) }
            }
            Entry::Found => self.found(method, tier),
            Entry::Osr => self.on_stack_replacement(method, tier),
            Entry::Deoptimisation => self.deoptimised(method),
        };
        frame.tier = tier;
        if !self.stack.push(frame) {
            self.reset(Reset::TooDeep);
        }
    }
    /// Native methods run natively and all others do not, except intrinsics in the interpreter.
    fn executor(&mut self, method: MethodId, tier: Tier) {
        let Some(m) = self.method(method) else {
            return self.broken(Rule::Method, |n| format!("a frame of {}", n.method(method)));
        };
        let intrinsic = tier == Tier::Interpreter && has_intrinsic_entry(m);
        if m.is_native() != (tier == Tier::Native) && !intrinsic {
            let tier = tier.name();
            self.broken(Rule::Tier, |n| format!("{} is executed by {tier}", n.method(method)));
        }
    }
    fn call(&mut self, callee: MethodId) {
        if self.stack.is_beyond() {
            return;
        }
        let Some(caller) = self.stack.top() else {
            return self.broken(Rule::CallSite, |n| {
                format!("{} is called but no caller is known", n.method(callee))
            });
        };
        if caller.due != Due::Step {
            let rule = if caller.due == Due::Exception { Rule::ExceptionLost } else { Rule::CallSite };
            self.broken(rule, |n| {
                format!("{} is called where {} is due", n.method(callee), due_name(caller.due))
            });
            return;
        }
        match caller.at {
            At::Unknown => self.reset(Reset::CallerUnknown),
            At::Bytecode(at) => self.call_at(&caller, at, callee),
            // Compiled code had begun the invoke; the interpreter executes it.
            At::Resumed(at) if !caller.called => self.call_at(&caller, at, callee),
            _ => self.no_call_site(&caller, callee),
        }
    }
    fn call_at(&mut self, caller: &CheckedFrame, at: Bci, callee: MethodId) {
        let Some(op) = self.op(caller.method, at) else { return };
        if op.transfer != Transfer::Invoke {
            return self.no_call_site(caller, callee);
        }
        self.figures().calls += 1;
        let key = (caller.method, at, callee);
        let fits = self.calls.get(&key).copied().unwrap_or_else(|| {
            let fits = self.fits(op.opcode, caller.method, at, callee);
            self.calls.insert(key, fits);
            fits
        });
        if !fits {
            let target = self.method(caller.method).and_then(|m| m.invoke_at(at));
            let target = target.map_or_else(
                || "nothing the capture names".to_owned(),
                |t| format!("{}.{}{}", t.class_name.replace('/', "."), t.name, t.signature),
            );
            self.broken(Rule::Callee, |n| {
                format!(
                    "{} calls {target} but {} is entered",
                    n.bytecode(caller.method, at),
                    n.method(callee)
                )
            });
        }
    }
    fn fits(&self, opcode: jportal_bytecode::Opcode, caller: MethodId, at: Bci, callee: MethodId) -> bool {
        let target = self.method(caller).and_then(|m| m.invoke_at(at));
        match (target, self.method(callee)) {
            (Some(target), Some(callee)) => callee::fits(opcode, target, callee, &self.shared().declared),
            // A callee that the VM never described is a finding of its own.
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
    #[cold]
    fn no_call_site(&mut self, caller: &CheckedFrame, callee: MethodId) {
        let at = caller.at.bci();
        self.broken(Rule::CallSite, |n| {
            let place = at.map_or_else(|| "no bytecode".to_owned(), |b| n.bytecode(caller.method, b));
            format!("{} is called by {place}", n.method(callee))
        });
    }
    /// The VM called Java. The frame below it is the one that made the thread enter the VM.
    fn vm_call(&mut self, callee: MethodId) {
        let Some(below) = self.stack.top().filter(|_| !self.stack.is_beyond()) else { return };
        if below.tier != Tier::Interpreter || !matches!(below.at, At::Bytecode(_)) {
            return;
        }
        if let Some(opcode) = self.opcode_at(&below).filter(|o| !may_enter_vm(*o)) {
            self.broken(Rule::VmCall, |n| format!("the VM calls {} out of {opcode}", n.method(callee)));
        }
    }
    fn found(&mut self, method: MethodId, tier: Tier) -> CheckedFrame {
        self.reset(Reset::FrameFound);
        // Compiled code is found as one activation; the first position then yields the inlined
        // frames.
        let inlined = |below: CheckedFrame| {
            below.at == At::Unknown && below.tier == tier && matches!(tier, Tier::C1 | Tier::C2)
        };
        if self.stack.top().is_some_and(|below| !inlined(below)) {
            self.broken(Rule::CallSite, |n| {
                format!("{} is found on a stack whose top frame is known", n.method(method))
            });
        }
        CheckedFrame::new(method, tier, At::Unknown)
    }
    fn on_stack_replacement(&mut self, method: MethodId, tier: Tier) -> CheckedFrame {
        self.reset(Reset::Osr);
        let Some(old) = self.taken_over(method) else { return CheckedFrame::new(method, tier, At::Unknown) };
        let compiled = matches!(tier, Tier::C1 | Tier::C2);
        if !compiled || old.tier != Tier::Interpreter {
            let (from, to) = (old.tier.name(), tier.name());
            self.broken(Rule::Replacement, |_| format!("on-stack replacement of a frame of {from} by {to}"));
        }
        let at = match old.at {
            At::Bytecode(at) => At::Osr(at),
            _ => At::Unknown,
        };
        CheckedFrame { tier, at, ..old }
    }
    fn deoptimised(&mut self, method: MethodId) -> CheckedFrame {
        self.reset(Reset::Deoptimised);
        let tier = Tier::Interpreter;
        let Some(old) = self.taken_over(method) else { return CheckedFrame::new(method, tier, At::Unknown) };
        if !old.is_compiled() {
            let from = old.tier.name();
            self.broken(Rule::Replacement, |_| format!("deoptimisation of a frame of {from}"));
        }
        let at = match old.at {
            At::Bytecode(at) => At::Resumed(at),
            other => other,
        };
        CheckedFrame { tier, at, ..old }
    }
    /// The frame of `method` that continues: of the frames left as replaced, the last one.
    fn taken_over(&mut self, method: MethodId) -> Option<CheckedFrame> {
        match self.replaced.pop() {
            Some(old) if old.method == method => return Some(old),
            Some(old) => self.broken(Rule::Replacement, |n| {
                format!("{} continues in the place of {}", n.method(method), n.method(old.method))
            }),
            None => self.broken(Rule::Replacement, |n| {
                format!("{} continues but no frame was replaced", n.method(method))
            }),
        }
        None
    }
    /// The top frame was popped.
    pub(crate) fn leave(&mut self, method: MethodId, exit: Exit) {
        if self.stack.is_beyond() {
            self.stack.pop();
            return self.reset(Reset::TooDeep);
        }
        let Some(top) = self.leaver(method) else { return };
        match exit {
            Exit::Return => self.returns(&top),
            Exit::Unwind => self.unwinds(&top),
            Exit::PopFrame => self.taken_by_debugger(&top, Reset::PopFrame),
            Exit::EarlyReturn => self.taken_by_debugger(&top, Reset::EarlyReturn),
            Exit::Replaced => self.replaced.push(top),
            Exit::Unknown => self.ends_unknown(&top),
            Exit::Lost => self.give_up(),
        }
        self.stack.pop();
        if !matches!(exit, Exit::Replaced | Exit::Lost) {
            self.figures().exits += 1;
            self.back_in_caller(&top, exit);
        }
    }
    /// JVMTI removes interpreted frames only. It has a compiled frame deoptimised first, and
    /// refuses frames of native methods (`JvmtiEnv::PopFrame`,
    /// `JvmtiEnvBase::check_top_frame`).
    fn taken_by_debugger(&mut self, top: &CheckedFrame, exit: Reset) {
        self.reset(exit);
        if top.tier != Tier::Interpreter {
            let tier = top.tier.name();
            self.broken(Rule::Tier, |_| format!("a debugger takes a frame of {tier}"));
        }
    }
    /// The frame that is left. If the method is not on the stack, the event changes nothing.
    fn leaver(&mut self, method: MethodId) -> Option<CheckedFrame> {
        match self.stack.top() {
            Some(top) if top.method == method => Some(top),
            Some(_) => {
                self.broken(Rule::WrongFrame, |n| {
                    format!("{} is left but is not the top frame", n.method(method))
                });
                if !self.stack.cut_to(method) {
                    return None;
                }
                self.forget_position();
                self.stack.top()
            }
            None => {
                self.broken(Rule::NoFrame, |n| {
                    format!("{} is left with no frame on the stack", n.method(method))
                });
                None
            }
        }
    }
    fn returns(&mut self, top: &CheckedFrame) {
        match top.due {
            Due::Step | Due::End { returns: true } => {}
            Due::End { returns: false } => return self.no_way_out(top),
            Due::Exception => {
                return self
                    .broken(Rule::ExceptionLost, |_| "the callee was unwound but its caller returns".into());
            }
            due => {
                return self
                    .broken(Rule::Return, |_| format!("the frame returns where {} is due", due_name(due)));
            }
        }
        let fits = match top.at {
            _ if top.due != Due::Step || top.tier == Tier::Native => true,
            At::Unknown => true,
            At::Entry => self.method(top.method).is_some_and(has_intrinsic_entry),
            At::Bytecode(at) | At::Resumed(at) => {
                self.op(top.method, at).is_some_and(|op| op.transfer == Transfer::Return)
            }
            At::Osr(_) => false,
        };
        if fits {
            return;
        }
        let at = top.at.bci();
        self.broken(Rule::Return, |n| {
            let place = at.map_or_else(
                || "before its first bytecode".into(),
                |b| format!("at {}", n.bytecode(top.method, b)),
            );
            format!("the frame returns {place}")
        });
    }
    #[cold]
    fn no_way_out(&mut self, top: &CheckedFrame) {
        let at = top.at.bci();
        self.broken(Rule::Stretch, |n| {
            let from = at.map_or_else(|| "the entry".to_owned(), |b| n.bytecode(top.method, b));
            format!("no path leads from {from} to a return")
        });
    }
    /// The frame ended by a return or an exception, and the flow does not say which. In
    /// compiled code an unresolved stretch must have announced that.
    fn ends_unknown(&mut self, top: &CheckedFrame) {
        if top.is_compiled() && !matches!(top.due, Due::End { .. }) {
            self.broken(Rule::Stretch, |_| {
                "a frame ends nobody knows how but no unresolved stretch says so".into()
            });
        }
    }
    fn back_in_caller(&mut self, callee: &CheckedFrame, exit: Exit) {
        let Some(caller) = self.stack.top_mut().filter(|_| !callee.upcall) else { return };
        caller.called = exit != Exit::PopFrame;
        caller.due = match exit {
            Exit::Unwind if caller.tier != Tier::Native => Due::Exception,
            Exit::PopFrame => Due::Again,
            _ => return,
        };
    }
}

fn has_intrinsic_entry(m: &Method) -> bool {
    m.entry_kind >= FIRST_INTRINSIC_ENTRY
}

/// A description of what is due.
pub(crate) fn due_name(due: Due) -> String {
    match due {
        Due::Step => "a step".into(),
        Due::Exception => "the exception of an unwound callee".into(),
        Due::Again => "the invoke of a popped callee, once more,".into(),
        Due::Handler(bci) => format!("the handler at bci {bci}"),
        Due::Stretch(bci) => format!("bci {bci}, the end of an unresolved stretch,"),
        Due::End { .. } => "the end of the frame after an unresolved stretch".into(),
    }
}
