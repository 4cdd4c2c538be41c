// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Why a recording cannot be decoded at all. What cannot be decoded *in* it is a gap.

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
    /// The VM never told where its code cache lies.
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
    /// libipt was asked for but not built in.
    #[error("this build has no libipt (cargo feature `libipt`); use the own native decoder")]
    NoLibipt,
    /// libipt could not be set up.
    #[error("libipt on {core}: {message}")]
    Libipt {
        /// Which core.
        core: Core,
        /// What it said.
        message: String,
    },
}
