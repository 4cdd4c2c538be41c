// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Maps addresses to their meaning, fast: one paged lookup per executed block.

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use jportal_capture::schema::blob_kinds;
use jportal_machine_flow::CodeHistory;
use jportal_units::{Address, AddressRange, CodeId, Tsc};
use jportal_vm_image::interpreter::Reveal;
use jportal_vm_image::{CodeBody, Landmark, VmImage};

/// How the blocks of a code version are interpreted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum CodeClass {
    /// Interpreter or stub: its addresses are looked up among the landmarks.
    Landmarks,
    /// C1 or C2 code.
    NMethod,
    /// A native wrapper.
    NativeWrapper,
    /// Method entry stubs.
    MethodStubs,
    /// The deoptimisation or uncommon-trap blob.
    Deoptimisation,
    /// A stub that removes the compiled frame that jumped to it and looks for the caller's
    /// handler (C2's `rethrow_stub`, C1's `unwind_exception`).
    Unwind,
    /// Adapters, vtable stubs, runtime stubs and others: no frame, no bytecode.
    Transparent,
}

pub(crate) fn classify(body: &CodeBody) -> CodeClass {
    match body {
        CodeBody::NMethod(n) if n.is_native_wrapper() => CodeClass::NativeWrapper,
        CodeBody::NMethod(_) => CodeClass::NMethod,
        CodeBody::Codelet => CodeClass::Landmarks,
        CodeBody::Blob { kind, name, .. } => match *kind {
            blob_kinds::METHOD_STUBS => CodeClass::MethodStubs,
            blob_kinds::DEOPTIMIZATION | blob_kinds::UNCOMMON_TRAP => CodeClass::Deoptimisation,
            blob_kinds::RUNTIME_STUB if name.contains("rethrow") || name.contains("unwind_exception") => {
                CodeClass::Unwind
            }
            // `StubRoutines::throw_StackOverflowError_entry()` and similar entries are runtime
            // stubs.
            blob_kinds::RUNTIME_STUB if name.contains("throw_exception") => CodeClass::Landmarks,
            blob_kinds::BUFFER | blob_kinds::STUB_ROUTINE | blob_kinds::INTERPRETER => CodeClass::Landmarks,
            _ => CodeClass::Transparent,
        },
    }
}

const PAGE_BITS: u32 = 12;
const PAGE: usize = 1 << PAGE_BITS;

/// A sparse map from offsets in the code cache to small values.
#[derive(Debug)]
struct Paged<T> {
    /// 0 = no page; else index + 1 into `pages`.
    directory: Vec<u32>,
    /// By page, a bit for each offset that has a value. Most offsets have none, and these bits stay
    /// in the processor's nearest cache.
    present: Vec<[u64; PAGE / 64]>,
    /// 0 = nothing; else index + 1 into `values`.
    pages: Vec<[u16; PAGE]>,
    values: Vec<T>,
}

impl<T: Copy + PartialEq> Paged<T> {
    fn new(cache: AddressRange) -> Self {
        let directory = vec![0; (cache.len() >> PAGE_BITS) as usize + 1];
        Self { directory, present: Vec::new(), pages: Vec::new(), values: Vec::new() }
    }
    fn insert(&mut self, offset: u64, value: T) {
        let index = self.values.iter().position(|v| *v == value).unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        });
        let slot = &mut self.directory[(offset >> PAGE_BITS) as usize];
        if *slot == 0 {
            self.pages.push([0; PAGE]);
            self.present.push([0; PAGE / 64]);
            *slot = self.pages.len() as u32;
        }
        // There are some hundreds of distinct values (templates, method kinds); 65,535 fit.
        let (page, offset) = (*slot as usize - 1, offset as usize % PAGE);
        self.pages[page][offset] = index as u16 + 1;
        self.present[page][offset / 64] |= 1 << (offset % 64);
    }
    #[inline]
    fn get(&self, offset: u32) -> Option<T> {
        let page = (*self.directory.get((offset >> PAGE_BITS) as usize)? as usize).wrapping_sub(1);
        let offset = offset as usize % PAGE;
        if self.present.get(page)?[offset / 64] >> (offset % 64) & 1 == 0 {
            return None;
        }
        let tag = self.pages.get(page)?[offset];
        self.values.get((tag as usize).wrapping_sub(1)).copied()
    }
}

/// A conditional jump in a template that is not the bytecode's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Jump {
    /// Shows a bit of a revealed value.
    Bit(Reveal),
    /// Says nothing about the bytecode.
    Aside,
}

/// The landmarks of one recording by offset in the code cache.
#[derive(Debug)]
pub(crate) struct Tags {
    landmarks: Paged<Landmark>,
    /// By the address after the conditional jump.
    jumps: Paged<Jump>,
    classes: Vec<CodeClass>,
}

impl Tags {
    pub(crate) fn new(image: &VmImage, history: &CodeHistory) -> Self {
        let cache = history.range();
        let mut tags = Self {
            landmarks: Paged::new(cache),
            jumps: Paged::new(cache),
            classes: image.codes().iter().map(|c| classify(&c.body)).collect(),
        };
        for (address, landmark) in image.interpreter.landmarks() {
            if cache.contains(address) {
                tags.landmarks.insert(address.minus(cache.start), landmark);
            }
        }
        for &(address, reveal) in image.interpreter.reveals() {
            const LONGEST: u64 = 32;
            if let Some(&end) = jump_ends(history, AddressRange::at(address, LONGEST)).first() {
                tags.jumps.insert(end.minus(cache.start), Jump::Bit(reveal));
            }
        }
        for end in image.interpreter.asides().iter().flat_map(|&aside| jump_ends(history, aside)) {
            tags.jumps.insert(end.minus(cache.start), Jump::Aside);
        }
        tags
    }
    /// The landmark at `offset` of the code cache.
    #[inline]
    pub(crate) fn landmark(&self, offset: u32) -> Option<Landmark> {
        self.landmarks.get(offset)
    }
    /// The special meaning of a template's conditional jump that ends at `offset`.
    #[inline]
    pub(crate) fn jump(&self, offset: u32) -> Option<Jump> {
        self.jumps.get(offset)
    }
    /// The class of a code version.
    #[inline]
    pub(crate) fn class(&self, code: CodeId) -> CodeClass {
        self.classes.get(code.0 as usize).copied().unwrap_or(CodeClass::Transparent)
    }
}

/// The ends of the conditional jumps in `range`, which is limited to a template's length.
fn jump_ends(history: &CodeHistory, range: AddressRange) -> Vec<Address> {
    const LONGEST: u64 = 4096;
    let cache = history.range();
    let len = range.len().min(LONGEST).min(cache.end.0.saturating_sub(range.start.0));
    if !cache.contains(range.start) {
        return Vec::new();
    }
    // The interpreter is generated once: the last version is the only one with code.
    let Some(version) = history.versions(range.start, len as usize, Tsc(0), Tsc(u64::MAX)).pop() else {
        return Vec::new();
    };
    let mut decoder = Decoder::with_ip(64, &version.bytes, range.start.0, DecoderOptions::NONE);
    let instructions = decoder.iter().take_while(|i| !i.is_invalid());
    let jumps = instructions.filter(|i| i.flow_control() == FlowControl::ConditionalBranch);
    jumps.map(|i| Address(i.next_ip())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_distinguished_by_their_names() {
        let class =
            |kind, name: &str| classify(&CodeBody::Blob { kind, name: name.into(), entries: Box::default() });
        let stub = |name| class(blob_kinds::RUNTIME_STUB, name);
        // When a call exhausts the stack, its callee never had a frame. Only this stub shows
        // that.
        assert_eq!(stub("StackOverflowError throw_exception"), CodeClass::Landmarks);
        assert_eq!(stub("_rethrow_Java"), CodeClass::Unwind);
        assert_eq!(stub("unwind_exception Runtime1 stub"), CodeClass::Unwind);
        assert_eq!(stub("resolve_static_call"), CodeClass::Transparent);
        assert_eq!(class(blob_kinds::DEOPTIMIZATION, "DeoptimizationBlob"), CodeClass::Deoptimisation);
        assert_eq!(class(blob_kinds::BUFFER, "StubRoutines (1)"), CodeClass::Landmarks);
    }
}
