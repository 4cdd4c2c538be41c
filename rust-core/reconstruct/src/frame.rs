// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The shadow stack: the decoder's model of a thread's frames.

use crate::outcome::BranchOutcomes;
use crate::states::Marked;
use jportal_flow::{Cause, Tier};
use jportal_machine_flow::Exit;
use jportal_units::{Bci, CodeId, MethodId};
use jportal_vm_image::Marker;

/// A position of an inlined frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Position {
    pub method: MethodId,
    /// `None` before the first bytecode.
    pub bci: Option<Bci>,
}

/// How an interpreted frame continues at the next dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resume {
    /// With the bytecode that follows the current one (or bci 0 when there is no current one).
    Next,
    /// With the current bytecode again: JVMTI PopFrame, or a call of compiled code whose state
    /// has the reexecute bit (C2's intrinsic `clone`).
    Again,
    /// With the current bytecode, which compiled code has begun and reported (deoptimisation
    /// with the reexecute bit).
    Reexecute,
}

/// An interpreted activation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interpreted {
    pub method: MethodId,
    /// The bytecode that began last; `None` before the first one.
    pub at: Option<Bci>,
    pub resume: Resume,
    /// The bytecode before which a safepoint or a breakpoint stopped the thread. The VM has
    /// moved the frame there already, so an exception that arrives here is thrown there.
    pub reached: Option<Bci>,
    /// A debugger forces it to return (JVMTI ForceEarlyReturn).
    pub forced: bool,
}

impl Interpreted {
    /// A frame at `at`.
    pub const fn new(method: MethodId, at: Option<Bci>) -> Self {
        Self { method, at, resume: Resume::Next, reached: None, forced: false }
    }
    /// The bci at which an exception that arrives in this state is thrown.
    pub fn thrown_at(&self) -> Bci {
        // Before the first bytecode, the VM looks for handlers of bci 0.
        self.reached.or(self.at).unwrap_or(Bci(0))
    }
}

/// A compiled activation with the frames inlined into it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Compiled {
    pub code: CodeId,
    pub tier: Tier,
    /// Outermost first; empty until the first debug-info position was seen.
    pub chain: Vec<Position>,
    /// The state that following path markers needs in addition.
    pub trail: Trail,
}

/// The last machine block that a compiled frame executed; offsets in the nmethod.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Run {
    pub from: u32,
    pub to: u32,
    pub exit: Exit,
}

/// The state of following a compiled frame by path markers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Trail {
    pub last: Option<Run>,
    /// Markers that wait: those of an interrupted block that lie after the interruption, or
    /// those passed early (see `early`).
    pub held: Vec<Marker>,
    /// The markers in `held` were passed, but did not happen if the next poll deoptimises
    /// ([`Marker::PollState`]).
    pub early: bool,
    /// The path after the position is lost, for this cause.
    pub lost: Option<Cause>,
    /// A marker contradicts the ones before it. It is not known which of them are wrong, so
    /// markers are ignored until debug info gives the position.
    pub astray: bool,
    /// The position has no known relation to the next one: it is not known how control came
    /// there.
    pub fresh: bool,
    /// An exception was thrown at exactly the position.
    pub thrown: bool,
    /// The bytecode at the position has made a call.
    pub called: bool,
    /// The offset of the last jump, and of the one before it.
    pub jumps: [Option<u32>; 2],
    /// The last block is one to which a call returned.
    pub returned: bool,
    /// The last block ended with a jump out of the code.
    pub left: bool,
    /// The markers' context to which the position belongs, where it is known.
    pub context: Option<u32>,
    /// The last call has the state of an earlier position. If the call does not end with a
    /// return, the interpreter restarts there.
    pub restart: Option<Restart>,
    /// The callee at the position has ended: it returned to the deoptimisation handler, or a
    /// debugger has popped it (JVMTI PopFrame). If the interpreter resumes with the same
    /// bytecode, it makes the call again.
    pub ended: bool,
    /// Where markers alone place control.
    pub marked: Marked,
    /// The same at the start of the block that was interrupted.
    pub cut: Marked,
}

/// The earlier position at which the interpreter restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Restart {
    /// Its scope.
    pub scope: u32,
    /// Why control has passed it already.
    pub cause: Cause,
}

impl Trail {
    /// Length of a `jmp rel32`.
    const JUMP: u32 = 5;

    /// The frame executes `run`. Returns the run before it. `keeps_jumps`: whether
    /// [`Self::continues_at_patch`] will be asked.
    pub fn run(&mut self, run: Run, keeps_jumps: bool) -> Option<Run> {
        let last = self.last.replace(run);
        self.left = false;
        self.returned = last.is_some_and(|l| {
            l.to == run.from && (l.exit == Exit::Call || l.exit == Exit::Cut && self.returned)
        });
        if keeps_jumps && run.exit == Exit::Jump {
            self.jumps = [run.to.checked_sub(Self::JUMP), self.jumps[0]];
        }
        last
    }
    /// Whether control, in C1's code, resumes at `at` after a patching stub. The stub's call
    /// returned, and the stub jumps back to the instruction that had been a jump into the stub
    /// (`PatchingStub::emit_code`). That instruction is still a jump while the class that the
    /// stub waits for is being initialised. Control has already passed the markers at `at`. No
    /// loop begins like this, because C1 removes blocks that consist of a single jump.
    pub fn continues_at_patch(&self, at: u32) -> bool {
        self.returned && self.jumped() && self.jumps[1] == Some(at)
    }
    /// Whether the frame's last block ended with a jump.
    pub fn jumped(&self) -> bool {
        self.last.is_some_and(|l| l.exit == Exit::Jump)
    }
    /// Whether the frame's last block ended with a call that returns to `address`.
    pub fn called_up_to(&self, address: u32) -> bool {
        self.last.is_some_and(|l| matches!(l.exit, Exit::Call | Exit::IndirectCall) && l.to == address)
    }
}

/// A frame of the shadow stack.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Interpreted(Interpreted),
    Compiled(Compiled),
    /// A compiled activation in which the automaton runs: see [`crate::automaton`].
    Interned {
        code: CodeId,
        state: u32,
    },
    /// A native method: interpreter entry (`None`) or native wrapper.
    Native {
        method: MethodId,
        code: Option<CodeId>,
    },
    /// The VM called Java from here (call stub). Holds the pending state of the frame below.
    Upcall {
        outcome: BranchOutcomes,
        throwing: bool,
    },
}
