// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The vocabulary of the reconstructed bytecode flow.
//!
//! A *flow* is one sequence of [`Event`]s per thread. It says what the thread did in terms of
//! methods and bytecodes, and how each step is known ([`Provenance`]). Where the recording or the
//! decoder has no information, the flow contains a [`Gap`].
//!
//! Whoever has a question about flows writes an [`Analysis`] and [runs](run()) it. Stages between
//! the decoder and an analysis (filling, selecting) are [`FlowConsumer`]s that pass events on to
//! another one. A consumer may run on a thread of its own ([`relayed`]); the channel between the
//! threads is [`bounded`].
//!
//! The crate knows no file and no machine code. Producers are `reconstruct` and `infer`; analyses
//! are in `analyses` and `validate`, and in programs of users.
#![forbid(unsafe_code)]

mod analysis;
mod bounded;
mod cause;
mod gap;
mod relay;
mod stack;
mod switch;
mod tally;
#[doc(hidden)]
pub mod testing;

pub use analysis::{Analysis, Enough, Member, SingleBytecodes, run, run_on};
pub use bounded::{HungUp, Receiver, Sender, bounded};
pub use cause::{Cause, UnresolvedCounts};
pub use gap::{FlowFault, Gap, GapReason, MachineFault};
use jportal_units::{Bci, CodeId, MethodId, Tid, Tsc};
pub use relay::relayed;
pub use stack::{Frame, Stack};
pub use switch::{CoreSwitch, Departure, SwitchSide, Switches};
pub use tally::{Exclude, Tally};

/// What executes a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tier {
    /// The template interpreter.
    Interpreter,
    /// C1, tiers 1 to 3.
    C1,
    /// C2, tier 4.
    C2,
    /// A native method, through its wrapper or native entry.
    Native,
}

impl Tier {
    /// The name in texts and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interpreter => "interpreter",
            Self::C1 => "C1",
            Self::C2 => "C2",
            Self::Native => "native",
        }
    }
}

/// How a frame began.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Entry {
    /// Called by Java code.
    Call,
    /// Called by the VM or by native code (call stub).
    Upcall,
    /// An interpreted frame continued in compiled code (on-stack replacement): the same
    /// activation, not a second call.
    Osr,
    /// A compiled frame continued in the interpreter: the same activation, not a second call.
    Deoptimisation,
    /// The frame was on the stack when the trace began or resumed.
    Found,
}

/// How a frame ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Exit {
    /// A return bytecode.
    Return,
    /// An exception left the frame.
    Unwind,
    /// A debugger removed the frame from the stack (JVMTI PopFrame): the caller executes its
    /// invoke again.
    PopFrame,
    /// A debugger made the frame return from its position (JVMTI ForceEarlyReturn).
    EarlyReturn,
    /// The activation continues in another kind of frame (OSR, deoptimisation). An
    /// [`EventKind::Enter`] with that cause follows.
    Replaced,
    /// The end was not seen.
    Lost,
    /// A return or an exception; it is unknown which. An [`EventKind::Unresolved`] to the end of
    /// a compiled frame precedes.
    Unknown,
}

impl Exit {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Return => "return",
            Self::Unwind => "unwind",
            Self::PopFrame => "pop-frame",
            Self::EarlyReturn => "early-return",
            Self::Replaced => "replaced",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }
}

/// How an event is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Provenance {
    /// It follows from packets and metadata alone.
    Decoded,
    /// An orphan segment was placed in the ICFG; `paths` paths fitted.
    Projected {
        /// Number of paths.
        paths: u32,
    },
    /// It was filled in for lost data.
    Recovered {
        /// The confidence, between 0 and 1.
        confidence: f32,
    },
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum EventKind {
    /// A frame of `method` was pushed.
    Enter {
        /// The frame's method.
        method: MethodId,
        /// What executes it.
        tier: Tier,
        /// How it began.
        entry: Entry,
    },
    /// The bytecode at `bci` of the top frame began to execute.
    Bytecode {
        /// The top frame's method.
        method: MethodId,
        /// The bytecode's bci.
        bci: Bci,
        /// What executed it.
        tier: Tier,
    },
    /// Several bytecodes of the top frame began to execute one after the other, in the order of
    /// the code and without other events in between. It is equivalent to `len`
    /// [`EventKind::Bytecode`] events. Only consumers that [take runs](FlowConsumer::takes_runs)
    /// receive it.
    Run {
        /// The top frame's method.
        method: MethodId,
        /// The first bytecode.
        first: Bci,
        /// The last bytecode, which follows it in the code.
        last: Bci,
        /// Number of bytecodes, including these two; at least 2.
        len: u16,
        /// What executed them.
        tier: Tier,
    },
    /// The top frame, one of `method`, was popped.
    Leave {
        /// The frame's method.
        method: MethodId,
        /// How it ended.
        exit: Exit,
    },
    /// An exception handler of the top frame was entered at `bci`; a `Bytecode` follows.
    Catch {
        /// The top frame's method.
        method: MethodId,
        /// First bytecode of the handler.
        bci: Bci,
    },
    /// The top frame moved from `from` (`None`: its entry) to `to` (`None`: its end; the
    /// [`EventKind::Leave`] that follows says how it ended) in compiled code. The bytecodes in
    /// between are unknown, and so is whether one of them threw. If `callers` is more than 0, a
    /// loop was lost that contains inlined frames: the frame and callers of it may have ended and
    /// begun again on the way, any number of times.
    Unresolved {
        /// The top frame's method.
        method: MethodId,
        /// Last known bytecode before.
        from: Option<Bci>,
        /// First known bytecode after.
        to: Option<Bci>,
        /// Why the bytecodes are unknown.
        cause: Cause,
        /// Number of frames below the top frame, of the same compiled code, that the lost loop
        /// may include. The lowest of them does not end in the loop.
        callers: u16,
    },
    /// The interpreter continued in a frame that was on the stack when the trace began or
    /// resumed. Neither its method nor its position is known. The frame lies below all frames
    /// that were entered since then. When it returns, its caller takes its place.
    Orphan(Orphan),
    /// Which compiled code executes the top frame. Only consumers that [take
    /// code](FlowConsumer::takes_code) receive it.
    Code(CodeStep),
    /// Time advances: the events that follow happened at or after `tsc`.
    Time(Tsc),
    /// Nothing is known for a part of the flow.
    Gap(Box<Gap>),
}

/// An action of a frame whose method and position are unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orphan {
    /// A bytecode began to execute.
    Bytecode {
        /// The opcode according to the JVM specification; that of the instruction after a `wide`
        /// prefix.
        opcode: u8,
        /// Whether the conditional branch was taken; `None` for other bytecodes, and if the trace
        /// does not say it.
        taken: Option<bool>,
    },
    /// The frame threw an exception, or received one from its callee. The next bytecode is that
    /// of a handler, in this frame or in a frame below it.
    Throw,
}

/// A step between compiled code and other kinds of execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeStep {
    /// The top frame, which an [`EventKind::Enter`] has just pushed, is one of this code. So are
    /// the frames that are inlined into it. They are pushed by a call in the code's own tier, or
    /// as found, and no event of this kind follows.
    Entered(CodeId),
    /// The interpreter continues the frames of this code. An [`EventKind::Leave`] with
    /// [`Exit::Replaced`] of each of them follows.
    Deoptimised {
        /// The code.
        code: CodeId,
        /// How it was left; `None` if that was not seen.
        stop: Option<CodeStop>,
    },
}

/// Where compiled code was left for good. The offsets are those from the code's first byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CodeStop {
    /// At the call with this return address. It is a call for an uncommon trap, or it returned to
    /// code that was not valid any more.
    Call(u32),
    /// Before the instruction at this offset: it faulted, or it is a safepoint poll.
    Before(u32),
    /// By another kind of transfer, in the block that ends at this offset.
    Other(u32),
}

/// An event with its provenance.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// How it is known.
    pub provenance: Provenance,
}

impl EventKind {
    /// The method, the first and the last bytecode that were executed; `None` for events other
    /// than [`Self::Bytecode`] and [`Self::Run`].
    #[inline]
    pub const fn executed(&self) -> Option<(MethodId, Bci, Bci)> {
        match *self {
            Self::Bytecode { method, bci, .. } => Some((method, bci, bci)),
            Self::Run { method, first, last, .. } => Some((method, first, last)),
            _ => None,
        }
    }
    /// The number of bytecodes that began to execute.
    #[inline]
    pub const fn bytecodes(&self) -> u64 {
        match self {
            Self::Bytecode { .. } => 1,
            Self::Run { len, .. } => *len as u64,
            _ => 0,
        }
    }
}

impl Event {
    /// An event that follows from packets and metadata alone.
    pub const fn decoded(kind: EventKind) -> Self {
        Self { kind, provenance: Provenance::Decoded }
    }
}

/// One traced thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadInfo {
    /// OS thread id.
    pub tid: Tid,
    /// `java.lang.Thread.getId()`, 0 if unknown.
    pub java_tid: u64,
    /// Last name that the VM reported.
    pub name: String,
    /// When it started, if known.
    pub started: Tsc,
}

/// Receives the flow of one thread, in order.
pub trait FlowSink {
    /// The next events.
    fn events(&mut self, events: &[Event]);
    /// Like [`Self::events`], but the sink may keep the events; `events` is empty afterwards.
    fn take(&mut self, events: &mut Vec<Event>) {
        self.events(events);
        events.clear();
    }
    /// Whether no more events of this thread are needed, so that the producer may leave them out.
    /// A sink that passes events on returns the answer of the sink that it passes them to. The
    /// answer `true` is final.
    fn has_enough(&self) -> bool {
        false
    }
    /// The thread's flow is complete.
    fn end(self: Box<Self>);
}

/// Receives the flows of all threads.
pub trait FlowConsumer {
    /// A thread's flow begins; called once per thread, from the driver's own thread.
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send>;
    /// Whether events may be [runs](EventKind::Run). A consumer that passes events on returns the
    /// answer of the consumer that it passes them to.
    fn takes_runs(&self) -> bool {
        false
    }
    /// Whether events may be [steps of code](EventKind::Code). Without them, the flow is the same.
    /// A consumer that passes events on returns the answer of the consumer that it passes them
    /// to.
    fn takes_code(&self) -> bool {
        false
    }
    /// Whether no more events of any thread are needed, so that the producer may stop early. A
    /// consumer that passes events on may return the answer of the consumer that it passes them
    /// to.
    fn has_enough(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_small() {
        // Flows have billions of events, and steps of code must not make them larger.
        assert_eq!((size_of::<EventKind>(), size_of::<Event>()), (16, 24));
    }
}
