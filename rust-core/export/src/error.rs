// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Why an export failed.

use std::io;

/// An export that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
    /// The coverage was made without counts of lines.
    #[error(
        "method {method} has no counts of lines: the coverage must be made with `CoverageOptions::counts`"
    )]
    NoCounts {
        /// The first method without them: class, name and descriptor.
        method: String,
    },
}
