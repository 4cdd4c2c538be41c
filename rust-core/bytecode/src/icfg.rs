// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The interprocedural control flow graph of a program (paper §4).
//!
//! A node is a bytecode instruction of a method. An edge says which instruction may execute next.
//! A program with fifty thousand methods has about two million instructions. Nodes are therefore
//! dense numbers and edges lie in flat arrays. Call edges are not stored one by one: call sites
//! with the same [`Target`] share one set of callees, and each set knows its sites. A call edge
//! leads from a site to an entry of the site's set. A return edge leads from a return instruction
//! to the instruction after a site whose set contains the method.
//!
//! Static analysis does not show what reflection and callbacks enter. As in the paper's section 4
//! (*Discussions*), a site whose callee may lie outside the graph ([`Callees::outside`]) is
//! connected to all methods that can be entered from outside.

mod build;
mod callees;
mod shared;

pub use callees::{ByName, CallSite, CalleeResolver, Callees, Target};
pub use shared::SharedIcfg;

use crate::cfg::{EdgeKind, HandlerRow, reachable_rows};
use crate::opcode::{Opcode, Transfer};
use jportal_units::{Bci, MethodId};
use std::ops::Range;

/// An instruction of the program. Numbers are dense, in the order of methods and, within a
/// method, of bcis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Node(pub u32);

impl Node {
    const fn at(self) -> usize {
        self.0 as usize
    }
}

/// Index of the set that contains the sites that may call out of the graph, and the methods that
/// can be entered from outside.
const OUTSIDE: u32 = 0;

/// Marks a byte inside an instruction. A method has at most 65,535 bytes of code (JVMS 4.7.3), so
/// this value is never the index of a node.
const INSIDE: u16 = u16::MAX;

/// The graph; see the module's documentation.
#[derive(Debug, Default)]
pub struct Icfg {
    opcodes: Box<[Opcode]>,
    /// One bit per node: whether it transfers control, and (`calls`) whether it calls or returns.
    transfers: Box<[u64]>,
    calls: Box<[u64]>,
    bcis: Box<[Bci]>,
    methods: Box<[MethodId]>,
    /// First node of each method, then the number of nodes.
    first: Box<[u32]>,
    /// Where each method's bytecodes begin in `at_bci`, then the length of `at_bci`.
    code_first: Box<[u32]>,
    /// For each byte of code up to the last instruction: the index, within its method, of the
    /// node that begins there, or [`INSIDE`].
    at_bci: Box<[u16]>,
    /// First edge of each node, then the number of edges. The first slot of an invoke contains
    /// its set instead of an edge.
    edge_first: Box<[u32]>,
    edge_to: Box<[u32]>,
    edge_kinds: Box<[EdgeKind]>,
    /// First row of each method, then the number of rows. Rows use node numbers.
    row_first: Box<[u32]>,
    rows: Box<[HandlerRow]>,
    /// `(target, source)` of the edges that do not lead to the next instruction, ascending.
    jumps: Box<[(Node, Node)]>,
    sets: Sets,
    left_out: Vec<MethodId>,
}

/// Sets of callees with their sites. Nodes of one set ascend by opcode, then by number.
#[derive(Debug, Default)]
struct Sets {
    entry_first: Box<[u32]>,
    entries: Box<[Node]>,
    after_first: Box<[u32]>,
    behind: Box<[Node]>,
    passes: Box<[bool]>,
    outside: Box<[bool]>,
    unknown: Box<[bool]>,
    /// The sets of sites that may call any method; there are few.
    calling_any: Box<[u32]>,
    /// The sets that contain each method.
    of_first: Box<[u32]>,
    of: Box<[u32]>,
}

/// Up to this number of nodes are searched one by one.
const FEW: usize = 16;

fn slice<'a, T>(first: &[u32], all: &'a [T], at: usize) -> &'a [T] {
    match (first.get(at), first.get(at + 1)) {
        (Some(&a), Some(&b)) => &all[a as usize..b as usize],
        _ => &[],
    }
}

impl Icfg {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.opcodes.len()
    }
    /// Whether the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.opcodes.is_empty()
    }
    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.opcodes.len() as u32).map(Node)
    }
    /// Number of methods, with code or without.
    pub fn method_count(&self) -> usize {
        self.first.len().saturating_sub(1)
    }
    /// The opcode of `node`.
    #[inline]
    pub fn opcode(&self, node: Node) -> Opcode {
        self.opcodes[node.at()]
    }
    /// For up to 64 consecutive nodes: which of them transfer control, and which are invokes or
    /// returns. One bit each, the lowest for the first node.
    ///
    /// # Panics
    /// If one of them is not in the graph.
    #[inline]
    pub fn transfers(&self, nodes: Range<u32>) -> (u64, u64) {
        let (at, shift) = (nodes.start as usize / 64, nodes.start % 64);
        let behind = at + usize::from(nodes.end.saturating_sub(1) as usize / 64 > at);
        // The bits shifted out of one word come from the next.
        let bits = |all: &[u64]| all[at] >> shift | (all[behind] << 1) << (63 - shift);
        let own = u64::MAX.checked_shl(nodes.len() as u32).map_or(u64::MAX, |others| !others);
        (bits(&self.transfers) & own, bits(&self.calls) & own)
    }
    /// The bci of `node`.
    #[inline]
    pub fn bci(&self, node: Node) -> Bci {
        self.bcis[node.at()]
    }
    /// The method of `node`.
    #[inline]
    pub fn method(&self, node: Node) -> MethodId {
        self.methods[node.at()]
    }
    /// The nodes of `method`.
    pub fn nodes_of(&self, method: MethodId) -> Range<u32> {
        let at = method.0 as usize;
        match (self.first.get(at), self.first.get(at + 1)) {
            (Some(&a), Some(&b)) => a..b,
            _ => 0..0,
        }
    }
    /// The node at `bci` of `method`.
    pub fn node_at(&self, method: MethodId, bci: Bci) -> Option<Node> {
        let at = method.0 as usize;
        let code = slice(&self.code_first, &self.at_bci, at);
        let index = code.get(usize::from(bci.0)).filter(|index| **index != INSIDE)?;
        Some(Node(self.first[at] + u32::from(*index)))
    }
    /// The first node of `method`; `None` for one without code.
    pub fn entry(&self, method: MethodId) -> Option<Node> {
        let nodes = self.nodes_of(method);
        (!nodes.is_empty()).then_some(Node(nodes.start))
    }
    /// Whether `node` is the first of its method.
    #[inline]
    pub fn is_entry(&self, node: Node) -> bool {
        self.bcis[node.at()] == Bci(0)
    }
    /// Methods whose bytecodes are malformed. The graph has no nodes for them.
    pub fn left_out(&self) -> &[MethodId] {
        &self.left_out
    }

    /// The edges inside the method, without those of exceptions. The edge to the instruction
    /// after an invoke is taken when the callee returns, or at once if the site
    /// [passes](Self::passes).
    #[inline]
    pub fn edges(&self, node: Node) -> impl Iterator<Item = (EdgeKind, Node)> + '_ {
        let range = self.edge_range(node);
        range.map(|i| (self.edge_kinds[i], Node(self.edge_to[i])))
    }
    fn edge_range(&self, node: Node) -> Range<usize> {
        let skip = u32::from(self.opcode(node).transfer() == Transfer::Invoke);
        (self.edge_first[node.at()] + skip) as usize..self.edge_first[node.at() + 1] as usize
    }
    /// The handlers of `node`'s method that an exception thrown at `node` may reach.
    pub fn handlers(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        reachable_rows(self.rows_of(node), node.0).map(|row| Node(row.handler))
    }
    /// Whether an exception thrown at `node` cannot leave the method.
    pub fn catches_all(&self, node: Node) -> bool {
        reachable_rows(self.rows_of(node), node.0).any(|row| row.catches_all)
    }
    fn rows_of(&self, node: Node) -> &[HandlerRow] {
        slice(&self.row_first, &self.rows, self.method(node).0 as usize)
    }
    /// The exception rows of `node`'s method whose handler is `node`.
    pub fn rows_into(&self, node: Node) -> impl Iterator<Item = &HandlerRow> + '_ {
        self.rows_of(node).iter().filter(move |row| row.handler == node.0)
    }
    /// The sources of edges to `node` inside its method, except the edge from the preceding
    /// instruction.
    pub fn jumps_to(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let at = self.jumps.partition_point(|(to, _)| *to < node);
        self.jumps[at..].iter().take_while(move |(to, _)| *to == node).map(|(_, from)| *from)
    }

    fn set(&self, site: Node) -> Option<usize> {
        let invoke = self.opcode(site).transfer() == Transfer::Invoke;
        invoke.then(|| self.edge_to[self.edge_first[site.at()] as usize] as usize)
    }
    /// The entries that the invoke at `site` may call, by opcode (see [`Self::with_opcode`]);
    /// empty for other nodes. A site that calls [outside](Self::is_outside) may also call
    /// [`Self::outside_entries`].
    pub fn callees(&self, site: Node) -> &[Node] {
        self.set(site).map_or(&[], |set| slice(&self.sets.entry_first, &self.sets.entries, set))
    }
    /// Whether control may pass the invoke at `site` without a visible bytecode of a callee
    /// (native methods, intrinsics, unknown callees).
    pub fn passes(&self, site: Node) -> bool {
        self.set(site).is_some_and(|set| self.sets.passes[set])
    }
    /// Whether the invoke at `site` may call something that the graph does not contain.
    pub fn is_outside(&self, site: Node) -> bool {
        self.set(site).is_some_and(|set| self.sets.outside[set])
    }
    /// Whether the graph knows no callee of the invoke at `site`, not even a method without
    /// bytecodes. A VM that described all its methods had not loaded the callee.
    pub fn calls_unknown(&self, site: Node) -> bool {
        self.set(site).is_some_and(|set| self.sets.unknown[set])
    }
    /// Entries of the methods that can be entered from outside, by opcode.
    pub fn outside_entries(&self) -> &[Node] {
        slice(&self.sets.entry_first, &self.sets.entries, OUTSIDE as usize)
    }
    /// The instructions after the sites that may call `method`: one slice per set of callees,
    /// each by opcode. Slices may share nodes.
    pub fn after_calls_of(&self, method: MethodId) -> impl Iterator<Item = &[Node]> + '_ {
        self.sets_of(method).iter().map(|set| self.after_sites_of(*set))
    }
    /// Like [`Self::after_calls_of`], but only sites that may themselves call `method`: see
    /// [`Self::may_call_method`].
    pub fn after_own_calls_of(&self, method: MethodId) -> impl Iterator<Item = &[Node]> + '_ {
        let own = self.sets_of(method).iter().filter(|set| **set != OUTSIDE).chain(&self.sets.calling_any);
        own.map(|set| self.after_sites_of(*set))
    }
    /// The sets of callees that contain `method`.
    fn sets_of(&self, method: MethodId) -> &[u32] {
        slice(&self.sets.of_first, &self.sets.of, method.0 as usize)
    }
    /// The instructions after the sites of a set.
    fn after_sites_of(&self, set: u32) -> &[Node] {
        slice(&self.sets.after_first, &self.sets.behind, set as usize)
    }
    /// The part of `nodes`, which ascend by opcode, that has `opcode`.
    pub fn with_opcode<'a>(&self, nodes: &'a [Node], opcode: Opcode) -> &'a [Node] {
        let start = nodes.partition_point(|n| self.opcode(*n) < opcode);
        let len = nodes[start..].partition_point(|n| self.opcode(*n) == opcode);
        &nodes[start..start + len]
    }
    /// Whether `callee` is an entry that the invoke at `site` may call.
    pub fn may_call(&self, site: Node, callee: Node) -> bool {
        self.names(site, callee) || self.is_outside(site) && self.is_among(self.outside_entries(), callee)
    }
    /// Whether `callee` is an entry that the invoke at `site` itself may call, without calls from
    /// [outside](Self::is_outside).
    pub fn names(&self, site: Node, callee: Node) -> bool {
        self.is_among(self.callees(site), callee)
    }
    /// Whether `nodes`, which ascend by opcode, contain `node`.
    fn is_among(&self, nodes: &[Node], node: Node) -> bool {
        // For few nodes, comparing the numbers costs less than reading the opcodes.
        if nodes.len() <= FEW {
            return nodes.contains(&node);
        }
        self.with_opcode(nodes, self.opcode(node)).binary_search(&node).is_ok()
    }
    /// Whether the invoke at `site` may itself call `method`, which may have no bytecodes.
    /// Callbacks from outside do not count.
    pub fn may_call_method(&self, site: Node, method: MethodId) -> bool {
        let own = |set: &u32| self.sets_of(method).contains(set) || self.sets.calling_any.contains(set);
        self.set(site).is_some_and(|set| own(&(set as u32)))
    }
    /// Whether a frame of `method` may return to the invoke at `site`, including callbacks from
    /// outside. That is, whether the instruction after the site is in [`Self::after_calls_of`].
    pub fn may_return_to(&self, site: Node, method: MethodId) -> bool {
        let sets = self.sets_of(method);
        let own =
            |set: usize| sets.contains(&(set as u32)) || self.sets.outside[set] && sets.contains(&OUTSIDE);
        self.set(site).is_some_and(own)
    }
    /// The invoke before `node`, if its callee returns to `node`.
    pub fn site_before(&self, node: Node) -> Option<Node> {
        let site = node.0.checked_sub(1).map(Node)?;
        let behind = |site: &Node| self.edges(*site).any(|e| e == (EdgeKind::Behind, node));
        Some(site).filter(|site| self.opcode(*site).transfer() == Transfer::Invoke).filter(behind)
    }
    /// Number of bytes that the graph occupies.
    pub fn memory(&self) -> usize {
        let sets = &self.sets;
        let per_node =
            self.opcodes.len() * (1 + 2 + 4) + self.transfers.len() * 16 + self.edge_first.len() * 4;
        let edges = self.edge_to.len() * 5 + self.jumps.len() * 8 + self.rows.len() * size_of::<HandlerRow>();
        let per_method = self.at_bci.len() * 2
            + (self.code_first.len()
                + self.first.len()
                + self.row_first.len()
                + sets.of_first.len()
                + sets.of.len())
                * 4;
        let per_set = (sets.entry_first.len() + sets.after_first.len()) * 4 + sets.passes.len() * 3;
        per_node + edges + per_method + per_set + (sets.entries.len() + sets.behind.len()) * 4
    }
}
