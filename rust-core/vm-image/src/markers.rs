// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Path markers: where bytecode blocks begin in compiled code (`FORMAT.md`, *Path markers*).

use jportal_capture::schema::{
    self, InlineContext, MarkedEdge, MarkedOffset, NO_CONTEXT, POLL_STATE, ambiguities, edge_outcomes,
    path_precisions,
};
use jportal_units::MethodId;

/// A frame of an inline chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// The caller's frame; `None` for the outermost one.
    pub parent: Option<u32>,
    /// Bci of the call in the caller.
    pub call_bci: u16,
    /// The frame's method; `None` if the VM never described it.
    pub method: Option<MethodId>,
}

/// What control reaches at a marker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Marker {
    /// The bytecode block at `bci` of the frame `context` begins.
    Block {
        /// Index for [`PathMarkers::context`].
        context: u32,
        /// First bci of the block.
        bci: u16,
    },
    /// From here to the next marker the path is unknown; the cause is one of [`ambiguities`].
    Ambiguous(u16),
    /// The frame state of the next safepoint poll belongs here. If the poll deoptimises, the
    /// markers between here and the poll have not happened.
    PollState,
}

/// How control left an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// The conditional branch was taken.
    Taken = edge_outcomes::TAKEN,
    /// Control continued at the next instruction.
    NotTaken = edge_outcomes::NOT_TAKEN,
    /// The jump through a table was taken.
    JumpTable = edge_outcomes::JUMP_TABLE,
    /// The call returned; the edge starts at its return address.
    CallReturn = edge_outcomes::CALL_RETURN,
    /// The call ended with an exception; the edge starts at its return address.
    Exception = edge_outcomes::EXCEPTION,
    /// The instruction faulted.
    Fault = edge_outcomes::FAULT,
}

/// The path markers of one nmethod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathMarkers {
    /// Whether the compiler avoided the folds that lose a path.
    pub exact: bool,
    contexts: Box<[Context]>,
    markers: Box<[Marker]>,
    offsets: Box<[MarkedOffset]>,
    edges: Box<[MarkedEdge]>,
    /// Sorted by `to`; for equal `to`, edges come first.
    passes: Box<[Pass]>,
}

/// Markers between two consecutive instructions of a run: those of an edge, or those of an
/// offset. For an offset, `from` and `to` are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pass {
    from: u32,
    to: u32,
    first: u32,
    count: u32,
}

/// The markers that a run through all of the code passes if no branch is taken.
fn passes(offsets: &[MarkedOffset], edges: &[MarkedEdge]) -> Box<[Pass]> {
    let straight = |e: &&MarkedEdge| e.outcome == Outcome::NotTaken as u8 && e.to > e.from;
    let edges = edges.iter().filter(straight);
    let edges = edges.map(|e| Pass { from: e.from, to: e.to, first: e.first, count: e.count });
    let offsets = offsets.iter();
    let offsets = offsets.map(|o| Pass { from: o.offset, to: o.offset, first: o.first, count: o.count });
    let mut all: Vec<Pass> = edges.chain(offsets).collect();
    all.sort_by_key(|p| (p.to, p.from == p.to));
    all.into()
}

impl PathMarkers {
    /// The frame of a [`Marker::Block`].
    pub fn context(&self, index: u32) -> Option<&Context> {
        self.contexts.get(index as usize)
    }
    /// All frames; callers precede their callees.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }
    /// The frames from `context` outwards. Ends early at a dangling or cyclic reference.
    pub fn chain(&self, context: u32) -> impl Iterator<Item = &Context> {
        let mut next = Some(context);
        let mut left = self.contexts.len();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let c = self.context(next?)?;
            next = c.parent;
            Some(c)
        })
    }
    fn list(&self, first: u32, count: u32) -> &[Marker] {
        let first = first as usize;
        self.markers.get(first..first.saturating_add(count as usize)).unwrap_or(&[])
    }
    /// The markers that control passes when it reaches the instruction at `offset` by any path.
    pub fn at(&self, offset: u32) -> &[Marker] {
        match self.offsets.binary_search_by_key(&offset, |o| o.offset) {
            Ok(i) => self.list(self.offsets[i].first, self.offsets[i].count),
            Err(_) => &[],
        }
    }
    /// The marked offsets with `from <= offset <= last`, ascending, each with its markers. These
    /// are the markers that a run of instructions passes if it begins at `from` and its last
    /// instruction, executed or not, is at `last`.
    pub fn reached(&self, from: u32, last: u32) -> impl Iterator<Item = (u32, &[Marker])> {
        let a = self.offsets.partition_point(|o| o.offset < from);
        let b = self.offsets.partition_point(|o| o.offset <= last).max(a);
        self.offsets[a..b].iter().map(|o| (o.offset, self.list(o.first, o.count)))
    }
    fn edge(&self, from: u32, outcome: Outcome, to: u32) -> Option<&MarkedEdge> {
        let key = (from, outcome as u8, to);
        let i = self.edges.binary_search_by_key(&key, |e| (e.from, e.outcome, e.to)).ok()?;
        self.edges.get(i)
    }
    /// The markers that control passes when the instruction at `from` has this `outcome` and
    /// control continues at `to`: after the markers [`Self::at`] `from`, before the markers at
    /// `to`.
    pub fn on_edge(&self, from: u32, outcome: Outcome, to: u32) -> &[Marker] {
        self.edge(from, outcome, to).map_or(&[], |e| self.list(e.first, e.count))
    }
    /// The markers that control passes when the last instruction of the run `start..end` leaves
    /// the run for `to`. The offset of that instruction need not be known: no other instruction
    /// in the last 15 bytes of the run has an edge to `to` that leaves the run.
    pub fn leaving(&self, start: u32, end: u32, outcome: Outcome, to: u32) -> &[Marker] {
        let mut last = self.edges_at_end(start, end).iter().rev();
        let edge = last.find(|e| e.outcome == outcome as u8 && e.to == to);
        edge.map_or(&[], |e| self.list(e.first, e.count))
    }
    /// Whether [`PathMarkers::needs_direction`] holds for the branch that ends the run
    /// `start..end`.
    pub fn leaves_undirected(&self, start: u32, end: u32) -> bool {
        self.edges_at_end(start, end).iter().any(|e| e.to == end && self.needs_direction(e.from))
    }
    /// Edges from all offsets at which the last instruction of the run `start..end` can begin.
    fn edges_at_end(&self, start: u32, end: u32) -> &[MarkedEdge] {
        const LONGEST_INSTRUCTION: u32 = 15;
        let first = start.max(end.saturating_sub(LONGEST_INSTRUCTION));
        let a = self.edges.partition_point(|e| e.from < first);
        let b = self.edges.partition_point(|e| e.from < end).max(a);
        &self.edges[a..b]
    }
    /// The markers inside the run of instructions `from..to`, in order, each with the offset of
    /// the instruction that follows: markers of offsets, and of edges to the next instruction.
    pub fn passed(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, &[Marker])> {
        let first = self.passes.partition_point(|p| p.to < from);
        let inside = self.passes[first..].iter().take_while(move |p| p.to < to);
        inside.filter(move |p| p.from >= from).map(|p| (p.to, self.list(p.first, p.count)))
    }
    /// Whether both outcomes of the conditional branch at `from` lead to the same address with
    /// different markers. A decoder whose source does not distinguish taken from not taken there
    /// (the emulated unit) does not know the path.
    pub fn needs_direction(&self, from: u32) -> bool {
        let a = self.edges.partition_point(|e| e.from < from);
        let at_branch = || self.edges[a..].iter().take_while(move |e| e.from == from);
        let ways = |outcome: Outcome| at_branch().filter(move |e| e.outcome == outcome as u8);
        ways(Outcome::Taken).any(|t| {
            ways(Outcome::NotTaken)
                .any(|n| n.to == t.to && self.list(n.first, n.count) != self.list(t.first, t.count))
        })
    }
    /// All marked offsets, ascending.
    pub fn offsets(&self) -> impl Iterator<Item = (u32, &[Marker])> {
        self.reached(0, u32::MAX)
    }
    /// All marked edges: from, outcome (`edge_outcomes`), to, markers.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u8, u32, &[Marker])> {
        self.edges.iter().map(|e| (e.from, e.outcome, e.to, self.list(e.first, e.count)))
    }
}

/// A name for a cause of ambiguity.
pub fn ambiguity_name(cause: u16) -> &'static str {
    match cause {
        ambiguities::CONDITIONAL_MOVE => "conditional move",
        ambiguities::EMPTY_DIAMOND => "empty diamond",
        ambiguities::FOLDED_COMPARES => "folded compares",
        ambiguities::TRICHOTOMY => "trichotomy",
        ambiguities::CLIPPING => "clipping",
        ambiguities::EMPTY_LOOP => "empty loop",
        ambiguities::ARRAY_FILL => "array fill",
        ambiguities::SHARED_TARGET => "shared target",
        ambiguities::CONDITIONAL_EXPRESSION => "conditional expression",
        ambiguities::TOO_MANY => "too many markers",
        ambiguities::UNKNOWN_INSTRUCTION => "unknown instruction",
        ambiguities::STRING_CONCATENATION => "string concatenation",
        ambiguities::PREPARED_EXCEPTION => "prepared exception",
        _ => "unknown cause",
    }
}

fn context(c: &InlineContext, method: &impl Fn(u64) -> Option<MethodId>) -> Context {
    Context {
        parent: (c.parent != NO_CONTEXT).then_some(c.parent),
        call_bci: c.call_bci,
        method: method(c.method),
    }
}

/// Converts the record; `method` resolves a `Method*` at the time of installation.
pub(crate) fn markers(
    mut r: schema::NMethodMarkers,
    method: impl Fn(u64) -> Option<MethodId>,
) -> PathMarkers {
    r.offsets.sort_by_key(|o| o.offset);
    r.edges.sort_by_key(|e| (e.from, e.outcome, e.to));
    let marker = |m: &schema::PathMarker| match m.context {
        NO_CONTEXT => Marker::Ambiguous(m.bci),
        POLL_STATE => Marker::PollState,
        context => Marker::Block { context, bci: m.bci },
    };
    PathMarkers {
        exact: r.precision == path_precisions::EXACT,
        contexts: r.contexts.iter().map(|c| context(c, &method)).collect(),
        markers: r.markers.iter().map(marker).collect(),
        passes: passes(&r.offsets, &r.edges),
        offsets: r.offsets.into(),
        edges: r.edges.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_capture::schema::PathMarker;

    fn block(bci: u16) -> Marker {
        Marker::Block { context: 0, bci }
    }

    fn edge(from: u32, outcome: Outcome, to: u32, first: u32, count: u32) -> MarkedEdge {
        MarkedEdge { from, to, outcome: outcome as u8, first, count }
    }

    fn sample() -> PathMarkers {
        let record = schema::NMethodMarkers {
            precision: path_precisions::EXACT,
            contexts: vec![
                InlineContext { parent: NO_CONTEXT, call_bci: 0, method: 1 },
                InlineContext { parent: 0, call_bci: 7, method: 2 },
                InlineContext { parent: 2, call_bci: 7, method: 2 },
            ],
            markers: [(0, 0), (0, 5), (NO_CONTEXT, ambiguities::CONDITIONAL_MOVE), (0, 9)]
                .map(|(context, bci)| PathMarker { context, bci })
                .into(),
            offsets: vec![
                MarkedOffset { offset: 40, first: 2, count: 1 },
                MarkedOffset { offset: 12, first: 0, count: 2 },
                MarkedOffset { offset: 60, first: 3, count: 9 },
            ],
            edges: vec![
                edge(30, Outcome::NotTaken, 36, 0, 0),
                edge(30, Outcome::Taken, 36, 3, 1),
                edge(20, Outcome::Taken, 36, 3, 1),
                edge(20, Outcome::NotTaken, 26, 0, 0),
            ],
            ..Default::default()
        };
        markers(record, |m| (m == 1).then_some(MethodId(0)))
    }

    #[test]
    fn offsets_are_found_one_by_one_and_by_run() {
        let m = sample();
        assert_eq!(m.at(12), [block(0), block(5)]);
        assert_eq!(m.at(13), []);
        assert_eq!(m.at(40), [Marker::Ambiguous(ambiguities::CONDITIONAL_MOVE)]);
        let run = |a, b| m.reached(a, b).map(|r| r.0).collect::<Vec<_>>();
        assert_eq!(run(12, 40), [12, 40]);
        assert_eq!(run(13, 39), []);
        assert_eq!(run(41, 12), []);
    }

    #[test]
    fn an_edge_is_reported_by_its_outcome() {
        let m = sample();
        assert_eq!(m.on_edge(30, Outcome::Taken, 36), [block(9)]);
        assert_eq!(m.on_edge(30, Outcome::NotTaken, 36), []);
        assert_eq!(m.on_edge(30, Outcome::Taken, 99), []);
        assert!(m.needs_direction(30));
        assert!(!m.needs_direction(20));
        assert!(!m.needs_direction(25));
    }

    #[test]
    fn a_run_passes_offsets_and_edges_in_order() {
        let record = schema::NMethodMarkers {
            contexts: vec![InlineContext { parent: NO_CONTEXT, call_bci: 0, method: 1 }],
            markers: (0..5).map(|bci| PathMarker { context: 0, bci }).collect(),
            offsets: vec![
                MarkedOffset { offset: 10, first: 0, count: 1 },
                MarkedOffset { offset: 20, first: 2, count: 1 },
            ],
            edges: vec![
                edge(15, Outcome::NotTaken, 20, 1, 1),
                edge(28, Outcome::NotTaken, 30, 3, 1),
                edge(28, Outcome::Taken, 10, 4, 1),
            ],
            ..Default::default()
        };
        let m = markers(record, |_| Some(MethodId(0)));
        let bcis = |list: Vec<(u32, &[Marker])>| -> Vec<(u32, Marker)> {
            list.into_iter().map(|(o, l)| (o, l[0])).collect()
        };
        let inside = bcis(m.passed(10, 30).collect());
        assert_eq!(inside, [(10, block(0)), (20, block(1)), (20, block(2))]);
        assert_eq!(bcis(m.passed(11, 20).collect()), []);
        assert_eq!(m.leaving(10, 30, Outcome::NotTaken, 30), [block(3)]);
        assert_eq!(m.leaving(10, 30, Outcome::Taken, 10), [block(4)]);
        assert_eq!(m.leaving(10, 30, Outcome::Taken, 30), []);
        assert_eq!(m.leaving(29, 30, Outcome::NotTaken, 30), []);
        assert!(!m.leaves_undirected(10, 30));
        assert!(sample().leaves_undirected(25, 36));
        assert!(!sample().leaves_undirected(31, 36));
    }

    #[test]
    fn dangling_lists_and_cyclic_chains_end() {
        let m = sample();
        assert_eq!(m.at(60), []);
        assert_eq!(m.chain(1).map(|c| c.method).collect::<Vec<_>>(), [None, Some(MethodId(0))]);
        assert_eq!(m.chain(2).count(), 3);
        assert_eq!(m.chain(77).count(), 0);
    }
}
