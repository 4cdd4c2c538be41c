// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The numbering of a method's acyclic paths (Ball and Larus, MICRO 1996).
//!
//! Nodes are the basic blocks, see [`Blocks`](jportal_bytecode::Blocks), that a depth-first search
//! from block 0, and then from the exception handlers in ascending order, reaches. The successors
//! of a block are, in this order: the next block and the branch's target; the targets of a switch,
//! ascending; the target of a `jsr`; the instructions after all `jsr`, ascending, for `ret`. Two
//! ways to the same block are one edge, because the flow of bytecodes does not distinguish them.
//!
//! An edge to a block on the stack of the search is a *back edge*. It ends a path, and another
//! path begins at its target. Each path has an identity between 0 and the number of paths: the sum
//! of the values of its edges, beginning with the edge from ENTRY. The edges from ENTRY lead to
//! block 0, then to the targets of back edges, ascending, then to handlers, ascending; to each
//! block once.

use jportal_bytecode::{BytecodeError, Method};
use jportal_units::Bci;

use super::number::Builder;

/// Maximum number of paths that begin at a block. If there are more, all edges out of the block
/// end paths, as back edges do.
pub const LIMIT: u64 = 1 << 31;

/// An instruction or block that does not exist.
pub(super) const NONE: u16 = u16::MAX;

/// What an edge does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EdgeKind {
    /// The path continues.
    Within,
    /// A back edge: one path ends, another one begins.
    Back,
    /// As a back edge, because too many paths begin at its source.
    Limit,
}

/// An edge between blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    /// Number of the block that follows.
    pub(super) to: u16,
    /// What taking the edge adds to the identity of the path.
    pub(super) value: u64,
    pub(super) kind: EdgeKind,
}

/// How an activation ends with the last instruction of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    Return,
    Throw,
    /// The code ends, or a `ret` has no place to return to. Verified code has no such block.
    Nothing,
}

/// A basic block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NumberedBlock {
    /// Numbers of its first and last instruction.
    pub(super) first: u16,
    pub(super) last: u16,
    /// Edges in the order of successors. Empty if the activation ends here.
    pub(super) edges: Box<[Edge]>,
    /// Whether the edges are sorted by block.
    pub(super) sorted: bool,
    /// Set if the activation ends here.
    pub(super) stop: Option<Stop>,
    /// The value of the edge from ENTRY, if there is one.
    pub(super) entry: Option<u64>,
    /// Whether only edges from ENTRY lead here, so that any arrival begins a path.
    pub(super) only_entry: bool,
}

impl NumberedBlock {
    /// The edge to another block.
    #[inline]
    pub(super) fn edge(&self, to: u16) -> Option<Edge> {
        if self.sorted && self.edges.len() > 8 {
            let at = self.edges.binary_search_by_key(&to, |e| e.to).ok()?;
            return self.edges.get(at).copied();
        }
        self.edges.iter().find(|e| e.to == to).copied()
    }
}

/// An edge from ENTRY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryEdge {
    pub(super) block: u16,
    pub(super) value: u64,
    pub(super) begin: Begin,
}

/// How paths with the same first block begin. More than one can hold: block 0 may be the target
/// of a back edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    /// The first bytecode.
    pub bci: Bci,
    /// At the method's entry.
    pub entry: bool,
    /// After a back edge.
    pub head: bool,
    /// After an edge out of a block at which too many paths begin.
    pub limit: bool,
    /// At an exception handler.
    pub handler: bool,
}

/// How a path ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With a back edge.
    Back {
        /// The last bytecode.
        from: Bci,
        /// The bytecode that follows.
        to: Bci,
    },
    /// With an edge out of a block at which too many paths begin.
    Limit {
        /// The last bytecode.
        from: Bci,
        /// The bytecode that follows.
        to: Bci,
    },
    /// With a return bytecode.
    Return(Bci),
    /// With `athrow`.
    Throw(Bci),
    /// With the last bytecode of code that has no successor.
    Nothing(Bci),
}

/// A path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// How it begins.
    pub begin: Begin,
    /// The first bytecodes of its blocks, in order.
    pub blocks: Vec<Bci>,
    /// How it ends.
    pub end: End,
}

/// The paths of one method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    /// Numbers of instructions by bci.
    pub(super) index: Box<[u16]>,
    /// The bcis of the instructions.
    pub(super) starts: Box<[Bci]>,
    /// The block of each instruction.
    pub(super) block_of: Box<[u16]>,
    pub(super) blocks: Box<[NumberedBlock]>,
    /// By value.
    pub(super) entries: Box<[EntryEdge]>,
    pub(super) paths: u64,
    pub(super) limited: Box<[Bci]>,
}

impl Numbering {
    /// Numbers the paths of a method. A method without bytecodes has none.
    ///
    /// # Errors
    /// If the bytecodes are malformed.
    pub fn of(method: &Method) -> Result<Self, BytecodeError> {
        Self::with_limit(method, LIMIT)
    }
    /// As [`Self::of`], with at most `limit` paths from a block.
    ///
    /// # Errors
    /// If the bytecodes are malformed.
    pub fn with_limit(method: &Method, limit: u64) -> Result<Self, BytecodeError> {
        if method.code.is_empty() {
            return Ok(Self::default());
        }
        Ok(Builder::new(method)?.number(limit))
    }
    /// The number of paths. Identities are below it.
    pub const fn paths(&self) -> u64 {
        self.paths
    }
    /// The blocks at which more than [`LIMIT`] paths would begin. Their edges end paths.
    pub fn limited(&self) -> &[Bci] {
        &self.limited
    }
    /// The path of an identity.
    pub fn path(&self, id: u64) -> Option<Path> {
        let (begin, walked, end) = self.walk(id)?;
        let blocks = walked.iter().map(|b| self.first_of(*b)).collect();
        Some(Path { begin, blocks, end })
    }
    /// The identity of a path.
    pub fn id_of(&self, path: &Path) -> Option<u64> {
        let mut blocks = path.blocks.iter().map(|bci| self.block_at(*bci));
        let mut at = blocks.next()??;
        let mut id = self.blocks[usize::from(at)].entry?;
        for to in blocks {
            let edge = self.blocks[usize::from(at)].edge(to?)?;
            if edge.kind != EdgeKind::Within {
                return None;
            }
            (at, id) = (edge.to, id + edge.value);
        }
        let block = &self.blocks[usize::from(at)];
        match path.end {
            End::Back { to, .. } | End::Limit { to, .. } => {
                let edge = block.edge(self.block_at(to)?)?;
                (edge.kind != EdgeKind::Within).then_some(id + edge.value)
            }
            _ => block.stop.map(|_| id),
        }
    }
    /// The number of bytecodes of a path.
    pub fn len_of(&self, id: u64) -> Option<u64> {
        let (_, walked, _) = self.walk(id)?;
        Some(walked.iter().map(|b| self.block(*b)).map(|b| u64::from(b.last - b.first) + 1).sum())
    }
    /// The source lines of some blocks: `4-8,15-18,23`. Empty without a line table.
    pub fn lines(&self, method: &Method, blocks: &[Bci]) -> String {
        let blocks = blocks.iter().filter_map(|b| self.block_at(*b)).map(|b| self.block(b));
        let bcis = blocks.flat_map(|b| &self.starts[b.first.into()..=b.last.into()]);
        let mut lines: Vec<u16> = bcis.filter_map(|bci| method.line_at(*bci)).collect();
        lines.sort_unstable();
        lines.dedup();
        let mut text = String::new();
        for range in lines.chunk_by(|a, b| a + 1 == *b) {
            let comma = if text.is_empty() { "" } else { "," };
            match range {
                [line] => text.push_str(&format!("{comma}{line}")),
                [first, .., last] => text.push_str(&format!("{comma}{first}-{last}")),
                [] => {}
            }
        }
        text
    }
    /// The blocks of the beginning of a path, up to the block of a bytecode. `prefix`: the sum of
    /// the values of its edges.
    pub fn blocks_of_prefix(&self, prefix: u64, bci: Bci) -> Option<Vec<Bci>> {
        let last = self.block_of(self.index_of(bci)?);
        // The path with that identity continues with the first edge of each block.
        let (_, walked, _) = self.walk(prefix)?;
        let n = walked.iter().position(|b| *b == last)?;
        Some(walked[..=n].iter().map(|b| self.first_of(*b)).collect())
    }
    fn walk(&self, id: u64) -> Option<(Begin, Vec<u16>, End)> {
        if id >= self.paths {
            return None;
        }
        let n = self.entries.partition_point(|e| e.value <= id).checked_sub(1)?;
        let EntryEdge { block, value, begin } = self.entries[n];
        let (mut at, mut rest, mut walked) = (block, id - value, Vec::new());
        loop {
            let block = self.block(at);
            let from = self.starts[usize::from(block.last)];
            walked.push(at);
            let Some(n) = block.edges.partition_point(|e| e.value <= rest).checked_sub(1) else {
                let end = match block.stop? {
                    Stop::Return => End::Return(from),
                    Stop::Throw => End::Throw(from),
                    Stop::Nothing => End::Nothing(from),
                };
                return Some((begin, walked, end));
            };
            let edge = block.edges[n];
            let to = self.first_of(edge.to);
            match edge.kind {
                EdgeKind::Within => (at, rest) = (edge.to, rest - edge.value),
                EdgeKind::Back => return Some((begin, walked, End::Back { from, to })),
                EdgeKind::Limit => return Some((begin, walked, End::Limit { from, to })),
            }
        }
    }
    /// The number of the instruction at `bci`.
    #[inline]
    pub(super) fn index_of(&self, bci: Bci) -> Option<u16> {
        self.index.get(usize::from(bci.get())).copied().filter(|i| *i != NONE)
    }
    /// The bci of an instruction.
    pub(super) fn bci_of(&self, index: u16) -> Bci {
        self.starts[usize::from(index)]
    }
    /// The number of an instruction's block.
    #[inline]
    pub(super) fn block_of(&self, index: u16) -> u16 {
        self.block_of[usize::from(index)]
    }
    #[inline]
    pub(super) fn block(&self, number: u16) -> &NumberedBlock {
        &self.blocks[usize::from(number)]
    }
    pub(super) fn first_of(&self, block: u16) -> Bci {
        self.starts[usize::from(self.block(block).first)]
    }
    fn block_at(&self, bci: Bci) -> Option<u16> {
        let index = self.index_of(bci)?;
        Some(self.block_of(index)).filter(|b| self.block(*b).first == index)
    }
}
