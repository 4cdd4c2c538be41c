//! Methods, opcodes, basic blocks and their edges.
//!
//! Pure vocabulary and parsing: the crate knows no machine code, no file and no trace. The
//! bytecodes it sees are those the VM exported (quickening reversed), and they are
//! treated as untrusted input: every parser returns an error instead of panicking.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod method;
pub mod opcode;

pub use blocks::Blocks;
pub use method::{ExceptionRow, InvokeRef, LineRow, Method, MethodTable};
pub use opcode::{BytecodeError, Instruction, Opcode, Switch, Transfer, instructions};
