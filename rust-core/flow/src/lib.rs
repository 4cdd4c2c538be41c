// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The vocabulary of the reconstructed bytecode flow.
//!
//! A *flow* is one sequence of [`Event`]s per thread. It says what the thread did in terms
//! of methods and bytecodes, how each step is known ([`Provenance`]), and, as values of the
//! same stream, where the recording or the decoder has nothing to say ([`Gap`]).
//! A consumer may take it on a thread of its own ([`relayed`]); what passes between threads is [`bounded`].
//! The crate knows no file and no machine code; producers are `reconstruct` and `recover`,
//! consumers `report`, `export` and the command.
#![forbid(unsafe_code)]

mod bounded;
mod cause;
mod relay;

pub use bounded::{HungUp, Receiver, Sender, bounded};
pub use cause::{Cause, UnresolvedCounts};
use jportal_units::{Bci, Core, MethodId, StreamOffset, Tid, Tsc};
pub use relay::relayed;

/// Who executed a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tier {
    /// The template interpreter.
    Interpreter,
    /// C1, tiers 1 to 3.
    C1,
    /// C2, tier 4.
    C2,
    /// A native method behind its wrapper or native entry.
    Native,
}

impl Tier {
    /// In words, as texts and JSON have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interpreter => "interpreter",
            Self::C1 => "C1",
            Self::C2 => "C2",
            Self::Native => "native",
        }
    }
}

/// How a frame came to be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Entry {
    /// Called by Java code.
    Call,
    /// Called by the VM or by native code (call stub).
    Upcall,
    /// An interpreted frame went on in compiled code (on-stack replacement): the same
    /// activation, no second call.
    Osr,
    /// A compiled frame went on in the interpreter: the same activation, no second call.
    Deoptimisation,
    /// The frame was on the stack when the trace (again) began.
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
    /// A debugger took the frame off the stack (JVMTI PopFrame): the caller executes its invoke once more.
    PopFrame,
    /// A debugger made the frame return from where it stood (JVMTI ForceEarlyReturn).
    EarlyReturn,
    /// The activation goes on in another kind of frame (OSR, deoptimisation); an
    /// [`EventKind::Enter`] with that cause follows.
    Replaced,
    /// The end was not seen.
    Lost,
    /// By a return or by an exception: nothing says which. An [`EventKind::Unresolved`] to the end of a compiled
    /// frame precedes.
    Unknown,
}

/// How an event is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Provenance {
    /// From packets and metadata alone.
    Decoded,
    /// Found by placing an orphan segment in the ICFG; so many paths fitted.
    Projected {
        /// Number of paths.
        paths: u32,
    },
    /// Inferred for lost data.
    Recovered {
        /// Between 0 and 1.
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
        /// Who executes it.
        tier: Tier,
        /// Why.
        entry: Entry,
    },
    /// The bytecode at `bci` of the top frame began to execute.
    Bytecode {
        /// The top frame's method.
        method: MethodId,
        /// Which bytecode.
        bci: Bci,
        /// Who executed it.
        tier: Tier,
    },
    /// Several bytecodes of the top frame began to execute one after the other, as they stand in its code and with nothing in between: what
    /// so many [`EventKind::Bytecode`] say. Only consumers that [take runs](FlowConsumer::takes_runs) get it.
    Run {
        /// The top frame's method.
        method: MethodId,
        /// The first bytecode.
        first: Bci,
        /// The last one, which stands behind it in the code.
        last: Bci,
        /// How many, with these two; at least 2.
        len: u16,
        /// Who executed them.
        tier: Tier,
    },
    /// The top frame, one of `method`, was popped.
    Leave {
        /// The frame's method.
        method: MethodId,
        /// Why.
        exit: Exit,
    },
    /// An exception handler of the top frame was entered at `bci`; a `Bytecode` follows.
    Catch {
        /// The top frame's method.
        method: MethodId,
        /// First bytecode of the handler.
        bci: Bci,
    },
    /// The top frame went from `from` (not set: its entry) to `to` (not set: its end, of which the
    /// [`EventKind::Leave`] that follows says what is known) in compiled code: the bytecodes in
    /// between are not known, neither which they are nor whether one of them threw. With `callers` more than 0 the frame
    /// and so many below it may have ended and begun anew on the way, any number of times: a loop was lost that reaches
    /// over inlined frames.
    Unresolved {
        /// The top frame's method.
        method: MethodId,
        /// Last bytecode known before.
        from: Option<Bci>,
        /// First bytecode known after.
        to: Option<Bci>,
        /// Why.
        cause: Cause,
        /// Frames below the top frame, of the same compiled code, that the path may have left and come to again; the
        /// lowest of them went on itself.
        callers: u16,
    },
    /// The interpreter went on in a frame that was on the stack when the trace (again) began. Neither its method nor its
    /// position is known: it lies below all frames that were entered since, and becomes another one where it returns.
    Orphan(Orphan),
    /// Time goes on: the events that follow happened at or after `tsc`.
    Time(Tsc),
    /// Nothing is known for a stretch.
    Gap(Box<Gap>),
}

/// What a frame did of which nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orphan {
    /// A bytecode began to execute.
    Bytecode {
        /// Its number in the JVM specification; without its `wide` prefix, if it has one.
        opcode: u8,
        /// Whether the conditional branch was taken; not set for what is none, and where the trace does not tell.
        taken: Option<bool>,
    },
    /// The frame threw an exception, or one arrived in it. The next bytecode is that of a handler, its own or that of a frame
    /// below it.
    Throw,
}

/// An event with its provenance.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// How it is known.
    pub provenance: Provenance,
}

impl EventKind {
    /// The method and the first and the last bytecode of what was executed; `None` for all but [`Self::Bytecode`] and [`Self::Run`].
    #[inline]
    pub const fn executed(&self) -> Option<(MethodId, Bci, Bci)> {
        match *self {
            Self::Bytecode { method, bci, .. } => Some((method, bci, bci)),
            Self::Run { method, first, last, .. } => Some((method, first, last)),
            _ => None,
        }
    }
    /// How many bytecodes began to execute.
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

/// Why a stretch of the flow is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GapReason {
    /// The kernel or the emulated unit had no room (`PERF_AUX_FLAG_TRUNCATED`).
    Truncated,
    /// The PT unit overflowed (OVF).
    Overflow,
    /// Records that say who ran where were lost (`PERF_RECORD_LOST`): the thread may have run meanwhile.
    Sideband,
    /// The PT packets could not be decoded.
    Packets(String),
    /// Packets and machine code contradict each other.
    MachineFlow(String),
    /// Machine flow and bytecode contradict each other, or the position is unknown.
    Reconstruct(String),
    /// Compiled code ran between two known positions and more than one path fits.
    Ambiguous(String),
    /// The capture ends in the middle.
    Torn,
}

impl GapReason {
    /// A short stable name, one per variant.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Overflow => "overflow",
            Self::Sideband => "sideband",
            Self::Packets(_) => "packets",
            Self::MachineFlow(_) => "machine-flow",
            Self::Reconstruct(_) => "reconstruct",
            Self::Ambiguous(_) => "ambiguous",
            Self::Torn => "torn",
        }
    }
    /// What is said besides.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Packets(s) | Self::MachineFlow(s) | Self::Reconstruct(s) | Self::Ambiguous(s) => Some(s),
            Self::Truncated | Self::Overflow | Self::Sideband | Self::Torn => None,
        }
    }
    /// The reason with that [name](Self::name), and with `detail` where it takes one.
    pub fn named(name: &str, detail: String) -> Option<Self> {
        Some(match name {
            "truncated" => Self::Truncated,
            "overflow" => Self::Overflow,
            "sideband" => Self::Sideband,
            "packets" => Self::Packets(detail),
            "machine-flow" => Self::MachineFlow(detail),
            "reconstruct" => Self::Reconstruct(detail),
            "ambiguous" => Self::Ambiguous(detail),
            "torn" => Self::Torn,
            _ => return None,
        })
    }
}

/// A stretch about which the flow says nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Why.
    pub reason: GapReason,
    /// Core on which it began.
    pub core: Core,
    /// Place in that core's PT stream.
    pub offset: StreamOffset,
    /// Machine address the decoder stood at, if any.
    pub address: Option<u64>,
    /// Last time known before.
    pub since: Option<Tsc>,
    /// First time known after.
    pub until: Option<Tsc>,
    /// Bytes of trace lost, where known.
    pub bytes: Option<u64>,
    /// Whether frames below the gap may be wrong after it (the shadow stack was dropped).
    pub stack_lost: bool,
}

/// One traced thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadInfo {
    /// OS thread id.
    pub tid: Tid,
    /// `java.lang.Thread.getId()`, 0 if unknown.
    pub java_tid: u64,
    /// Last name the VM gave.
    pub name: String,
    /// When it started, as far as known.
    pub started: Tsc,
}

/// Receives the flow of one thread, in order.
pub trait FlowSink {
    /// The next events.
    fn events(&mut self, events: &[Event]);
    /// The same with events that may be kept; `events` is empty afterwards.
    fn take(&mut self, events: &mut Vec<Event>) {
        self.events(events);
        events.clear();
    }
    /// The thread's flow is complete.
    fn end(self: Box<Self>);
}

/// Receives the flows of all threads.
pub trait FlowConsumer {
    /// A thread's flow begins; called once per thread, from the driver's own thread.
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send>;
    /// Whether events may be [runs](EventKind::Run). Who passes events on answers as the one that they go to does.
    fn takes_runs(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_its_name_and_detail() {
        let text = || "why".to_owned();
        let all = [
            GapReason::Truncated,
            GapReason::Overflow,
            GapReason::Sideband,
            GapReason::Packets(text()),
            GapReason::MachineFlow(text()),
            GapReason::Reconstruct(text()),
            GapReason::Ambiguous(text()),
            GapReason::Torn,
        ];
        for reason in all {
            let detail = reason.detail().unwrap_or_default().to_owned();
            assert_eq!(GapReason::named(reason.name(), detail), Some(reason));
        }
        assert_eq!(GapReason::named("other", String::new()), None);
    }
}
