// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Methods, opcodes, basic blocks, control flow graphs and the ICFG.
//!
//! This crate contains only vocabulary and parsing; it knows no machine code, no file and no
//! trace. It receives the bytecodes that the VM exported, with quickening reversed. They are
//! untrusted input: every parser returns an error instead of panicking.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod cfg;
mod class;
mod constant;
pub mod icfg;
pub mod method;
pub mod opcode;
mod shape;
#[doc(hidden)]
pub mod testing;

pub use blocks::Blocks;
pub use cfg::{Cfg, CfgEdge, EdgeKind, HandlerRow};
pub use class::{Class, ClassLoad, ClassTable};
pub use constant::Constant;
pub use icfg::{ByName, CallSite, CalleeResolver, Callees, Icfg, Node, SharedIcfg, Target};
pub use method::{ExceptionRow, InvokeRef, LineRow, Method, MethodTable};
pub use opcode::{BytecodeError, Instruction, Opcode, Switch, Transfer, instructions};
pub use shape::{Branch, Shape, Shapes};
