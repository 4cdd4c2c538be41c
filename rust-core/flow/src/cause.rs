// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Why a stretch of compiled code is unresolved, and how often.

use crate::Tier;

macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Why the bytecodes of an [`EventKind::Unresolved`](crate::EventKind::Unresolved) stretch are not known.
        /// Those in front of [`Cause::OtherFold`] and itself are what a compiler said it lost when it folded paths
        /// into one (`ambiguities` in the schema of the capture); the others are found while decoding.
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
    /// Two arms became a conditional move, minimum, maximum or the like (C2).
    ConditionalMove = "conditional-move",
    /// Two arms without instructions were removed together with their test (C2). A loop without effect may have been in
    /// one of them.
    EmptyDiamond = "empty-diamond",
    /// Two comparisons became one unsigned comparison (C2).
    FoldedCompares = "folded-compares",
    /// Two comparisons of the same values became one (C2).
    Trichotomy = "trichotomy",
    /// Two comparisons that clip a number moved behind its conversion (C2).
    Clipping = "clipping",
    /// A loop without effect was removed (C2).
    EmptyLoop = "empty-loop",
    /// A loop became a call that fills an array (C2).
    ArrayFill = "array-fill",
    /// Ways with different markers lead to one address, and the trace does not tell them apart.
    SharedTarget = "shared-target",
    /// A conditional expression without a branch (C1).
    ConditionalExpression = "conditional-expression",
    /// More markers at one place than the compiler keeps.
    TooManyMarkers = "too-many-markers",
    /// A machine instruction that the exporter of the markers does not know.
    UnknownInstruction = "unknown-instruction",
    /// A concatenation of strings was rewritten together with tests inside it (C2).
    StringConcatenation = "string-concatenation",
    /// C2 throws an exception object that exists already (`GraphKit::builtin_throw`): which bytecode threw, no code says.
    PreparedException = "prepared-exception",
    /// A fold that this decoder has no name for.
    OtherFold = "other-fold",
    /// Debug info names both ends, and not exactly one path of the method joins them.
    SeveralPaths = "several-paths",
    /// No edge of the method joins two path markers that follow each other: the compiler lost one in between, or
    /// put one in the wrong place. What markers say after that does not count, up to the next place where debug
    /// info says where control stands.
    MissingMarker = "missing-marker",
    /// An inlined callee should have shown and did not: the compiler lost its markers.
    HiddenCallee = "hidden-callee",
    /// A path marker names a method that the VM never described.
    UnknownMethod = "unknown-method",
    /// Compiled code threw without a call, and several bytecodes may have done it.
    UnknownThrower = "unknown-thrower",
    /// The frame is gone, and nothing says whether it returned or an exception left it.
    UnknownEnd = "unknown-end",
}

const CAUSES: usize = Cause::ALL.len();
const TIERS: [Tier; 4] = [Tier::Interpreter, Tier::C1, Tier::C2, Tier::Native];

/// Numbers of unresolved stretches by tier and cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnresolvedCounts([[u64; CAUSES]; TIERS.len()]);

impl Default for UnresolvedCounts {
    fn default() -> Self {
        Self([[0; CAUSES]; TIERS.len()])
    }
}

impl UnresolvedCounts {
    /// One more stretch, in a frame that `tier` executes.
    pub const fn add(&mut self, tier: Tier, cause: Cause) {
        self.0[tier as usize][cause as usize] += 1;
    }
    /// One stretch less: it was counted before.
    pub const fn take_back(&mut self, tier: Tier, cause: Cause) {
        let count = &mut self.0[tier as usize][cause as usize];
        *count = count.saturating_sub(1);
    }
    /// All of `other` too.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *mine += theirs;
        }
    }
    /// Stretches of this tier and cause.
    pub const fn get(&self, tier: Tier, cause: Cause) -> u64 {
        self.0[tier as usize][cause as usize]
    }
    /// What is not 0, by tier, then by cause in the order of declaration.
    pub fn iter(&self) -> impl Iterator<Item = (Tier, Cause, u64)> + '_ {
        let all = TIERS.into_iter().flat_map(|t| Cause::ALL.iter().map(move |&c| (t, c)));
        all.map(|(t, c)| (t, c, self.get(t, c))).filter(|r| r.2 != 0)
    }
    /// What is not 0 by cause, all tiers together.
    pub fn by_cause(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        let sum = |c| TIERS.iter().map(|&t| self.get(t, c)).sum();
        Cause::ALL.iter().map(move |&c| (c, sum(c))).filter(|r| r.1 != 0)
    }
    /// All stretches.
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
