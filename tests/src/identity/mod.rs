// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Whether two VMs generate the same machine code for the same bytecode.
//!
//! HotSpot itself lists what it compiles (`-XX:+PrintNMethods`, in every product VM, without a
//! disassembler): the bytes of code and constants as they were installed, before anything was
//! patched, with relocations, oop maps and debug information. [`run`] makes such listings,
//! [`listing`] reads them, and [`compare`] compares them.

pub mod compare;
pub mod listing;
pub mod run;
