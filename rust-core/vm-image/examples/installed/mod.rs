// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Collects the bytes of every code version as installed.

use jportal_units::{Address, CodeId, Tid, Tsc};
use jportal_vm_image::CodeSink;

/// The bytes, by code id.
#[derive(Default)]
pub struct Bytes(pub Vec<Vec<u8>>);

impl CodeSink for Bytes {
    fn install(&mut self, _: Tsc, _: Address, bytes: &[u8], id: CodeId) {
        self.0.resize(id.0 as usize + 1, Vec::new());
        self.0[id.0 as usize] = bytes.to_vec();
    }
    fn patch(&mut self, _: Tsc, _: Option<Tsc>, _: Address, _: &[u8], _: Option<Tid>, _: u8) {}
    fn free(&mut self, _: Tsc, _: Address, _: u64) {}
}
