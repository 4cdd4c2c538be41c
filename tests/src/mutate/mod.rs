// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Damaged and malicious captures: each field gets extreme values, chunks are reordered,
//! duplicated or cut, and checksums are made right again. No command may crash, hang, or use more
//! memory than in proportion to the file.
//!
//! The changes are derived from the schemas ([`jportal_capture::schema::SCHEMA`],
//! [`jportal_capture::header::SCHEMA`], [`jportal_perf_abi::record::LAYOUTS`]), so a new record
//! is covered without any code here.

mod campaign;
mod judge;
mod layout;
mod model;
mod plan;
mod sample;

pub use campaign::{Campaign, CampaignOutcome};
pub use judge::{Failure, Judge, ResourceLimits};
pub use model::{Model, Part};
pub use plan::{Amount, Mutation, plan};
pub use sample::write_sample;
