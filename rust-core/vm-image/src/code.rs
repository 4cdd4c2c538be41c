// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Versions of code blobs and the meaning of their addresses.

use crate::flaw::Flaw;
use crate::markers::PathMarkers;
use jportal_capture::schema::{self, NMethodInstalled, NO_SCOPE, blob_kinds, compilers, pc_flags};
use jportal_units::{AddressRange, Bci, CodeId, MethodId, Tsc};

/// One frame of a scope chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scope {
    /// Caller's scope in the same nmethod; `None` for the outermost frame.
    pub parent: Option<u32>,
    /// The frame's method; `None` if the VM never described it.
    pub method: Option<MethodId>,
    /// Bci of the frame; -1 before the first bytecode (HotSpot's `SynchronizationEntryBCI`).
    pub bci: i32,
}

/// One debug-info position of an nmethod (`PcDesc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcPosition {
    /// Offset from the start of the nmethod's code.
    pub offset: u32,
    /// Innermost scope.
    pub scope: Option<u32>,
    /// [`schema::pc_flags`].
    pub flags: u8,
}

/// Compiled code or a native wrapper.
#[derive(Clone, Debug)]
pub struct NMethod {
    /// Its method; for inlined code, the outermost method.
    pub method: Option<MethodId>,
    /// `nmethod*`.
    pub pointer: u64,
    /// The number that `-XX:+PrintCompilation` shows.
    pub compile_id: u32,
    /// [`schema::compilers`].
    pub compiler: u8,
    /// `CompLevel`.
    pub level: u8,
    /// Bci of the OSR entry; `None` for a normal compilation.
    pub osr_bci: Option<u16>,
    /// Offset of the unverified entry.
    pub entry: u32,
    /// Offset of the verified entry.
    pub verified_entry: u32,
    /// Offset of the OSR entry.
    pub osr_entry: Option<u32>,
    /// Offset of the exception handler.
    pub exception_handler: Option<u32>,
    /// Offset of the deoptimisation handler.
    pub deopt_handler: Option<u32>,
    /// Offset of the deoptimisation handler for method-handle call sites.
    pub deopt_mh_handler: Option<u32>,
    /// Offset of C1's unwind handler.
    pub unwind_handler: Option<u32>,
    /// Offset of the stub section.
    pub stub: u32,
    /// Scopes.
    pub scopes: Box<[Scope]>,
    /// The positions of safepoints, in ascending order of offsets. Positions in between
    /// (`-XX:+DebugNonSafepoints`) are left out, because they are only approximate.
    pub positions: Box<[PcPosition]>,
    /// The positions in between, in ascending order of offsets. Only profilers use them.
    pub approximate: Box<[PcPosition]>,
    /// Exception handlers.
    pub handlers: Box<[schema::HandlerEntry]>,
    /// Implicit exceptions.
    pub implicit: Box<[schema::ImplicitEntry]>,
    /// Path markers; `None` if the VM recorded none.
    pub markers: Option<Box<PathMarkers>>,
    /// Its changes of state, in order: when, and to which of [`schema::nmethod_states`].
    pub states: Vec<(Tsc, u8)>,
    /// Why the meaning of this code is unknown: its debug info or its path markers cannot come
    /// from a compiler.
    pub flaw: Option<Box<Flaw>>,
}

impl NMethod {
    /// The debug-info positions with `from <= offset < to`.
    pub fn positions_in(&self, from: u32, to: u32) -> &[PcPosition] {
        let a = self.positions.partition_point(|p| p.offset < from);
        let b = self.positions.partition_point(|p| p.offset < to);
        self.positions.get(a..b).unwrap_or(&[])
    }
    /// The position at exactly `offset`.
    pub fn position_at(&self, offset: u32) -> Option<&PcPosition> {
        self.positions.binary_search_by_key(&offset, |p| p.offset).ok().map(|i| &self.positions[i])
    }
    /// The position that a profiler takes for the instruction at `pc`: the first one after it,
    /// safepoint or not (`forte.cpp`: `pc_desc_near(pc + 1)`).
    pub fn position_of_sample(&self, pc: u32) -> Option<&PcPosition> {
        let next = |list: &'_ [PcPosition]| list.partition_point(|p| p.offset <= pc);
        let exact = self.positions.get(next(&self.positions));
        let approximate = self.approximate.get(next(&self.approximate));
        match (exact, approximate) {
            (Some(a), Some(b)) => Some(if a.offset <= b.offset { a } else { b }),
            (a, b) => a.or(b),
        }
    }
    /// The position at `offset` for an instruction there that was not executed. C2 has no
    /// positions for implicit exceptions. A position at such an offset belongs to the preceding
    /// call, whose return address it is.
    pub fn position_of_fault(&self, offset: u32) -> Option<&PcPosition> {
        let implicit =
            || self.compiler == compilers::C2 && self.implicit.iter().any(|i| i.pc_offset == offset);
        self.position_at(offset).filter(|_| !implicit())
    }
    /// The frames of `scope`, innermost first. Ends early on a cyclic or dangling chain.
    pub fn chain(&self, scope: Option<u32>) -> impl Iterator<Item = &Scope> {
        let mut next = scope;
        let mut left = self.scopes.len();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let s = self.scopes.get(next? as usize)?;
            next = s.parent;
            Some(s)
        })
    }
    /// The calls that the compiler inlined: caller, bci of the call, callee; includes callees
    /// that left no code. Without path markers, only the calls that the debug info names.
    pub fn inlined_calls(&self) -> impl Iterator<Item = (MethodId, Bci, MethodId)> + '_ {
        let contexts = self.markers.as_deref().map_or(&[][..], PathMarkers::contexts);
        let marked = contexts.iter().filter_map(|c| {
            let caller = contexts.get(c.parent? as usize)?;
            Some((caller.method?, Bci(c.call_bci), c.method?))
        });
        let scopes = self.scopes.iter().filter_map(|s| {
            let caller = self.scopes.get(s.parent? as usize)?;
            Some((caller.method?, Bci(u16::try_from(caller.bci).ok()?), s.method?))
        });
        marked.chain(scopes)
    }
    /// Whether this is a native wrapper. Code of a compiler that this version does not know is
    /// none: its debug info describes it.
    pub const fn is_native_wrapper(&self) -> bool {
        self.compiler == schema::compilers::NATIVE_WRAPPER
    }
}

/// The kind and the contents of a piece of code.
#[derive(Clone, Debug)]
pub enum CodeBody {
    /// An nmethod.
    NMethod(Box<NMethod>),
    /// A codelet of the template interpreter.
    Codelet,
    /// Any other blob.
    Blob {
        /// [`blob_kinds`].
        kind: u8,
        /// Its name.
        name: Box<str>,
        /// Named entry points.
        entries: Box<[(Box<str>, u64)]>,
    },
}

/// One installed version of a code blob.
#[derive(Clone, Debug)]
pub struct CodeVersion {
    /// Its number; numbers are dense.
    pub id: CodeId,
    /// The addresses of its code.
    pub range: AddressRange,
    /// When it was installed.
    pub installed: Tsc,
    /// When its memory was given back; `None` if it was not, or if that was not recorded.
    pub freed: Option<Tsc>,
    /// Its kind and contents.
    pub body: CodeBody,
}

impl CodeVersion {
    /// The nmethod, if it is one.
    pub fn nmethod(&self) -> Option<&NMethod> {
        match &self.body {
            CodeBody::NMethod(n) => Some(n),
            _ => None,
        }
    }
    /// A short description for messages.
    pub fn describe(&self) -> String {
        match &self.body {
            CodeBody::NMethod(n) => format!("nmethod {} (compile id {})", self.range.start, n.compile_id),
            CodeBody::Codelet => format!("codelet {}", self.range.start),
            CodeBody::Blob { name, .. } => format!("blob '{name}' {}", self.range.start),
        }
    }
    /// Whether this blob holds the method entry stubs.
    pub fn is_method_stubs(&self) -> bool {
        matches!(self.body, CodeBody::Blob { kind: blob_kinds::METHOD_STUBS, .. })
    }
}

fn optional(offset: u32) -> Option<u32> {
    (offset != u32::MAX).then_some(offset)
}

/// Converts the record; `method` resolves a `Method*` at the time of installation.
pub(crate) fn nmethod(r: NMethodInstalled, method: impl Fn(u64) -> Option<MethodId>) -> NMethod {
    let scopes = r.scopes.iter().map(|s| Scope {
        parent: (s.parent != NO_SCOPE).then_some(s.parent),
        method: method(s.method),
        bci: s.bci,
    });
    let position = |p: &schema::PcDescriptor| PcPosition {
        offset: p.pc_offset,
        scope: (p.scope != NO_SCOPE).then_some(p.scope),
        flags: p.flags,
    };
    let (mut approximate, mut positions): (Vec<_>, Vec<_>) =
        r.pc_descs.iter().map(position).partition(|p| p.flags & pc_flags::NON_SAFEPOINT != 0);
    approximate.sort_by_key(|p| p.offset);
    positions.sort_by_key(|p| p.offset);
    NMethod {
        method: method(r.method),
        pointer: r.nmethod,
        compile_id: r.compile_id,
        compiler: r.compiler,
        level: r.level,
        osr_bci: u16::try_from(r.osr_bci).ok(),
        entry: r.entry,
        verified_entry: r.verified_entry,
        osr_entry: (r.osr_bci >= 0).then_some(r.osr_entry),
        exception_handler: optional(r.exception_handler),
        deopt_handler: optional(r.deopt_handler),
        deopt_mh_handler: optional(r.deopt_mh_handler),
        unwind_handler: optional(r.unwind_handler),
        stub: r.stub,
        scopes: scopes.collect(),
        positions: positions.into(),
        approximate: approximate.into(),
        handlers: r.handlers.into(),
        implicit: r.implicit.into(),
        markers: None,
        states: Vec::new(),
        flaw: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_capture::schema::PcDescriptor;

    #[test]
    fn what_is_no_safepoint_is_no_position() {
        let at = |pc_offset, flags| PcDescriptor { pc_offset, scope: NO_SCOPE, flags };
        let pc_descs = vec![at(4, 0), at(9, pc_flags::NON_SAFEPOINT), at(12, pc_flags::REEXECUTE)];
        let n = nmethod(NMethodInstalled { pc_descs, ..NMethodInstalled::default() }, |_| None);
        let offsets: Vec<u32> = n.positions.iter().map(|p| p.offset).collect();
        assert_eq!(offsets, [4, 12]);
        assert_eq!(n.position_at(9), None);
        let sampled = [0, 3, 4, 8, 9, 11, 12].map(|pc| n.position_of_sample(pc).map(|p| p.offset));
        assert_eq!(sampled, [Some(4), Some(4), Some(9), Some(9), Some(12), Some(12), None]);
    }
}
