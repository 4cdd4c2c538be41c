// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The capture file: the only interface between the recording VM and the decoder.
//!
//! * [`schema`] defines every metadata record once; the C++ writer's header is generated from
//!   it (`cargo run -p jportal-capture --bin jportal-records-hpp`).
//! * `chunk`, `writer` and `reader` define the file around it; `FORMAT.md` describes both.
//!
//! Constraints: a reader never panics on input, a torn tail loses only the torn chunk, unknown
//! chunk and record kinds are skipped and counted.
#![forbid(unsafe_code)]

mod checksum;
pub mod chunk;
pub mod codec;
mod create;
mod error;
pub mod frames;
pub mod header;
mod held;
mod index;
mod lists;
mod metadata;
mod names;
mod ranges;
mod reader;
mod reopen;
pub mod ring_file;
pub mod schema;
mod seal;
mod trim;
mod writer;

pub use chunk::{Counter, End, EndReason, LossNote, LossReason, VERSION_MAJOR, VERSION_MINOR};
pub use create::Earlier;
pub use error::Error;
pub use frames::{decode_frame, encode_frame};
pub use header::{FilterRange, Header, PtConfig, TimeConversion};
pub use metadata::MetadataRecords;
pub use reader::{CaptureReader, Completeness, Damage, DamageKind, Piece, Torn};
pub use schema::{Record, Stamped};
pub use seal::{Sealed, Sealer};
pub use writer::{CaptureCopy, CaptureWriter, MAX_CORE, TrimmedCopy, Written};
