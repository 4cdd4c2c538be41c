// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The captured data as one sequence of instructions, with its abstractions.

use super::starts::Starts;
use jportal_bytecode::{Icfg, Node, Transfer};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A tier of abstraction (Definition 5.2); each contains the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tier {
    /// Tier 1: calls and returns.
    Calls,
    /// Tier 2: control transfers of any kind.
    Control,
    /// Tier 3: all instructions.
    Concrete,
}

/// Assigns each instruction to the first tier that contains it.
pub trait Tiers {
    /// The most abstract tier in which `node` still appears.
    fn tier(&self, node: Node) -> Tier;
    /// For `len` consecutive nodes, 64 at most, which of them belong to [`Tier::Control`] or
    /// [`Tier::Calls`], and which to [`Tier::Calls`]: one bit each, the lowest for the first
    /// node.
    fn tiers(&self, first: Node, len: usize) -> (u64, u64) {
        (first.0..).take(len).zip(0..).fold((0, 0), |(control, calls), (node, bit)| {
            let tier = self.tier(Node(node));
            (control | u64::from(tier <= Tier::Control) << bit, calls | u64::from(tier == Tier::Calls) << bit)
        })
    }
}

impl Tiers for Icfg {
    fn tier(&self, node: Node) -> Tier {
        match self.opcode(node).transfer() {
            Transfer::Invoke | Transfer::Return => Tier::Calls,
            Transfer::None => Tier::Concrete,
            _ => Tier::Control,
        }
    }
    fn tiers(&self, first: Node, len: usize) -> (u64, u64) {
        self.transfers(first.0..first.0 + len as u32)
    }
}

/// A captured segment, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u32);

/// The captured segments of all threads.
///
/// An instruction takes 4 bytes, and 3/8 of a byte for its tiers and its place in the code.
/// Once an abstraction is asked for, each instruction of that tier takes another 4 bytes.
#[derive(Debug, Default)]
pub struct Captured {
    sequence: Arc<Sequence>,
    starts: Starts,
    /// Segments from which nothing may be learned, ascending.
    hidden: Vec<SegmentId>,
}

/// The instructions, without the borders of segments.
#[derive(Clone, Debug, Default)]
struct Sequence {
    nodes: Vec<Node>,
    /// Index into the sequence, and time; ascending.
    marks: Vec<(u32, u64)>,
    calls: Abstraction,
    control: Abstraction,
    /// Instructions that do not follow the previous one in the code, or that follow a transfer
    /// of control.
    begins: Bits,
}

impl Captured {
    /// Adds a segment: its instructions and, for some of them, the index and the time when they
    /// executed. `None` if the sequence would grow beyond 32 bits.
    pub fn push(
        &mut self,
        tiers: &(impl Tiers + ?Sized),
        nodes: &[Node],
        marks: &[(usize, u64)],
    ) -> Option<SegmentId> {
        let sequence = Arc::make_mut(&mut self.sequence);
        let base = sequence.nodes.len() as u32;
        base.checked_add(u32::try_from(nodes.len()).ok()?)?;
        // Fills the bits word by word. Between two transfers of control the code is straight,
        // unless an exception leaves it.
        let mut rest = nodes;
        let mut next = None;
        while !rest.is_empty() {
            let filled = sequence.nodes.len() % 64;
            let (word, behind) = rest.split_at(rest.len().min(64 - filled));
            let (mut calls, mut control, mut begins) = (0u64, 0u64, 0u64);
            let mut at = 0;
            while at < word.len() {
                let (first, len) = (word[at], in_a_row(&word[at..]));
                let (transfers, calling) = tiers.tiers(first, len);
                let bit = filled + at;
                control |= transfers << bit;
                calls |= calling << bit;
                let own = u64::MAX >> (64 - len);
                begins |= (transfers << 1 & own | u64::from(next != Some(first))) << bit;
                let goes_on = transfers >> (len - 1) & 1 == 0;
                next = goes_on.then_some(Node(first.0.wrapping_add(len as u32)));
                at += len;
            }
            sequence.calls.push(filled, calls);
            sequence.control.push(filled, control);
            sequence.begins.push(filled, begins);
            sequence.nodes.extend(word);
            rest = behind;
        }
        let inside = marks.iter().filter(|m| m.0 < nodes.len());
        sequence.marks.extend(inside.map(|(at, time)| (base + *at as u32, *time)));
        self.starts.push(sequence.nodes.len() as u32);
        Some(SegmentId(self.starts.len() as u32 - 1))
    }
    /// The same sequence with each of `stretches` as a segment of its own, which [is
    /// hidden](Self::is_hidden). The stretches must ascend; none may be empty or longer than a
    /// segment.
    pub(super) fn hiding(&self, stretches: &[Range<usize>]) -> Self {
        let starts = self.starts.with(stretches);
        let mut hiding = Self { sequence: Arc::clone(&self.sequence), starts, hidden: Vec::new() };
        hiding.hidden = stretches.iter().map(|s| hiding.segment_at(s.start)).collect();
        hiding
    }
    /// Whether a segment is hidden: nothing may be learned from it.
    pub(super) fn is_hidden(&self, segment: SegmentId) -> bool {
        self.hidden.binary_search(&segment).is_ok()
    }
    /// The instructions of all segments, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.sequence.nodes
    }
    /// Number of segments.
    pub fn len(&self) -> usize {
        self.starts.len()
    }
    /// Whether there is no segment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The indices of the instructions of `segment`.
    pub fn range(&self, segment: SegmentId) -> Range<usize> {
        self.starts.range(segment.0 as usize)
    }
    /// The segment of the instruction at `position`.
    pub fn segment_at(&self, position: usize) -> SegmentId {
        SegmentId(self.starts.at(position) as u32)
    }
    /// The instructions from `position` to the end of its segment.
    pub(super) fn from(&self, position: usize) -> &[Node] {
        &self.nodes()[position..self.range(self.segment_at(position)).end]
    }
    /// The instructions of `segment`.
    pub fn segment(&self, segment: SegmentId) -> &[Node] {
        &self.nodes()[self.range(segment)]
    }
    /// The time at `position`, on the line through the two marks of its segment that are
    /// nearest to it. If the segment has only one mark, the time of that mark; `None` if it has
    /// none.
    pub fn time_at(&self, position: usize) -> Option<u64> {
        let range = self.range(self.segment_at(position));
        let from = self.sequence.marks.partition_point(|m| (m.0 as usize) < range.start);
        let marks = &self.sequence.marks[from..];
        let marks = &marks[..marks.partition_point(|m| (m.0 as usize) < range.end)];
        let next = marks.partition_point(|m| m.0 as usize <= position).clamp(1, marks.len().max(2) - 1);
        let ((a, early), (b, late)) = match (marks.get(next - 1), marks.get(next)) {
            (Some(one), Some(other)) => (*one, *other),
            (one, _) => return one.map(|m| m.1),
        };
        let per_step = late.saturating_sub(early) as f64 / f64::from(b.saturating_sub(a).max(1));
        Some((early as f64 + (position as f64 - f64::from(a)) * per_step).max(0.0) as u64)
    }
    /// The marks at the positions in `range`.
    pub(super) fn marks_in(&self, range: &Range<usize>) -> impl Iterator<Item = &(u32, u64)> {
        let from = self.sequence.marks.partition_point(|m| (m.0 as usize) < range.start);
        self.sequence.marks[from..].iter().take_while(|m| (m.0 as usize) < range.end)
    }
    /// Replaces the content of `positions` by the positions of the transfers of control in
    /// `segment`.
    pub(super) fn transfers(&self, segment: SegmentId, positions: &mut Vec<u32>) {
        positions.clear();
        self.sequence.control.bits.positions(&self.range(segment), positions);
    }
    /// The length of the straight code at the beginning of `positions`, which must lie in one
    /// segment: of instructions that follow each other in the code, of which only the last may
    /// be a transfer of control. Also returns whether the last one is.
    pub(super) fn straight(&self, positions: Range<usize>) -> (usize, bool) {
        let end = positions.end.min(self.nodes().len());
        if positions.start >= end {
            return (0, false);
        }
        let up_to = self.sequence.begins.next(positions.start + 1).map_or(end, |at| at.min(end));
        (up_to - positions.start, self.sequence.control.bits.has(up_to - 1))
    }
    /// The length of the straight code at the end of `positions`, which must lie in one
    /// segment: of instructions that follow each other in the code, the last of which is
    /// followed by `to`, and none of which is a transfer of control.
    pub(super) fn straight_back(&self, positions: Range<usize>, to: Node) -> usize {
        let Some(last) = positions.end.checked_sub(1).filter(|last| *last >= positions.start) else {
            return 0;
        };
        let leads = self.nodes().get(last).is_some_and(|node| node.0.wrapping_add(1) == to.0);
        if !leads || self.sequence.control.bits.has(last) {
            return 0;
        }
        positions.end
            - self.sequence.begins.last(positions.end).map_or(positions.start, |at| at.max(positions.start))
    }
    /// The abstraction of the sequence at `tier`, and a function from a position to the number
    /// of its instructions before that position. The first call for a tier builds the
    /// abstraction.
    pub(super) fn abstraction(&self, tier: Tier) -> (&[Node], impl Fn(usize) -> usize + '_) {
        let of = match tier {
            Tier::Calls => Some(&self.sequence.calls),
            Tier::Control => Some(&self.sequence.control),
            Tier::Concrete => None,
        };
        let of = of.map(|a| (&a.bits, a.listed(self.nodes())));
        let nodes = of.map_or(self.nodes(), |(_, listed)| &listed.nodes);
        (nodes, move |position| of.map_or(position, |(bits, listed)| listed.rank(bits, position)))
    }
    /// Number of transfers of control.
    pub(super) fn transfer_count(&self) -> usize {
        self.sequence.control.bits.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// The length of the straight code at the beginning of `nodes`: of instructions that follow
/// each other in the code, of which only the last may be a transfer of control. Looks at 64
/// nodes at most.
pub fn straight(tiers: &(impl Tiers + ?Sized), nodes: &[Node]) -> usize {
    let Some(first) = nodes.first() else { return 0 };
    let len = in_a_row(&nodes[..nodes.len().min(64)]);
    let transfers = tiers.tiers(*first, len).0;
    len.min(transfers.trailing_zeros() as usize + 1)
}

/// How many of `nodes`, from the first on, have consecutive numbers.
fn in_a_row(nodes: &[Node]) -> usize {
    1 + nodes.windows(2).take_while(|pair| pair[0].0.wrapping_add(1) == pair[1].0).count()
}

/// One bit for each instruction of the sequence.
#[derive(Clone, Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    /// Appends bits up to the end of a word at most. The word has `filled` bits already; the
    /// new ones begin at bit `filled` of `bits`.
    fn push(&mut self, filled: usize, bits: u64) {
        if filled == 0 {
            self.0.push(0);
        }
        if let Some(word) = self.0.last_mut() {
            *word |= bits;
        }
    }
    fn has(&self, position: usize) -> bool {
        self.0.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }
    /// The first position from `from` on whose bit is set.
    fn next(&self, from: usize) -> Option<usize> {
        let masked = self.0.get(from / 64)? & (u64::MAX << (from % 64));
        if masked != 0 {
            return Some(from / 64 * 64 + masked.trailing_zeros() as usize);
        }
        let behind = &self.0[from / 64 + 1..];
        let (word, bits) = (from / 64 + 1..).zip(behind).find(|(_, bits)| **bits != 0)?;
        Some(64 * word + bits.trailing_zeros() as usize)
    }
    /// The last position before `to` whose bit is set.
    fn last(&self, to: usize) -> Option<usize> {
        let masked = self.0.get(to / 64).map_or(0, |bits| bits & ((1 << (to % 64)) - 1));
        let before = self.0[..self.0.len().min(to / 64)].iter().copied().enumerate().rev();
        let (word, bits) = std::iter::once((to / 64, masked)).chain(before).find(|(_, bits)| *bits != 0)?;
        Some(64 * word + 63 - bits.leading_zeros() as usize)
    }
    /// Appends the positions in `range` whose bits are set.
    fn positions(&self, range: &Range<usize>, to: &mut Vec<u32>) {
        for word in range.start / 64..range.end.div_ceil(64) {
            let mut bits = self.0[word];
            if word == range.start / 64 {
                bits &= u64::MAX << (range.start % 64);
            }
            if word == range.end / 64 {
                bits &= (1 << (range.end % 64)) - 1;
            }
            while bits != 0 {
                to.push(64 * word as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// The instructions of a tier, as a part of the sequence.
#[derive(Clone, Debug, Default)]
struct Abstraction {
    bits: Bits,
    listed: OnceLock<TierList>,
}

/// The instructions of a tier as a list.
#[derive(Clone, Debug, Default)]
struct TierList {
    nodes: Vec<Node>,
    /// Number of bits set before each word.
    ranks: Vec<u32>,
}

impl Abstraction {
    /// Appends the bits of instructions; see [`Bits::push`].
    fn push(&mut self, filled: usize, belongs: u64) {
        self.listed.take();
        self.bits.push(filled, belongs);
    }
    /// The instructions of the tier among `all`; listed at the first call.
    fn listed(&self, all: &[Node]) -> &TierList {
        self.listed.get_or_init(|| {
            let mut listed = TierList::default();
            for (word, nodes) in self.bits.0.iter().zip(all.chunks(64)) {
                listed.ranks.push(listed.nodes.len() as u32);
                let mut bits = *word;
                while bits != 0 {
                    listed.nodes.push(nodes[bits.trailing_zeros() as usize]);
                    bits &= bits - 1;
                }
            }
            listed
        })
    }
}

impl TierList {
    fn rank(&self, bits: &Bits, position: usize) -> usize {
        match (bits.0.get(position / 64), self.ranks.get(position / 64)) {
            (Some(bits), Some(rank)) => {
                *rank as usize + (bits & ((1 << (position % 64)) - 1)).count_ones() as usize
            }
            _ => self.nodes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiples of four are calls, other even numbers are control transfers.
    struct Even;
    impl Tiers for Even {
        fn tier(&self, node: Node) -> Tier {
            match node.0 % 4 {
                0 => Tier::Calls,
                2 => Tier::Control,
                _ => Tier::Concrete,
            }
        }
    }
    fn counted(n: u32) -> Vec<Node> {
        (0..n).map(Node).collect()
    }

    #[test]
    fn straight_code_up_to_a_transfer_or_to_what_is_elsewhere() {
        let mut captured = Captured::default();
        let nodes = |all: &[u32]| all.iter().copied().map(Node).collect::<Vec<_>>();
        struct Tens;
        impl Tiers for Tens {
            fn tier(&self, node: Node) -> Tier {
                if node.0.is_multiple_of(10) { Tier::Control } else { Tier::Concrete }
            }
        }
        let long: Vec<u32> = (101..=110).chain(301..=303).chain(11..=20).chain(21..=25).collect();
        captured.push(&Tens, &nodes(&long), &[]).unwrap();
        let end = long.len();
        assert_eq!(captured.straight(0..end), (10, true));
        assert_eq!(captured.straight(4..end), (6, true));
        assert_eq!(captured.straight(4..8), (4, false));
        assert_eq!(captured.straight(9..end), (1, true));
        assert_eq!(captured.straight(10..end), (3, false));
        assert_eq!(captured.straight(end - 5..end), (5, false));
        assert_eq!(captured.straight(end..end), (0, false));
        // Backwards, straight code ends at a transfer.
        assert_eq!(captured.straight_back(0..9, Node(110)), 9);
        assert_eq!(captured.straight_back(6..9, Node(110)), 3);
        assert_eq!(captured.straight_back(0..9, Node(111)), 0);
        assert_eq!(captured.straight_back(0..10, Node(111)), 0);
        assert_eq!(captured.straight_back(0..13, Node(304)), 3);
        assert_eq!(captured.straight_back(0..end, Node(26)), 5);
        let mut plain = Captured::default();
        plain.push(&Tens, &nodes(&(201..=209).collect::<Vec<_>>()), &[]).unwrap();
        assert_eq!((plain.straight(2..9), plain.straight_back(2..9, Node(210))), ((7, false), 7));
    }

    /// Compares `straight` and `straight_back` with a search step by step, across words of the
    /// bits.
    #[test]
    fn straight_code_of_any_length() {
        let line: Vec<Node> = (0..400).map(|i| Node(2 * 400 * 2 + i)).collect();
        struct Rare;
        impl Tiers for Rare {
            fn tier(&self, node: Node) -> Tier {
                if node.0 % 97 == 5 { Tier::Control } else { Tier::Concrete }
            }
        }
        let mut captured = Captured::default();
        captured.push(&Rare, &line, &[]).unwrap();
        let transfers = |n: &Node| Rare.tier(*n) == Tier::Control;
        for from in 0..line.len() {
            let to = line[from..].iter().position(transfers).map(|at| at + 1);
            let expected = (to.unwrap_or(line.len() - from), to.is_some());
            assert_eq!(captured.straight(from..line.len()), expected, "{from}");
            assert_eq!(straight(&Rare, &line[from..]), expected.0.min(64), "{from}");
            let back = line[..from].iter().rev().take_while(|n| !transfers(n)).count();
            assert_eq!(captured.straight_back(0..from, line[from]), back, "{from}");
        }
    }

    #[test]
    fn ranks_across_words() {
        let mut c = Captured::default();
        c.push(&Even, &counted(100), &[]).unwrap();
        c.push(&Even, &counted(100), &[]).unwrap();
        let (calls, rank) = c.abstraction(Tier::Calls);
        assert_eq!(
            (calls.len(), calls[3], rank(0), rank(1), rank(64), rank(200)),
            (50, Node(12), 0, 1, 16, 50)
        );
        let (control, rank) = c.abstraction(Tier::Control);
        assert_eq!((control.len(), rank(100), rank(103)), (100, 50, 52));
        // Every second instruction, across words and where a segment ends inside a word.
        for segment in 0..2 {
            let mut positions = vec![7];
            c.transfers(SegmentId(segment), &mut positions);
            assert_eq!(positions, (50 * segment..50 * segment + 50).map(|i| 2 * i).collect::<Vec<_>>());
        }
    }
    #[test]
    fn transfers_of_segments_that_end_with_a_word() {
        let mut c = Captured::default();
        let segments = [64, 1, 63, 128].map(|len| c.push(&Even, &counted(len), &[]).unwrap());
        let mut positions = Vec::new();
        let transfers = segments.map(|segment| {
            c.transfers(segment, &mut positions);
            (positions.first().copied(), positions.last().copied(), positions.len())
        });
        let expected = [(0, 62, 32), (64, 64, 1), (65, 127, 32), (128, 254, 64)];
        assert_eq!(transfers, expected.map(|(first, last, len)| (Some(first), Some(last), len)));
    }

    #[test]
    fn what_is_hidden_is_a_segment_of_its_own() {
        let mut c = Captured::default();
        let a = c.push(&Even, &counted(10), &[(4, 100), (6, 200)]).unwrap();
        let b = c.push(&Even, &counted(5), &[]).unwrap();
        let hiding = c.hiding(&[2..5, 10..12]);
        let ranges: Vec<_> = (0..hiding.len() as u32).map(|n| hiding.range(SegmentId(n))).collect();
        assert_eq!(ranges, [0..2, 2..5, 5..10, 10..12, 12..15]);
        let hidden: Vec<bool> = (0..5).map(|n| hiding.is_hidden(SegmentId(n))).collect();
        assert_eq!(hidden, [false, true, false, true, false]);
        assert_eq!((hiding.nodes(), hiding.segment_at(4)), (c.nodes(), SegmentId(1)));
        assert_eq!((c.range(a), c.range(b), c.is_hidden(b)), (0..10, 10..15, false));
    }

    #[test]
    fn segments_and_times() {
        let mut c = Captured::default();
        let a = c.push(&Even, &counted(10), &[(2, 100), (6, 200), (10, 7)]).unwrap();
        let b = c.push(&Even, &counted(5), &[]).unwrap();
        assert_eq!((c.range(a), c.range(b), c.len()), (0..10, 10..15, 2));
        assert_eq!((c.segment_at(9), c.segment_at(10)), (a, b));
        let one = c.push(&Even, &counted(5), &[(3, 500)]).unwrap();
        let times: Vec<_> = [0, 2, 4, 6, 9, 12].map(|p| c.time_at(p)).into();
        assert_eq!(times, [Some(50), Some(100), Some(150), Some(200), Some(275), None]);
        assert_eq!(c.time_at(c.range(one).start), Some(500));
    }
}
