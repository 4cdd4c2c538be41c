// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares two results of the same kind: call trees, hot methods, calls, coverage.
//!
//! A result comes from a capture or from a JSON document that the command wrote
//! ([`Document::parse`]). Nodes and rows are matched by names without the parts that differ from
//! run to run ([`crate::names::stable`]). Nodes of equal paths and rows of equal names are
//! added up first, on each side.
//!
//! Figures are sums over all provenances. Times, tiers and upper bounds are not compared. Results
//! that are not exact are refused unless the caller allows them, because a difference of lower
//! bounds proves nothing, and neither does their equality.

mod collect;
mod document;
mod error;
mod rows;
mod text;
mod tree;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tree_tests;

use serde::Serialize;

pub use self::document::{Document, DocumentError, DocumentKind};
pub use self::error::{DiffError, Side};
use crate::names::{Version, stable, stable_qualified, version_text};
use crate::select::Pattern;

/// How to compare.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// A figure that differs by at most this counts as equal.
    pub tolerance: u64,
    /// Only what these patterns select. Empty: everything. In call trees, frames that are not
    /// selected are transparent: their children belong to the nearest selected frame.
    pub classes: Vec<Pattern>,
    /// Compare results that are not exact, too.
    pub allow_inexact: bool,
    /// Add up the threads of a call tree. Otherwise threads of the same name are added up.
    pub merge_threads: bool,
    /// Add up the versions of a redefined method.
    pub merge_versions: bool,
    /// The maximum number of differences listed. All are counted.
    pub most: usize,
}

impl Default for DiffOptions {
    /// Everything, without tolerance. Lists at most 1,000 differences.
    fn default() -> Self {
        Self {
            tolerance: 0,
            classes: Vec::new(),
            allow_inexact: false,
            merge_threads: false,
            merge_versions: false,
            most: 1000,
        }
    }
}

impl DiffOptions {
    /// Whether the patterns select a method. `class`: with dots. A text without a class is
    /// selected only if everything is.
    fn selects(&self, class: &str, method: &str) -> bool {
        self.classes.is_empty() || self.classes.iter().any(|p| p.selects_named(class, method))
    }
    /// The same for the name of a row or node, which may begin with a text in parentheses.
    fn selects_qualified(&self, name: &str) -> bool {
        let name = match name.strip_prefix('(').and_then(|n| n.split_once(") ")) {
            Some((_, name)) if crate::names::split_qualified(name).is_some() => name,
            _ => name,
        };
        self.classes.is_empty() || self.classes.iter().any(|p| p.selects_qualified(split_version(name).0))
    }
    /// `class.name(descriptor)` without what differs from run to run.
    fn name(&self, name: &str, version: Option<Version>) -> String {
        let (name, suffix) = split_version(name);
        let suffix = if self.merge_versions { "" } else { suffix };
        format!("{}{suffix}{}", stable_qualified(name), self.version(version))
    }
    fn version(&self, version: Option<Version>) -> String {
        version_text(version.filter(|_| !self.merge_versions))
    }
}

/// Splits off a text like ` [version 1 of 2]`.
fn split_version(name: &str) -> (&str, &str) {
    match name.rfind(" [version ") {
        Some(at) if name.ends_with(']') => name.split_at(at),
        _ => (name, ""),
    }
}

/// On which sides something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// On both.
    Both,
    /// Only in the first result.
    Before,
    /// Only in the second result.
    After,
}

/// A figure of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name.
    pub figure: &'static str,
    /// In the first result; 0 if it has no such node or row.
    pub before: u64,
    /// In the second result; 0 if it has no such node or row.
    pub after: u64,
    /// `after - before`. The ends of the type stand for what lies beyond them.
    pub delta: i64,
}

impl Change {
    fn new(figure: &'static str, before: u64, after: u64) -> Self {
        let delta = i128::from(after) - i128::from(before);
        let end = if delta < 0 { i64::MIN } else { i64::MAX };
        Self { figure, before, after, delta: i64::try_from(delta).unwrap_or(end) }
    }
}

/// A node or row that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Whether one side lacks it.
    pub presence: Presence,
    /// Call trees: the thread's name. `None` if the threads were added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Call trees: the frames from the thread's first to the node's, each with the bci of its
    /// call if the trees have call sites. Calls: caller with bci, and callee. Coverage: class and
    /// method. Hot methods: the method.
    pub path: Vec<String>,
    /// Loader of the last method's class; empty for the boot loader and if it is not known.
    pub loader: String,
    /// The figures that differ by more than the tolerance. Empty if only the presence differs.
    pub changes: Vec<Change>,
    /// Coverage: lines that count as missed in the second result only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub newly_missed: Vec<u16>,
    /// Coverage: lines that count as missed in the first result only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_longer_missed: Vec<u16>,
}

/// Numbers of nodes or rows, after those of equal names were added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Numbers {
    /// Compared: present on at least one side, and selected.
    pub compared: u64,
    /// Of these, present only in the first result.
    pub only_before: u64,
    /// Present only in the second result.
    pub only_after: u64,
    /// Present in both, with a figure that differs by more than the tolerance.
    pub changed: u64,
    /// Different, but by no more than the tolerance. They are part of no other number here but
    /// `compared`.
    pub within_tolerance: u64,
}

impl Numbers {
    /// The number of differences.
    pub const fn differences(&self) -> u64 {
        self.only_before + self.only_after + self.changed
    }
}

/// The comparison of two results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// What was compared.
    pub kind: DocumentKind,
    /// Whether there is no difference beyond the tolerance.
    pub equal: bool,
    /// Whether both results are exact in what was compared. If not, both a difference and its
    /// absence may be due to what is not known.
    pub exact: bool,
    /// Why the first result is not exact, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_inexact: Option<String>,
    /// Why the second result is not exact, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_inexact: Option<String>,
    /// By how much a figure may differ.
    pub tolerance: u64,
    /// How many nodes or rows there are.
    pub numbers: Numbers,
    /// The sums of all figures that were compared.
    pub totals: Vec<Change>,
    /// The differences by thread and path or by name; no more than requested.
    pub differences: Vec<Difference>,
}

impl Diff {
    /// Compares two results. An error if they are of different kinds, were made with different
    /// settings, are damaged or shortened, or are not exact without this being allowed.
    pub fn new(before: &Document, after: &Document, options: &DiffOptions) -> Result<Self, DiffError> {
        let sides = [(Side::Before, before), (Side::After, after)];
        let mut inexact = [None, None];
        for ((side, document), inexact) in sides.into_iter().zip(&mut inexact) {
            document.check_whole(side)?;
            *inexact = document.inexact(options);
            if let Some(why) = inexact.clone().filter(|_| !options.allow_inexact) {
                return Err(DiffError::Inexact { side, why });
            }
        }
        let mut diff = match (before, after) {
            (Document::CallTree(a), Document::CallTree(b)) => tree::compare([a, b], options)?,
            (Document::HotMethods(a), Document::HotMethods(b)) => rows::hot_methods([a, b], options),
            (Document::Calls(a), Document::Calls(b)) => rows::calls([a, b], options),
            (Document::Coverage(a), Document::Coverage(b)) => rows::coverage([a, b], options),
            _ => return Err(DiffError::Kinds { before: before.kind(), after: after.kind() }),
        };
        diff.exact = inexact.iter().all(Option::is_none);
        [diff.before_inexact, diff.after_inexact] = inexact;
        Ok(diff)
    }
}

/// The stable name of a loader.
fn loader(name: &str) -> String {
    stable(name).into_owned()
}
