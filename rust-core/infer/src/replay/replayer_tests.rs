// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::cut::{Cutter, FrameSites};
use crate::fill::{Confidence, FillWork};
use crate::replay::holes::{Before, Learned, Places};
use crate::support::{at, calling, graph, method};
use jportal_bytecode::Method;
use jportal_units::Bci;
use std::sync::{Arc, Mutex};

/// Gives each place the same fill, and each invoke that lacks its callee the same callee.
struct Always(Vec<Node>, Option<Vec<Node>>);
impl Filler for Always {
    fn fill(&mut self, _: Question) -> Option<RatedFill> {
        Some(RatedFill {
            nodes: self.0.clone(),
            confidence: Confidence::uniform(self.0.len(), 0.7),
            ..RatedFill::default()
        })
    }
    fn callee_of(&self, _: Node) -> Option<Vec<Node>> {
        self.1.clone()
    }
    fn work(&self) -> FillWork {
        FillWork::default()
    }
}
/// Fills with these instructions, and knows the callee of some invokes.
struct Named(Vec<Node>, Vec<(Node, Vec<Node>)>);
impl Filler for Named {
    fn fill(&mut self, _: Question) -> Option<RatedFill> {
        Some(RatedFill {
            nodes: self.0.clone(),
            confidence: Confidence::uniform(self.0.len(), 0.7),
            ..RatedFill::default()
        })
    }
    fn callee_of(&self, site: Node) -> Option<Vec<Node>> {
        self.1.iter().find(|known| known.0 == site).map(|known| known.1.clone())
    }
    fn work(&self) -> FillWork {
        FillWork::default()
    }
}
/// Fills with these instructions, with gaps where no frames lead to an instruction, and one
/// before the instruction with this index.
struct Parted(Vec<Node>, Option<usize>);
impl Filler for Parted {
    fn fill(&mut self, _: Question) -> Option<RatedFill> {
        let confidence = Confidence::uniform(self.0.len(), 0.7);
        Some(RatedFill { nodes: self.0.clone(), confidence, broken: self.1, breaks: true })
    }
    fn work(&self) -> FillWork {
        FillWork::default()
    }
}
/// Collects the events.
struct Keeps(Arc<Mutex<Vec<Event>>>);
impl FlowSink for Keeps {
    fn events(&mut self, events: &[Event]) {
        self.0.lock().unwrap().extend_from_slice(events);
    }
    fn end(self: Box<Self>) {}
}

/// 0 main and 1 other call 2 f.
fn program() -> Icfg {
    let caller = |name| calling(method(name, &[184, 0, 1, 177]), &["f"]);
    graph(vec![caller("main"), caller("other"), method("f", &[26, 177])])
}
fn enter(method: u32, tier: Tier, entry: Entry) -> EventKind {
    EventKind::Enter { method: MethodId(method), tier, entry }
}
fn code(method: u32, bci: u16, tier: Tier) -> EventKind {
    EventKind::Bytecode { method: MethodId(method), bci: Bci(bci), tier }
}
fn leave(method: u32, exit: Exit) -> EventKind {
    EventKind::Leave { method: MethodId(method), exit }
}
fn gap() -> EventKind {
    EventKind::Gap(Box::new(Gap {
        reason: GapReason::Overflow,
        core: Core(0),
        offset: StreamOffset(0),
        address: None,
        since: None,
        until: None,
        bytes: None,
        stack_lost: true,
    }))
}
/// Replays these events with the one place in `range`, which `fill` fills.
fn replay(
    g: &Icfg,
    known: MethodKnowledge,
    events: &[EventKind],
    range: std::ops::Range<u64>,
    fill: Vec<Node>,
) -> (Vec<EventKind>, Figures) {
    replay_with(g, known, events, range, Always(fill, None))
}
fn replay_with(
    g: &Icfg,
    known: MethodKnowledge,
    events: &[EventKind],
    range: std::ops::Range<u64>,
    mut filler: impl Filler,
) -> (Vec<EventKind>, Figures) {
    let (before, after) = (Before::default(), FrameSites::default());
    let place = GapPlace { events: range, hole: None, before, after, paths: (1, 1), expected: None };
    let places = [place];
    let [alone, in_runs] = [false, true].map(|runs| {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let sink = Box::new(Keeps(Arc::clone(&kept)));
        let mut replay = Replay::new(g, known.clone(), &places, &mut filler, (sink, runs));
        // One by one, then three at a time.
        let events: Vec<Event> = events.iter().cloned().map(Event::decoded).collect();
        events.chunks(if runs { 3 } else { 1 }).for_each(|events| replay.events(events.to_vec()));
        let figures = replay.end().0;
        let all: Vec<EventKind> = kept.lock().unwrap().iter().map(|e| e.kind.clone()).collect();
        (all, figures)
    });
    let unrolled: Vec<EventKind> = in_runs.0.iter().flat_map(|kind| unrolled(g, kind)).collect();
    assert_eq!((&alone.0, alone.1), (&unrolled, in_runs.1), "runs say the same");
    alone
}
/// The bytecodes of a run, one by one.
fn unrolled(g: &Icfg, kind: &EventKind) -> Vec<EventKind> {
    let EventKind::Run { method, first, last, len, tier } = *kind else { return vec![kind.clone()] };
    let [first, last] = [first, last].map(|bci| g.node_at(method, bci).unwrap().0);
    assert!(len > 1 && last - first + 1 == u32::from(len));
    (first..=last).map(|n| EventKind::Bytecode { method, bci: g.bci(Node(n)), tier }).collect()
}
/// main is at its call, the trace is lost, and f is found in C1 code of `caller` that has
/// inlined it.
fn found_in(caller: u32) -> Vec<EventKind> {
    vec![
        enter(0, Tier::C1, Entry::Upcall),
        code(0, 0, Tier::C1),
        leave(0, Exit::Lost),
        gap(),
        enter(caller, Tier::C1, Entry::Found),
        enter(2, Tier::C1, Entry::Found),
        code(2, 0, Tier::C1),
    ]
}

#[test]
fn a_fill_leads_to_the_frames_that_are_found() {
    let g = program();
    let (all, figures) = replay(&g, MethodKnowledge::default(), &found_in(0), 2..6, vec![]);
    assert_eq!((figures.gaps_filled, figures.contradicted), (1, 0));
    let call = [enter(0, Tier::C1, Entry::Upcall), code(0, 0, Tier::C1), enter(2, Tier::C1, Entry::Call)];
    assert_eq!((&all[..3], &all[3]), (&call[..], &code(2, 0, Tier::C1)));
    // The caller of the found frame is not main: nothing is filled.
    let events = found_in(1);
    let (all, figures) = replay(&g, MethodKnowledge::default(), &events, 2..6, vec![]);
    assert_eq!((figures.gaps_filled, figures.contradicted), (0, 1));
    assert_eq!(all, events);
}

#[test]
fn where_no_frames_lead_on_a_gap_stays() {
    let g = program();
    // The frames that the decoder found and main cannot have called are kept as they are.
    let found = |all: &[EventKind]| {
        let found =
            [enter(1, Tier::C1, Entry::Found), enter(2, Tier::C1, Entry::Found), code(2, 0, Tier::C1)];
        assert_eq!(all[all.len() - 3..], found);
    };
    let is_gap = |kind: &EventKind| matches!(kind, EventKind::Gap(gap) if gap.stack_lost && gap.reason.detail().is_some());
    let events = found_in(1);
    let parted = |fill: Vec<Node>, broken| {
        let (all, figures) = replay_with(&g, MethodKnowledge::default(), &events, 2..6, Parted(fill, broken));
        assert_eq!((figures.gaps, figures.gaps_filled, figures.contradicted), (1, 1, 0), "{all:?}");
        assert_eq!(all.iter().filter(|kind| is_gap(kind)).count() as u64, figures.broken);
        (all, figures.broken)
    };
    // main has called f, which has returned; the found f is the one that other has called.
    let (all, broken) = parted(at(&g, 2, &[0, 1]), None);
    assert_eq!((&all[..2], broken), (&events[..2], 1));
    assert_eq!(
        (&all[2], &all[4]),
        (&enter(2, Tier::Interpreter, Entry::Call), &code(2, 1, Tier::Interpreter))
    );
    assert!(is_gap(&all[7]), "{all:?}");
    found(&all);
    // other returns, but was not seen to be called.
    let (all, broken) = parted(at(&g, 1, &[3]), None);
    let lost = [leave(0, Exit::Lost), gap(), enter(1, Tier::Interpreter, Entry::Found)];
    assert_eq!((&all[2], &all[4], broken), (&lost[0], &lost[2], 2), "{all:?}");
    assert!(is_gap(&all[3]));
    found(&all);
    // The gap is where the fill has it, although frames might lead on.
    let (all, broken) = parted(at(&g, 2, &[0, 1]), Some(1));
    assert_eq!((is_gap(&all[6]), broken), (true, 2), "{all:?}");
    assert_eq!(all[7..9], [enter(2, Tier::Interpreter, Entry::Found), code(2, 1, Tier::Interpreter)]);
    found(&all);
    // A fill that needs more gaps is rejected.
    let fill = [at(&g, 1, &[0]), at(&g, 0, &[3])].concat().repeat(6);
    let (all, figures) = replay_with(&g, MethodKnowledge::default(), &events, 2..6, Parted(fill, None));
    assert_eq!((all, figures.broken, figures.contradicted), (events, 0, 1));
}

#[test]
fn compiled_code_executes_what_only_it_can() {
    let g = program();
    let mut known = MethodKnowledge::default();
    known.executed(MethodId(0), Tier::C1);
    known.executed(MethodId(0), Tier::Interpreter);
    // main passes its call, which the interpreter would not; then it returns, and is called
    // again.
    let fill = at(&g, 0, &[0, 3]);
    let (begin, interpreter) = (enter(2, Tier::Interpreter, Entry::Upcall), Tier::Interpreter);
    let mut events =
        vec![begin, code(2, 0, interpreter), code(2, 1, interpreter), leave(2, Exit::Return), gap()];
    events.extend([enter(2, interpreter, Entry::Found), code(2, 0, interpreter)]);
    let (all, figures) = replay(&g, known, &events, 3..6, fill.clone());
    assert_eq!((figures.gaps_filled, figures.recovered), (1, 2), "{all:?}");
    assert!(all.contains(&enter(0, Tier::C1, Entry::Upcall)), "{all:?}");
    let (all, figures) = replay(&g, MethodKnowledge::default(), &events, 3..6, fill);
    assert_eq!((figures.gaps_filled, figures.contradicted), (0, 1));
    assert_eq!(all, events);
}

#[test]
fn the_interpreter_calls_what_compiled_code_has_inlined() {
    let g = program();
    let (interpreter, f) = (Tier::Interpreter, at(&g, 2, &[0, 1]));
    let main = enter(0, interpreter, Entry::Upcall);
    let found = enter(0, interpreter, Entry::Found);
    let events = [main, code(0, 0, interpreter), leave(0, Exit::Lost), gap(), found, code(0, 3, interpreter)];
    let filled = |known, callee| replay_with(&g, known, &events, 2..5, Always(vec![], callee));
    let (all, figures) = filled(MethodKnowledge::default(), Some(f));
    assert_eq!((figures.gaps_filled, figures.recovered), (1, 2), "{all:?}");
    let call = enter(2, interpreter, Entry::Call);
    assert_eq!(all[2..5], [call, code(2, 0, interpreter), code(2, 1, interpreter)]);
    // The callee is unknown, or is a method that the invoke cannot call.
    for callee in [None, Some(at(&g, 1, &[0, 3]))] {
        let (all, figures) = filled(MethodKnowledge::default(), callee);
        assert_eq!((figures.gaps_filled, figures.contradicted), (0, 1));
        assert_eq!(all, events);
    }
}

#[test]
fn callees_call_what_they_lack_themselves() {
    // main calls f, which calls g; main's class may have to be initialised first.
    let caller = |name, callee| calling(method(name, &[184, 0, 1, 177]), &[callee]);
    let g =
        graph(vec![caller("main", "f"), caller("f", "g"), method("g", &[177]), method("<clinit>", &[177])]);
    let n = |m, b| at(&g, m, &[b])[0];
    let interpreter = Tier::Interpreter;
    let main = enter(0, interpreter, Entry::Upcall);
    let found = enter(0, interpreter, Entry::Found);
    let events = [main, code(0, 0, interpreter), leave(0, Exit::Lost), gap(), found, code(0, 3, interpreter)];
    let callees = vec![(n(0, 0), at(&g, 1, &[0, 3])), (n(1, 0), vec![n(2, 0)])];
    let filled =
        |fill, callees| replay_with(&g, MethodKnowledge::default(), &events, 2..5, Named(fill, callees));
    let run = |all: &[EventKind]| -> Vec<(u32, u16)> {
        let ran = |e: &EventKind| match e {
            EventKind::Bytecode { method, bci, .. } => Some((method.0, bci.0)),
            _ => None,
        };
        all.iter().filter_map(ran).collect()
    };
    for fill in [vec![], vec![n(3, 0)]] {
        let begin: Vec<(u32, u16)> = fill.iter().map(|_| (3, 0)).collect();
        let (all, figures) = filled(fill.clone(), callees.clone());
        assert_eq!((figures.gaps_filled, figures.contradicted), (1, 0), "{all:?}");
        let expected = [vec![(0, 0)], begin, vec![(1, 0), (2, 0), (1, 3), (0, 3)]].concat();
        assert_eq!(run(&all), expected);
        // g is unknown.
        let (all, figures) = filled(fill, callees[..1].to_vec());
        assert_eq!((figures.gaps_filled, figures.contradicted), (0, 1));
        assert_eq!(all, events);
    }
}

#[test]
fn a_native_method_is_called_where_the_graph_names_it() {
    let native = Method { access_flags: 0x108, ..method("n", &[]) };
    let caller = |name| calling(method(name, &[184, 0, 1, 177]), &["n"]);
    let g = graph(vec![caller("main"), caller("other"), method("f", &[177]), native]);
    let interpreter = Tier::Interpreter;
    let main = enter(0, interpreter, Entry::Upcall);
    let found = enter(0, interpreter, Entry::Found);
    let events = [main, code(0, 0, interpreter), leave(0, Exit::Lost), gap(), found, code(0, 3, interpreter)];
    let mut known = MethodKnowledge::default();
    assert_eq!(replay(&g, known.clone(), &events, 2..5, vec![]).1.gaps_filled, 0);
    known.called(&g, at(&g, 1, &[0])[0], MethodId(3));
    let (all, figures) = replay(&g, known, &events, 2..5, vec![]);
    assert_eq!(figures.gaps_filled, 1);
    assert_eq!(all[2..4], [enter(3, Tier::Native, Entry::Call), leave(3, Exit::Return)]);
}

#[test]
fn a_fill_ends_with_the_frame_that_was_seen_to_return() {
    let g = program();
    let interpreter = Tier::Interpreter;
    let events = |returned| {
        vec![
            enter(0, interpreter, Entry::Upcall),
            code(0, 0, interpreter),
            leave(0, Exit::Lost),
            gap(),
            enter(returned, Tier::C1, Entry::Found),
            leave(returned, Exit::Return),
            enter(0, interpreter, Entry::Found),
            code(0, 3, interpreter),
        ]
    };
    let f = at(&g, 2, &[0, 1]);
    let (all, figures) = replay(&g, MethodKnowledge::default(), &events(2), 2..7, f.clone());
    assert_eq!((figures.gaps_filled, figures.recovered), (1, 2), "{all:?}");
    assert!(!all.iter().any(|e| matches!(e, EventKind::Enter { entry: Entry::Found, .. })), "{all:?}");
    // Another frame has returned; the frame was left in another way.
    let mut unwound = events(2);
    unwound[5] = leave(2, Exit::Unwind);
    for (events, contradicted) in [(events(1), 1), (unwound, 0)] {
        let (all, figures) = replay(&g, MethodKnowledge::default(), &events, 2..7, f.clone());
        assert_eq!((figures.gaps_filled, figures.contradicted), (0, contradicted));
        assert_eq!(all, events);
    }
}

/// f's `iload_0` in an unknown frame, the gap, f's `return`, and main, which continues after
/// its call.
fn around_orphans(first: u8, last: &[u8]) -> Vec<EventKind> {
    let orphan = |opcode: &u8| EventKind::Orphan(Orphan::Bytecode { opcode: *opcode, taken: None });
    let interpreter = Tier::Interpreter;
    let mut all = vec![
        enter(0, interpreter, Entry::Upcall),
        code(0, 0, interpreter),
        enter(2, interpreter, Entry::Call),
        leave(2, Exit::Lost),
        leave(0, Exit::Lost),
        gap(),
    ];
    all.insert(3, orphan(&first));
    all.extend(last.iter().map(orphan));
    all.extend([enter(0, interpreter, Entry::Found), code(0, 3, interpreter)]);
    all
}

#[test]
fn a_fill_has_the_orphans_around_its_gap() {
    let g = program();
    let f = at(&g, 2, &[0, 1]);
    let (all, figures) = replay(&g, MethodKnowledge::default(), &around_orphans(26, &[177]), 2..9, f.clone());
    assert_eq!((figures.gaps_filled, figures.recovered), (1, 2), "{all:?}");
    assert!(!all.iter().any(|e| matches!(e, EventKind::Orphan(_))), "{all:?}");
    for (first, last) in [(27, &[177][..]), (26, &[172]), (26, &[26, 177]), (26, &[177, 177])] {
        let events = around_orphans(first, last);
        let (all, figures) =
            replay(&g, MethodKnowledge::default(), &events, 2..8 + last.len() as u64, f.clone());
        assert_eq!((figures.gaps_filled, figures.contradicted), (0, 1));
        assert_eq!(all, events);
    }
    // Orphans between two gaps may be anywhere in the fill, but in their order.
    let orphan = |opcode| EventKind::Orphan(Orphan::Bytecode { opcode, taken: None });
    for (between, filled) in [(&[26][..], 1), (&[177], 1), (&[172], 0), (&[26, 177], 1), (&[177, 26], 0)] {
        let mut events = around_orphans(26, &[]);
        events.remove(3);
        let at = events.iter().position(|e| matches!(e, EventKind::Gap(_))).unwrap() + 1;
        events.splice(at..at, between.iter().flat_map(|opcode| [orphan(*opcode), gap()]));
        let end = events.len() as u64 - 1;
        let (_, figures) = replay(&g, MethodKnowledge::default(), &events, 2..end, f.clone());
        assert_eq!((figures.gaps_filled > 0, figures.contradicted), (filled > 0, 1 - filled), "{between:?}");
    }
}

#[test]
fn a_fill_branches_and_throws_as_its_orphans_do() {
    // 0 iload_0; 1 ifeq 5; 4 nop; 5 return
    let g = graph(vec![method("main", &[26, 153, 0, 4, 0, 177])]);
    let interpreter = Tier::Interpreter;
    let orphans = |taken| {
        vec![
            enter(0, interpreter, Entry::Upcall),
            leave(0, Exit::Lost),
            gap(),
            EventKind::Orphan(Orphan::Bytecode { opcode: 153, taken }),
            enter(0, interpreter, Entry::Found),
            code(0, 5, interpreter),
        ]
    };
    let filled = |events: &[EventKind]| {
        let fill = at(&g, 0, &[0, 1]);
        replay(&g, MethodKnowledge::default(), events, 1..events.len() as u64 - 1, fill).1.gaps_filled
    };
    assert_eq!([None, Some(true), Some(false)].map(|taken| filled(&orphans(taken))), [1, 1, 0]);
    let mut throws = orphans(None);
    throws.insert(4, EventKind::Orphan(Orphan::Throw));
    assert_eq!(filled(&throws), 0);
}

#[test]
fn a_fill_of_any_length_stands_after_what_was_reported_before_it() {
    // 0 iload_0; 1 goto 0.
    let g = graph(vec![method("loop", &[26, 167, 0xff, 0xff])]);
    let i = Tier::Interpreter;
    let begin = [enter(0, i, Entry::Upcall), code(0, 0, i), EventKind::Time(Tsc(5))];
    let lost = [leave(0, Exit::Lost), gap(), enter(0, i, Entry::Found), code(0, 0, i)];
    let events = [&begin[..], &lost].concat();
    for rounds in [1, FLUSH] {
        let fill = [at(&g, 0, &[1]), at(&g, 0, &[0, 1]).repeat(rounds)].concat();
        let filled = [code(0, 1, i), code(0, 0, i)].into_iter().cycle().take(fill.len());
        let expected: Vec<EventKind> = begin.iter().cloned().chain(filled).chain([code(0, 0, i)]).collect();
        let (all, figures) = replay(&g, MethodKnowledge::default(), &events, 2..6, fill.clone());
        assert!(all.starts_with(&expected), "{rounds}: {:?}", &all[..all.len().min(8)]);
        assert_eq!(figures.recovered, fill.len() as u64);
    }
}

/// Fills with the method that was called, and notes the requests.
struct Asked(Arc<Mutex<Vec<Question>>>);
impl Filler for Asked {
    fn fill(&mut self, question: Question) -> Option<RatedFill> {
        let mut asked = self.0.lock().unwrap();
        let entered = question.entered;
        // Each flow is replayed twice, with and without runs.
        asked.push(question);
        asked.dedup();
        entered.map(|entry| RatedFill {
            nodes: vec![entry],
            confidence: Confidence::uniform(1, 0.7),
            ..RatedFill::default()
        })
    }
    fn work(&self) -> FillWork {
        FillWork::default()
    }
}

#[test]
fn a_fill_begins_with_the_method_that_has_been_called() {
    let g = program();
    let (main, f) = (Tier::Interpreter, Tier::Interpreter);
    let called = |came_back: bool| {
        let mut events = vec![enter(0, main, Entry::Upcall), code(0, 0, main), enter(2, f, Entry::Call)];
        events.extend(came_back.then(|| leave(2, Exit::Return)));
        events.extend((!came_back).then(|| leave(2, Exit::Lost)));
        events.extend([leave(0, Exit::Lost), gap(), enter(2, f, Entry::Found), code(2, 1, f)]);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let filler = Asked(Arc::clone(&asked));
        let (events, _) = replay_with(&g, MethodKnowledge::default(), &events, 2..7, filler);
        let asked = asked.lock().unwrap().clone();
        (asked, events)
    };
    let whole = FrameSites { sites: Vec::new(), whole: true };
    let question = |entered| Question { index: 0, before: whole.clone(), entered };
    let (asked, events) = called(false);
    assert_eq!(asked, [question(g.entry(MethodId(2)))]);
    let all = [
        enter(0, main, Entry::Upcall),
        code(0, 0, main),
        enter(2, f, Entry::Call),
        code(2, 0, f),
        code(2, 1, f),
    ];
    assert_eq!(events[..5], all);
    // After a return there is no called method to begin with.
    assert_eq!(called(true).0, [question(None)]);
    // A frame that continues in the interpreter was not called.
    let c1 = Tier::C1;
    let mut events = vec![enter(0, c1, Entry::Upcall), code(0, 0, c1), leave(0, Exit::Replaced)];
    events.extend([
        enter(0, main, Entry::Deoptimisation),
        leave(0, Exit::Lost),
        gap(),
        enter(0, main, Entry::Found),
    ]);
    events.push(code(0, 3, main));
    let asked = Arc::new(Mutex::new(Vec::new()));
    replay_with(&g, MethodKnowledge::default(), &events, 2..7, Asked(Arc::clone(&asked)));
    assert_eq!(*asked.lock().unwrap(), [question(None)]);
}

/// Fills the first place with nothing, if at all, and others with the method that was called;
/// notes the requests.
struct First(bool, Arc<Mutex<Vec<Question>>>);
impl Filler for First {
    fn fill(&mut self, question: Question) -> Option<RatedFill> {
        let nodes: Vec<Node> = question.entered.into_iter().collect();
        let fills = self.0 || question.index > 0;
        self.1.lock().unwrap().push(question);
        fills.then(|| RatedFill {
            confidence: Confidence::uniform(nodes.len(), 0.7),
            nodes,
            ..RatedFill::default()
        })
    }
    fn work(&self) -> FillWork {
        FillWork::default()
    }
}

#[test]
fn what_is_asked_next_is_known_by_the_frames_after_a_fill() {
    // main calls f, which calls g twice.
    let g = graph(vec![
        calling(method("main", &[184, 0, 1, 177]), &["f"]),
        calling(method("f", &[184, 0, 1, 184, 0, 2, 177]), &["g", "g"]),
        method("g", &[26, 27, 177]),
    ]);
    let i = Tier::Interpreter;
    // The trace is lost in g; g is found and returns to f, which calls g again.
    let events = [
        enter(0, i, Entry::Upcall),
        code(0, 0, i),
        enter(1, i, Entry::Call),
        code(1, 0, i),
        enter(2, i, Entry::Call),
        code(2, 0, i),
        leave(2, Exit::Lost),
        leave(1, Exit::Lost),
        leave(0, Exit::Lost),
        gap(),
        enter(2, i, Entry::Found),
        code(2, 1, i),
        code(2, 2, i),
        leave(2, Exit::Return),
        enter(1, i, Entry::Found),
        code(1, 3, i),
        enter(2, i, Entry::Call),
        leave(2, Exit::Lost),
        leave(1, Exit::Lost),
        gap(),
        enter(2, i, Entry::Found),
        code(2, 1, i),
    ];
    let events = events.map(Event::decoded);
    let mut cutter = Cutter::new(&g);
    events.iter().for_each(|e| cutter.event(e));
    let (mut learned, mut places) = (Learned::default(), Places::default());
    cutter.finish().into_iter().for_each(|piece| places.add(&mut learned, &g, piece, 1 << 10));
    let places = places.finish();
    let sites = |sites: Vec<Node>, whole| FrameSites { sites, whole };
    let likely = |behind| places[1].before.question(1, behind, &g);
    for filled in [true, false] {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let mut filler = First(filled, Arc::clone(&noted));
        let sink = Box::new(Keeps(Arc::default()));
        let mut replay = Replay::new(&g, MethodKnowledge::default(), &places, &mut filler, (sink, false));
        replay.events(events.to_vec());
        replay.end();
        let before = sites(if filled { at(&g, 0, &[0]) } else { Vec::new() }, filled);
        let asked = Question { index: 1, before, entered: g.entry(MethodId(2)) };
        assert_eq!(noted.lock().unwrap().split_first().unwrap().1, std::slice::from_ref(&asked));
        let behind = sites([at(&g, 0, &[0]), at(&g, 1, &[0])].concat(), true);
        assert_eq!(likely(filled.then_some(behind)), asked);
    }
    // g returned to f: if main's frame was there instead, neither that frame nor those below
    // are used.
    let elsewhere = sites(at(&g, 0, &[0, 0]), true);
    assert_eq!(likely(Some(elsewhere)), likely(None));
}
