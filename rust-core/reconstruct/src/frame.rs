// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The shadow stack: what the decoder knows of a thread's frames.

use crate::outcome::Outcome;
use jportal_flow::{Cause, Tier};
use jportal_machine_flow::Exit;
use jportal_units::{Bci, CodeId, MethodId};
use jportal_vm_image::Marker;

/// A position of an inlined frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub method: MethodId,
    /// `None` before the first bytecode.
    pub bci: Option<Bci>,
}

/// How an interpreted frame goes on at the next dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resume {
    /// Behind the current bytecode (or at bci 0 when there is none yet).
    Next,
    /// With the current bytecode once more (JVMTI's PopFrame).
    Again,
    /// With the current bytecode, which compiled code has begun and reported (deoptimisation with the
    /// reexecute bit).
    Reexecute,
}

/// An interpreted activation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interpreted {
    pub method: MethodId,
    /// The bytecode that began last; `None` before the first one.
    pub at: Option<Bci>,
    pub resume: Resume,
    /// The bytecode in front of which a safepoint or a breakpoint stopped the thread: the VM has moved the
    /// frame there already, and an exception that arrives now is thrown there.
    pub reached: Option<Bci>,
    /// A debugger makes it return (JVMTI ForceEarlyReturn).
    pub forced: bool,
}

impl Interpreted {
    /// A frame that stands at `at`.
    pub const fn new(method: MethodId, at: Option<Bci>) -> Self {
        Self { method, at, resume: Resume::Next, reached: None, forced: false }
    }
    /// Where an exception that arrives now is thrown.
    pub fn thrown_at(&self) -> Bci {
        // In front of the first bytecode the VM looks for handlers of bci 0.
        self.reached.or(self.at).unwrap_or(Bci(0))
    }
}

/// A compiled activation with the frames inlined into it.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub code: CodeId,
    pub tier: Tier,
    /// Outermost first; empty until the first debug-info position was seen.
    pub chain: Vec<Position>,
    /// What following path markers needs beside that.
    pub trail: Trail,
}

/// The machine block that a compiled frame executed last; offsets in the nmethod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub from: u32,
    pub to: u32,
    pub exit: Exit,
}

/// How far a compiled frame has been followed by path markers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    pub last: Option<Run>,
    /// Markers of an interrupted block that lie behind the interruption, or what was passed before its time.
    pub held: Vec<Marker>,
    /// What is held was passed, and has not happened if the next poll deoptimises ([`Marker::PollState`]).
    pub early: bool,
    /// The path behind the position is lost, for this cause.
    pub lost: Option<Cause>,
    /// A marker contradicts the ones before it: which of them are wrong is not known, and none counts until debug info
    /// says where control stands.
    pub astray: bool,
    /// The position stands in no relation to the next one: nothing is known of how control came there.
    pub fresh: bool,
    /// An exception was thrown at exactly the position.
    pub thrown: bool,
    /// The bytecode at the position has made a call.
    pub called: bool,
    /// Where the last jump stands, and the one before it.
    pub jumps: [Option<u32>; 2],
    /// The last block is where a call returned to.
    pub returned: bool,
    /// The last block ended with a jump out of the code.
    pub left: bool,
    /// The context of the markers in which the position stands, where it is known.
    pub context: Option<u32>,
    /// The scope at which the interpreter would start again, were the last call to end otherwise than by returning.
    pub restart: Option<u32>,
    /// A debugger has popped the callee: the interpreter executes the call once more (JVMTI PopFrame).
    pub popped: bool,
}

impl Trail {
    /// Length of a `jmp rel32`.
    const JUMP: u32 = 5;

    /// The frame executes `run`; returns what it executed before.
    pub fn run(&mut self, run: Run) -> Option<Run> {
        let last = self.last.replace(run);
        self.left = false;
        self.returned = last.is_some_and(|l| {
            l.to == run.from && (l.exit == Exit::Call || l.exit == Exit::Cut && self.returned)
        });
        if run.exit == Exit::Jump {
            self.jumps = [run.to.checked_sub(Self::JUMP), self.jumps[0]];
        }
        last
    }
    /// Whether control, in C1's code, goes on at `at` behind a patching stub: its call returned, and it jumps back to
    /// the instruction that had been a jump into the stub (`PatchingStub::emit_code`), and still is one while the class
    /// it waits for is being initialised. What control passes there it has passed already. C1 removes blocks that
    /// are a jump and nothing else, so no loop begins like that.
    pub fn goes_on_at_patch(&self, at: u32) -> bool {
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

/// A frame, oldest at the bottom.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Interpreted(Interpreted),
    Compiled(Compiled),
    /// A native method: interpreter entry (`None`) or native wrapper.
    Native {
        method: MethodId,
        code: Option<CodeId>,
    },
    /// The VM called Java from here (call stub); what was on its way in the frame below.
    Upcall {
        outcome: Outcome,
        throwing: bool,
    },
}
