// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Cuts the flow of a thread into pieces: the instructions that were captured between gaps,
//! with the frames on both sides.

use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node, Transfer};
use jportal_flow::{Entry, Event, EventKind, Exit, Gap, Orphan, Provenance};
use jportal_units::{Bci, MethodId, Tsc};
use std::ops::{Deref, Range};

/// The known call sites of frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameSites {
    /// Outermost first.
    pub sites: Vec<Node>,
    /// Whether there are no further frames below.
    pub whole: bool,
}

impl FrameSites {
    /// The frames as the input of placing and filling.
    pub fn below(&self) -> Below<'_> {
        if self.whole { Below::Frames(&self.sites) } else { Below::Top(&self.sites) }
    }
}

/// The cause of a piece's end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Behind {
    /// The flow ends, or it continues after something that is no gap: an unresolved stretch, or
    /// a bytecode that the graph does not have.
    #[default]
    Nothing,
    /// A gap: data were lost. Several gaps without an instruction between them are joined to
    /// one.
    Gap(Box<Gap>),
    /// The next frame was found and does not continue where the last one ended: after a gap the
    /// decoder does not report interpreted frames whose method it does not know.
    Found,
    /// The piece has reached the maximum length; the flow continues.
    More,
}

/// A stretch of a thread's flow without a gap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// The executed instructions.
    pub nodes: Vec<Node>,
    /// Times: index into `nodes`, and the time there.
    pub marks: Vec<(usize, u64)>,
    /// The numbers of the thread's events from the first instruction to the last one, counted
    /// from 0.
    pub events: Range<u64>,
    /// Orphans since the previous piece.
    pub orphans: u64,
    /// The frames below the first instruction.
    pub first: FrameSites,
    /// The frames below the last instruction.
    pub last: FrameSites,
    /// How many frames deeper the last instruction is than the first instruction after the last
    /// gap, not counting native frames. `None` if frames were found in between that do not say
    /// so.
    pub depth: Option<isize>,
    /// The method that was called before the gap after this piece and has executed nothing
    /// there.
    pub entered: Option<MethodId>,
    /// How many paths fitted at the first and at the last instruction: 1 where they were
    /// decoded, 0 in an empty piece.
    pub paths: (u32, u32),
    /// The cause of its end.
    pub behind: Behind,
}

impl Piece {
    /// The gap after the piece. Its beginning is not known if unknown frames may have run
    /// before it.
    pub const fn gap(&self) -> Option<&Gap> {
        match &self.behind {
            Behind::Gap(gap) => Some(gap),
            _ => None,
        }
    }
    /// Replaces each time by that of `clock`, which must be monotonic.
    pub fn retime(&mut self, clock: impl Fn(Tsc) -> u64) {
        self.marks.iter_mut().for_each(|mark| mark.1 = clock(Tsc(mark.1)));
        if let Behind::Gap(gap) = &mut self.behind {
            [&mut gap.since, &mut gap.until].into_iter().flatten().for_each(|time| *time = Tsc(clock(*time)));
        }
    }
}

/// An activation on the stack.
#[derive(Clone, Copy, Debug)]
struct CutterFrame {
    method: MethodId,
    /// The last instruction that was seen to run in it.
    at: Option<Node>,
}

/// Cuts one thread's flow. `G` holds the graph: a reference, or a type that a sink can own.
#[derive(Debug)]
pub struct Cutter<G> {
    icfg: G,
    /// The number of instructions at which a piece is cut.
    longest: usize,
    stack: Vec<CutterFrame>,
    whole: bool,
    /// Frames that continue in a frame of another tier, innermost first.
    replaced: Vec<CutterFrame>,
    /// How many of the frames at the last instruction are still there, and the others in the
    /// order in which they left.
    stayed: usize,
    left: Vec<CutterFrame>,
    /// The value of `whole` at the last instruction.
    was_whole: bool,
    /// Whether a frame was given up since the last instruction: until then the decoder knew
    /// what ran.
    given_up: bool,
    /// Whether a frame was found since the last instruction; its callers may have been found,
    /// too.
    found: bool,
    /// The frames below the last instruction, if frames were found since.
    before_found: Option<FrameSites>,
    /// The current [`Piece::depth`], and that of the last instruction.
    depth: Option<isize>,
    last_depth: Option<isize>,
    /// Whether no instruction has been executed since the last gap.
    after_gap: bool,
    /// The frames that were entered since the last instruction and are still there: the method,
    /// if it was called.
    entered: Vec<Option<MethodId>>,
    /// The number of the next event.
    number: u64,
    /// Orphans since the last piece was cut.
    orphans: u64,
    piece: Piece,
    done: Vec<Piece>,
}

impl<G: Deref<Target = Icfg>> Cutter<G> {
    /// Cuts a flow that starts at the thread's beginning.
    pub fn new(icfg: G) -> Self {
        Self::with_longest(icfg, usize::MAX)
    }
    /// Like [`Self::new`], but a piece ends with the event that brings it to `longest`
    /// instructions, so that it can be [drained](Self::drain) before a gap comes.
    pub fn with_longest(icfg: G, longest: usize) -> Self {
        Self {
            icfg,
            longest: longest.max(1),
            stack: Vec::new(),
            whole: true,
            replaced: Vec::new(),
            stayed: 0,
            left: Vec::new(),
            was_whole: true,
            given_up: false,
            found: false,
            before_found: None,
            depth: None,
            last_depth: None,
            after_gap: false,
            entered: Vec::new(),
            number: 0,
            orphans: 0,
            piece: Piece::default(),
            done: Vec::new(),
        }
    }
    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Enter { method, entry, .. } => self.enter(*method, *entry),
            EventKind::Leave { method, exit } => self.leave(*method, *exit),
            EventKind::Bytecode { method, bci, .. } => self.run(*method, (*bci, *bci, 1), event.provenance),
            EventKind::Run { method, first, last, len, .. } => {
                self.run(*method, (*first, *last, *len), event.provenance);
            }
            EventKind::Unresolved { .. } => self.cut(Behind::Nothing),
            EventKind::Gap(gap) => {
                let mut behind = gap.clone();
                // Unknown frames may have run between the last instruction and the gap.
                behind.since = gap.since.filter(|_| self.given_up || !self.stack.is_empty());
                self.cut(Behind::Gap(behind));
                (self.found, self.after_gap) = (false, true);
                if gap.stack_lost {
                    self.forget();
                }
            }
            EventKind::Time(tsc) => {
                let at = self.piece.nodes.len();
                self.piece.marks.pop_if(|m| m.0 == at);
                self.piece.marks.push((at, tsc.get()));
            }
            EventKind::Orphan(Orphan::Bytecode { .. }) => self.orphans += 1,
            EventKind::Catch { .. } | EventKind::Orphan(_) | EventKind::Code(_) => {}
        }
        self.number += 1;
    }
    /// The complete pieces that were not drained before. The last one is held back as long as a
    /// further gap may join the gap that ended it.
    pub fn drain(&mut self) -> impl Iterator<Item = Piece> + '_ {
        let held = usize::from(self.piece.nodes.is_empty());
        self.done.drain(..self.done.len().saturating_sub(held))
    }
    /// The pieces that were not drained, at the end of the flow.
    pub fn finish(&mut self) -> Vec<Piece> {
        if !self.piece.nodes.is_empty() {
            self.cut(Behind::Nothing);
        }
        std::mem::take(&mut self.done)
    }
    fn enter(&mut self, method: MethodId, entry: Entry) {
        let before = match entry {
            Entry::Osr | Entry::Deoptimisation => self.replaced.pop().filter(|a| a.method == method),
            _ => None,
        };
        if entry == Entry::Found && !self.found {
            if !self.piece.nodes.is_empty() {
                self.before_found = Some(self.last_sites());
            }
            self.forget();
            self.found = true;
        }
        if entry != Entry::Found {
            self.go_deeper(method, 1);
            // After frames were given up, nothing leaves this list before the next instruction.
            if !self.given_up {
                self.entered.push(Some(method).filter(|_| matches!(entry, Entry::Call | Entry::Upcall)));
            }
        }
        self.stack.push(CutterFrame { method, at: before.and_then(|a| a.at) });
    }
    fn leave(&mut self, method: MethodId, exit: Exit) {
        if exit != Exit::Replaced {
            self.replaced.clear();
        }
        self.found = false;
        self.given_up |= exit == Exit::Lost;
        self.go_deeper(method, -1);
        if !self.given_up {
            self.entered.pop();
        }
        let Some(top) = self.stack.pop() else {
            self.whole = false;
            return;
        };
        if self.stack.len() < self.stayed {
            self.stayed = self.stack.len();
            self.left.push(top);
        }
        if top.method != method {
            self.forget();
        } else if exit == Exit::Replaced {
            self.replaced.push(top);
        }
    }
    /// Adds `frames` to the depth, if `method` is not native.
    fn go_deeper(&mut self, method: MethodId, frames: isize) {
        if let Some(depth) = self.depth.as_mut().filter(|_| self.icfg.entry(method).is_some()) {
            *depth += frames;
        }
    }
    fn run(&mut self, method: MethodId, (first, last, len): (Bci, Bci, u16), provenance: Provenance) {
        let ends = self.icfg.node_at(method, first).zip(self.icfg.node_at(method, last));
        let Some((node, last)) = ends.filter(|(first, last)| last.0 + 1 == first.0 + u32::from(len)) else {
            return self.cut(Behind::Nothing);
        };
        if self.before_found.is_some() {
            if self.returns_to(node) {
                self.before_found = None;
            } else {
                self.cut(Behind::Found);
                self.depth = None;
            }
        }
        if self.stack.last().is_none_or(|top| top.method != method) {
            self.forget();
            self.stack.push(CutterFrame { method, at: None });
        }
        if self.piece.nodes.is_empty() {
            self.piece.first = self.sites();
            self.piece.events.start = self.number;
            self.piece.paths.0 = paths_of(provenance);
        }
        self.piece.paths.1 = paths_of(provenance);
        self.piece.nodes.extend((node.0..=last.0).map(Node));
        self.piece.events.end = self.number + 1;
        if let Some(top) = self.stack.last_mut() {
            top.at = Some(last);
        }
        self.left.clear();
        self.entered.clear();
        if std::mem::take(&mut self.after_gap) {
            self.depth = Some(0);
        }
        self.last_depth = self.depth;
        (self.stayed, self.was_whole) = (self.stack.len(), self.whole);
        (self.given_up, self.found) = (false, false);
        if self.piece.nodes.len() >= self.longest {
            self.cut(Behind::More);
        }
    }
    /// Whether the last instruction is a return that may lead to `node`.
    fn returns_to(&self, node: Node) -> bool {
        let g = &*self.icfg;
        let Some(last) = self.piece.nodes.last() else { return false };
        let (Some(site), Some(entry)) = (node.0.checked_sub(1).map(Node), g.entry(g.method(*last))) else {
            return false;
        };
        g.opcode(*last).transfer() == Transfer::Return
            && g.edges(site).any(|(_, n)| n == node)
            && g.may_call(site, entry)
    }
    fn forget(&mut self) {
        self.stack.clear();
        self.left.clear();
        self.stayed = 0;
        (self.whole, self.was_whole) = (false, false);
    }
    /// The call sites below the top frame.
    fn sites(&self) -> FrameSites {
        let below = self.stack.split_last().map_or(&[][..], |(_, below)| below);
        self.sites_of(below.iter().rev(), self.whole)
    }
    /// The call sites below the frame of the last instruction, whatever was left or entered
    /// since.
    fn last_sites(&self) -> FrameSites {
        let stayed = &self.stack[..self.stayed.min(self.stack.len())];
        let innermost_first = self.left.iter().chain(stayed.iter().rev());
        self.sites_of(innermost_first.skip(1), self.was_whole)
    }
    /// The call sites of frames, given innermost first. A native method has none: its callees
    /// count as called from its own call site.
    fn sites_of<'a>(
        &self,
        innermost_first: impl Iterator<Item = &'a CutterFrame> + Clone,
        whole: bool,
    ) -> FrameSites {
        let java = innermost_first.filter(|a| self.icfg.entry(a.method).is_some());
        let mut sites: Vec<Node> = java.clone().map_while(|a| a.at).collect();
        sites.reverse();
        let whole = whole && sites.len() == java.count();
        FrameSites { sites, whole }
    }
    /// Ends the piece.
    fn cut(&mut self, behind: Behind) {
        let before_found = self.before_found.take();
        let is_gap = matches!(behind, Behind::Gap(_));
        if self.piece.nodes.is_empty() {
            if is_gap {
                self.piece.marks.clear();
            }
            if let Some(last) = self.done.last_mut() {
                if last.behind == Behind::More {
                    last.entered = self.entered.last().copied().flatten();
                }
                last.behind = joined(std::mem::take(&mut last.behind), behind);
            }
            return;
        }
        let mut piece = std::mem::take(&mut self.piece);
        piece.last = before_found.unwrap_or_else(|| self.last_sites());
        let len = piece.nodes.len();
        // A time after the last instruction is that of the next instruction, unless data were
        // lost in between.
        let next = piece.marks.pop_if(|m| m.0 >= len).filter(|_| !is_gap);
        self.piece.marks = next.map(|m| (0, m.1)).into_iter().collect();
        piece.behind = behind;
        piece.depth = self.last_depth;
        piece.entered = self.entered.last().copied().flatten();
        piece.orphans = std::mem::take(&mut self.orphans);
        self.done.push(piece);
    }
}

/// The number of paths that fitted at a bytecode with this provenance.
const fn paths_of(provenance: Provenance) -> u32 {
    match provenance {
        Provenance::Projected { paths } if paths > 1 => paths,
        _ => 1,
    }
}

/// Joins two causes of an end with no instruction between them: the result is the one of which
/// less is known.
fn joined(first: Behind, second: Behind) -> Behind {
    match (first, second) {
        (Behind::Gap(mut first), Behind::Gap(second)) => {
            first.until = second.until;
            first.stack_lost |= second.stack_lost;
            first.bytes = first.bytes.zip(second.bytes).map(|(a, b)| a.saturating_add(b));
            Behind::Gap(first)
        }
        (Behind::More, second) => second,
        _ => Behind::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{at, calling, graph, method};
    use jportal_flow::{GapReason, Tier};
    use jportal_units::{Core, StreamOffset, Tsc};

    /// The duration of the gap after the piece, if known.
    fn lost_time(piece: &Piece) -> Option<u64> {
        let gap = piece.gap()?;
        Some(gap.until?.get().saturating_sub(gap.since?.get()))
    }
    /// 0 main calls f and native; 1 f; 2 native.
    fn program() -> Icfg {
        let main = calling(method("main", &[184, 0, 1, 184, 0, 2, 177]), &["f", "native"]);
        let mut native = method("native", &[]);
        native.access_flags = 0x108;
        graph(vec![main, method("f", &[26, 27, 177]), native])
    }
    fn enter(method: u32, entry: Entry) -> EventKind {
        EventKind::Enter { method: MethodId(method), tier: Tier::Interpreter, entry }
    }
    fn leave(method: u32, exit: Exit) -> EventKind {
        EventKind::Leave { method: MethodId(method), exit }
    }
    fn code(method: u32, bci: u16) -> EventKind {
        EventKind::Bytecode { method: MethodId(method), bci: Bci(bci), tier: Tier::Interpreter }
    }
    fn gap(since: u64, until: u64, stack_lost: bool) -> EventKind {
        EventKind::Gap(Box::new(Gap {
            reason: GapReason::Truncated,
            core: Core(0),
            offset: StreamOffset(0),
            address: None,
            since: Some(Tsc(since)),
            until: Some(Tsc(until)),
            bytes: None,
            stack_lost,
        }))
    }
    fn cut(g: &Icfg, events: Vec<EventKind>) -> Vec<Piece> {
        let mut cutter = Cutter::new(g);
        events.into_iter().for_each(|e| cutter.event(&Event::decoded(e)));
        cutter.finish()
    }

    #[test]
    fn frames_on_both_sides_of_a_gap() {
        let g = program();
        let pieces = cut(
            &g,
            vec![
                enter(0, Entry::Upcall),
                EventKind::Time(Tsc(10)),
                code(0, 0),
                enter(1, Entry::Call),
                code(1, 0),
                EventKind::Time(Tsc(20)),
                gap(20, 50, false),
                code(1, 2),
                leave(1, Exit::Return),
                code(0, 3),
            ],
        );
        let site = FrameSites { sites: at(&g, 0, &[0]), whole: true };
        let none = FrameSites { sites: vec![], whole: true };
        assert_eq!(pieces.len(), 2);
        assert_eq!(
            (&pieces[0].nodes, &pieces[0].marks[..]),
            (&[at(&g, 0, &[0]), at(&g, 1, &[0])].concat(), &[(0, 10)][..])
        );
        assert_eq!((&pieces[0].first, &pieces[0].last, lost_time(&pieces[0])), (&none, &site, Some(30)));
        assert_eq!((&pieces[1].first, &pieces[1].last, pieces[1].gap()), (&site, &none, None));
    }

    #[test]
    fn lost_stacks_are_known_from_where_they_are_seen() {
        let g = program();
        let pieces = cut(
            &g,
            vec![
                enter(0, Entry::Upcall),
                code(0, 0),
                gap(1, 2, true),
                gap(3, 9, false),
                enter(0, Entry::Found),
                code(0, 0),
                enter(1, Entry::Call),
                code(1, 0),
            ],
        );
        assert_eq!((pieces.len(), lost_time(&pieces[0])), (2, Some(8)));
        assert_eq!(pieces[1].first, FrameSites { sites: vec![], whole: false });
        assert_eq!(pieces[1].last, FrameSites { sites: at(&g, 0, &[0]), whole: false });
    }

    #[test]
    fn frames_that_nobody_saw_stay_unknown() {
        let g = program();
        // The stack is lost, and the next bytecode is another method's.
        let events = vec![enter(0, Entry::Upcall), code(0, 0), gap(1, 2, true), code(1, 0)];
        assert_eq!(cut(&g, events)[1].first, FrameSites { sites: vec![], whole: false });
        let events = vec![
            enter(0, Entry::Upcall),
            code(0, 0),
            gap(1, 2, true),
            code(0, 3),
            enter(1, Entry::Call),
            code(1, 0),
        ];
        assert_eq!(cut(&g, events)[1].last, FrameSites { sites: at(&g, 0, &[3]), whole: false });
        // A frame that is found may have any frames below it.
        let events = vec![enter(0, Entry::Upcall), code(0, 0), enter(1, Entry::Found), code(1, 0)];
        let pieces = cut(&g, events);
        assert_eq!(
            (&pieces[0].behind, &pieces[0].last),
            (&Behind::Found, &FrameSites { sites: vec![], whole: true })
        );
        assert_eq!(pieces[1].first, FrameSites { sites: vec![], whole: false });
        // main was entered, but its position is unknown.
        let events = vec![enter(0, Entry::Upcall), enter(1, Entry::Call), code(1, 0)];
        assert_eq!(cut(&g, events)[0].last, FrameSites { sites: vec![], whole: false });
    }

    #[test]
    fn replaced_frames_keep_their_place() {
        let g = program();
        let events = vec![
            enter(0, Entry::Upcall),
            code(0, 0),
            enter(1, Entry::Call),
            code(1, 0),
            leave(1, Exit::Replaced),
            leave(0, Exit::Replaced),
            enter(0, Entry::Deoptimisation),
            enter(1, Entry::Deoptimisation),
            code(1, 1),
        ];
        let pieces = cut(&g, events);
        assert_eq!(pieces[0].last, FrameSites { sites: at(&g, 0, &[0]), whole: true });
    }

    #[test]
    fn native_frames_have_no_place() {
        let g = program();
        let events = vec![
            enter(0, Entry::Upcall),
            code(0, 3),
            enter(2, Entry::Call),
            enter(1, Entry::Upcall),
            code(1, 0),
        ];
        assert_eq!(cut(&g, events)[0].last, FrameSites { sites: at(&g, 0, &[3]), whole: true });
    }

    #[test]
    fn what_is_unresolved_or_unknown_ends_a_piece() {
        let g = program();
        let unresolved = EventKind::Unresolved {
            method: MethodId(0),
            from: None,
            to: None,
            cause: jportal_flow::Cause::ConditionalMove,
            callers: 0,
        };
        let events =
            vec![enter(0, Entry::Upcall), code(0, 0), unresolved, code(0, 3), code(0, 1), code(0, 6)];
        let pieces = cut(&g, events);
        assert_eq!(pieces.iter().map(|p| p.nodes.len()).collect::<Vec<_>>(), [1, 1, 1]);
        assert!(pieces.iter().all(|p| p.behind == Behind::Nothing));
    }

    #[test]
    fn a_run_is_its_bytecodes() {
        let g = program();
        let run = |first, last, len| EventKind::Run {
            method: MethodId(0),
            first: Bci(first),
            last: Bci(last),
            len,
            tier: Tier::Interpreter,
        };
        let rest = [gap(1, 2, false), code(0, 6)];
        let events = |what: EventKind| [&[enter(0, Entry::Upcall), what][..], &rest].concat();
        let pieces = cut(&g, events(run(0, 6, 3)));
        assert_eq!((&pieces[0].nodes, &pieces[0].events), (&at(&g, 0, &[0, 3, 6]), &(1..2)));
        // A run that does not match the graph.
        assert_eq!(cut(&g, events(run(0, 6, 4))).len(), 1);
        let entered = vec![enter(0, Entry::Upcall), run(0, 3, 2), enter(1, Entry::Call), code(1, 0)];
        assert_eq!(cut(&g, entered)[0].last, FrameSites { sites: at(&g, 0, &[3]), whole: true });
    }

    /// The events before a gap as the decoder reports them: all frames are given up.
    fn lost_in_f() -> Vec<EventKind> {
        vec![
            enter(0, Entry::Upcall),
            code(0, 0),
            enter(1, Entry::Call),
            code(1, 0),
            leave(1, Exit::Lost),
            leave(0, Exit::Lost),
            gap(1, 2, true),
        ]
    }

    #[test]
    fn frames_that_are_given_up_were_there() {
        let g = program();
        let mut events = lost_in_f();
        events.extend([enter(1, Entry::Found), code(1, 1)]);
        let pieces = cut(&g, events);
        assert_eq!(pieces[0].last, FrameSites { sites: at(&g, 0, &[0]), whole: true });
        assert_eq!((pieces[0].events.clone(), pieces[1].events.clone()), (1..4, 8..9));
        // A frame that was entered and left after the last instruction is not below it.
        let events = vec![
            enter(0, Entry::Upcall),
            code(0, 0),
            enter(1, Entry::Call),
            leave(1, Exit::Lost),
            leave(0, Exit::Lost),
            gap(1, 2, true),
        ];
        assert_eq!(cut(&g, events)[0].last, FrameSites { sites: vec![], whole: true });
        let events = vec![
            enter(0, Entry::Upcall),
            code(0, 0),
            enter(1, Entry::Call),
            code(1, 2),
            leave(1, Exit::Return),
            leave(0, Exit::Lost),
            gap(1, 2, true),
        ];
        assert_eq!(cut(&g, events)[0].last, FrameSites { sites: at(&g, 0, &[0]), whole: true });
    }

    #[test]
    fn a_frame_that_is_found_continues_after_a_return_or_after_something_else() {
        let g = program();
        let found = |bci| {
            let mut events = lost_in_f();
            events.extend([enter(1, Entry::Found), code(1, 2), leave(1, Exit::Return)]);
            events.extend([enter(0, Entry::Found), code(0, bci)]);
            cut(&g, events)
        };
        let pieces = found(3);
        assert_eq!((pieces.len(), &pieces[1].nodes), (2, &[at(&g, 1, &[2]), at(&g, 0, &[3])].concat()));
        let pieces = found(0);
        assert_eq!((pieces.len(), &pieces[1].behind), (3, &Behind::Found));
        // Inlined callers are found together.
        let mut events = lost_in_f();
        events.extend([enter(0, Entry::Found), enter(1, Entry::Found), code(1, 1), code(1, 2)]);
        events.extend([leave(1, Exit::Return), code(0, 3)]);
        assert_eq!(cut(&g, events).len(), 2);
    }

    #[test]
    fn pieces_are_drained_when_nothing_can_join_them() {
        let g = program();
        let mut cutter = Cutter::with_longest(&g, 2);
        let mut drained = Vec::new();
        let mut feed = |events: Vec<EventKind>| {
            events.into_iter().for_each(|e| cutter.event(&Event::decoded(e)));
            drained.push(cutter.drain().count());
        };
        feed(vec![enter(1, Entry::Upcall), EventKind::Time(Tsc(5)), code(1, 0), code(1, 1)]);
        feed(vec![EventKind::Time(Tsc(9))]);
        feed(vec![
            code(1, 2),
            leave(1, Exit::Return),
            enter(1, Entry::Upcall),
            code(1, 0),
            gap(20, 30, false),
        ]);
        feed(vec![gap(30, 40, false)]);
        feed(vec![code(1, 1)]);
        assert_eq!(drained, [0, 0, 1, 0, 1]);
        assert_eq!(cutter.finish().len(), 1);
        // The same events again, to examine the pieces.
        let mut cutter = Cutter::with_longest(&g, 2);
        let events = [enter(1, Entry::Upcall), EventKind::Time(Tsc(5)), code(1, 0), code(1, 1)];
        let more =
            [EventKind::Time(Tsc(9)), code(1, 2), EventKind::Time(Tsc(10)), gap(20, 30, false), code(1, 1)];
        events.into_iter().chain(more).for_each(|e| cutter.event(&Event::decoded(e)));
        let pieces = cutter.finish();
        assert_eq!(
            (&pieces[0].behind, &pieces[1].marks[..], lost_time(&pieces[1])),
            (&Behind::More, &[(0, 9)][..], Some(10))
        );
        assert_eq!(pieces[2].marks, []);
    }

    #[test]
    fn times_by_another_clock() {
        let g = program();
        let mut events = lost_in_f();
        events.insert(1, EventKind::Time(Tsc(1)));
        let piece = &mut cut(&g, events)[0];
        piece.retime(|time| 100 * time.0);
        assert_eq!((&piece.marks[..], lost_time(piece)), (&[(0, 100)][..], Some(100)));
        let gap = piece.gap().unwrap();
        assert_eq!((gap.since, gap.until), (Some(Tsc(100)), Some(Tsc(200))));
    }

    #[test]
    fn what_has_been_called_in_front_of_a_gap_was_called_before_frames_were_given_up() {
        let g = program();
        let called = |behind: EventKind| {
            let events =
                [enter(0, Entry::Upcall), code(0, 0), enter(1, Entry::Call), behind, gap(1, 2, true)];
            cut(&g, events.to_vec())[0].entered
        };
        assert_eq!(called(EventKind::Time(Tsc(1))), Some(MethodId(1)));
        assert_eq!(called(leave(1, Exit::Lost)), Some(MethodId(1)));
        assert_eq!(called(leave(1, Exit::Return)), None);
        // Calls after that say nothing about the beginning of the gap, however many they are.
        let mut events = lost_in_f();
        events.truncate(6);
        events.extend([
            enter(2, Entry::Call),
            leave(2, Exit::Return),
            enter(2, Entry::Call),
            gap(1, 2, true),
        ]);
        assert_eq!(cut(&g, events)[0].entered, None);
    }

    #[test]
    fn a_gap_begins_where_the_last_frame_known_was_given_up() {
        let g = program();
        let mut events = lost_in_f();
        assert_eq!(lost_time(&cut(&g, events.clone())[0]), Some(1));
        events.splice(4..6, [leave(1, Exit::Return), leave(0, Exit::Return)]);
        assert_eq!(lost_time(&cut(&g, events)[0]), None);
    }

    #[test]
    fn a_gap_with_an_unresolved_stretch_is_not_filled() {
        let g = program();
        let unresolved = EventKind::Unresolved {
            method: MethodId(0),
            from: None,
            to: Some(Bci(3)),
            cause: jportal_flow::Cause::ConditionalMove,
            callers: 0,
        };
        let mut events = lost_in_f();
        events.extend([enter(0, Entry::Found), unresolved, code(0, 3)]);
        assert_eq!(cut(&g, events)[0].behind, Behind::Nothing);
    }
}
