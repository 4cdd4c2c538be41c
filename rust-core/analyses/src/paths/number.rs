// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Numbers the paths of a method.

use jportal_bytecode::{Blocks, BytecodeError, Cfg, Method, Transfer, instructions};
use jportal_units::Bci;

use super::numbering::{Begin, Edge, EdgeKind, EntryEdge, NONE, NumberedBlock, Numbering, Stop};

/// Where the search is with a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchMark {
    New,
    OnStack,
    Done,
}

/// Numbers the paths of one method.
pub(super) struct Builder {
    of: Numbering,
    handlers: Vec<u16>,
    marks: Vec<SearchMark>,
    /// The number of paths that begin at each block.
    counts: Vec<u64>,
    heads: Vec<u16>,
    limits: Vec<u16>,
}

impl Builder {
    pub(super) fn new(method: &Method) -> Result<Self, BytecodeError> {
        let (cfg, leaders) = (Cfg::of(method)?, Blocks::of(method)?);
        let starts: Box<[Bci]> = cfg.starts().into();
        let mut index = vec![NONE; method.code.len()];
        (0..).zip(&starts).for_each(|(n, bci)| index[usize::from(bci.get())] = n);
        let mut block_of = Vec::with_capacity(starts.len());
        let mut number = 0;
        for (n, bci) in starts.iter().enumerate() {
            number += u16::from(n > 0 && leaders.is_leader(*bci));
            block_of.push(number);
        }
        let transfers: Vec<Transfer> =
            instructions(&method.code).map_while(Result::ok).map(|i| i.opcode.transfer()).collect();
        let mut blocks = Vec::new();
        for range in (0..starts.len() as u16)
            .collect::<Vec<_>>()
            .chunk_by(|a, b| block_of[usize::from(*a)] == block_of[usize::from(*b)])
        {
            let (first, last) = (range[0], range[range.len() - 1]);
            blocks.push(block(&cfg, &block_of, (first, last), transfers[usize::from(last)]));
        }
        let mut handlers: Vec<u16> = cfg.rows().iter().map(|r| block_of[r.handler as usize]).collect();
        handlers.sort_unstable();
        handlers.dedup();
        let n = blocks.len();
        let of = Numbering {
            index: index.into(),
            starts,
            block_of: block_of.into(),
            blocks: blocks.into(),
            ..Numbering::default()
        };
        let (marks, counts) = (vec![SearchMark::New; n], vec![0; n]);
        Ok(Self { of, handlers, marks, counts, heads: Vec::new(), limits: Vec::new() })
    }
    pub(super) fn number(mut self, limit: u64) -> Numbering {
        self.search(0, limit);
        for handler in self.handlers.clone() {
            self.search(handler, limit);
        }
        self.enter();
        self.of
    }
    /// The depth-first search, without recursion. A block's number of paths is known when the
    /// search leaves it.
    fn search(&mut self, root: u16, limit: u64) {
        if self.marks[usize::from(root)] != SearchMark::New {
            return;
        }
        self.marks[usize::from(root)] = SearchMark::OnStack;
        let mut stack = vec![(root, 0)];
        while let Some((block, next)) = stack.last_mut() {
            let (at, n) = (usize::from(*block), *next);
            let Some(edge) = self.of.blocks[at].edges.get_mut(n) else {
                self.close(at, limit);
                stack.pop();
                continue;
            };
            *next += 1;
            let to = edge.to;
            match self.marks[usize::from(to)] {
                SearchMark::New => {
                    self.marks[usize::from(to)] = SearchMark::OnStack;
                    stack.push((to, 0));
                }
                SearchMark::OnStack => {
                    edge.kind = EdgeKind::Back;
                    self.heads.push(to);
                }
                SearchMark::Done => {}
            }
        }
    }
    /// Gives the edges of a block their values.
    fn close(&mut self, at: usize, limit: u64) {
        self.marks[at] = SearchMark::Done;
        let block = &mut self.of.blocks[at];
        let mut sum: u64 = 0;
        for edge in &mut block.edges {
            edge.value = sum;
            sum += if edge.kind == EdgeKind::Within { self.counts[usize::from(edge.to)] } else { 1 };
        }
        if sum > limit {
            sum = 0;
            for edge in &mut block.edges {
                if edge.kind == EdgeKind::Within {
                    edge.kind = EdgeKind::Limit;
                    self.limits.push(edge.to);
                }
                edge.value = sum;
                sum += 1;
            }
        }
        self.counts[at] = sum.max(1);
    }
    /// The edges from ENTRY.
    fn enter(&mut self) {
        let mut heads = [&self.heads[..], &self.limits[..]].concat();
        heads.sort_unstable();
        let mut entries: Vec<EntryEdge> = Vec::new();
        for &block in [0].iter().chain(&heads).chain(&self.handlers) {
            if self.of.block(block).entry.is_some() {
                continue;
            }
            let begin = Begin {
                bci: self.of.first_of(block),
                entry: block == 0,
                head: self.heads.contains(&block),
                limit: self.limits.contains(&block),
                handler: self.handlers.binary_search(&block).is_ok(),
            };
            let value = self.of.paths;
            entries.push(EntryEdge { block, value, begin });
            self.of.blocks[usize::from(block)].entry = Some(value);
            self.of.paths += self.counts[usize::from(block)];
        }
        let mut within = vec![false; self.of.blocks.len()];
        let mut limited = Vec::new();
        for (n, block) in
            self.of.blocks.iter().enumerate().filter(|(n, _)| self.marks[*n] == SearchMark::Done)
        {
            let edges = block.edges.iter().filter(|e| e.kind == EdgeKind::Within);
            edges.for_each(|e| within[usize::from(e.to)] = true);
            if block.edges.iter().any(|e| e.kind == EdgeKind::Limit) {
                limited.push(self.of.first_of(n as u16));
            }
        }
        for (block, within) in self.of.blocks.iter_mut().zip(within) {
            block.only_entry = block.entry.is_some() && !within;
        }
        (self.of.entries, self.of.limited) = (entries.into(), limited.into());
    }
}

/// A block with the edges from its last instruction.
fn block(cfg: &Cfg, block_of: &[u16], (first, last): (u16, u16), transfer: Transfer) -> NumberedBlock {
    let mut edges: Vec<Edge> = Vec::new();
    for edge in cfg.edges(last.into()) {
        let to = block_of[edge.to as usize];
        // Sorted lists of targets may be long, but have no duplicates.
        let twice = transfer == Transfer::If && edges.iter().any(|e| e.to == to);
        if !twice {
            edges.push(Edge { to, value: 0, kind: EdgeKind::Within });
        }
    }
    let sorted = edges.is_sorted_by_key(|e| e.to);
    let stop = edges.is_empty().then_some(match transfer {
        Transfer::Return => Stop::Return,
        Transfer::Throw => Stop::Throw,
        _ => Stop::Nothing,
    });
    NumberedBlock { first, last, edges: edges.into(), sorted, stop, entry: None, only_entry: false }
}
