// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The bytecodes of a method, parsed once so that dispatches can be followed.

use crate::entry::MethodKind;
use jportal_bytecode::{Instruction, Method, MethodTable, Opcode, Transfer};
use jportal_units::{Bci, MethodId};
use std::sync::OnceLock;

/// One bytecode in the form that the dispatch follower needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DispatchStep {
    /// The opcode that the interpreter dispatches on (`wide` for prefixed ones).
    pub dispatched: Opcode,
    /// The opcode itself, without the `wide` prefix.
    pub opcode: Opcode,
    pub transfer: Transfer,
    /// The bci of the bytecode that follows in the code.
    pub next: Bci,
    /// The branch target; equal to `next` if there is none.
    pub target: Bci,
}

/// All bytecodes of a method by bci; `None` inside an instruction.
#[derive(Debug, Default)]
pub(crate) struct CodeMap {
    steps: Box<[Option<DispatchStep>]>,
}

impl CodeMap {
    /// Malformed code yields the instructions before the fault. Following the code further then
    /// becomes a reported contradiction.
    fn of(method: &Method) -> Self {
        let code = &*method.code;
        let mut steps = vec![None; code.len()];
        let mut at = 0;
        while let Ok(i) = Instruction::at(code, at) {
            let Ok(target) = i.branch_target() else { break };
            steps[at] = Some(DispatchStep {
                dispatched: if i.wide { Opcode::WIDE } else { i.opcode },
                opcode: i.opcode,
                transfer: i.opcode.transfer(),
                next: i.next(),
                target: target.unwrap_or(i.next()),
            });
            at = i.next().0.into();
        }
        Self { steps: steps.into() }
    }
    /// The bytecode at `bci`.
    #[inline]
    pub(crate) fn step(&self, bci: Bci) -> Option<&DispatchStep> {
        self.steps.get(usize::from(bci.0))?.as_ref()
    }
}

/// The code maps of all methods, built on first use and shared by all threads.
#[derive(Debug)]
pub(crate) struct CodeMaps<'a> {
    table: &'a MethodTable,
    maps: Vec<OnceLock<CodeMap>>,
    kinds: Vec<MethodKind>,
}

impl<'a> CodeMaps<'a> {
    pub(crate) fn new(table: &'a MethodTable) -> Self {
        let kinds = table.iter().map(MethodKind::of).collect();
        Self { table, maps: (0..table.len()).map(|_| OnceLock::new()).collect(), kinds }
    }
    /// The map of `method`.
    #[inline]
    pub(crate) fn of(&self, method: MethodId) -> Option<&CodeMap> {
        let cell = self.maps.get(method.0 as usize)?;
        Some(cell.get_or_init(|| self.table.get(method).map(CodeMap::of).unwrap_or_default()))
    }
    /// The kind of entry of `method`.
    #[inline]
    pub(crate) fn kind(&self, method: MethodId) -> Option<MethodKind> {
        self.kinds.get(method.0 as usize).copied()
    }
    /// The method itself.
    pub(crate) fn method(&self, method: MethodId) -> Option<&'a Method> {
        self.table.get(method)
    }
}
