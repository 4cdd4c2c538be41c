// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Why an export failed.

use std::io;

use jportal_analyses::tree::BadTree;

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
    /// The nodes of a call tree do not form trees.
    #[error(transparent)]
    Tree(#[from] BadTree),
    /// Times were requested, but the frequency of the TSC is not known.
    #[error("times cannot be written: the frequency of the TSC is not known; use another weight")]
    NoTime,
    /// A number does not fit into the format.
    #[error("{what} {value} does not fit into the format, which ends at {most}")]
    TooLarge {
        /// What it counts.
        what: &'static str,
        /// The number.
        value: u64,
        /// The format's largest number.
        most: u64,
    },
    /// All stacks together have too many frames for the format.
    #[error(
        "the stacks have {frames} frames together, more than the {most} that this format can hold; \
         limit the depth, or use the collapsed format"
    )]
    TooDeep {
        /// The frames of all stacks.
        frames: u64,
        /// The limit.
        most: u64,
    },
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
    /// A profiler in another process cannot be loaded, or has failed. The text is its own.
    #[error("{0}")]
    Profiler(String),
    /// The process of a profiler has ended, or closed its stream.
    #[error("the profiler's process ended before the replay was complete")]
    ProfilerGone,
    /// The stream to a profiler's process failed.
    #[error("the stream to the profiler's process: {0}")]
    ProfilerStream(io::Error),
    /// A profiler's process does not keep to the format.
    #[error("the profiler's process sent {0}")]
    ProfilerAnswer(String),
    /// A profiler's process speaks another version of the format.
    #[error(
        "jportal-replay.jar has version {found} of the format of replays, and this command version \
         {wanted}: use the jar that was built with the command"
    )]
    ProfilerVersion {
        /// The version of the jar.
        found: u64,
        /// The version of this crate.
        wanted: u64,
    },
    /// A Parquet file cannot be written.
    #[error("cannot write the Parquet file: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}
