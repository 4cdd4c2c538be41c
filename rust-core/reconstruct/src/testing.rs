// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Helpers shared by the tests of this crate.

use crate::stretches::Stretch;
use jportal_bytecode::Method;
use jportal_units::{Address, CodeId, Core, StreamOffset, Tid, Tsc};
use jportal_vm_image::CodeSink;

/// A sink that ignores the code, for tests that do not need it.
pub(crate) struct NoCode;

impl CodeSink for NoCode {
    fn install(&mut self, _: Tsc, _: Address, _: &[u8], _: CodeId) {}
    fn patch(&mut self, _: Tsc, _: Option<Tsc>, _: Address, _: &[u8], _: Option<Tid>, _: u8) {}
    fn free(&mut self, _: Tsc, _: Address, _: u64) {}
}

/// A method without code.
pub(crate) fn method(name: &str) -> Method {
    Method { class_name: "T".into(), name: name.into(), signature: "()V".into(), ..Method::default() }
}

/// A stretch of core 0 that its thread left at `closed`.
pub(crate) fn stretch(tid: u32, from: u64, to: u64, closed: u64) -> Stretch {
    Stretch {
        core: Core(0),
        tid: Tid(tid),
        from: StreamOffset(from),
        to: StreamOffset(to),
        closed: Tsc(closed),
        switched_in: None,
        truncated: false,
        came: None,
        blind: None,
    }
}
