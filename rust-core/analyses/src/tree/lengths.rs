// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The lengths of the blocks of methods, for counting by whole blocks.
//!
//! A block of JP's default analysis ends with a branch, switch, return, throw, `jsr` or `ret`, and
//! before a leader. Calls do not end it ([`Blocks`] has the same definition). When the first
//! bytecode of a block begins, all its bytecodes are counted. Where the flow resumes inside a
//! block, whose beginning was not seen, the rest of the block is counted, so that the count
//! never falls below that of single bytecodes.

use std::sync::OnceLock;

use jportal_bytecode::{Blocks, Method, MethodTable};
use jportal_units::{Bci, MethodId};

const LEADER: u32 = 1 << 31;

/// For each bci, the number of bytecodes from it to the end of its block, and whether the block
/// begins there; 0 if no instruction begins there.
#[derive(Debug, Default)]
struct BlockLengths(Box<[u32]>);

impl BlockLengths {
    /// Empty if the bytecodes are malformed.
    fn of(method: &Method) -> Self {
        let Ok(blocks) = Blocks::of(method) else { return Self::default() };
        let mut rest = vec![0; method.code.len()];
        let (mut after, mut leaders) = (0, blocks.leaders().iter().rev().peekable());
        for bci in blocks.instruction_starts().iter().rev() {
            after += 1;
            let leads = leaders.next_if(|l| *l == bci).is_some();
            rest[usize::from(bci.get())] = if leads { after | LEADER } else { after };
            after = if leads { 0 } else { after };
        }
        Self(rest.into())
    }
    fn at(&self, bci: Bci) -> Option<(u64, bool)> {
        let rest = *self.0.get(usize::from(bci.get()))?;
        (rest != 0).then_some((u64::from(rest & !LEADER), rest & LEADER != 0))
    }
}

/// Where a run of bytecodes begins, seen from its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// After the previous bytecode of the frame.
    Next,
    /// The previous bytecode of the frame, executed again.
    Again,
    /// The previous bytecode is not known.
    Anywhere,
}

/// The lengths of all methods. Each is computed on first use.
#[derive(Debug)]
pub(super) struct AllLengths(Box<[OnceLock<BlockLengths>]>);

impl AllLengths {
    pub(super) fn new(methods: &MethodTable) -> Self {
        Self((0..methods.len()).map(|_| OnceLock::new()).collect())
    }
    /// The bytecodes of the blocks that begin with one of `len` bytecodes in a row.
    pub(super) fn begun(
        &self,
        methods: &MethodTable,
        (method, first, last, len): (MethodId, Bci, Bci, u64),
        start: Start,
    ) -> u64 {
        let lengths = methods.get(method).and_then(|m| {
            let lengths = self.0.get(method.get() as usize)?.get_or_init(|| BlockLengths::of(m));
            Some((lengths.at(first)?, lengths.at(last)?.0))
        });
        let Some(((rest, leads), last)) = lengths else { return len };
        let at_first = match start {
            Start::Again => 1,
            Start::Next if !leads => 0,
            Start::Next | Start::Anywhere => rest,
        };
        // All blocks that begin after `first`, up to the end of the block of `last`.
        at_first + (len - 1 + last).saturating_sub(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BRANCHY, method};

    #[test]
    fn whole_blocks_and_rests() {
        // 0 iload_0; 1 ifeq 8 | 4 iconst_1; 5 goto 9 | 8 iconst_0 | 9 ireturn
        let mut t = MethodTable::default();
        t.push(method("a/B", "f", BRANCHY));
        t.push(method("a/B", "bad", &[0, 203]));
        let all = AllLengths::new(&t);
        let begun = |first, last, len, start| all.begun(&t, (MethodId(0), Bci(first), Bci(last), len), start);
        assert_eq!(begun(0, 0, 1, Start::Next), 2);
        assert_eq!(begun(1, 1, 1, Start::Next), 0);
        assert_eq!(begun(1, 1, 1, Start::Anywhere), 1);
        assert_eq!(begun(0, 0, 1, Start::Again), 1);
        assert_eq!(begun(0, 1, 2, Start::Next), 2);
        assert_eq!(begun(0, 4, 3, Start::Next), 4);
        assert_eq!(begun(1, 5, 3, Start::Next), 2);
        assert_eq!(begun(8, 9, 2, Start::Next), 2);
        assert_eq!(begun(2, 2, 1, Start::Next), 1, "no instruction: as many as were seen");
        assert_eq!(all.begun(&t, (MethodId(1), Bci(0), Bci(0), 1), Start::Next), 1);
        assert_eq!(all.begun(&t, (MethodId(7), Bci(0), Bci(0), 1), Start::Next), 1);
    }
}
