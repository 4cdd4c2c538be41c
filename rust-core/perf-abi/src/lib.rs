// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The part of Linux `perf_event`'s memory layout and records that a PT recording uses. For
//! both ends: the kernel or emulated unit that produces, and the drain that consumes.
//!
//! * [`bindings`]: the kernel's structures and constants, from `perf-event-open-sys`. The offsets
//!   on which a recording relies are compared with the kernel's ABI when `layout` is compiled.
//! * [`record`]: typed records, decoded from and encoded to the bytes of a data ring.
//! * [`ring`]: the data ring and the AUX ring over shared memory, with the kernel's ordering.
//! * [`pmu`], [`machine`]: facts from sysfs and procfs about the PT unit and about what a
//!   process may trace.
//! * [`attr`], [`kernel`], [`refusal`]: the events of a recording, the system calls that they
//!   need, and the meaning of each refusal.
//! * [`emulated`]: the shared file through which an emulated PT unit offers such rings.
//!
//! Constraints: little-endian x86-64; bytes from a ring are never trusted (no panic and no
//! access outside the mapping, whatever the peer wrote). Non-goals: the decision which event is
//! opened when (the recorder's device) and PT packets (`jportal-pt-packet`).

#[cfg(not(target_endian = "little"))]
compile_error!("perf rings are read in place: the host must be little-endian as x86-64 is");

pub mod attr;
pub mod emulated;
mod error;
pub mod kernel;
mod layout;
pub mod machine;
pub mod memory;
pub mod pmu;
pub mod record;
pub mod refusal;
pub mod ring;
pub mod sizes;
#[doc(hidden)]
pub mod testing;

pub use error::Error;
pub use layout::PAGE_SIZE;
pub use perf_event_open_sys::bindings;
pub use record::{Body, Record, RecordReader, SampleId};
pub use refusal::Refusal;
