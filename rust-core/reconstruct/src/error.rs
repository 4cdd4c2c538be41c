// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Errors that prevent decoding a recording at all. Trace *in* it that cannot be decoded
//! becomes a gap.

use jportal_units::{Address, Core};

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] jportal_capture::Error),
    /// The code image cannot be built.
    #[error("the code cache cannot be imaged: {0}")]
    Image(#[source] jportal_machine_flow::Error),
    /// The VM did not report where its code cache lies.
    #[error(
        "the capture has {pt_bytes} bytes of PT but no code-cache bounds: the VM died before its code cache \
         was reserved, or the header was damaged (see `jportal info`)"
    )]
    NoCodeCache {
        /// Bytes of PT in the capture.
        pt_bytes: u64,
    },
    /// The code-cache bounds are impossible.
    #[error("the code cache {low}..{high} is not a range of at most 4 GiB; the header is damaged")]
    BadCodeCache {
        /// Low bound.
        low: Address,
        /// High bound.
        high: Address,
    },
    /// libipt was requested, but this build does not include it.
    #[error("this build has no libipt (cargo feature `libipt`); use the own native decoder")]
    NoLibipt,
    /// libipt could not be set up.
    #[error("libipt on {core}: {message}")]
    Libipt {
        /// Which core.
        core: Core,
        /// The message of libipt.
        message: String,
    },
}
