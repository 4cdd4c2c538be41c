// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What can go wrong.

use std::path::{Path, PathBuf};

/// Why a capture cannot be opened or decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read, or is no capture.
    #[error("{}", unopened(path, source))]
    Open {
        /// The capture.
        path: PathBuf,
        /// The reason.
        source: jportal_capture::Error,
    },
    /// The metadata or the trace cannot be decoded.
    #[error("{path}: {source}")]
    Decode {
        /// The capture.
        path: PathBuf,
        /// The reason.
        source: jportal_reconstruct::Error,
    },
    /// The gaps cannot be filled.
    #[error("{path}: {source}")]
    Fill {
        /// The capture.
        path: PathBuf,
        /// The reason.
        source: jportal_infer::Error,
    },
    /// No thread has the requested name or OS thread id.
    #[error("no thread is called {wanted:?}; there are {}", names(known))]
    NoSuchThread {
        /// The request.
        wanted: String,
        /// The threads of the recording: name and OS thread id.
        known: Vec<(String, u32)>,
    },
    /// What a cold start cannot do.
    #[error(
        "a cold start needs a time to begin at, JPortal's own decoder, and no filling: the frames that were open and the number of events before it are not known"
    )]
    Cold,
    /// A range of event numbers needs exactly one thread.
    #[error("event numbers are those of one thread, and {threads} are selected; select one")]
    EventsOfSeveralThreads {
        /// Number of selected threads.
        threads: usize,
    },
}

/// The path is named once: the error of a file that cannot be opened has it.
fn unopened(path: &Path, source: &jportal_capture::Error) -> String {
    match source {
        jportal_capture::Error::Open { .. } => source.to_string(),
        _ => format!("{}: {source}", path.display()),
    }
}

/// The first threads, for a message.
fn names(known: &[(String, u32)]) -> String {
    let shown: Vec<String> = known.iter().take(20).map(|(name, tid)| format!("{name:?} ({tid})")).collect();
    let more = known.len() - shown.len();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}
