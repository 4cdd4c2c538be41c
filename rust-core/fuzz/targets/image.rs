// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as framed metadata records: the image of the VM, its methods and their graphs are
//! built without a panic.
#![no_main]

use jportal::bytecode::{Blocks, ByName, Cfg, Icfg, MethodTable, Shape, instructions};
use jportal::file::decode_frame;
use jportal::units::{Address, AddressRange, CodeId, Tid, Tsc};
use jportal_machine_flow::{CodeHistory, Patch};
use jportal_vm_image::{Builder, CodeSink};
use libfuzzer_sys::fuzz_target;

/// The code cache of the sample capture.
const CACHE: AddressRange = AddressRange { start: Address(0x7000_0000), end: Address(0x7010_0000) };

struct FuzzedCode(CodeHistory);

impl CodeSink for FuzzedCode {
    fn install(&mut self, tsc: Tsc, start: Address, bytes: &[u8], id: CodeId) {
        let _ = self.0.install(tsc, start, bytes, id);
    }
    fn patch(
        &mut self,
        tsc: Tsc,
        since: Option<Tsc>,
        start: Address,
        bytes: &[u8],
        writer: Option<Tid>,
        _: u8,
    ) {
        let _ = self.0.patch(tsc, since, start, bytes, writer, Patch::Other);
    }
    fn free(&mut self, tsc: Tsc, start: Address, size: u64) {
        let _ = self.0.free(tsc, start, size);
    }
}

fn graphs(methods: &MethodTable) {
    for method in methods.iter() {
        let _ = (instructions(&method.code).count(), Blocks::of(method), Cfg::of(method), Shape::of(method));
        let _ = method.qualified_name();
    }
    let _ = Icfg::build(methods, &mut ByName::new(methods));
}

fuzz_target!(|data: &[u8]| {
    let (mut builder, mut at) = (Builder::default(), 0);
    let mut sink = FuzzedCode(CodeHistory::new(CACHE).unwrap());
    while let Some(rest) = data.get(at..) {
        let Some(len) = rest.first_chunk::<4>().map(|len| u32::from_le_bytes(*len) as usize) else { break };
        match decode_frame(rest, at as u64) {
            Ok(Some((stamped, len))) => {
                builder.record(stamped, &mut sink);
                at += len;
            }
            Ok(None) => break,
            Err(_) => at += len.max(1),
        }
    }
    let image = builder.finish();
    for code in image.codes() {
        let _ = code.describe();
    }
    graphs(image.table());
});
