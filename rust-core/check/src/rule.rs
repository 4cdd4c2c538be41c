// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What is asked of a flow, and where nothing can be asked.

use serde::{Serialize, Serializer};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$item])* $variant,)*
        }
        impl $name {
            /// All, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// A short stable name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.name())
            }
        }
    };
}

named! {
    /// A rule that every flow keeps.
    Rule {
        /// Every method of the flow is one the VM described.
        Method = "method",
        /// An event that happens in a frame finds one on the stack.
        NoFrame = "no-frame",
        /// An event that happens in a frame is of the top frame's method: calls and returns nest.
        WrongFrame = "wrong-frame",
        /// The bytecodes of a frame are executed by whom its `Enter` names; native methods are
        /// executed natively and others are not.
        Tier = "tier",
        /// A bytecode begins where the method has one.
        Instruction = "instruction",
        /// A frame that was called begins at bci 0.
        Entry = "entry",
        /// Execution enters a block at its start.
        MidBlock = "mid-block",
        /// A step inside a method is an edge of its control flow graph.
        Edge = "edge",
        /// An interpreted frame goes behind an invoke only when a callee has come back.
        CallMissing = "call-missing",
        /// A call comes from an invoke bytecode of the top frame.
        CallSite = "call-site",
        /// The callee fits the symbolic target of the invoke.
        Callee = "callee",
        /// The VM calls Java only from a bytecode that may enter the VM.
        VmCall = "vm-call",
        /// A frame returns from a return bytecode.
        Return = "return",
        /// An exception leaves a frame only where one can be thrown and no handler takes them all.
        Unwind = "unwind",
        /// An exception is caught only where one can be thrown, by a handler that the exception
        /// table has for that bytecode, and execution goes on there.
        Handler = "handler",
        /// A frame whose callee was unwound catches the exception or is unwound itself.
        ExceptionLost = "exception-lost",
        /// Frames left as replaced go on at once as OSR or deoptimised frames of the same methods.
        Replacement = "replacement",
        /// Frames are given up as lost only in front of a gap or the end of the flow; inferred ones also in front of a frame of which
        /// no more is known.
        Lost = "lost",
        /// An unresolved stretch begins where the frame stands, leads along the control flow graph
        /// and is followed by the event it names.
        Stretch = "stretch",
        /// Time does not go backwards.
        Time = "time",
        /// When the flow ends no frame is left open.
        Open = "open",
    }
}

named! {
    /// Where the flow itself leaves something open, so that less than usual could be checked.
    Reset {
        /// A gap: the whole stack is given up, whatever comes next is believed.
        GapStackLost = "gap-stack-lost",
        /// A gap that keeps the stack: the top frame may stand anywhere.
        GapInFrame = "gap-in-frame",
        /// A frame given up as lost in front of a gap or the end.
        FrameLost = "frame-lost",
        /// A frame that was found: it may stand anywhere.
        FrameFound = "frame-found",
        /// A call by a frame whose position is not known: its site was not looked at.
        CallerUnknown = "caller-unknown",
        /// A stretch with more than one path: where it ends is checked, what lies between is not.
        Unresolved = "unresolved",
        /// The first step after OSR: a target of the interpreted frame's branch.
        Osr = "osr",
        /// The first step after deoptimisation: the bytecode may be executed once more.
        Deoptimised = "deoptimised",
        /// A compiled frame went on in an unresolved stretch after its callee was unwound; the
        /// handler lies somewhere in that stretch.
        CaughtInStretch = "caught-in-stretch",
        /// An exception in choosing a handler was itself caught by a handler around that handler.
        HandlerOfHandler = "handler-of-handler",
        /// An exception came from outside, between two bytecodes (`Thread.stop`, JVMTI's `StopThread`).
        Asynchronous = "asynchronous",
        /// A debugger took the frame off the stack (JVMTI's `PopFrame`): it may have stood anywhere.
        PopFrame = "pop-frame",
        /// A debugger made the frame return (JVMTI's `ForceEarlyReturn`): it may have stood anywhere.
        EarlyReturn = "early-return",
        /// An exception passed a handler that takes all, with so many frames on the stack that the
        /// VM may have had no room to run it (stack overflow).
        StackExhausted = "stack-exhausted",
        /// A frame deeper than the stack that is kept: its events were not looked at.
        TooDeep = "too-deep",
        /// After a finding the event is believed and checking goes on from there.
        AfterFinding = "after-finding",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_the_order_is_that_of_declaration() {
        let rules: BTreeSet<_> = Rule::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(rules.len(), Rule::ALL.len());
        let resets: BTreeSet<_> = Reset::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(resets.len(), Reset::ALL.len());
        assert!(Rule::ALL.iter().enumerate().all(|(i, r)| *r as usize == i));
        assert!(Reset::ALL.iter().enumerate().all(|(i, r)| *r as usize == i));
    }
}
