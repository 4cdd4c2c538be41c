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
}
