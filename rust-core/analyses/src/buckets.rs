// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Buckets: the outermost activations of chosen methods, such as tests or requests.
//!
//! The activation continues through OSR and deoptimisation. A bucket whose beginning or end was not
//! seen is not *complete*. Buckets are numbered by name, in order of the threads' start, and within
//! a thread in order of execution.

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Entry, EventKind, Exit};
use jportal_units::MethodId;

/// Buckets of one thread, unless the caller says otherwise. The activations that follow share the
/// bucket `(further)`.
pub(crate) const LIMIT: usize = 1 << 20;

/// What a thread with buckets executes outside of them.
pub(crate) const OUTSIDE: &str = "(none)";
/// What threads without buckets execute.
pub(crate) const OTHERS: &str = "(other threads)";
/// What activations execute that have no bucket of their own.
pub(crate) const FURTHER: &str = "(further)";

/// The methods whose outermost activations are buckets.
#[derive(Debug)]
pub(crate) struct BucketMethods(Box<[bool]>);

impl BucketMethods {
    /// The methods that `begins` accepts.
    pub(crate) fn new(methods: &MethodTable, begins: impl Fn(&Method) -> bool) -> Self {
        Self(methods.iter().map(begins).collect())
    }
    fn contains(&self, method: MethodId) -> bool {
        self.0.get(method.get() as usize).copied().unwrap_or(false)
    }
}

/// A bucket that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketEnd {
    /// The method whose activation it is.
    pub(crate) method: MethodId,
    /// Beginning and end were seen.
    pub(crate) complete: bool,
}

/// What an event does before it is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Boundary {
    /// This bucket ended before the event.
    pub(crate) ended: Option<BucketEnd>,
    /// A bucket begins with the event.
    pub(crate) begins: bool,
}

/// The bucket in which a thread is.
#[derive(Debug, Default)]
pub(crate) struct CurrentBucket(Option<OpenBucket>);

#[derive(Debug)]
struct OpenBucket {
    method: MethodId,
    /// Number of frames below the activation.
    below: usize,
    complete: bool,
    /// The frame was given up. Only a gap may follow in the bucket.
    given_up: bool,
}

impl CurrentBucket {
    /// What the next event does before it is counted. `depth`: the number of frames.
    pub(crate) fn before(&mut self, methods: &BucketMethods, kind: &EventKind, depth: usize) -> Boundary {
        let given_up = self.0.as_ref().is_some_and(|open| open.given_up);
        let stays = match kind {
            EventKind::Leave { exit, .. } => *exit == Exit::Lost,
            EventKind::Gap(_) | EventKind::Time(_) | EventKind::Code(_) => true,
            _ => false,
        };
        let ended = if given_up && !stays { self.end() } else { None };
        let begun = if self.0.is_none() { begun(methods, kind, depth) } else { None };
        let begins = begun.is_some();
        if let Some((method, complete)) = begun {
            self.0 = Some(OpenBucket { method, below: depth, complete, given_up: false });
        }
        Boundary { ended, begins }
    }
    /// The bucket that ended with an event, after it was counted.
    pub(crate) fn after(&mut self, kind: &EventKind, depth: usize) -> Option<BucketEnd> {
        let open = self.0.as_mut()?;
        match kind {
            EventKind::Leave { exit, .. } if *exit != Exit::Replaced && depth <= open.below => {
                if *exit == Exit::Lost {
                    open.given_up = true;
                    return None;
                }
                let OpenBucket { method, complete, .. } = self.0.take()?;
                Some(BucketEnd { method, complete })
            }
            EventKind::Gap(gap) if gap.stack_lost || open.given_up => self.end(),
            _ => None,
        }
    }
    /// Nothing more is known of the bucket that is open.
    pub(crate) fn end(&mut self) -> Option<BucketEnd> {
        self.0.take().map(|open| BucketEnd { method: open.method, complete: false })
    }
}

/// The method of a bucket that begins with this event, and whether its beginning was seen.
fn begun(methods: &BucketMethods, kind: &EventKind, depth: usize) -> Option<(MethodId, bool)> {
    let (method, complete) = match *kind {
        EventKind::Enter { method, entry, .. } => (method, matches!(entry, Entry::Call | Entry::Upcall)),
        // A frame whose entry was not seen.
        EventKind::Bytecode { method, .. } | EventKind::Run { method, .. } if depth == 0 => (method, false),
        _ => return None,
    };
    methods.contains(method).then_some((method, complete))
}

/// The names of buckets.
#[derive(Debug, Default)]
pub(crate) struct BucketNames(HashMap<String, u64>);

impl BucketNames {
    /// The name of the next bucket of a method: `class.name(descriptor)#n`.
    pub(crate) fn next(&mut self, method: String) -> String {
        let number = self.0.entry(method.clone()).or_default();
        *number += 1;
        format!("{method}#{number}")
    }
}
