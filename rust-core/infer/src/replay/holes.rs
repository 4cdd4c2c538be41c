// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The places to fill: where a thread's flow says nothing between two captured segments.

use crate::cut::{Behind, FrameSites, Piece};
use crate::fill::{Captured, Expected, GapEnd, Hole, Paces, SegmentId, Span, Tiers};
use crate::replay::filler::Question;
use jportal_bytecode::{Icfg, Node};
use jportal_units::MethodId;
use std::ops::Range;

/// A place to fill: the gap or gaps between two captured segments.
#[derive(Clone, Debug)]
pub(crate) struct GapPlace {
    /// The numbers of the events between the last instruction before the place and the first
    /// one after it.
    pub(crate) events: Range<u64>,
    /// The segments on both sides, and how long the place took; `None` if one of the segments
    /// was not kept.
    pub(crate) hole: Option<Hole>,
    /// The frames before the place, as known before earlier places have been filled.
    pub(crate) before: Before,
    /// The frames below the first instruction after the place.
    pub(crate) after: FrameSites,
    /// How many paths fitted the instructions next to the place, before and after it.
    pub(crate) paths: (u32, u32),
    /// The number of instructions that there was time for.
    pub(crate) expected: Option<Expected>,
}

impl GapPlace {
    /// The end of the place; `None` if nothing is to be filled.
    pub(crate) fn end(&self) -> Option<GapEnd<'_>> {
        let segment = self.hole?.after;
        Some(GapEnd { segment, frames: self.after.below(), expected: self.expected })
    }
}

/// The decoder's knowledge of the frames before a place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Before {
    /// The frames below the last instruction.
    own: FrameSites,
    /// How many of the innermost call sites after the previous place have been left since, or
    /// are among `own`. `None` if frames were found that do not say so, or if the previous
    /// place is not the last gap.
    left: Option<usize>,
    /// The last instruction that the outermost of the decoder's frames executed there.
    outermost: Option<Node>,
    /// The method that was called after the last instruction.
    entered: Option<MethodId>,
}

impl Before {
    fn new(last: &Last, joins: bool) -> Self {
        let own = last.sites.clone();
        let left = || own.sites.len().checked_add_signed(last.depth?.checked_neg()?);
        let left = joins.then(left).flatten();
        let outermost = own.sites.first().copied().or(last.instruction);
        Self { own, left, outermost, entered: last.entered }
    }
    /// The likely request for this place, which has the given index, for the call sites after
    /// the previous place; these are `None` if that place was not filled.
    pub(crate) fn question(&self, index: usize, behind: Option<FrameSites>, icfg: &Icfg) -> Question {
        let entered = self.entered.and_then(|method| icfg.entry(method));
        Question { index, before: self.sites(behind, icfg), entered }
    }
    fn sites(&self, behind: Option<FrameSites>, icfg: &Icfg) -> FrameSites {
        let Some((mut sites, left)) = behind.zip(self.left) else { return self.own.clone() };
        let kept = sites.sites.len().checked_sub(left);
        // The outermost of the decoder's frames was on the stack after the previous place. If a
        // frame of another method was there, all frames of the fill were wrong.
        let was = kept.and_then(|kept| sites.sites.get(kept));
        if was.zip(self.outermost.as_ref()).is_some_and(|(was, is)| icfg.method(*was) != icfg.method(*is)) {
            return self.own.clone();
        }
        sites.whole = sites.whole && kept.is_some() || self.own.whole;
        sites.sites.truncate(kept.unwrap_or(0));
        sites.sites.extend(&self.own.sites);
        sites
    }
}

/// The number of instructions kept before and after a gap, to compare a fill with, where a
/// segment is not learned from.
const BEFORE: usize = 1 << 12;
const AFTER: usize = 1 << 10;

/// The instructions to learn from, with the frames in which their segments begin.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    pub(crate) captured: Captured,
    /// The frames below the first instruction of each segment.
    pub(crate) first: Vec<FrameSites>,
    /// The number of instructions that were seen and not kept.
    pub(crate) left_out: u64,
}

/// The segments that begin and end with a piece, if they were kept.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    head: Option<SegmentId>,
    tail: Option<SegmentId>,
}

impl Learned {
    /// Keeps `piece` if that makes no more than `longest` instructions in all; else only its
    /// ends at gaps.
    fn keep(&mut self, tiers: &impl Tiers, piece: &Piece, longest: usize, after_gap: bool) -> Kept {
        let len = piece.nodes.len();
        if self.captured.nodes().len().saturating_add(len) <= longest {
            let id = self.push(tiers, piece, 0..len);
            return Kept { head: id, tail: id };
        }
        let in_front_of_gap = is_filled(&piece.behind);
        let mut ends = Kept::default();
        let mut kept = 0;
        if after_gap {
            ends.head = self.push(tiers, piece, 0..len.min(AFTER));
            kept += len.min(AFTER);
        }
        if in_front_of_gap {
            let from = len.saturating_sub(BEFORE);
            ends.tail = self.push(tiers, piece, from..len);
            kept += len - from;
        }
        self.left_out += len.saturating_sub(kept) as u64;
        ends
    }
    fn push(&mut self, tiers: &impl Tiers, piece: &Piece, range: Range<usize>) -> Option<SegmentId> {
        let marks: Vec<(usize, u64)> = piece
            .marks
            .iter()
            .filter_map(|(at, time)| Some((at.checked_sub(range.start)?, *time)))
            .filter(|(at, _)| *at < range.len())
            .collect();
        let first = if range.start == 0 { piece.first.clone() } else { FrameSites::default() };
        let id = self.captured.push(tiers, &piece.nodes[range], &marks)?;
        self.first.push(first);
        Some(id)
    }
}

/// A thread's last piece, until the next one arrives.
#[derive(Debug)]
struct Last {
    tail: Option<SegmentId>,
    end: u64,
    /// How many paths fitted at the end of the piece.
    paths: u32,
    behind: Behind,
    /// The frames at the end of the piece, as [`Piece`] has them.
    sites: FrameSites,
    depth: Option<isize>,
    instruction: Option<Node>,
    entered: Option<MethodId>,
}

/// Collects the places of one thread.
#[derive(Debug, Default)]
pub(crate) struct Places {
    last: Option<Last>,
    all: Vec<GapPlace>,
    /// The span of each place.
    spans: Vec<Span>,
    paces: Paces,
    /// The number of instructions so far.
    instructions: u64,
    /// Whether the last gap is the last place.
    joins: bool,
}

impl Places {
    /// Adds the thread's next piece.
    pub(crate) fn add(&mut self, learned: &mut Learned, tiers: &impl Tiers, piece: Piece, longest: usize) {
        let gap = self.last.as_ref().filter(|last| is_filled(&last.behind));
        let kept = learned.keep(tiers, &piece, longest, gap.is_some());
        if let Some(last) = gap {
            let time = time_between(&learned.captured, last, &piece);
            let hole = last.tail.zip(kept.head).map(|(before, after)| Hole { before, after, time });
            let (since, until) = times(&last.behind, &piece);
            let events = last.end..piece.events.start;
            let paths = (last.paths, piece.paths.0);
            let before = Before::new(last, self.joins);
            self.all.push(GapPlace { events, hole, before, after: piece.first, paths, expected: None });
            self.spans.push(Span { at: self.instructions, since, until });
            self.paces.gap();
        }
        if let Some(Behind::Gap(_)) = self.last.as_ref().map(|last| &last.behind) {
            self.joins = gap.is_some();
        }
        self.instructions += piece.orphans;
        for (at, time) in &piece.marks {
            self.paces.mark(self.instructions + *at as u64, *time);
        }
        self.instructions += piece.nodes.len() as u64;
        let (end, paths) = (piece.events.end, piece.paths.1);
        let instruction = piece.nodes.last().copied();
        let Piece { behind, last: sites, depth, entered, .. } = piece;
        let tail = kept.tail;
        self.last = Some(Last { tail, end, paths, behind, sites, depth, instruction, entered });
    }
    /// All places, in order.
    pub(crate) fn finish(mut self) -> Vec<GapPlace> {
        for (place, span) in self.all.iter_mut().zip(&self.spans) {
            place.expected = self.paces.expected(*span);
        }
        self.all
    }
}

/// Whether something may be filled in: data were lost, or the decoder reported nothing. Nothing
/// was lost where a frame is found without a gap: the flow has what ran in between, as orphans.
const fn is_filled(behind: &Behind) -> bool {
    matches!(behind, Behind::Gap(_))
}

/// When a gap began, and when the flow continues in `piece`, if known. After a gap the first
/// instruction of `piece` may be later than the end of the gap, because orphans precede it.
fn times(behind: &Behind, piece: &Piece) -> (Option<u64>, Option<u64>) {
    let Behind::Gap(gap) = behind else { return (None, None) };
    let told = piece.marks.first().filter(|m| m.0 == 0).map(|m| m.1);
    (gap.since.map(|t| t.0), told.or(gap.until.map(|t| t.0)))
}

/// The time from the end of `last` to the beginning of `piece`.
fn time_between(captured: &Captured, last: &Last, piece: &Piece) -> Option<u64> {
    let (since, until) = times(&last.behind, piece);
    let end = || captured.time_at(captured.range(last.tail?).end.checked_sub(1)?);
    Some(until?.saturating_sub(since.or_else(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::Tier;
    use crate::support::{graph, method};
    use jportal_flow::Gap;
    use jportal_flow::GapReason;
    use jportal_units::{Core, StreamOffset, Tsc};

    struct Plain;
    impl Tiers for Plain {
        fn tier(&self, _: Node) -> Tier {
            Tier::Concrete
        }
    }

    fn gap(reason: GapReason) -> Behind {
        Behind::Gap(Box::new(Gap {
            reason,
            core: Core(0),
            offset: StreamOffset(0),
            address: None,
            since: Some(Tsc(100)),
            until: Some(Tsc(200)),
            bytes: None,
            stack_lost: true,
        }))
    }
    /// A piece of `len` instructions from event `from` on, with the cause of its end.
    fn piece(from: u64, len: usize, marks: &[(usize, u64)], behind: Behind) -> Piece {
        Piece {
            nodes: (0..len as u32).map(Node).collect(),
            marks: marks.to_vec(),
            events: from..from + len as u64,
            behind,
            ..Piece::default()
        }
    }
    fn places(pieces: Vec<Piece>, longest: usize) -> (Learned, Vec<GapPlace>) {
        let (mut learned, mut places) = (Learned::default(), Places::default());
        pieces.into_iter().for_each(|p| places.add(&mut learned, &Plain, p, longest));
        (learned, places.finish())
    }

    #[test]
    fn what_takes_time_and_what_is_filled() {
        let pieces = vec![
            piece(0, 10, &[(0, 0), (9, 90)], gap(GapReason::Truncated)),
            piece(20, 10, &[(0, 250), (5, 300)], Behind::Found),
            piece(40, 10, &[(0, 400), (6, 410)], Behind::Found),
            piece(51, 8, &[(5, 500)], gap(GapReason::Overflow)),
            piece(60, 10, &[(5, 900)], Behind::Found),
            piece(80, 10, &[], Behind::Nothing),
            piece(95, 10, &[], Behind::More),
            piece(105, 10, &[], Behind::Nothing),
        ];
        let (learned, places) = places(pieces, 1000);
        let of = |p: &GapPlace| (p.events.clone(), p.hole.unwrap().time);
        // From the gap's own beginning to the first known time; to the gap's end.
        let expected = [(10..20, Some(150)), (59..60, Some(100))];
        assert_eq!(places.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!((learned.captured.len(), learned.first.len(), learned.left_out), (8, 8, 0));
    }

    #[test]
    fn frames_that_the_flow_contradicts_are_not_believed() {
        // 0 main has the nodes 0 and 1; 1 f has 2 to 4.
        let g = graph(vec![method("main", &[3, 172]), method("f", &[26, 27, 172])]);
        // After a gap a frame ended; instruction 2 of the frame below precedes the next gap.
        let ended = Piece { depth: Some(-1), ..piece(20, 3, &[], gap(GapReason::Truncated)) };
        let around = [0, 40].map(|from| piece(from, 3, &[], gap(GapReason::Truncated)));
        let [before, behind] = around;
        let (_, places) = places(vec![before, ended, behind], 1000);
        let below = |site| {
            let behind = FrameSites { sites: vec![Node(site)], whole: true };
            places[1].before.question(1, Some(behind), &g).before
        };
        assert_eq!(below(3), FrameSites { sites: Vec::new(), whole: true });
        assert_eq!(below(0), FrameSites::default());
    }

    #[test]
    fn beyond_the_bound_only_the_ends_are_kept() {
        let long = 3 * BEFORE;
        let pieces = vec![
            piece(0, long, &[], gap(GapReason::BeforePsb)),
            piece(100_000, long, &[(AFTER - 1, 3), (long - 1, 7)], gap(GapReason::BeforePsb)),
            piece(200_000, long, &[], Behind::More),
            piece(300_000, long, &[], Behind::Nothing),
        ];
        let (learned, places) = places(pieces, long);
        let lens: Vec<usize> = (0..learned.captured.len() as u32)
            .map(|s| learned.captured.segment(SegmentId(s)).len())
            .collect();
        assert_eq!(lens, [long, AFTER, BEFORE, AFTER]);
        let holes: Vec<_> = places.iter().map(|p| p.hole.map(|h| (h.before.0, h.after.0))).collect();
        assert_eq!(holes, [Some((0, 1)), Some((2, 3))]);
        assert_eq!(learned.left_out as usize, long - AFTER - BEFORE + long - AFTER + long);
        assert_eq!(learned.captured.time_at(long + AFTER - 1), Some(3));
        assert_eq!(learned.captured.time_at(long + AFTER + BEFORE - 1), Some(7));
    }
}
