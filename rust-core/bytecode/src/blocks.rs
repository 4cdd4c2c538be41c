// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Basic blocks of a method and the edges between them.

use crate::method::Method;
use crate::opcode::{BytecodeError, Instruction, Transfer, instructions};
use jportal_units::Bci;

/// The instruction starts and block leaders of one method.
///
/// A leader is bci 0, a branch or switch target, an exception handler, or the instruction after a
/// branch, switch, return, throw, `jsr` or `ret`. A call does not end a block (paper §3.1 defines
/// blocks the same way; calls are edges of the ICFG).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    starts: Vec<Bci>,
    leaders: Vec<Bci>,
}

impl Blocks {
    /// Finds the blocks of `method`; none for native and abstract methods.
    ///
    /// If the bytecodes are malformed.
    /// When the bytecodes are malformed.
    pub fn of(method: &Method) -> Result<Self, BytecodeError> {
        let mut starts = Vec::new();
        let mut leaders = vec![];
        if !method.code.is_empty() {
            leaders.push(Bci(0));
        }
        for i in instructions(&method.code) {
            let i = i?;
            starts.push(i.bci);
            add_leaders(&i, &mut leaders)?;
        }
        leaders.extend(method.exceptions.iter().map(|e| e.handler));
        leaders.retain(|b| usize::from(b.0) < method.code.len());
        leaders.sort_unstable();
        leaders.dedup();
        Ok(Self { starts, leaders })
    }
    /// Instruction starts, ascending.
    pub fn instruction_starts(&self) -> &[Bci] {
        &self.starts
    }
    /// Block leaders, ascending.
    pub fn leaders(&self) -> &[Bci] {
        &self.leaders
    }
    /// Whether a block starts at `bci`.
    pub fn is_leader(&self, bci: Bci) -> bool {
        self.leaders.binary_search(&bci).is_ok()
    }
}

fn add_leaders(i: &Instruction<'_>, leaders: &mut Vec<Bci>) -> Result<(), BytecodeError> {
    if let Some(t) = i.branch_target()? {
        leaders.push(t);
    }
    if let Some(s) = i.switch()? {
        leaders.push(s.default);
        leaders.extend(s.cases.iter().map(|c| c.1));
    }
    match i.opcode.transfer() {
        Transfer::None | Transfer::Invoke => {}
        _ => leaders.push(i.next()),
    }
    Ok(())
}
