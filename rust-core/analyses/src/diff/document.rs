// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Results of any kind that can be compared, and their reader.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{DiffError, DiffOptions, Side};
use crate::calls::Calls;
use crate::coverage::Coverage;
use crate::hidden::{Inexact, counted};
use crate::hot::HotMethods;
use crate::tree::CallTree;

/// The kinds of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentKind {
    /// Call trees.
    CallTree,
    /// Hot methods.
    HotMethods,
    /// Calls.
    Calls,
    /// Coverage.
    Coverage,
}

impl DocumentKind {
    const ALL: [Self; 4] = [Self::CallTree, Self::HotMethods, Self::Calls, Self::Coverage];

    /// The name in the field `schema` of its documents, without `jportal/` and the version.
    pub const fn schema(self) -> &'static str {
        match self {
            Self::CallTree => "report-call-tree",
            Self::HotMethods => "report-hot-methods",
            Self::Calls => "report-calls",
            Self::Coverage => "report-coverage",
        }
    }
    /// The version of the schema that this crate reads.
    pub const fn version(self) -> u32 {
        1
    }
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CallTree => "a call tree",
            Self::HotMethods => "a list of hot methods",
            Self::Calls => "a list of calls",
            Self::Coverage => "coverage",
        })
    }
}

/// A result that can be compared with another one of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// Call trees.
    CallTree(Box<CallTree>),
    /// Hot methods.
    HotMethods(Box<HotMethods>),
    /// Calls.
    Calls(Box<Calls>),
    /// Coverage.
    Coverage(Box<Coverage>),
}

macro_rules! from {
    ($($kind:ident),*) => {
        $(impl From<$kind> for Document {
            fn from(result: $kind) -> Self {
                Self::$kind(Box::new(result))
            }
        })*
    };
}
from!(CallTree, HotMethods, Calls, Coverage);

/// A text that is no document that can be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It is no JSON object.
    #[error("this is no JSON document ({0}); write one with `jportal report KIND CAPTURE --format json`")]
    NoJson(serde_json::Error),
    /// It does not say what it is.
    #[error("the document has no field `schema`, so it was not written by `jportal report`")]
    NoSchema,
    /// It is a result of another kind.
    #[error(
        "documents of the schema {0:?} cannot be compared; call-tree, hot-methods, calls and coverage can"
    )]
    OtherKind(String),
    /// It was written in another version.
    #[error("the document has the schema {found:?}, this version reads {expected:?}; write it again")]
    OtherVersion {
        /// The document's.
        found: String,
        /// The one that this crate reads.
        expected: String,
    },
    /// It does not have the form of its schema.
    #[error("the document does not have the form of its schema {schema:?}: {error}")]
    BadForm {
        /// Its schema.
        schema: String,
        /// What is wrong, and where.
        error: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Envelope {
    schema: Option<String>,
}

impl Document {
    /// Reads a document that the command wrote with `--format json`. Fields that the schema does
    /// not have are ignored.
    pub fn parse(json: &[u8]) -> Result<Self, DocumentError> {
        let envelope: Envelope = serde_json::from_slice(json).map_err(DocumentError::NoJson)?;
        let schema = envelope.schema.ok_or(DocumentError::NoSchema)?;
        let named = |kind: &DocumentKind| {
            let version = schema.strip_prefix("jportal/")?.strip_prefix(kind.schema())?;
            version.strip_prefix('/').map(|version| (*kind, version))
        };
        let Some((kind, version)) = DocumentKind::ALL.iter().find_map(named) else {
            return Err(DocumentError::OtherKind(schema));
        };
        if version != kind.version().to_string() {
            let expected = format!("jportal/{}/{}", kind.schema(), kind.version());
            return Err(DocumentError::OtherVersion { found: schema, expected });
        }
        Ok(match kind {
            DocumentKind::CallTree => Self::CallTree(read(json, schema)?),
            DocumentKind::HotMethods => Self::HotMethods(read(json, schema)?),
            DocumentKind::Calls => Self::Calls(read(json, schema)?),
            DocumentKind::Coverage => Self::Coverage(read(json, schema)?),
        })
    }
    /// What it is.
    pub const fn kind(&self) -> DocumentKind {
        match self {
            Self::CallTree(_) => DocumentKind::CallTree,
            Self::HotMethods(_) => DocumentKind::HotMethods,
            Self::Calls(_) => DocumentKind::Calls,
            Self::Coverage(_) => DocumentKind::Coverage,
        }
    }
    /// An error if rows were left out.
    pub(super) fn check_whole(&self, side: Side) -> Result<(), DiffError> {
        let (shown, all) = match self {
            Self::HotMethods(r) => (r.methods.len(), r.executed.saturating_add(r.perhaps_executed)),
            Self::Calls(r) => (r.calls.len(), r.pairs.saturating_add(r.perhaps_pairs)),
            Self::CallTree(_) | Self::Coverage(_) => return Ok(()),
        };
        if shown < all {
            return Err(DiffError::Shortened { side, shown: shown as u64, all: all as u64 });
        }
        Ok(())
    }
    /// Why the figures that `options` select are not exact. `None` if they are.
    ///
    /// An unresolved stretch may hide calls of any method. The lists of methods and calls have a
    /// row for each method that may be hidden. A call tree has none, so it is exact as a whole or
    /// not at all.
    pub(super) fn inexact(&self, options: &DiffOptions) -> Option<String> {
        let selects = |name: &str| options.selects_qualified(name);
        let (exact, why) = match self {
            Self::CallTree(r) => (r.exact, &r.inexact),
            Self::HotMethods(r) if options.classes.is_empty() => (r.exact, &r.inexact),
            Self::HotMethods(r) => (r.methods.iter().all(|m| m.exact || !selects(&m.method)), &r.inexact),
            Self::Calls(r) if options.classes.is_empty() => (r.exact, &r.inexact),
            Self::Calls(r) => (r.calls.iter().all(|c| c.exact || !selects(&c.callee)), &r.inexact),
            Self::Coverage(r) if options.classes.is_empty() => (r.exact, &r.inexact),
            Self::Coverage(r) => {
                let mut methods = r.classes.iter().flat_map(|c| c.methods.iter().map(move |m| (c, m)));
                let known = methods.all(|(c, m)| {
                    let name = format!("{}.{}", c.class, m.name);
                    !m.figures.has_unknown() || !selects(&name)
                });
                (known, &r.inexact)
            }
        };
        (!exact || why.is_lossy()).then(|| reasons(why))
    }
}

fn read<T: DeserializeOwned>(json: &[u8], schema: String) -> Result<Box<T>, DocumentError> {
    serde_json::from_slice(json).map(Box::new).map_err(|error| DocumentError::BadForm { schema, error })
}

/// `1 gap; 2 unresolved stretches (2 empty-loop)`.
fn reasons(inexact: &Inexact) -> String {
    let mut all = vec![inexact.blind_text(), inexact.stretches_text()];
    let parts = [
        (inexact.silent_calls, "call", " without a frame"),
        (inexact.projected, "placed event", ""),
        (inexact.recovered, "filled event", ""),
    ];
    all.extend(parts.iter().filter(|p| p.0 > 0).map(|(n, what, rest)| counted(*n, what) + rest));
    all.retain(|reason| !reason.is_empty());
    if all.is_empty() { "it says so, without a reason".to_owned() } else { all.join("; ") }
}
