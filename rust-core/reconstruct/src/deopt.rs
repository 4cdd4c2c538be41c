// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Changes of frame kind: deoptimisation (compiled → interpreted) and OSR (the reverse).

use crate::contradiction::Walk;
use crate::frame::{Compiled, Frame, Interpreted, Position, Resume};
use crate::machine::Machine;
use jportal_flow::{CodeStep, CodeStop, Entry, Exit as FrameExit, Tier};
use jportal_machine_flow::Exit;

impl Machine<'_> {
    /// The interpreter continues a frame that was compiled. `again`: it resumes with the same
    /// bytecode, otherwise with the next one.
    pub(crate) fn deopt_entry(&mut self, again: bool) -> Walk<()> {
        self.deoptimise_if_compiled();
        self.observe_resumption(again);
        if let Some(Frame::Interpreted(f)) = self.stack.last_mut() {
            f.resume = match f.resume {
                // The callee has ended.
                Resume::Again if again => Resume::Again,
                _ if again => Resume::Reexecute,
                _ => Resume::Next,
            };
        }
        Ok(())
    }
    /// Replaces a compiled top frame by the interpreted frames of its last position.
    pub(crate) fn deoptimise_if_compiled(&mut self) {
        self.settle_cut();
        let Some(Frame::Compiled(c)) = self.stack.last() else { return };
        if c.chain.is_empty() {
            return;
        }
        let Some(Frame::Compiled(c)) = self.stack.pop() else { return };
        let stop = c.trail.last.map(|run| match run.exit {
            Exit::Call | Exit::IndirectCall => CodeStop::Call(run.to),
            Exit::Cut => CodeStop::Before(run.to),
            _ => CodeStop::Other(run.to),
        });
        self.emit_code(CodeStep::Deoptimised { code: c.code, stop });
        self.observe_replacement(&c);
        for p in c.chain.iter().rev() {
            self.emit(jportal_flow::EventKind::Leave { method: p.method, exit: FrameExit::Replaced });
        }
        for p in &c.chain {
            self.stack.push(Frame::Interpreted(Interpreted::new(p.method, p.bci)));
            self.emit_enter(p.method, Tier::Interpreter, Entry::Deoptimisation);
        }
        // This holds until an entry of the interpreter says otherwise.
        if let Some(Frame::Interpreted(f)) = self.stack.last_mut() {
            f.resume = if c.trail.ended { Resume::Again } else { Resume::Reexecute };
        }
        self.outcome = Default::default();
    }
    /// An interpreted frame continues in compiled code. If the frame is not known, it is found
    /// here.
    pub(crate) fn on_stack_replacement(&mut self, compiled: Compiled, at: Position) {
        let (tier, code) = (compiled.tier, compiled.code);
        let marked = self.is_marked(&compiled);
        let entry = if self.stack.is_empty() { Entry::Found } else { Entry::Osr };
        if matches!(self.stack.last(), Some(Frame::Interpreted(_))) {
            self.pop(FrameExit::Replaced);
        }
        self.stack.push(Frame::Compiled(Compiled { chain: vec![at], ..compiled }));
        self.outcome = Default::default();
        self.throwing = false;
        self.emit_enter(at.method, tier, entry);
        self.emit_code(CodeStep::Entered(code));
        // With path markers, the marker of the OSR entry reports the bytecode.
        if let Some(bci) = at.bci.filter(|_| !marked) {
            self.emit_bytecode(at.method, bci, tier);
        }
    }
}
