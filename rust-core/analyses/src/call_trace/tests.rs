// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Traces of small programs and of flows by hand.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use jportal_bytecode::testing::calls;
use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Cause, Entry, Event, EventKind, Exit, Tier};
use jportal_units::{Bci, MethodId, Tsc};

use super::machine::{cas, thr};
use super::*;
use crate::names::Naming;
use crate::run_tests::in_runs;
use crate::select::is_application;
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, method, projected};

type Kept = Arc<Mutex<(Vec<u32>, bool)>>;

/// Keeps the words, and whether the trace was ended.
struct Keeper(Kept);

impl TraceSink for Keeper {
    fn words(&mut self, words: &[u32]) -> io::Result<()> {
        self.0.lock().unwrap().0.extend_from_slice(words);
        Ok(())
    }
    fn end(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().1 = true;
        Ok(())
    }
}

fn decoded(words: &[u32]) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), words);
    while let [first, more @ ..] = rest {
        let (own, next) = more.split_at(Token::words_after(*first));
        tokens.push(Token::decode(*first, own));
        rest = next;
    }
    tokens
}

struct Setting {
    inlined: Vec<(MethodId, Bci, MethodId)>,
    times: bool,
    exclude: Exclude,
}

const PLAIN: Setting = Setting { inlined: Vec::new(), times: false, exclude: Exclude { ..NOTHING } };
const NOTHING: Exclude = Exclude { decoded: false, projected: false, recovered: false, lost: false };

fn traced(methods: &MethodTable, events: &[Event], with: &Setting) -> (Vec<Token>, Sites, CallTraces) {
    let sites = || Sites::new(Arc::new(methods.clone()), Naming::default(), is_application).unwrap();
    let kept = Kept::default();
    let to = Arc::clone(&kept);
    let open = move |_: &ThreadInfo| Ok(Some(Box::new(Keeper(Arc::clone(&to))) as Box<dyn TraceSink>));
    let inlined = Arc::new(Inlined::new(methods, with.inlined.clone(), true));
    let mut analysis = CallTraceAnalysis::new(Arc::new(sites()), inlined, open);
    analysis = analysis.times(with.times).excluding(with.exclude);
    feed(&mut analysis, 1, events);
    assert!(analysis.error().is_none());
    let (words, ended) = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!(ended, !words.is_empty());
    (decoded(&words), sites(), analysis.report())
}

/// `A@4` for a site, `x(A)` for an exceptional exit; escapes by name.
fn texts(tokens: &[Token], sites: &Sites) -> Vec<String> {
    let all: Vec<Site> = sites.iter().collect();
    let method = |id: u32| all[id as usize].method.clone();
    let site = |id: u32| {
        let s = &all[id as usize];
        s.bci.map_or_else(|| format!("x({})", s.method), |bci| format!("{}@{bci}", s.method))
    };
    let blind = |blind: bool| if blind { "?" } else { "" };
    let text = |t: &Token| match *t {
        Token::Site(id) => site(id),
        Token::Callback { site: s, method: m, blind: b } => {
            format!("callback({},{}){}", s.map_or_else(|| "-".into(), site), method(m), blind(b))
        }
        Token::Entry { method: m, blind: b } => format!("entry({}){}", method(m), blind(b)),
        Token::Implicit(m) => format!("implicit({})", method(m)),
        Token::Time(t) => format!("time({t})"),
        Token::Known(k) => format!("{k:?}"),
        Token::Mark(Mark::Found(m)) => format!("found({})", method(m)),
        Token::Mark(Mark::Left { method: m, ended }) => {
            format!("left({},{ended:?})", m.map_or_else(|| "-".into(), method))
        }
        Token::Mark(mark) => mark.name().into(),
        Token::End { exact } => format!("end({exact})"),
        Token::Other { .. } => "other".into(),
    };
    tokens.iter().map(text).collect()
}

fn trace_of(methods: &MethodTable, events: &[Event], with: &Setting) -> Vec<String> {
    let (tokens, sites, _) = traced(methods, events, with);
    texts(&tokens, &sites)
}

const CAS: [&str; 17] = [
    "main0@0", "A@8", "main0@14", "B@4", "C@8", "B@13", "main0@14", "B@4", "C@8", "B@13", "main0@23", "E@4",
    "C@8", "E@13", "main0@35", "H@8", "main0@38",
];

#[test]
fn the_full_trace_of_casper_s_run() {
    let mut m = cas();
    m.call(0, &[0], Entry::Upcall);
    // Four times 1 or more: A, C three times, H.
    assert_eq!(m.field, 1 + 3 * 2 + 4);
    for events in [m.events.clone(), in_runs(&m.methods, &m.events)] {
        let (tokens, sites, report) = traced(&m.methods, &events, &PLAIN);
        let all = texts(&tokens, &sites);
        assert_eq!((all[0].as_str(), all[18].as_str(), all.len()), ("entry(main0)", "end(true)", 19));
        assert_eq!(all[1..18], CAS);
        // Eight call sites, seven return sites, seven exits.
        assert_eq!((report.exact, report.sites, report.total.calls, report.total.returns), (true, 22, 8, 9));
        assert!(report.text().contains("The traces are exact."), "{}", report.text());
    }
}

#[test]
fn every_call_ends_in_a_return_or_an_exit() {
    let mut rng = Rng::with_seed(8);
    for _ in 0..100 {
        let mut m = cas();
        m.array = (0..rng.usize(1..9)).map(|_| rng.i32(-2..3)).collect();
        m.call(0, &[0], Entry::Upcall);
        let (tokens, sites, report) = traced(&m.methods, &m.events, &PLAIN);
        assert_eq!(tokens, traced(&m.methods, &in_runs(&m.methods, &m.events), &PLAIN).0);
        let all: Vec<Site> = sites.iter().collect();
        let mut depth = 1;
        for token in &tokens[1..tokens.len() - 1] {
            let Token::Site(id) = token else { panic!("{token:?}") };
            depth = if all[*id as usize].kind == SiteKind::Call { depth + 1 } else { depth - 1 };
            assert!(depth > 0 || token == &tokens[tokens.len() - 2]);
        }
        assert_eq!((depth, report.total.calls + 1), (0, report.total.returns + report.total.exits));
    }
}

#[test]
fn a_crashed_run_is_a_prefix() {
    let mut m = cas();
    m.call(0, &[0], Entry::Upcall);
    let whole = traced(&m.methods, &m.events, &PLAIN).0;
    for end in 1..m.events.len() {
        // The decoder gives up the frames where the recording ends.
        let mut events = m.events[..end].to_vec();
        let mut open: Vec<u32> = Vec::new();
        for e in &events {
            match e.kind {
                EventKind::Enter { method, .. } => open.push(method.get()),
                EventKind::Leave { .. } => drop(open.pop()),
                _ => {}
            }
        }
        events.extend(open.iter().rev().map(|m| leave_as(*m, Exit::Lost)));
        let cut = traced(&m.methods, &events, &PLAIN).0;
        let (last, before) = cut.split_last().unwrap();
        assert_eq!(*last, Token::End { exact: true });
        assert_eq!(before, &whole[..before.len()], "{end}");
    }
}

#[test]
fn an_exception_leaves_by_the_exceptional_exit() {
    let mut m = thr();
    m.call(0, &[0], Entry::Upcall);
    assert_eq!(m.field, 396);
    for events in [m.events.clone(), in_runs(&m.methods, &m.events)] {
        let all = trace_of(&m.methods, &events, &PLAIN);
        let throwing = ["main@9", "call@9", "boom@10", "x(boom)", "call@34"];
        let other = ["main@9", "call@9", "boom@22", "call@34"];
        assert_eq!(all[1..6], throwing);
        assert_eq!(all[6..10], other);
        let expected: Vec<&str> =
            (0..9).flat_map(|i| if i % 3 == 0 { &throwing[..] } else { &other }).copied().collect();
        assert_eq!(all[1..all.len() - 2], expected);
        assert_eq!(all[all.len() - 2], "main@18");
    }
}

/// `main` calls a library method at 0 and `next` at 3, and returns at 6. Library methods: `sort`,
/// `run`, native `invoke0`.
fn callbacks() -> MethodTable {
    let mut t = MethodTable::default();
    let invokes = Box::new([calls(0, "java/util/Collections", "sort"), calls(3, "Cb", "next")]);
    t.push(Method { invokes, ..method("Cb", "main", &[184, 0, 1, 184, 0, 2, 177]) });
    t.push(method("Cb", "compare", &[177]));
    t.push(method("Cb", "<clinit>", &[177]));
    t.push(Method { access_flags: 0, signature: "()V".into(), ..method("Cb", "finalize", &[177]) });
    t.push(method("Cb", "next", &[177]));
    t.push(method("java/util/Collections", "sort", &[184, 0, 1, 177]));
    t.push(Method { access_flags: 0x108, ..method("java/lang/X", "invoke0", &[]) });
    t
}

fn simple(m: u32) -> [Event; 3] {
    [enter(m), bytecode(m, 0), leave(m)]
}

#[test]
fn calls_from_outside_of_the_scope() {
    let t = callbacks();
    let native =
        Event::decoded(EventKind::Enter { method: MethodId(6), tier: Tier::Native, entry: Entry::Call });
    let mut events = vec![enter_as(5, Entry::Upcall), bytecode(5, 0)];
    events.extend(simple(1)); // no frame of the scope below
    events.extend([enter(0), bytecode(0, 0), enter(5), bytecode(5, 0)]);
    events.extend(simple(1)); // from `sort`
    events.extend([bytecode(5, 3), leave(5)]);
    events.extend([enter_as(2, Entry::Upcall), bytecode(2, 0), leave(2)]);
    events.extend(simple(3)); // the program calls `finalize`
    events.extend([bytecode(0, 3), native]);
    events.extend([enter_as(4, Entry::Upcall), bytecode(4, 0), leave(4), leave(6)]);
    events.extend([enter(4), bytecode(4, 0), leave(4), bytecode(0, 6)]);
    events.extend([enter_as(1, Entry::Upcall), bytecode(1, 0), leave(1), leave(0)]);
    events.extend(simple(3)); // the finaliser's thread calls `finalize`
    assert_eq!(
        trace_of(&t, &events, &PLAIN),
        [
            "entry(compare)",
            "compare@0",
            "entry(main)",
            "main@0",
            "callback(main@0,compare)",
            "compare@0",
            "implicit(<clinit>)",
            "<clinit>@0",
            "finalize@0",
            "main@3",
            "callback(main@3,next)",
            "next@0",
            "next@0",
            "main@6",
            "callback(-,compare)",
            "compare@0",
            "implicit(finalize)",
            "finalize@0",
            "end(true)",
        ]
    );
}

#[test]
fn lost_trace_is_marked() {
    let t = callbacks();
    let orphan = jportal_flow::Orphan::Bytecode { opcode: 0, taken: None };
    let orphan = || Event::decoded(EventKind::Orphan(orphan));
    let mut events = vec![enter_as(0, Entry::Upcall), bytecode(0, 0), gap(false), bytecode(0, 3)];
    events.extend([gap(true), orphan(), orphan(), enter_as(4, Entry::Found), bytecode(4, 0), leave(4)]);
    events.extend([enter(1), bytecode(1, 0), leave_as(1, Exit::Unknown), bytecode(0, 3)]);
    events.extend([leave_as(0, Exit::Lost), enter_as(1, Entry::Upcall), leave_as(1, Exit::PopFrame)]);
    let (tokens, sites, report) = traced(&t, &events, &PLAIN);
    assert_eq!(
        texts(&tokens, &sites),
        [
            "entry(main)",
            "main@0",
            "gap",
            "main@3",
            "gap",
            "orphans",
            "found(next)",
            "next@0",
            "entry(compare)?",
            "compare@0",
            "left(compare,Unknown)",
            "found(main)",
            "main@3",
            "left(main,Lost)",
            "entry(compare)?",
            "left(compare,PopFrame)",
            "end(false)",
        ]
    );
    assert_eq!(tokens[4], Token::Mark(Mark::Gap { reason: "truncated", stack_lost: true }));
    assert!(!report.exact && report.inexact.gaps == 2 && report.total.marks["gap"] == 2);
    let note = "tokens may be missing at 2 found, 2 gap, 3 left, 1 orphans";
    assert!(report.text().contains(note), "{}", report.text());
}

fn unresolved(m: u32, from: u16, to: Option<u16>) -> Event {
    Event::decoded(EventKind::Unresolved {
        method: MethodId(m),
        from: Some(Bci(from)),
        to: to.map(Bci),
        cause: Cause::ConditionalMove,
        callers: 0,
    })
}

#[test]
fn stretches_are_marked_if_they_may_hide_sites() {
    let m = cas();
    // The way from 1 to 13 of `B` has a call on either arm; that from 26 to 32 of `main0` none.
    let events = [enter_as(2, Entry::Upcall), bytecode(2, 1), unresolved(2, 1, Some(13)), bytecode(2, 13)];
    assert_eq!(trace_of(&m.methods, &events, &PLAIN), ["entry(B)", "unresolved", "B@13", "end(false)"]);
    let events = [enter_as(0, Entry::Upcall), bytecode(0, 26), unresolved(0, 26, Some(32)), bytecode(0, 32)];
    assert_eq!(trace_of(&m.methods, &events, &PLAIN), ["entry(main0)", "end(true)"]);
    let events = [enter_as(2, Entry::Upcall), bytecode(2, 1), unresolved(2, 1, None), leave(2)];
    assert_eq!(trace_of(&m.methods, &events, &PLAIN), ["entry(B)", "unresolved", "end(false)"]);
}

#[test]
fn a_silent_call_of_a_method_of_the_scope_is_marked() {
    let t = callbacks();
    let events = [enter_as(0, Entry::Upcall), bytecode(0, 0), bytecode(0, 3), bytecode(0, 6), leave(0)];
    let inlined = |calls: &[(u32, u16, u32)]| Setting {
        inlined: calls.iter().map(|(m, b, c)| (MethodId(*m), Bci(*b), MethodId(*c))).collect(),
        ..PLAIN
    };
    let ends = ["main@0", "main@3", "main@6", "end(true)"];
    assert_eq!(trace_of(&t, &events, &PLAIN)[1..], ends);
    // `sort` alone is not in the scope; with `compare` inside of it, it carries tokens.
    assert_eq!(trace_of(&t, &events, &inlined(&[(0, 0, 5)]))[1..], ends);
    for events in [events.to_vec(), in_runs(&t, &events)] {
        let carried = trace_of(&t, &events, &inlined(&[(0, 0, 5), (5, 0, 1)]));
        assert_eq!(carried[1..], ["main@0", "silent", "main@3", "main@6", "end(false)"]);
        let own = trace_of(&t, &events, &inlined(&[(0, 3, 4)]));
        assert_eq!(own[1..], ["main@0", "main@3", "silent", "main@6", "end(false)"]);
    }
}

#[test]
fn inferred_tokens_and_times() {
    let t = callbacks();
    let time = |t| Event::decoded(EventKind::Time(Tsc(t)));
    let events = [
        time(1),
        time(5),
        enter_as(0, Entry::Upcall),
        bytecode(0, 0),
        time(7),
        projected(bytecode(0, 3)),
        bytecode(0, 6),
        time(9),
    ];
    let times = Setting { times: true, ..PLAIN };
    let all = trace_of(&t, &events, &times);
    let expected = [
        "time(5)",
        "entry(main)",
        "main@0",
        "time(7)",
        "Projected",
        "main@3",
        "Decoded",
        "main@6",
        "end(false)",
    ];
    assert_eq!(all, expected);
    let without = Setting { exclude: Exclude { projected: true, ..NOTHING }, ..PLAIN };
    assert_eq!(
        trace_of(&t, &events, &without),
        ["entry(main)", "main@0", "left-out", "main@6", "end(false)"]
    );
}

#[test]
fn a_continued_activation_is_one_call() {
    let t = callbacks();
    for entry in [Entry::Osr, Entry::Deoptimisation] {
        let mut events = vec![enter_as(0, Entry::Upcall), bytecode(0, 0)];
        events.extend([leave_as(0, Exit::Replaced), enter_as(0, entry)]);
        events.extend([enter(4), bytecode(4, 0), leave(4), bytecode(0, 6), leave(0)]);
        assert_eq!(trace_of(&t, &events, &PLAIN), ["entry(main)", "main@0", "next@0", "main@6", "end(true)"]);
    }
}

#[test]
fn a_thread_without_tokens_has_no_trace() {
    let events = [enter_as(5, Entry::Upcall), bytecode(5, 0), bytecode(5, 3), leave(5)];
    let (tokens, _, report) = traced(&callbacks(), &events, &PLAIN);
    assert!(tokens.is_empty() && report.threads.is_empty());
}

#[test]
fn an_output_that_fails_stops_its_thread() {
    let sites = Sites::new(Arc::new(callbacks()), Naming::default(), is_application).unwrap();
    let open = |_: &ThreadInfo| Err(io::Error::other("disk full"));
    let mut analysis = CallTraceAnalysis::new(Arc::new(sites), Arc::default(), open);
    feed(&mut analysis, 1, &[enter_as(0, Entry::Upcall), bytecode(0, 0)]);
    assert!(analysis.error().unwrap().to_string().contains("disk full"));
    assert!(analysis.report().threads.is_empty());
}
