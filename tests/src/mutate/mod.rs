// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Captures that are damaged, or made to do harm: each field to its extremes, chunks reordered, doubled, cut, with checksums
//! made right again. No command may crash, hang, or take more memory than in proportion to the file.
//!
//! What there is to change is read off the schemas ([`jportal_capture::schema::SCHEMA`], [`jportal_capture::header::SCHEMA`],
//! [`jportal_perf_abi::record::LAYOUTS`]), so a new record is covered without a word here.

mod campaign;
mod judge;
mod layout;
mod model;
mod plan;
mod sample;

pub use campaign::{Campaign, Outcome};
pub use judge::{Failure, Judge, Limits};
pub use model::Model;
pub use plan::{Amount, Mutation, plan};
pub use sample::write_sample;
