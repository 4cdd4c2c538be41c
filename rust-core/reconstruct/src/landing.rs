// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Where control returns to: return entries, handlers, the caller's handler.

use crate::contradiction::{Contradiction, Walk};
use crate::frame::{Frame, Resume};
use crate::machine::Machine;
use jportal_bytecode::Transfer;
use jportal_flow::Exit as FrameExit;
use jportal_machine_flow::Exit;
use jportal_units::Bci;
use jportal_vm_image::interpreter::Reveal;

impl Machine<'_> {
    /// A callee returned to the interpreter: it is popped, and the caller is at its invoke.
    pub(crate) fn return_entry(&mut self) -> Walk<()> {
        self.throwing = false;
        if self.stack.is_empty() {
            return Ok(());
        }
        if !matches!(self.stack.last(), Some(Frame::Upcall { .. })) {
            self.pop(FrameExit::Return);
        }
        self.expect_caller("the interpreter")
    }
    /// After a return, the top frame must be interpreted and at an invoke.
    fn expect_caller(&mut self, to: &'static str) -> Walk<()> {
        match self.stack.last() {
            // The caller's frame is older than the trace.
            None => Ok(()),
            Some(Frame::Interpreted(f)) => {
                let Some(at) = f.at else { return Err(Contradiction::NoSuchFrame { to }.into()) };
                let step = self.step(f.method, at)?;
                match step.transfer {
                    Transfer::Invoke => Ok(()),
                    _ => Err(Contradiction::NoSuchFrame { to }.into()),
                }
            }
            Some(_) => Err(Contradiction::NoSuchFrame { to }.into()),
        }
    }
    /// An exception arrives in the top interpreted frame. It comes from a callee, which is gone
    /// by then, or from a call to the VM by the frame's own bytecode or prologue
    /// (`forward_exception` arrives here in both cases). An interpreted native frame throws
    /// here the exception that the native code left pending. Native wrappers have no landmark
    /// of their own.
    pub(crate) fn rethrow(&mut self) -> Walk<()> {
        self.deoptimise_if_compiled();
        while matches!(self.stack.last(), Some(Frame::Native { code: Some(_), .. })) {
            self.pop(FrameExit::Unwind);
        }
        if matches!(self.stack.last(), Some(Frame::Upcall { .. })) {
            return Err(Contradiction::NoSuchFrame { to: "an interpreted handler" }.into());
        }
        self.throw()
    }
    /// Stack overflow: the callee that was about to build its frame never had one.
    pub(crate) fn stack_overflow(&mut self) -> Walk<()> {
        let frameless = match self.stack.last() {
            Some(Frame::Interpreted(f)) => f.at.is_none(),
            Some(Frame::Native { .. }) => true,
            Some(Frame::Compiled(c)) => c.chain.iter().all(|p| p.bci.is_none()),
            _ => false,
        };
        if frameless {
            self.pop(FrameExit::Unwind);
        }
        Ok(())
    }
    /// The top interpreted frame throws.
    pub(crate) fn throw(&mut self) -> Walk<()> {
        if self.stack.is_empty() {
            self.throw_in_orphan();
        }
        self.move_to_throw_point();
        self.throwing = true;
        self.outcome = Default::default();
        Ok(())
    }
    /// Moves the top interpreted frame to where the VM had moved it before it found the
    /// exception, if that is not its last bytecode.
    fn move_to_throw_point(&mut self) {
        let Some(&Frame::Interpreted(frame)) = self.stack.last() else { return };
        let branches = |at| {
            let step = self.step(frame.method, at).ok()?;
            Some(matches!(step.transfer, Transfer::Goto | Transfer::If | Transfer::Jsr))
        };
        let reached = if let Some(bci) = self.outcome.value(Reveal::Deopt) {
            // The entry of a deoptimised frame throws the pending exception before its first
            // dispatch.
            Some(Bci(bci as u16))
        } else if frame.reached.is_none() && frame.at.and_then(branches) == Some(true) {
            // A branch itself throws nothing. It increments its counter when the frame is at
            // the target already, and may enter the VM for that (`TemplateTable::branch`).
            self.next_position(&frame).ok().map(|next| next.0)
        } else {
            frame.reached
        };
        if let Some(Frame::Interpreted(f)) = self.stack.last_mut() {
            f.reached = reached;
        }
    }
    /// The top interpreted frame is left.
    pub(crate) fn remove_activation(&mut self, exit: FrameExit) -> Walk<()> {
        match self.stack.last() {
            Some(Frame::Interpreted(_)) | Some(Frame::Native { code: None, .. }) => {
                self.pop(exit);
                self.throwing = false;
                Ok(())
            }
            None => Ok(()),
            Some(_) => Err(Contradiction::NoSuchFrame { to: "an activation to remove" }.into()),
        }
    }
    /// JVMTI PopFrame: the top frame is removed, and the caller executes its invoke again. If
    /// the frame was compiled, the interpreted frame that replaces it is removed
    /// (`vframeArrayElement::unpack_on_stack`). A compiled caller is deoptimised next.
    pub(crate) fn pop_frame(&mut self) -> Walk<()> {
        self.deoptimise_if_compiled();
        self.remove_activation(FrameExit::PopFrame)?;
        self.outcome = Default::default();
        match self.stack.last_mut() {
            Some(Frame::Interpreted(f)) => f.resume = Resume::Again,
            Some(Frame::Compiled(c)) => c.trail.ended = true,
            _ => {}
        }
        Ok(())
    }
    /// JVMTI ForceEarlyReturn: the top frame returns from its position. Control lands in the
    /// caller as after any return.
    pub(crate) fn early_return(&mut self) -> Walk<()> {
        self.deoptimise_if_compiled();
        self.throwing = false;
        // Perhaps nothing was dispatched in the frame since its own callee was popped.
        self.outcome = Default::default();
        match self.stack.last_mut() {
            Some(Frame::Interpreted(f)) => {
                f.forced = true;
                Ok(())
            }
            None => Ok(()),
            Some(_) => Err(Contradiction::NoSuchFrame { to: "an activation that returns early" }.into()),
        }
    }
    /// A stub that removes the compiled frame that jumped to it. A frame that called the stub
    /// stays: the exception comes back to it (`Parse::catch_inline_exceptions`).
    pub(crate) fn unwind_stub(&mut self) -> Walk<()> {
        self.unfold();
        use crate::machine::Before;
        use crate::tags::CodeClass;
        let from_nmethod = matches!(self.before, Before::Block {
            class: CodeClass::NMethod | CodeClass::NativeWrapper, exit, ..
        } if !matches!(exit, Exit::Call | Exit::IndirectCall));
        if from_nmethod && matches!(self.stack.last(), Some(Frame::Compiled(_) | Frame::Native { .. })) {
            self.pop(FrameExit::Unwind);
        }
        Ok(())
    }
}
