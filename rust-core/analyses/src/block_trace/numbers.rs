// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The numbers of the blocks of each method.

use std::ops::Range;
use std::sync::OnceLock;

use jportal_bytecode::{Blocks, BytecodeError, Cfg, Method, MethodTable};
use jportal_units::{Bci, MethodId};

/// The leaders and instructions of a method. The number of a block is the index of its leader.
///
/// # Errors
/// If the bytecodes are malformed, or a branch or handler leads into the middle of an instruction.
pub fn leaders(method: &Method) -> Result<Blocks, BytecodeError> {
    Cfg::of(method)?;
    Blocks::of(method)
}

/// The blocks of one method, for lookups by bci.
#[derive(Debug, PartialEq, Eq)]
pub struct BlockNumbers {
    leaders: Box<[Bci]>,
    /// By bci: how many blocks begin before it.
    blocks: Box<[u16]>,
    /// By bci: how many instructions begin before it.
    instructions: Box<[u16]>,
}

/// By bci, up to and including the length of the code: how many of `starts` lie before it.
fn ranks(starts: &[Bci], code: usize) -> Box<[u16]> {
    let mut ranks = Vec::with_capacity(code + 1);
    let mut before = 0;
    for bci in 0..=code {
        ranks.push(before as u16);
        before += usize::from(starts.get(before).is_some_and(|s| usize::from(s.get()) == bci));
    }
    ranks.into()
}

impl BlockNumbers {
    /// Numbers the blocks of a method by bci.
    ///
    /// # Errors
    /// As [`leaders`].
    pub fn of(method: &Method) -> Result<Self, BytecodeError> {
        let blocks = leaders(method)?;
        let code = method.code.len();
        Ok(Self {
            leaders: blocks.leaders().into(),
            blocks: ranks(blocks.leaders(), code),
            instructions: ranks(blocks.instruction_starts(), code),
        })
    }
    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.leaders.len()
    }
    /// Whether the method has no bytecodes.
    pub fn is_empty(&self) -> bool {
        self.leaders.is_empty()
    }
    /// First bci of a block, and the first bci after it. `None` if there is no such block.
    pub fn extent(&self, block: usize) -> Option<(Bci, Bci)> {
        let end = self.blocks.len().saturating_sub(1) as u16;
        Some((*self.leaders.get(block)?, self.leaders.get(block + 1).copied().unwrap_or(Bci(end))))
    }
    /// The block that contains `bci`, and whether it begins there. `None` outside of the code.
    pub fn at(&self, bci: Bci) -> Option<(usize, bool)> {
        let begun = self.begun((bci, bci))?;
        Some((begun.end.checked_sub(1)?, !begun.is_empty()))
    }
    /// The blocks that begin in the run of bytecodes from `first` to `last`, both included. `None`
    /// outside of the code.
    #[inline]
    pub fn begun(&self, (first, last): (Bci, Bci)) -> Option<Range<usize>> {
        let from = usize::from(*self.blocks.get(usize::from(first.get()))?);
        let to = usize::from(*self.blocks.get(usize::from(last.get()) + 1)?);
        Some(from..to.max(from))
    }
    /// Number of instructions that begin at a bci from `from` on and before `to`.
    pub fn instructions(&self, from: Bci, to: Bci) -> u64 {
        let before = |bci: Bci| self.instructions.get(usize::from(bci.get())).copied().unwrap_or_default();
        u64::from(before(to).saturating_sub(before(from)))
    }
}

/// The block numbers of all methods. Each is computed on first use.
#[derive(Debug)]
pub struct Numbers {
    all: Box<[OnceLock<Option<BlockNumbers>>]>,
}

impl Numbers {
    /// For the methods of one recording.
    pub fn new(methods: &MethodTable) -> Self {
        Self { all: (0..methods.len()).map(|_| OnceLock::new()).collect() }
    }
    /// The blocks of a method. `None` if there is no such method, or its code is malformed.
    #[inline]
    pub fn get(&self, methods: &MethodTable, id: MethodId) -> Option<&BlockNumbers> {
        let numbers = self.all.get(id.get() as usize)?;
        numbers.get_or_init(|| BlockNumbers::of(methods.get(id)?).ok()).as_ref()
    }
}
