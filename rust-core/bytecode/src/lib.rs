// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Methods, opcodes, basic blocks, control flow graphs and the ICFG.
//!
//! Pure vocabulary and parsing: the crate knows no machine code, no file and no trace. The
//! bytecodes it sees are those the VM exported (quickening reversed), and they are
//! treated as untrusted input: every parser returns an error instead of panicking.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod cfg;
pub mod icfg;
pub mod method;
pub mod opcode;
#[cfg(test)]
mod testing;

pub use blocks::Blocks;
pub use cfg::{Cfg, CfgEdge, EdgeKind, HandlerRow};
pub use icfg::{ByName, CallSite, CalleeResolver, Callees, Icfg, Node, SharedIcfg, Target};
pub use method::{ExceptionRow, InvokeRef, LineRow, Method, MethodTable};
pub use opcode::{BytecodeError, Instruction, Opcode, Switch, Transfer, instructions};
