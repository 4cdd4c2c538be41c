//! The shadow stack: what the decoder knows of a thread's frames.

use crate::outcome::Outcome;
use jportal_flow::Tier;
use jportal_units::{Bci, CodeId, MethodId};

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
    /// With the current bytecode once more (deoptimisation with the reexecute bit).
    Again,
}

/// An interpreted activation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interpreted {
    pub method: MethodId,
    /// The bytecode that began last; `None` before the first one.
    pub at: Option<Bci>,
    pub resume: Resume,
}

/// A compiled activation with the frames inlined into it.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub code: CodeId,
    pub tier: Tier,
    /// Outermost first; empty until the first debug-info position was seen.
    pub chain: Vec<Position>,
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
