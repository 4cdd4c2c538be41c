// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The trees of one thread's buckets.
//!
//! A bucket (module `buckets`) has a root of its own, on which its outermost activation hangs. What
//! its thread executes outside of buckets stays under the thread's root.

use jportal_flow::EventKind;

use super::arena::{Id, ROOT};
use super::rules::Rules;
use super::walk::TreeThread;
use crate::buckets::{BucketEnd, CurrentBucket};
use crate::hidden::Inexact;

/// What makes figures inexact that no node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flaws {
    pub(super) inexact: Inexact,
    /// Events contradict the frames.
    pub(super) contradicts: bool,
}

impl Flaws {
    pub(super) fn merge(&mut self, other: &Self) {
        self.inexact.merge(&other.inexact);
        self.contradicts |= other.contradicts;
    }
    pub(super) fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The tree of a bucket that ended.
#[derive(Debug)]
pub(super) struct BucketNodes {
    pub(super) root: Id,
    pub(super) end: BucketEnd,
    pub(super) flaws: Flaws,
}

/// The tree of the activations that have no bucket of their own.
#[derive(Debug)]
pub(super) struct FurtherNodes {
    pub(super) root: Id,
    pub(super) activations: u64,
    pub(super) flaws: Flaws,
}

/// The bucket that is open.
#[derive(Debug)]
struct OpenTree {
    root: Id,
    /// Number of frames below, of those that are kept.
    below: usize,
    /// The flaws of what the thread executed outside.
    outside: Flaws,
}

/// The buckets of one thread.
#[derive(Debug, Default)]
pub(super) struct ThreadSplit {
    current: CurrentBucket,
    open: Option<OpenTree>,
    pub(super) ended: Vec<BucketNodes>,
    pub(super) further: Option<FurtherNodes>,
}

impl ThreadSplit {
    /// The root of the tree that grows.
    pub(super) fn root(&self) -> Id {
        self.open.as_ref().map_or(ROOT, |open| open.root)
    }
    /// The root of the open bucket, if a frame that is entered above `frames` frames is its
    /// outermost one.
    pub(super) fn caller(&self, frames: usize) -> Option<Id> {
        self.open.as_ref().filter(|open| open.below == frames).map(|open| open.root)
    }
    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.further.is_none()
    }
}

impl TreeThread {
    fn depth(&self) -> usize {
        self.frames.len() + self.beyond as usize
    }
    /// Ends and begins buckets before an event is processed.
    pub(super) fn before_buckets(&mut self, rules: &Rules, kind: &EventKind) {
        let (depth, Some(methods)) = (self.depth(), &rules.split) else { return };
        let boundary = self.split.current.before(methods, kind, depth);
        if let Some(end) = boundary.ended {
            self.end_bucket(end);
        }
        if boundary.begins {
            let further = self.split.further.as_ref().map(|further| further.root);
            let root = further.unwrap_or_else(|| self.arena.root(&rules.room));
            let outside = std::mem::take(&mut self.flaws);
            self.split.open = Some(OpenTree { root, below: self.frames.len(), outside });
        }
    }
    /// Ends a bucket after an event was processed.
    pub(super) fn after_buckets(&mut self, rules: &Rules, kind: &EventKind) {
        let depth = self.depth();
        if let Some(end) = self.split.current.after(kind, depth) {
            self.end_bucket(end);
        }
        if self.split.further.is_none() && self.split.ended.len() >= rules.most_buckets {
            let root = self.arena.root(&rules.room);
            self.split.further = Some(FurtherNodes { root, activations: 0, flaws: Flaws::default() });
        }
    }
    /// Nothing more is known of the thread.
    pub(super) fn end_buckets(&mut self) {
        if let Some(end) = self.split.current.end() {
            self.end_bucket(end);
        }
    }
    fn end_bucket(&mut self, end: BucketEnd) {
        let Some(OpenTree { root, outside, .. }) = self.split.open.take() else { return };
        let flaws = std::mem::replace(&mut self.flaws, outside);
        match self.split.further.as_mut().filter(|further| further.root == root) {
            Some(further) => {
                further.activations += 1;
                further.flaws.merge(&flaws);
                further.flaws.contradicts |= !end.complete;
            }
            None => self.split.ended.push(BucketNodes { root, end, flaws }),
        }
    }
}
