// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Whether two virtual machines make the same machine code of the same bytecode.
//!
//! HotSpot itself writes down what it compiles (`-XX:+PrintNMethods`, in every product VM, no disassembler needed):
//! the bytes of code and constants as they were installed, before anything was patched, together with the relocations,
//! oop maps and debug information. [`listing`] reads that, [`compare`] compares, [`run`] makes it.

pub mod compare;
pub mod listing;
pub mod run;
