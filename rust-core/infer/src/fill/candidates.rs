// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The complete segments with the anchor instructions of a gap, found for all gaps in one pass.

use super::{Captured, Hole, Parameters};
use hashbrown::HashMap;
use jportal_bytecode::Node;
use std::ops::Range;

/// For each gap, the positions after occurrences of its anchor instructions, where complete
/// segments begin.
#[derive(Debug, Default)]
pub struct Candidates {
    /// For each gap, the number of its anchor instructions; gaps with the same ones share it.
    /// `None` if too few instructions precede the gap.
    of_hole: Vec<Option<u32>>,
    positions: Vec<Vec<u32>>,
    left_out: Vec<u64>,
}

impl Candidates {
    /// Goes through `captured` once. A gap after fewer instructions than there are anchors has
    /// no candidates.
    ///
    /// The end of a segment is no candidate, because nothing follows it there. This holds for
    /// the end of the IS itself, too.
    pub fn collect(captured: &Captured, holes: &[Hole], parameters: &Parameters) -> Self {
        let len = parameters.anchors.max(1);
        let mut all = Self::default();
        let mut numbers: HashMap<&[Node], u32> = HashMap::new();
        for hole in holes {
            let nodes = captured.segment(hole.before);
            all.of_hole.push(nodes.len().checked_sub(len).map(|from| {
                let next = numbers.len() as u32;
                *numbers.entry(&nodes[from..]).or_insert(next)
            }));
        }
        all.positions = vec![Vec::new(); numbers.len()];
        all.left_out = vec![0; numbers.len()];
        if !numbers.is_empty() {
            let last = AnchorFilter::of(numbers.keys().filter_map(|p| p.last().copied()));
            for segment in 0..captured.len() as u32 {
                let range = captured.range(super::SegmentId(segment));
                let ends = (range.start + len).min(range.end)..range.end;
                all.scan(captured, ends, len, &numbers, &last, parameters.candidates);
            }
        }
        all
    }
    fn scan(
        &mut self,
        captured: &Captured,
        ends: Range<usize>,
        len: usize,
        numbers: &HashMap<&[Node], u32>,
        last: &AnchorFilter,
        most: usize,
    ) {
        let nodes = captured.nodes();
        for position in ends {
            if !last.may_have(nodes[position - 1]) {
                continue;
            }
            let Some(number) = numbers.get(&nodes[position - len..position]) else { continue };
            let positions = &mut self.positions[*number as usize];
            if positions.len() < most {
                positions.push(position as u32);
            } else {
                self.left_out[*number as usize] += 1;
            }
        }
    }
    /// The candidates of the gap with that index, in order of capture, and the number of those
    /// left out.
    pub fn of(&self, hole: usize) -> (&[u32], u64) {
        match self.of_hole.get(hole) {
            Some(Some(number)) => (&self.positions[*number as usize], self.left_out[*number as usize]),
            _ => (&[], 0),
        }
    }
}

/// A quick test that rules out most instructions that end no anchor instructions.
struct AnchorFilter(Vec<u64>);

impl AnchorFilter {
    fn of(nodes: impl Iterator<Item = Node> + Clone) -> Self {
        let most = nodes.clone().map(|n| n.0).max().unwrap_or(0) as usize;
        let mut bits = vec![0; most / 64 + 1];
        nodes.for_each(|n| bits[n.0 as usize / 64] |= 1 << (n.0 % 64));
        Self(bits)
    }
    fn may_have(&self, node: Node) -> bool {
        self.0.get(node.0 as usize / 64).is_some_and(|bits| bits >> (node.0 % 64) & 1 == 1)
    }
}
