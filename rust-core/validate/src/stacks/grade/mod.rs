// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Grades the profile of a profiler by the exact call tree of the same run.
//!
//! A [`StackProfile`] has stacks with weights, and no times. [`GradeReport`] says which of them the
//! tree has, which calls in them never happened, and how much the profile and the tree have in
//! common.

mod compare;
mod correlation;
#[cfg(test)]
mod grade_tests;
mod names;
mod profile;
mod ranking;
mod report;
mod tree;

pub use compare::GradeLimits;
pub use profile::{ProfileError, StackProfile};
pub use ranking::RankingReport;
pub use report::{
    GradeReport, GradedCall, GradedMethod, LikenessRow, MethodShare, ProfileFigures, StackShares,
    UnknownMethod,
};
