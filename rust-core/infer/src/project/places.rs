// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The index of the ICFG that finds the start of a segment without trying every node.
//!
//! A *run* is a straight line of instructions up to and including the next transfer of control.
//! A segment shows whole runs between two of its symbols that are transfers. The index has, by
//! hash, the nodes that begin a given sequence of one, two or three runs. The runs of a
//! sequence are joined by `goto`s and by conditional branches with a known outcome, because
//! these determine the next run. Hashes may collide: an entry of the index is a candidate.

use crate::segment::{Outcome, Symbol};
use jportal_bytecode::{EdgeKind, Icfg, Node, Opcode, Transfer};
use jportal_units::MethodId;

/// The number of runs in the longest sequence.
const RUNS: usize = 3;

/// The index. It takes 8 bytes per sequence, and 4 per node, per return and per method.
#[derive(Clone, Debug)]
pub struct Places {
    /// The index of each opcode's first node in `nodes`; the last entry is the number of nodes.
    first: Box<[u32]>,
    /// All nodes by opcode, then by number.
    nodes: Box<[Node]>,
    /// The returns of all methods, ascending, and the index of each method's first one; the
    /// last entry is their number.
    returns: Box<[Node]>,
    first_return: Box<[u32]>,
    /// The sequences, by their number of runs.
    sequences: [Box<[Sequence]>; RUNS],
}

/// The hash of a sequence and, in the lower half, the node that it begins at: one integer sorts
/// faster than two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Sequence(u64);

impl Sequence {
    const fn new(hash: u32, begin: Node) -> Self {
        Self((hash as u64) << 32 | begin.0 as u64)
    }
    const fn hash(self) -> u32 {
        (self.0 >> 32) as u32
    }
    const fn begin(self) -> Node {
        Node(self.0 as u32)
    }
}

/// The index of each opcode's first node, ending with the number of nodes; and all nodes by
/// opcode, then by number.
fn by_opcode(icfg: &Icfg) -> (Box<[u32]>, Box<[Node]>) {
    let mut first = vec![0; 257];
    for node in icfg.nodes() {
        first[usize::from(icfg.opcode(node).0) + 1] += 1;
    }
    for opcode in 0..256 {
        first[opcode + 1] += first[opcode];
    }
    let mut next = first.clone();
    let mut all = vec![Node(0); icfg.len()];
    for node in icfg.nodes() {
        let next = &mut next[usize::from(icfg.opcode(node).0)];
        all[*next as usize] = node;
        *next += 1;
    }
    (first.into(), all.into())
}

/// A sequence of runs in the symbols of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The symbol at which it begins.
    pub index: usize,
    /// The number of runs.
    runs: usize,
    hash: u32,
}

impl Places {
    /// The index of `icfg`.
    pub fn new(icfg: &Icfg) -> Self {
        let (first, nodes) = by_opcode(icfg);
        let mut sequences: [Vec<Sequence>; RUNS] = Default::default();
        for head in heads(icfg) {
            add_sequences(icfg, head, head, Hash::default(), 0, &mut sequences);
        }
        let sequences = sequences.map(|mut all| {
            all.sort_unstable();
            all.dedup();
            all.into_boxed_slice()
        });
        let is_return = |n: &Node| icfg.opcode(*n).transfer() == Transfer::Return;
        let returns: Box<[Node]> = icfg.nodes().filter(is_return).collect();
        let first_of = |m: usize| returns.partition_point(|n| (icfg.method(*n).0 as usize) < m) as u32;
        let first_return = (0..=icfg.method_count()).map(first_of).collect();
        Self { first, nodes, returns, first_return, sequences }
    }
    /// The nodes with `opcode`, ascending.
    pub fn of(&self, opcode: Opcode) -> &[Node] {
        let at = usize::from(opcode.0);
        &self.nodes[self.first[at] as usize..self.first[at + 1] as usize]
    }
    /// The nodes with `opcode` from node `start` to before node `end`.
    pub fn between(&self, opcode: Opcode, start: u32, end: u32) -> &[Node] {
        let all = self.of(opcode);
        let from = all.partition_point(|n| n.0 < start);
        &all[from..from.max(all.partition_point(|n| n.0 < end))]
    }
    /// The returns of `method` with `opcode`, ascending.
    pub fn returns_of<'a>(
        &'a self,
        icfg: &'a Icfg,
        method: MethodId,
        opcode: Opcode,
    ) -> impl Iterator<Item = Node> + 'a {
        let at = method.0 as usize;
        let all = match (self.first_return.get(at), self.first_return.get(at + 1)) {
            (Some(&from), Some(&to)) => &self.returns[from as usize..to as usize],
            _ => &[],
        };
        all.iter().copied().filter(move |node| icfg.opcode(*node) == opcode)
    }
    /// The nodes at which `window` may begin.
    pub fn candidates(&self, window: &Window) -> impl ExactSizeIterator<Item = Node> + '_ {
        let all = &self.sequences[window.runs - 1];
        let from = all.partition_point(|s| s.hash() < window.hash);
        let len = all[from..].partition_point(|s| s.hash() == window.hash);
        all[from..from + len].iter().map(|s| s.begin())
    }
    /// The longest window at symbol `index`, which begins a run; `None` if the run is
    /// incomplete or contains an exception.
    pub fn window(symbols: &[Symbol], index: usize) -> Option<Window> {
        let (mut hash, mut runs, mut best) = (Hash::default(), 0, None);
        for symbol in &symbols[index..] {
            if symbol.throws() {
                break;
            }
            hash.add(symbol.opcode.0);
            if symbol.opcode.transfer() == Transfer::None {
                continue;
            }
            runs += 1;
            best = Some(Window { index, runs, hash: hash.value() });
            let outcome = match symbol.opcode.transfer() {
                Transfer::If if symbol.outcome != Outcome::Open => symbol.outcome,
                Transfer::Goto => Outcome::Open,
                _ => break,
            };
            if runs == RUNS {
                break;
            }
            hash.add(outcome as u8);
        }
        best
    }
    /// The size of the index in bytes.
    pub fn memory(&self) -> usize {
        (self.nodes.len() + self.returns.len() + self.first_return.len()) * 4
            + self.sequences.iter().map(|s| s.len() * 8).sum::<usize>()
    }
}

/// The hash of a sequence (FNV-1a).
#[derive(Clone, Copy)]
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    const fn add(&mut self, byte: u8) {
        self.0 = (self.0 ^ byte as u64).wrapping_mul(0x0100_0000_01b3);
    }
    const fn value(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

/// The nodes that may follow a transfer of control.
fn heads(icfg: &Icfg) -> Vec<Node> {
    let mut is_head = vec![false; icfg.len()];
    for n in icfg.nodes() {
        is_head[n.0 as usize] |= icfg.is_entry(n) || icfg.rows_into(n).next().is_some();
        if icfg.opcode(n).transfer() != Transfer::None {
            icfg.edges(n).for_each(|(_, to)| is_head[to.0 as usize] = true);
        }
    }
    icfg.nodes().filter(|n| is_head[n.0 as usize]).collect()
}

/// Adds the sequences that begin at `head`, of which `runs` runs have been hashed; the next run
/// begins at `at`.
fn add_sequences(
    icfg: &Icfg,
    head: Node,
    at: Node,
    hash: Hash,
    runs: usize,
    sequences: &mut [Vec<Sequence>; RUNS],
) {
    let (mut hash, mut at) = (hash, at);
    while icfg.opcode(at).transfer() == Transfer::None {
        hash.add(icfg.opcode(at).0);
        match icfg.edges(at).next() {
            Some((_, next)) => at = next,
            None => return,
        }
    }
    hash.add(icfg.opcode(at).0);
    sequences[runs].push(Sequence::new(hash.value(), head));
    if runs + 1 == RUNS {
        return;
    }
    for (kind, next) in icfg.edges(at) {
        let outcome = match (icfg.opcode(at).transfer(), kind) {
            (Transfer::If, EdgeKind::Taken) => Outcome::Taken,
            (Transfer::If, _) => Outcome::NotTaken,
            (Transfer::Goto, _) => Outcome::Open,
            _ => return,
        };
        let mut hash = hash;
        hash.add(outcome as u8);
        add_sequences(icfg, head, next, hash, runs + 1, sequences);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{at, graph, method};

    #[test]
    fn nodes_by_opcode_and_heads_of_runs() {
        // iload_0, ifeq 6, iconst_0, ireturn, iconst_1, ireturn; return; goto 0.
        let choice = method("choice", &[26, 153, 0, 5, 3, 172, 4, 172]);
        let g = graph(vec![choice, method("f", &[177]), method("endless", &[167, 0, 0])]);
        let places = Places::new(&g);
        for opcode in (0..=255).map(Opcode) {
            let expected: Vec<Node> = g.nodes().filter(|n| g.opcode(*n) == opcode).collect();
            assert_eq!(places.of(opcode), expected, "{opcode:?}");
        }
        assert_eq!(heads(&g), [at(&g, 0, &[0, 4, 6]), at(&g, 1, &[0]), at(&g, 2, &[0])].concat());
    }

    #[test]
    fn returns_by_method() {
        // iload_0, ifeq 6, iconst_0, ireturn, iconst_1, ireturn; a method without code; return;
        // goto 0.
        let kinds = [Opcode::IRETURN, Opcode::RETURN];
        let choice = method("choice", &[26, 153, 0, 5, 3, 172, 4, 172]);
        let mut native = method("native", &[]);
        native.access_flags = 0x108;
        let g = graph(vec![choice, native, method("f", &[177]), method("endless", &[167, 0, 0])]);
        let places = Places::new(&g);
        let returns = kinds.map(|kind| {
            (0..5).map(|m| places.returns_of(&g, MethodId(m), kind).collect()).collect::<Vec<Vec<Node>>>()
        });
        assert_eq!(returns[0], [at(&g, 0, &[5, 7]), vec![], vec![], vec![], vec![]]);
        assert_eq!(returns[1], [vec![], vec![], at(&g, 2, &[0]), vec![], vec![]]);
    }
}
