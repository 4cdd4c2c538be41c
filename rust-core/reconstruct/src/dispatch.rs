// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Follows template dispatches: which bytecode of which method begins.

use crate::code_map::DispatchStep;
use crate::contradiction::{Contradiction, Walk};
use crate::frame::{Frame, Interpreted, Resume};
use crate::handlers::may_choose;
use crate::machine::{Machine, push_run};
use crate::outcome::{BranchOutcomes, next_bci};
use jportal_bytecode::{Opcode, Transfer};
use jportal_flow::{EventKind, Tier};
use jportal_units::{Bci, MethodId};
use jportal_vm_image::Template;
use jportal_vm_image::interpreter::Reveal;

impl Machine<'_> {
    /// The interpreter jumped to the template `t`.
    #[inline]
    pub(crate) fn dispatch(&mut self, t: Template) -> Walk<()> {
        if t.breakpoint {
            // The original bytecode is dispatched next.
            self.stop_in_front();
            return Ok(());
        }
        let Some(&Frame::Interpreted(frame)) = self.stack.last() else {
            return self.dispatch_elsewhere(t);
        };
        if t.wide {
            // The dispatch of the `wide` prefix was the one that counts.
            self.outcome = BranchOutcomes::default();
            return Ok(());
        }
        if self.dispatch_straight(&frame, t) {
            return Ok(());
        }
        let (bci, follows) = self.next_position(&frame)?;
        let step = self.step(frame.method, bci)?;
        if step.dispatched != t.java {
            return Err(Contradiction::WrongBytecode {
                found: t.java,
                expected: step.dispatched,
                bci,
                method: self.name(frame.method),
            }
            .into());
        }
        self.begin(frame.method, (bci, follows), t);
        Ok(())
    }
    /// The dispatch of a bytecode on which nothing but the bytecode before it decides, and a
    /// branch's outcome. `false`: it is another one, and nothing was done. Does what
    /// [`Self::next_position`] and [`Self::begin`] do in that case.
    #[inline]
    fn dispatch_straight(&mut self, frame: &Interpreted, t: Template) -> bool {
        if self.throwing || frame.resume != Resume::Next || self.outcome.reveals() {
            return false;
        }
        let Some((code, at)) = self.shared.maps.of(frame.method).zip(frame.at) else { return false };
        let Some(step) = code.step(at) else { return false };
        let bci = match step.transfer {
            Transfer::None | Transfer::Invoke => step.next,
            Transfer::Goto | Transfer::Jsr => step.target,
            Transfer::If => match self.outcome.is_branch_taken() {
                Some(true) => step.target,
                Some(false) => step.next,
                None => return false,
            },
            Transfer::Ret | Transfer::Switch | Transfer::Return | Transfer::Throw => return false,
        };
        if code.step(bci).is_none_or(|s| s.dispatched != t.java) {
            return false;
        }
        self.execute(frame.method, (bci, Some(at).filter(|_| bci == step.next)), t);
        true
    }
    /// Dispatch while no interpreted frame is on top.
    fn dispatch_elsewhere(&mut self, t: Template) -> Walk<()> {
        let top = match self.stack.last() {
            None => {
                self.dispatch_orphan(t);
                return Ok(());
            }
            Some(Frame::Compiled(_)) => "compiled",
            Some(Frame::Native { .. }) => "native",
            Some(_) => "an upcall",
        };
        Err(Contradiction::DispatchWithoutFrame { found: t.java, top }.into())
    }
    fn begin(&mut self, method: MethodId, (bci, follows): (Bci, Option<Bci>), t: Template) {
        let caught = std::mem::take(&mut self.throwing);
        if caught {
            self.emit(EventKind::Catch { method, bci });
        }
        let begun = |f: &Frame| matches!(f, Frame::Interpreted(f) if f.resume == Resume::Reexecute && f.at == Some(bci));
        if caught || !self.stack.last().is_some_and(begun) {
            return self.execute(method, (bci, follows), t);
        }
        self.stand_at(method, bci, t);
    }
    /// The top frame begins to execute the bytecode at `bci`.
    #[inline]
    fn execute(&mut self, method: MethodId, (bci, follows): (Bci, Option<Bci>), t: Template) {
        self.emit_interpreted(method, bci, follows);
        self.stand_at(method, bci, t);
    }
    #[inline]
    fn stand_at(&mut self, method: MethodId, bci: Bci, t: Template) {
        let mut at = bci;
        self.observe_bytecode(bci);
        if let Some((offset, _)) = t.second {
            at = Bci(bci.0.wrapping_add(offset.into()));
            self.observe_bytecode(at);
            self.emit_interpreted(method, at, Some(bci));
        }
        self.outcome = BranchOutcomes::of(t.search);
        if let Some(Frame::Interpreted(f)) = self.stack.last_mut() {
            *f = Interpreted::new(method, Some(at));
        }
    }
    #[inline]
    fn emit_interpreted(&mut self, method: MethodId, bci: Bci, follows: Option<Bci>) {
        if self.runs {
            self.counters.bytecodes += 1;
            push_run(&mut self.out, (method, Tier::Interpreter), (bci, bci, 1), follows);
        } else {
            self.emit_bytecode(method, bci, Tier::Interpreter);
        }
    }
    /// A safepoint or a breakpoint stops the thread before the next bytecode of the top frame.
    pub(crate) fn stop_in_front(&mut self) {
        let Some(&Frame::Interpreted(frame)) = self.stack.last() else { return };
        // If that bytecode is not known, the dispatch that follows reports the contradiction.
        let Ok((bci, _)) = self.next_position(&frame) else { return };
        if let Some(Frame::Interpreted(f)) = self.stack.last_mut() {
            f.reached = Some(bci);
        }
    }
    /// The bci at which the frame continues. Also the bytecode just before it in the code, if
    /// control came from that one.
    pub(crate) fn next_position(&self, f: &Interpreted) -> Walk<(Bci, Option<Bci>)> {
        if self.throwing {
            return Ok((self.handler(f.method, f.thrown_at())?, None));
        }
        let resumed = self.outcome.value(Reveal::Deopt).or(self.outcome.value(Reveal::PopFrame));
        let Some(at) = resumed.map(|v| Bci(v as u16)).or(f.at) else { return Ok((Bci(0), None)) };
        if f.resume != Resume::Next {
            return Ok((at, None));
        }
        let step = self.step(f.method, at)?;
        let method =
            self.shared.maps.method(f.method).ok_or(Contradiction::UnknownMethod(u64::from(f.method.0)))?;
        let next = next_bci(method, at, &step, &self.outcome, self.shared.reveals)?;
        Ok((next, Some(at).filter(|_| next == step.next)))
    }
    /// The handler that the VM chose for an exception thrown at `at`.
    fn handler(&self, method: MethodId, at: Bci) -> Walk<Bci> {
        if let Some(v) = self.outcome.value(Reveal::ExceptionHandler) {
            let m = self.shared.maps.method(method);
            let chosen = u16::try_from(v).ok().map(Bci).filter(|&h| m.is_some_and(|m| may_choose(m, at, h)));
            return match chosen {
                Some(handler) => Ok(handler),
                None => Err(Contradiction::BadOutcome {
                    opcode: Opcode::ATHROW,
                    bci: at,
                    value: v,
                    method: self.name(method),
                }
                .into()),
            };
        }
        Err(Contradiction::NoOutcome { opcode: Opcode::ATHROW, bci: at, method: self.name(method) }.into())
    }
    #[inline]
    pub(crate) fn step(&self, method: MethodId, bci: Bci) -> Walk<DispatchStep> {
        self.shared
            .maps
            .of(method)
            .and_then(|m| m.step(bci))
            .copied()
            .ok_or_else(|| Contradiction::NoBytecode { bci, method: self.name(method) }.into())
    }
    #[cold]
    pub(crate) fn name(&self, method: MethodId) -> String {
        self.shared.maps.method(method).map_or_else(|| method.to_string(), |m| m.qualified_name())
    }
}
