// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The rules that a flow must keep, and the places where the flow does not allow a check.

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
    /// A rule that every flow must keep.
    Rule {
        /// The VM described every method of the flow.
        Method = "method",
        /// An event that happens in a frame requires a frame on the stack.
        NoFrame = "no-frame",
        /// An event that happens in a frame belongs to the top frame's method: calls and
        /// returns nest.
        WrongFrame = "wrong-frame",
        /// The bytecodes of a frame are executed by the tier that its `Enter` names. Native
        /// methods are executed natively and others are not.
        Tier = "tier",
        /// A bytecode begins where the method has one.
        Instruction = "instruction",
        /// A frame that was called begins at bci 0.
        Entry = "entry",
        /// Execution enters a block at its start.
        MidBlock = "mid-block",
        /// A step inside a method is an edge of its control flow graph.
        Edge = "edge",
        /// An interpreted frame continues after an invoke only when a callee has returned.
        CallMissing = "call-missing",
        /// A call comes from an invoke bytecode of the top frame.
        CallSite = "call-site",
        /// The callee fits the symbolic target of the invoke.
        Callee = "callee",
        /// The VM calls Java only from a bytecode that may enter the VM.
        VmCall = "vm-call",
        /// A frame returns from a return bytecode.
        Return = "return",
        /// An exception leaves a frame only where one can be thrown and no handler takes every
        /// exception.
        Unwind = "unwind",
        /// An exception is caught only where one can be thrown, by a handler that the exception
        /// table has for that bytecode, and execution continues at that handler.
        Handler = "handler",
        /// A frame whose callee was unwound catches the exception or is unwound itself.
        ExceptionLost = "exception-lost",
        /// Frames left as replaced continue immediately as OSR or deoptimised frames of the
        /// same methods.
        Replacement = "replacement",
        /// Frames are given up as lost only before a gap or the end of the flow. If all of them
        /// were inferred, they may also be given up before a frame of which nothing more is
        /// known.
        Lost = "lost",
        /// An unresolved stretch begins at the frame's position, leads along the control flow
        /// graph and is followed by the event that it names.
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
        /// A gap after which the whole stack is given up. The checker believes whatever
        /// follows.
        GapStackLost = "gap-stack-lost",
        /// A gap that keeps the stack. The top frame may be at any position.
        GapInFrame = "gap-in-frame",
        /// A frame given up as lost before a gap or the end.
        FrameLost = "frame-lost",
        /// A frame that was found. It may be at any position.
        FrameFound = "frame-found",
        /// A call by a frame whose position is not known. The call site was not checked.
        CallerUnknown = "caller-unknown",
        /// A stretch with more than one path. Its end is checked, the bytecodes in between are
        /// not.
        Unresolved = "unresolved",
        /// The first step after OSR: a target of the interpreted frame's branch.
        Osr = "osr",
        /// The first step after deoptimisation: the bytecode may be executed once more.
        Deoptimised = "deoptimised",
        /// After deoptimisation the interpreter called `Object.clone` once more, though the callee
        /// had returned: the state of the slow call of C2's intrinsic has the reexecute bit. This
        /// is a fault of JDK 17 (`LibraryCallKit::inline_native_clone`).
        ClonedAgain = "cloned-again",
        /// A compiled frame continued in an unresolved stretch after its callee was unwound.
        /// The handler lies somewhere in that stretch.
        CaughtInStretch = "caught-in-stretch",
        /// The search for a handler itself threw. A handler that covers the candidate handler
        /// caught that exception, or it left the frame.
        HandlerOfHandler = "handler-of-handler",
        /// An exception came from outside, between two bytecodes (`Thread.stop`, JVMTI's
        /// `StopThread`).
        Asynchronous = "asynchronous",
        /// A debugger took the frame off the stack (JVMTI's `PopFrame`). It may have been at
        /// any position.
        PopFrame = "pop-frame",
        /// A debugger made the frame return (JVMTI's `ForceEarlyReturn`). It may have been at
        /// any position.
        EarlyReturn = "early-return",
        /// An exception passed a handler that takes every exception. The stack was so deep that
        /// the VM may have had no room to run the handler (stack overflow).
        StackExhausted = "stack-exhausted",
        /// A frame deeper than the stack that the checker keeps. Its events were not checked.
        TooDeep = "too-deep",
        /// After a finding the checker believes the event and continues from it.
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
