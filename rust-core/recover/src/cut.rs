//! From the flow of a thread to segments: what was captured between gaps, with the frames on both sides.

use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node};
use jportal_flow::{Entry, Event, EventKind, Exit, Gap};
use jportal_units::{Bci, MethodId};

/// Call sites of frames, as far as they are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sites {
    /// Outermost first.
    pub sites: Vec<Node>,
    /// Whether nothing lies below.
    pub whole: bool,
}

impl Sites {
    /// The frames as projection and recovery take them.
    pub fn below(&self) -> Below<'_> {
        if self.whole { Below::Frames(&self.sites) } else { Below::Top(&self.sites) }
    }
}

/// A stretch of a thread's flow without a gap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// What was executed.
    pub nodes: Vec<Node>,
    /// Index into `nodes` and time.
    pub marks: Vec<(usize, u64)>,
    /// The frames below the first instruction.
    pub first: Sites,
    /// The frames below the last one.
    pub last: Sites,
    /// The gap behind it; `None` where the flow ends, or goes on behind something that is no gap (an unresolved stretch).
    pub gap: Option<Box<Gap>>,
}

impl Piece {
    /// How long the gap behind it took, if that is known.
    pub fn lost_time(&self) -> Option<u64> {
        let gap = self.gap.as_ref()?;
        Some(gap.until?.get().saturating_sub(gap.since?.get()))
    }
}

/// An activation on the stack.
#[derive(Clone, Copy, Debug)]
struct Activation {
    method: MethodId,
    /// Its last instruction seen.
    at: Option<Node>,
}

/// Cuts one thread's flow.
#[derive(Debug)]
pub struct Cutter<'a> {
    icfg: &'a Icfg,
    stack: Vec<Activation>,
    whole: bool,
    /// Frames that go on in another kind of frame, innermost first.
    replaced: Vec<Activation>,
    piece: Piece,
    done: Vec<Piece>,
}

impl<'a> Cutter<'a> {
    /// For a flow from the thread's beginning on.
    pub fn new(icfg: &'a Icfg) -> Self {
        let (stack, replaced, done) = (Vec::new(), Vec::new(), Vec::new());
        Self { icfg, stack, whole: true, replaced, piece: Piece::default(), done }
    }
    /// The next event.
    pub fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Enter { method, entry, .. } => self.enter(*method, *entry),
            EventKind::Leave { method, exit } => self.leave(*method, *exit),
            EventKind::Bytecode { method, bci, .. } => self.bytecode(*method, *bci),
            EventKind::Unresolved { .. } => self.cut(None),
            EventKind::Gap(gap) => {
                self.cut(Some(gap.clone()));
                if gap.stack_lost {
                    self.forget();
                }
            }
            EventKind::Time(tsc) => {
                let at = self.piece.nodes.len();
                self.piece.marks.pop_if(|m| m.0 == at);
                self.piece.marks.push((at, tsc.get()));
            }
            EventKind::Catch { .. } | EventKind::Orphan(_) => {}
        }
    }
    /// The pieces, when the flow is over.
    pub fn finish(mut self) -> Vec<Piece> {
        self.cut(None);
        self.done
    }
    fn enter(&mut self, method: MethodId, entry: Entry) {
        let before = match entry {
            Entry::Osr | Entry::Deoptimisation => self.replaced.pop().filter(|a| a.method == method),
            _ => None,
        };
        if entry == Entry::Found {
            self.forget();
        }
        self.stack.push(Activation { method, at: before.and_then(|a| a.at) });
    }
    fn leave(&mut self, method: MethodId, exit: Exit) {
        if exit != Exit::Replaced {
            self.replaced.clear();
        }
        match self.stack.pop() {
            Some(top) if top.method == method => {
                if exit == Exit::Replaced {
                    self.replaced.push(top);
                }
            }
            Some(_) => self.forget(),
            None => self.whole = false,
        }
    }
    fn bytecode(&mut self, method: MethodId, bci: Bci) {
        let Some(node) = self.icfg.node_at(method, bci) else { return self.cut(None) };
        if self.stack.last().is_none_or(|top| top.method != method) {
            self.forget();
            self.stack.push(Activation { method, at: None });
        }
        if self.piece.nodes.is_empty() {
            self.piece.first = self.sites();
        }
        self.piece.nodes.push(node);
        if let Some(top) = self.stack.last_mut() {
            top.at = Some(node);
        }
    }
    fn forget(&mut self) {
        self.stack.clear();
        self.whole = false;
    }
    /// The call sites below the top frame. A native method has none: what it calls is called from its own call site.
    fn sites(&self) -> Sites {
        let below = self.stack.split_last().map_or(&[][..], |(_, below)| below);
        let java = |a: &&Activation| self.icfg.entry(a.method).is_some();
        let mut sites: Vec<Node> = below.iter().rev().filter(java).map_while(|a| a.at).collect();
        sites.reverse();
        let whole = self.whole && sites.len() == below.iter().filter(java).count();
        Sites { sites, whole }
    }
    /// Ends the piece.
    fn cut(&mut self, gap: Option<Box<Gap>>) {
        let mut piece = std::mem::take(&mut self.piece);
        if piece.nodes.is_empty() {
            // A gap behind a gap: one of which less is known.
            if let Some(last) = self.done.last_mut().filter(|_| gap.is_some()) {
                last.gap = joined(last.gap.take(), gap);
            }
            return;
        }
        piece.last = self.sites();
        let len = piece.nodes.len();
        piece.marks.retain(|m| m.0 < len);
        piece.gap = gap;
        self.done.push(piece);
    }
}

/// Two gaps with nothing between them.
fn joined(first: Option<Box<Gap>>, second: Option<Box<Gap>>) -> Option<Box<Gap>> {
    let (Some(mut first), Some(second)) = (first, second) else { return None };
    first.until = second.until;
    first.stack_lost |= second.stack_lost;
    first.bytes = first.bytes.zip(second.bytes).map(|(a, b)| a.saturating_add(b));
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{at, calling, graph, method};
    use jportal_flow::{GapReason, Tier};
    use jportal_units::{Core, StreamOffset, Tsc};

    /// 0: main calls f and native; 1: f; 2: native.
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
        let site = Sites { sites: at(&g, 0, &[0]), whole: true };
        let none = Sites { sites: vec![], whole: true };
        assert_eq!(pieces.len(), 2);
        assert_eq!(
            (&pieces[0].nodes, &pieces[0].marks[..]),
            (&[at(&g, 0, &[0]), at(&g, 1, &[0])].concat(), &[(0, 10)][..])
        );
        assert_eq!((&pieces[0].first, &pieces[0].last, pieces[0].lost_time()), (&none, &site, Some(30)));
        assert_eq!((&pieces[1].first, &pieces[1].last, &pieces[1].gap), (&site, &none, &None));
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
        assert_eq!((pieces.len(), pieces[0].lost_time()), (2, Some(8)));
        assert_eq!(pieces[1].first, Sites { sites: vec![], whole: false });
        assert_eq!(pieces[1].last, Sites { sites: at(&g, 0, &[0]), whole: false });
    }

    #[test]
    fn frames_that_nobody_saw_stay_unknown() {
        let g = program();
        // The stack is lost, and the next bytecode is another method's.
        let events = vec![enter(0, Entry::Upcall), code(0, 0), gap(1, 2, true), code(1, 0)];
        assert_eq!(cut(&g, events)[1].first, Sites { sites: vec![], whole: false });
        let events = vec![
            enter(0, Entry::Upcall),
            code(0, 0),
            gap(1, 2, true),
            code(0, 3),
            enter(1, Entry::Call),
            code(1, 0),
        ];
        assert_eq!(cut(&g, events)[1].last, Sites { sites: at(&g, 0, &[3]), whole: false });
        // A frame that is found may have any below it.
        let events = vec![enter(0, Entry::Upcall), code(0, 0), enter(1, Entry::Found), code(1, 0)];
        assert_eq!(cut(&g, events)[0].last, Sites { sites: vec![], whole: false });
        // main was entered, but where it stands nobody saw.
        let events = vec![enter(0, Entry::Upcall), enter(1, Entry::Call), code(1, 0)];
        assert_eq!(cut(&g, events)[0].last, Sites { sites: vec![], whole: false });
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
        assert_eq!(pieces[0].last, Sites { sites: at(&g, 0, &[0]), whole: true });
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
        assert_eq!(cut(&g, events)[0].last, Sites { sites: at(&g, 0, &[3]), whole: true });
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
        assert!(pieces.iter().all(|p| p.gap.is_none()));
    }
}
