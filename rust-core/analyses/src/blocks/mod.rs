// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts: how often each block, bytecode, line, branch way and exception way was executed.
//!
//! A bytecode is executed when it begins: one that throws counts. A block is executed when its
//! leader is. Every count is what was seen, by provenance. Where the flow says that it does not
//! know what ran (module `hidden`), a count is a lower bound, and the item says so.
//!
//! Memory is bounded by the code of the executed methods, per thread.

mod code;
mod count;
mod facts;
mod instruction;
mod list;
mod planes;
mod report;
mod rows;
mod text;

#[cfg(test)]
mod blocks_tests;
#[cfg(test)]
pub(crate) mod interpreter;

use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_bytecode::MethodTable;
use jportal_flow::{Analysis, Enough, Event, Exclude, ThreadInfo};

pub(crate) use self::code::{Code, Parts};
pub(crate) use self::count::ExecutionCounter;
pub(crate) use self::facts::{Facts, OfLine, perhaps};
pub(crate) use self::planes::{MethodCounts, Table, Throw};
pub(crate) use self::rows::{ClassRows, MethodVariants};
use crate::hidden::{Hidden, Inlined};
use crate::names::Naming;

pub use self::facts::State;
pub use self::planes::Entries;
pub use self::report::{
    BlockCount, Blocks, BlocksOptions, BranchWay, BytecodeCount, ClassBlocks, ExceptionWay, Level, LineCount,
    MethodBlocks,
};
pub use self::text::BlockRow;

/// Counts executions in the flows of all threads.
#[derive(Debug)]
pub struct CountsAnalysis {
    pub(crate) code: Code,
    pub(crate) table: Table,
    pub(crate) hidden: Hidden,
    exclude: Exclude,
    pub(crate) naming: Naming,
}

impl CountsAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        let (table, hidden, exclude, naming) = Default::default();
        Self { code: Code::new(methods, inlined), table, hidden, exclude, naming }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }
}

/// The counts of one thread.
#[derive(Debug, Default)]
pub struct CountsThread(ExecutionCounter);

impl Analysis for CountsAnalysis {
    type Thread = CountsThread;

    fn begin(&self, _: &ThreadInfo) -> CountsThread {
        CountsThread::default()
    }
    fn events(&self, thread: &mut CountsThread, events: &[Event]) -> ControlFlow<Enough> {
        for event in events {
            thread.0.event(&self.code, event, self.exclude);
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: CountsThread) {
        self.hidden.merge(thread.0.follower.end());
        self.table.merge(thread.0.table);
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}
