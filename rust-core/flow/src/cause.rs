// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Why stretches of compiled code are unresolved, and how many there are of each cause.

use crate::Tier;

macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Why the bytecodes of an [`EventKind::Unresolved`](crate::EventKind::Unresolved)
        /// stretch are unknown. The causes up to and including [`Cause::OtherFold`] are those
        /// that a compiler reported when it folded paths into one (`ambiguities` in the schema of
        /// the capture). The decoder finds the others.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Cause {
            $($(#[$doc])* $variant,)*
        }
        impl Cause {
            /// All, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// A short stable name, one per variant.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

causes! {
    /// Two arms became a conditional move, a minimum, a maximum or the like (C2).
    ConditionalMove = "conditional-move",
    /// Two arms without instructions were removed together with their test (C2). One of them may
    /// have contained a loop without effect.
    EmptyDiamond = "empty-diamond",
    /// Two comparisons became one unsigned comparison (C2).
    FoldedCompares = "folded-compares",
    /// Two comparisons of the same values became one (C2).
    Trichotomy = "trichotomy",
    /// Two comparisons that clip a number were moved after its conversion (C2).
    Clipping = "clipping",
    /// A loop without effect was removed (C2).
    EmptyLoop = "empty-loop",
    /// A loop became a call that fills an array (C2).
    ArrayFill = "array-fill",
    /// Paths with different markers lead to one address, and the trace does not distinguish them.
    SharedTarget = "shared-target",
    /// A conditional expression without a branch (C1).
    ConditionalExpression = "conditional-expression",
    /// More markers at one place than the compiler keeps.
    TooManyMarkers = "too-many-markers",
    /// A machine instruction that the exporter of the markers does not know.
    UnknownInstruction = "unknown-instruction",
    /// A concatenation of strings was rewritten together with tests inside it (C2).
    StringConcatenation = "string-concatenation",
    /// C2 throws an exception object that exists already (`GraphKit::builtin_throw`): the code
    /// does not say which bytecode threw.
    PreparedException = "prepared-exception",
    /// A fold for which this decoder has no name.
    OtherFold = "other-fold",
    /// Debug info gives both ends, but the number of paths of the method that join them is not
    /// one.
    SeveralPaths = "several-paths",
    /// C2 moved an allocation after later bytecodes
    /// (`LibraryCallKit::arraycopy_move_allocation_here`), and the code was invalidated, or the
    /// allocation threw. From the allocation on, the interpreter executes these bytecodes again.
    MovedAllocation = "moved-allocation",
    /// No edge of the method joins two consecutive path markers: the compiler lost a marker
    /// between them, or put one in the wrong place. Later markers are ignored up to the next
    /// place at which debug info gives the position.
    MissingMarker = "missing-marker",
    /// The markers of an inlined callee are missing: the compiler lost them.
    HiddenCallee = "hidden-callee",
    /// A path marker names a method that the VM never described.
    UnknownMethod = "unknown-method",
    /// Compiled code threw without a call, and several bytecodes may have done it.
    UnknownThrower = "unknown-thrower",
    /// The frame ended, but it is unknown whether it returned or an exception left it.
    UnknownEnd = "unknown-end",
}

const CAUSES: usize = Cause::ALL.len();
const TIERS: [Tier; 4] = [Tier::Interpreter, Tier::C1, Tier::C2, Tier::Native];

/// Numbers of unresolved stretches, by tier and cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnresolvedCounts([[u64; CAUSES]; TIERS.len()]);

impl Default for UnresolvedCounts {
    fn default() -> Self {
        Self([[0; CAUSES]; TIERS.len()])
    }
}

impl UnresolvedCounts {
    /// Counts one more stretch, in a frame that `tier` executes.
    pub const fn add(&mut self, tier: Tier, cause: Cause) {
        self.0[tier as usize][cause as usize] += 1;
    }
    /// Removes one stretch that was counted before.
    pub const fn take_back(&mut self, tier: Tier, cause: Cause) {
        let count = &mut self.0[tier as usize][cause as usize];
        *count = count.saturating_sub(1);
    }
    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *mine += theirs;
        }
    }
    /// The number of stretches of this tier and cause.
    pub const fn get(&self, tier: Tier, cause: Cause) -> u64 {
        self.0[tier as usize][cause as usize]
    }
    /// The counts that are not 0, by tier, then by cause in the order of declaration.
    pub fn iter(&self) -> impl Iterator<Item = (Tier, Cause, u64)> + '_ {
        let all = TIERS.into_iter().flat_map(|t| Cause::ALL.iter().map(move |&c| (t, c)));
        all.map(|(t, c)| (t, c, self.get(t, c))).filter(|r| r.2 != 0)
    }
    /// The counts that are not 0 by cause, summed over all tiers.
    pub fn by_cause(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        let sum = |c| TIERS.iter().map(|&t| self.get(t, c)).sum();
        Cause::ALL.iter().map(move |&c| (c, sum(c))).filter(|r| r.1 != 0)
    }
    /// The number of all stretches.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_indices_are_the_order_of_declaration() {
        let names: BTreeSet<_> = Cause::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), CAUSES);
        assert!(Cause::ALL.iter().enumerate().all(|(i, c)| *c as usize == i));
        assert!(TIERS.iter().enumerate().all(|(i, t)| *t as usize == i));
    }

    #[test]
    fn counts_add_up() {
        let mut a = UnresolvedCounts::default();
        a.add(Tier::C2, Cause::EmptyDiamond);
        a.add(Tier::C2, Cause::EmptyDiamond);
        let mut b = a.clone();
        b.add(Tier::C1, Cause::EmptyDiamond);
        b.add(Tier::C1, Cause::UnknownEnd);
        a.merge(&b);
        assert_eq!(a.total(), 6);
        assert_eq!(a.by_cause().collect::<Vec<_>>(), [(Cause::EmptyDiamond, 5), (Cause::UnknownEnd, 1)]);
        let all: Vec<_> = a.iter().collect();
        let expected = [
            (Tier::C1, Cause::EmptyDiamond, 1),
            (Tier::C1, Cause::UnknownEnd, 1),
            (Tier::C2, Cause::EmptyDiamond, 4),
        ];
        assert_eq!(all, expected);
        a.take_back(Tier::C1, Cause::UnknownEnd);
        a.take_back(Tier::C1, Cause::UnknownEnd);
        assert_eq!((a.total(), a.get(Tier::C1, Cause::UnknownEnd)), (5, 0));
    }
}
