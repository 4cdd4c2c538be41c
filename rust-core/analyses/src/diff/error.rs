// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Why two results cannot be compared.

use std::fmt;

use super::DocumentKind;
use crate::tree::BadTree;

/// One of the two results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    Before,
    /// The second.
    After,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "first",
            Self::After => "second",
        })
    }
}

/// Two results that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// One is a call tree and the other is coverage, or the like.
    #[error("the first result is {before}, the second is {after}; compare two of the same kind")]
    Kinds {
        /// The kind of the first.
        before: DocumentKind,
        /// The kind of the second.
        after: DocumentKind,
    },
    /// A result is not exact, and that was not allowed.
    #[error(
        "the {side} result is not exact ({why}), so a comparison proves nothing; record without loss, \
         limit the result to exact classes, or allow inexact results"
    )]
    Inexact {
        /// Which.
        side: Side,
        /// What it says.
        why: String,
    },
    /// A result holds only its first rows.
    #[error("the {side} result holds only {shown} of {all} rows; write it again with all rows (--top {all})")]
    Shortened {
        /// Which.
        side: Side,
        /// Rows that it holds.
        shown: u64,
        /// Rows that there are.
        all: u64,
    },
    /// The call trees were built in different ways.
    #[error(
        "the call trees were built with different settings: {setting} is {before} in the first and \
         {after} in the second; build both in the same way"
    )]
    Settings {
        /// The setting.
        setting: &'static str,
        /// Its value in the first.
        before: String,
        /// Its value in the second.
        after: String,
    },
    /// A call tree is damaged.
    #[error("the {side} result: {error}")]
    Damaged {
        /// Which.
        side: Side,
        /// What is wrong.
        error: BadTree,
    },
}
