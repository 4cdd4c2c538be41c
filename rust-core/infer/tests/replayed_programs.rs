// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Flows of generated programs are cut as the decoder would, completed, and examined by the
//! checker.

#[path = "support/mod.rs"]
mod support;

use jportal_bytecode::{Icfg, Method, MethodTable, Node, Transfer};
use jportal_flow::testing::feed_as;
use jportal_flow::{
    Entry, Event, EventKind, Exit, FlowConsumer, FlowSink, Gap, GapReason, Orphan, Provenance, ThreadInfo,
    Tier,
};
use jportal_infer::Outcome;
use jportal_infer::replay::{Clock, Completion, CompletionSettings, FillMethod, Storage, Summary};
use jportal_units::{Bci, Core, MethodId, StreamOffset, Tid, Tsc};
use jportal_validate::check::{CheckOptions, Checker};
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::{Arc, Mutex};
use support::random::{drafts, methods, program, walk};
use support::{at, calling, graph, method};

const TIER: Tier = Tier::C1;

fn info(tid: u32) -> ThreadInfo {
    ThreadInfo { tid: Tid(tid), java_tid: 1, name: format!("t{tid}"), started: Tsc(0) }
}

/// Keeps the events of all threads.
#[derive(Clone, Default)]
struct KeptFlows(Arc<Mutex<Vec<Flow>>>);
/// A thread id and its events.
type Flow = (u32, Vec<Event>);
struct KeptSink(KeptFlows, u32, Vec<Event>);

impl FlowConsumer for KeptFlows {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(KeptSink(self.clone(), info.tid.0, Vec::new()))
    }
}
impl FlowSink for KeptSink {
    fn events(&mut self, events: &[Event]) {
        self.2.extend_from_slice(events);
    }
    fn end(self: Box<Self>) {
        self.0.0.lock().unwrap().push((self.1, self.2));
    }
}

/// Completes the flows of several threads, which arrive interleaved.
fn complete(g: &Arc<Icfg>, settings: CompletionSettings, flows: &[&[Event]]) -> (Vec<Vec<Event>>, Summary) {
    complete_timed(g, settings, flows, None)
}

/// The same with a clock.
fn complete_timed(
    g: &Arc<Icfg>,
    settings: CompletionSettings,
    flows: &[&[Event]],
    clock: Option<Clock>,
) -> (Vec<Vec<Event>>, Summary) {
    let open = |_: &ThreadInfo| Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Storage>);
    let mut completion = Completion::new(Arc::clone(g), settings, open);
    if let Some(clock) = clock {
        completion = completion.timed_by(clock);
    }
    let mut sinks: Vec<_> = (0..flows.len()).map(|i| completion.thread(&info(i as u32))).collect();
    let longest = flows.iter().map(|f| f.len()).max().unwrap_or(0);
    for from in (0..longest).step_by(7) {
        for (flow, sink) in flows.iter().zip(&mut sinks) {
            sink.events(&flow[from.min(flow.len())..(from + 7).min(flow.len())]);
        }
    }
    sinks.into_iter().for_each(|s| s.end());
    let mut kept = KeptFlows::default();
    let summary = completion.finish(&mut kept).unwrap();
    let all = std::mem::take(&mut *kept.0.lock().unwrap());
    assert!(all.iter().enumerate().all(|(i, t)| t.0 == i as u32));
    (all.into_iter().map(|t| t.1).collect(), summary)
}

fn enter(method: MethodId, entry: Entry) -> EventKind {
    EventKind::Enter { method, tier: TIER, entry }
}

/// The loss-free flow of a walk, each event with the number of instructions before it.
fn flow(g: &Icfg, nodes: &[Node], outcomes: &[Outcome]) -> Vec<(usize, EventKind)> {
    let mut all: Vec<(usize, EventKind)> = Vec::new();
    let mut stack: Vec<Node> = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        let (method, bci) = (g.method(*node), g.bci(*node));
        let mut put = |kind| all.push((i, kind));
        match i.checked_sub(1).map(|b| (nodes[b], outcomes[b])) {
            None if g.is_entry(*node) => put(enter(method, Entry::Upcall)),
            None => put(enter(method, Entry::Found)),
            Some((_, Outcome::Thrown)) => put(EventKind::Catch { method, bci }),
            Some((from, Outcome::Unwound)) => {
                put(EventKind::Leave { method: g.method(from), exit: Exit::Unwind });
                while let Some(site) = stack.pop().filter(|s| g.handlers(*s).next().is_none()) {
                    put(EventKind::Leave { method: g.method(site), exit: Exit::Unwind });
                }
                put(EventKind::Catch { method, bci });
            }
            Some((from, _)) if g.opcode(from).transfer() == Transfer::Return => {
                stack.pop();
                put(EventKind::Leave { method: g.method(from), exit: Exit::Return });
            }
            Some((from, _)) if g.opcode(from).transfer() == Transfer::Invoke => {
                if g.is_entry(*node) && !g.edges(from).any(|(_, n)| n == *node) {
                    stack.push(from);
                    put(enter(method, Entry::Call));
                }
            }
            Some(_) => {}
        }
        if i % 2 == 0 {
            put(EventKind::Time(Tsc(10 * i as u64)));
        }
        put(EventKind::Bytecode { method, bci, tier: TIER });
    }
    let top = nodes.last().copied();
    let rest = top.into_iter().chain(stack.into_iter().rev());
    all.extend(rest.map(|n| (nodes.len(), EventKind::Leave { method: g.method(n), exit: Exit::Lost })));
    all
}

fn gap(since: usize, until: usize) -> EventKind {
    EventKind::Gap(Box::new(Gap {
        reason: GapReason::Truncated,
        core: Core(0),
        offset: StreamOffset(since as u64),
        address: None,
        since: Some(Tsc(10 * since as u64)),
        until: Some(Tsc(10 * until as u64)),
        bytes: None,
        stack_lost: true,
    }))
}

/// The flow that a decoder would report for `flow` without the instructions in `cuts`. After a
/// cut it knows no frame until it finds one, at the next bytecode or, with `orphans`, at the
/// next call; bytecodes before that call are orphans. With `seen`, it sees the frames that are
/// entered or left before the first lost instruction.
fn lossy(
    g: &Icfg,
    flow: &[(usize, EventKind)],
    cuts: &[(usize, usize)],
    orphans: bool,
    seen: bool,
) -> Vec<Event> {
    let mut all = Vec::new();
    let mut own: Vec<MethodId> = Vec::new();
    let mut known = true;
    let mut cut = None;
    for (at, kind) in flow {
        let frame = matches!(kind, EventKind::Enter { .. } | EventKind::Leave { .. });
        let inside = |c: &(usize, usize)| (c.0..c.1).contains(at) && !(seen && frame && *at == c.0);
        let inside = cuts.iter().position(inside);
        if let Some(number) = inside.filter(|_| inside != cut) {
            let (from, to) = cuts[number];
            let lost = own.drain(..).rev().map(|method| EventKind::Leave { method, exit: Exit::Lost });
            all.extend(lost.chain([gap(from, to)]));
            known = false;
        }
        cut = inside;
        if inside.is_some() {
            continue;
        }
        match kind {
            EventKind::Enter { method, entry, .. } => {
                let found = own.is_empty() && !known;
                all.push(enter(*method, if found { Entry::Found } else { *entry }));
                own.push(*method);
            }
            EventKind::Bytecode { method, bci, .. } if own.is_empty() && !known => {
                if orphans {
                    let opcode = g.opcode(g.node_at(*method, *bci).unwrap()).0;
                    all.push(EventKind::Orphan(Orphan::Bytecode { opcode, taken: None }));
                } else {
                    all.extend([enter(*method, Entry::Found), kind.clone()]);
                    own.push(*method);
                }
            }
            EventKind::Leave { .. } | EventKind::Catch { .. } if own.is_empty() => {}
            EventKind::Leave { .. } => {
                all.push(kind.clone());
                own.pop();
            }
            _ => all.push(kind.clone()),
        }
    }
    all.into_iter().map(Event::decoded).collect()
}

fn is_gap(e: &Event) -> bool {
    matches!(e.kind, EventKind::Gap(_))
}

/// The events that must not change.
fn outside_gaps(events: &[Event]) -> Vec<&Event> {
    let at_gap = |e: &&Event| {
        matches!(
            e.kind,
            EventKind::Gap(_)
                | EventKind::Leave { exit: Exit::Lost, .. }
                | EventKind::Enter { entry: Entry::Found, .. }
        )
    };
    let is_orphan = |e: &&Event| matches!(e.kind, EventKind::Orphan(_));
    let decoded = events.iter().filter(|e| e.provenance == Provenance::Decoded);
    decoded.filter(|e| !at_gap(e) && !is_orphan(e)).collect()
}

/// The rules that a flow breaks, except those about callees, which are not known here.
fn broken(methods: &[Method], events: &[Event]) -> Vec<&'static str> {
    let mut table = MethodTable::default();
    methods.iter().for_each(|m| {
        table.push(m.clone());
    });
    let mut checker = Checker::new(Arc::new(table), CheckOptions::default());
    feed_as(&mut checker, &info(0), events);
    let report = checker.report();
    report.by_rule.into_keys().filter(|rule| !["callee", "call-missing"].contains(rule)).collect()
}

fn by() -> impl Strategy<Value = FillMethod> {
    prop_oneof![
        Just(FillMethod::Basic(Default::default())),
        Just(FillMethod::Tiered(Default::default())),
        Just(FillMethod::Follow(Default::default())),
    ]
}

proptest! {
    /// Frames nest, every step is one a JVM could have done, and nothing outside of gaps changes.
    #[test]
    fn completed_flows_are_flows(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 20..400),
        cuts in prop::collection::vec((1usize..30, 1usize..20), 1..8),
        orphans: bool,
        seen: bool,
        by in by(),
    ) {
        let g = Arc::new(program(&drafts));
        let walk = walk(&g, &choices);
        let whole = flow(&g, &walk.nodes, &walk.outcomes);
        let mut at = 0;
        let cuts: Vec<_> = cuts.iter().map(|(keep, lose)| { let from = at + keep; at = from + lose; (from, at) }).collect();
        let events = lossy(&g, &whole, &cuts, orphans, seen);
        let methods = methods(&drafts);
        let before = broken(&methods, &events);
        let (completed, summary) = complete(&g, CompletionSettings::with(by), &[&events]);
        let completed = &completed[0];
        for rule in broken(&methods, completed) {
            prop_assert!(before.contains(&rule), "{rule}: {completed:#?}");
        }
        prop_assert_eq!(outside_gaps(completed), outside_gaps(&events));
        let count = |events: &[Event], is: &dyn Fn(&Event) -> bool| events.iter().filter(|e| is(e)).count() as u64;
        let is_code = |e: &Event| matches!(e.kind, EventKind::Bytecode { .. });
        let is_decoded = |e: &Event| e.provenance == Provenance::Decoded;
        let t = &summary.total;
        prop_assert_eq!(count(&events, &is_gap), t.gaps);
        prop_assert_eq!(count(completed, &|e| is_gap(e) && is_decoded(e)), t.gaps_left());
        prop_assert_eq!(count(completed, &|e| is_gap(e) && !is_decoded(e)), t.given_up + t.broken);
        prop_assert_eq!(count(completed, &|e| is_code(e) && is_decoded(e)), t.decoded);
        prop_assert_eq!(count(completed, &|e| is_code(e) && !is_decoded(e)), t.recovered);
        prop_assert_eq!(count(completed, &|e| !is_decoded(e)), t.recovered + t.recovered_other + t.given_up);
    }

    #[test]
    fn a_flow_without_gaps_is_not_changed(
        drafts in drafts(),
        choices in prop::collection::vec(any::<u8>(), 20..200),
        by in by(),
    ) {
        let g = Arc::new(program(&drafts));
        let walk = walk(&g, &choices);
        let whole: Vec<Event> =
            flow(&g, &walk.nodes, &walk.outcomes).into_iter().map(|e| Event::decoded(e.1)).collect();
        let half = &whole[..whole.len() / 2];
        let (completed, summary) = complete(&g, CompletionSettings::with(by), &[&whole, half]);
        prop_assert_eq!(&completed[0][..], &whole[..]);
        prop_assert_eq!(&completed[1][..], half);
        prop_assert_eq!((summary.total.gaps, summary.total.recovered), (0, 0));
    }
}

/// 0 main calls f, again and again; 1 f calls h; 2 h.
fn calls() -> (Vec<Method>, Vec<Node>, Vec<Outcome>, Arc<Icfg>) {
    let main = calling(method("main", &[184, 0, 1, 167, 0xff, 0xfd]), &["f"]);
    let f = calling(method("f", &[26, 184, 0, 1, 177]), &["h"]);
    let methods = vec![main, f, method("h", &[26, 27, 177])];
    let g = graph(methods.clone());
    let round =
        [at(&g, 0, &[0]), at(&g, 1, &[0, 1]), at(&g, 2, &[0, 1, 2]), at(&g, 1, &[4]), at(&g, 0, &[3])];
    let nodes: Vec<Node> = round.concat().into_iter().cycle().take(8 * 200).collect();
    let outcomes = vec![Outcome::Open; nodes.len()];
    (methods, nodes, outcomes, Arc::new(g))
}

/// A gap in which the thread slept is no longer than the time for which it had a core.
#[test]
fn sleep_is_no_time() {
    const SLEPT: u64 = 1_000_000;
    let (_, nodes, outcomes, g) = calls();
    let whole = flow(&g, &nodes, &outcomes);
    let truth: Vec<Event> = whole.iter().map(|e| Event::decoded(e.1.clone())).collect();
    let mut events = lossy(&g, &whole, &[(800, 829)], false, false);
    // The thread slept in the middle of the gap.
    let late = |time: &mut Tsc| time.0 += if time.0 > 8150 { SLEPT } else { 0 };
    for event in &mut events {
        match &mut event.kind {
            EventKind::Time(time) => late(time),
            EventKind::Gap(gap) => [&mut gap.since, &mut gap.until].into_iter().flatten().for_each(late),
            _ => {}
        }
    }
    let on_core = |thread: &ThreadInfo, time: Tsc| {
        assert_eq!(thread.tid.0, 0);
        if time.0 > 8150 + SLEPT { time.0 - SLEPT } else { time.0.min(8150) }
    };
    let settings = CompletionSettings::with(FillMethod::Follow(Default::default()));
    let (completed, _) = complete_timed(&g, settings, &[&events], Some(Arc::new(on_core)));
    assert_eq!(codes(&completed[0]), codes(&truth));
    let (completed, _) = complete(&g, settings, &[&events]);
    assert_ne!(codes(&completed[0]), codes(&truth));
}

fn codes(events: &[Event]) -> Vec<(u32, u16)> {
    let code = |e: &Event| match e.kind {
        EventKind::Bytecode { method, bci, .. } => Some((method.0, bci.0)),
        _ => None,
    };
    events.iter().filter_map(code).collect()
}

/// In a regular program [`FillMethod::Follow`] restores what was lost, including the frames,
/// wherever the gap begins.
#[test]
fn what_was_lost_comes_back() {
    let (methods, nodes, outcomes, g) = calls();
    let whole = flow(&g, &nodes, &outcomes);
    let truth: Vec<Event> = whole.iter().map(|e| Event::decoded(e.1.clone())).collect();
    for begin in 800..808 {
        for (orphans, seen) in [(false, false), (false, true), (true, false), (true, true)] {
            let cuts = [(begin, begin + 29), (begin + 300, begin + 316)];
            let events = lossy(&g, &whole, &cuts, orphans, seen);
            assert!(codes(&events).len() <= codes(&truth).len() - 45);
            let (completed, summary) =
                complete(&g, CompletionSettings::with(FillMethod::Follow(Default::default())), &[&events]);
            assert_eq!(broken(&methods, &completed[0]), <[&str; 0]>::default());
            let t = summary.total;
            if orphans {
                // In one case f is found immediately before a gap and given up before it has
                // executed anything. A fill in place of the gap would drop the event that f was
                // entered.
                let found_and_lost = (begin, seen) == (805, true);
                let filled = (2, 2 - u64::from(found_and_lost), 0);
                assert_eq!((t.gaps, t.gaps_filled, t.contradicted), filled, "{begin} {seen}");
                // An orphan of main follows the events where the frames of a fill are given up.
                let given_up =
                    completed[0].iter().position(|e| is_gap(e) && e.provenance != Provenance::Decoded);
                let led = codes(&completed[0][..given_up.unwrap()]);
                assert!(led.len() > begin + 29 && led == codes(&truth)[..led.len()], "{begin} {seen}");
                continue;
            }
            assert_eq!((t.gaps, t.gaps_filled, t.given_up, t.contradicted), (2, 2, 0, 0));
            assert_eq!(codes(&completed[0]), codes(&truth), "{begin} {orphans} {seen}");
            // The frames are the same, too.
            let kinds = |events: &[Event]| -> Vec<EventKind> {
                events.iter().map(|e| e.kind.clone()).filter(|k| !matches!(k, EventKind::Time(_))).collect()
            };
            assert_eq!(kinds(&completed[0]), kinds(&truth), "{begin} {orphans} {seen}");
        }
    }
}

/// The interpreter has special entries for some methods, which execute no bytecode: fills
/// restore them as calls and returns.
#[test]
fn calls_that_execute_nothing_come_back_as_such() {
    let (_, _, _, g) = calls();
    let tier = Tier::Interpreter;
    let code = |bci| EventKind::Bytecode { method: MethodId(0), bci: Bci(bci), tier };
    let frame = |method, entry| EventKind::Enter { method: MethodId(method), tier, entry };
    let leave = |method, exit| EventKind::Leave { method: MethodId(method), exit };
    let run = |lost: std::ops::Range<usize>| {
        let mut all = vec![frame(0, Entry::Upcall)];
        for round in 0..200 {
            if round == lost.start {
                all.extend([leave(0, Exit::Lost), gap(2 * lost.start, 2 * lost.end)]);
            }
            if lost.contains(&round) {
                continue;
            }
            if round == lost.end {
                all.push(frame(0, Entry::Found));
            }
            all.extend([EventKind::Time(Tsc(20 * round as u64)), code(0), frame(1, Entry::Call)]);
            all.extend([leave(1, Exit::Return), code(3)]);
        }
        all.into_iter().map(Event::decoded).collect::<Vec<_>>()
    };
    let kinds = |events: &[Event]| -> Vec<EventKind> {
        events.iter().map(|e| e.kind.clone()).filter(|k| !matches!(k, EventKind::Time(_))).collect()
    };
    let settings = CompletionSettings::with(FillMethod::Follow(Default::default()));
    let (completed, summary) = complete(&g, settings, &[&run(100..110)]);
    assert_eq!((summary.total.gaps_filled, summary.total.contradicted), (1, 0));
    // At the end the thread is still in main.
    let all = kinds(&completed[0]);
    assert_eq!(all, kinds(&run(200..200))[..]);
}

#[test]
fn beyond_the_bound_nothing_is_learned_and_that_is_said() {
    let (_, nodes, outcomes, g) = calls();
    let events = lossy(&g, &flow(&g, &nodes, &outcomes), &[(800, 829)], false, false);
    let settings = CompletionSettings {
        longest_captured: 100,
        ..CompletionSettings::with(FillMethod::Follow(Default::default()))
    };
    let (completed, summary) = complete(&g, settings, &[&events]);
    // The ends of pieces are kept, and they are long here.
    assert_eq!(summary.learned + summary.not_learned, codes(&events).len() as u64);
    assert!(summary.learned > 0 && summary.total.gaps == 1);
    assert_eq!(outside_gaps(&completed[0]), outside_gaps(&events));
}

#[test]
fn the_ends_of_a_thread_are_not_filled() {
    let (_, nodes, outcomes, g) = calls();
    let events = lossy(&g, &flow(&g, &nodes, &outcomes), &[(800, 829)], false, false);
    let at = events.iter().position(|e| matches!(e.kind, EventKind::Gap(_))).unwrap();
    let end = [events[at].clone()];
    let begin: Vec<Event> = end.iter().chain(&events[at + 1..]).cloned().collect();
    let (completed, _) = complete(
        &g,
        CompletionSettings::with(FillMethod::Tiered(Default::default())),
        &[&events[..=at], &begin],
    );
    assert!(completed[0] == events[..=at] && completed[1] == begin);
}

#[test]
fn a_full_disk_ends_the_completion() {
    let (_, nodes, outcomes, g) = calls();
    let events = lossy(&g, &flow(&g, &nodes, &outcomes), &[(800, 829)], false, false);
    let open = |_: &ThreadInfo| {
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full")?;
        Ok(Box::new(full) as Box<dyn Storage>)
    };
    let settings = CompletionSettings::with(FillMethod::Follow(Default::default()));
    let mut completion = Completion::new(Arc::clone(&g), settings, open);
    let mut sink = completion.thread(&info(4));
    sink.events(&events);
    sink.end();
    assert!(completion.has_failed());
    let error = completion.finish(&mut KeptFlows::default()).unwrap_err();
    assert!(matches!(error, jportal_infer::Error::Write { tid: 4, .. }), "{error}");
    // The storage cannot be opened; a flow has not ended.
    let mut completion =
        Completion::new(Arc::clone(&g), settings, |_| Err(std::io::ErrorKind::PermissionDenied.into()));
    completion.thread(&info(4)).end();
    assert!(matches!(
        completion.finish(&mut KeptFlows::default()),
        Err(jportal_infer::Error::Open { tid: 4, .. })
    ));
    let open = |_: &ThreadInfo| Ok(Box::new(Cursor::new(Vec::new())) as Box<dyn Storage>);
    let mut completion = Completion::new(g, settings, open);
    drop(completion.thread(&info(5)));
    assert!(matches!(
        completion.finish(&mut KeptFlows::default()),
        Err(jportal_infer::Error::Unfinished { tid: 5 })
    ));
}
