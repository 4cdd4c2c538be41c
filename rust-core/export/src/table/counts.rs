// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What is counted per thread.

use hashbrown::HashMap;
use jportal_analyses::block_trace::{BlockNumbers, Numbers};
use jportal_bytecode::MethodTable;
use jportal_flow::{Entry, Event, EventKind, Frame, Provenance, Tally};
use jportal_units::{Bci, MethodId};

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum InvocationOrigin {
    /// A bytecode. Its bci is `None` when only the method is known.
    Java(MethodId, Option<Bci>),
    /// The VM or native code.
    Vm,
    /// The caller's frame was lost.
    Unknown,
}

/// The figures of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockCounts {
    /// Times that its first bytecode began.
    pub(super) executions: Tally,
    /// Its bytecodes that began.
    pub(super) bytecodes: Tally,
}

/// The figures of a thread.
#[derive(Debug, Default)]
pub(super) struct TableCounts {
    pub(super) blocks: HashMap<MethodId, Box<[BlockCounts]>>,
    /// Bytecodes of methods whose blocks are not known.
    pub(super) unplaced: HashMap<MethodId, Tally>,
    pub(super) calls: HashMap<(InvocationOrigin, MethodId), Tally>,
    pub(super) bytecodes: Tally,
}

impl TableCounts {
    /// Counts an event. `top`: the top frame before it.
    pub(super) fn event(
        &mut self,
        (methods, numbers): (&MethodTable, &Numbers),
        e: &Event,
        top: impl Fn() -> Option<Frame>,
    ) {
        if let EventKind::Enter { method, entry, .. } = e.kind {
            let site = match entry {
                Entry::Call => {
                    top().map_or(InvocationOrigin::Unknown, |f| InvocationOrigin::Java(f.method, f.bci))
                }
                Entry::Upcall => InvocationOrigin::Vm,
                Entry::Osr | Entry::Deoptimisation | Entry::Found => return,
            };
            self.calls.entry((site, method)).or_default().add(e.provenance);
        } else if let Some((method, first, last)) = e.kind.executed() {
            let len = e.kind.bytecodes();
            self.bytecodes.add_all(e.provenance, len);
            let run = (first, last);
            let numbers = numbers.get(methods, method);
            if numbers.and_then(|n| self.run(n, method, run, (len, e.provenance))).is_none() {
                self.unplaced.entry(method).or_default().add_all(e.provenance, len);
            }
        }
    }
    /// Counts a run. `None` if it is not within the method's code.
    fn run(
        &mut self,
        numbers: &BlockNumbers,
        method: MethodId,
        (first, last): (Bci, Bci),
        (len, provenance): (u64, Provenance),
    ) -> Option<()> {
        let begun = numbers.begun((first, last))?;
        let (from, to) = (numbers.at(first)?.0, numbers.at(last)?.0);
        let new = || vec![BlockCounts::default(); numbers.len()].into();
        let blocks = self.blocks.entry(method).or_insert_with(new);
        for block in begun {
            blocks.get_mut(block)?.executions.add(provenance);
        }
        if from == to {
            blocks.get_mut(from)?.bytecodes.add_all(provenance, len);
            return Some(());
        }
        let after = Bci(last.get().saturating_add(1));
        for block in from..=to {
            let (start, end) = numbers.extent(block)?;
            let n = numbers.instructions(start.max(first), end.min(after));
            blocks.get_mut(block)?.bytecodes.add_all(provenance, n);
        }
        Some(())
    }
}
