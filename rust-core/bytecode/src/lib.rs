//! Methods, opcodes, basic blocks and their edges.
#![forbid(unsafe_code)]

pub mod method;

pub use method::{ExceptionRow, InvokeRef, LineRow, Method, MethodTable};
