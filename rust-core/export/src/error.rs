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
    /// A block trace in the 32-bit form has room for 19 bits of method number.
    #[error(
        "method {number}, {method}, has a number beyond the {limit} that the format jbi32 can hold: \
         use jbi64"
    )]
    TooManyMethods {
        /// The method's number.
        number: u32,
        /// The method.
        method: String,
        /// Number of methods that the format can hold.
        limit: u64,
    },
    /// A block trace in the 32-bit form has room for 11 bits of block number.
    #[error(
        "method {method} has {blocks} blocks, more than the {limit} that the format jbi32 can hold: \
         use jbi64"
    )]
    TooManyBlocks {
        /// The method.
        method: String,
        /// Its blocks.
        blocks: usize,
        /// Number of blocks per method that the format can hold.
        limit: u64,
    },
    /// A Parquet file cannot be written.
    #[error("cannot write the Parquet file: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}
