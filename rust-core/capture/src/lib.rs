//! The capture file: the one contract between the recording VM and the decoder.
//!
//! * [`schema`] defines every metadata record once; the C++ writer's header is generated
//!   from it (`cargo run -p jportal-capture --bin jportal-records-hpp`).
//! * `chunk`, `writer` and `reader` define the file around it; `FORMAT.md` describes both.
//!
//! Constraints: a reader never panics on input, a torn tail loses only the torn chunk,
//! unknown chunk and record kinds are skipped and counted.
#![forbid(unsafe_code)]

pub mod codec;
pub mod schema;
