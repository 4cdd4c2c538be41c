// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The reports on a flow with runs equal those on the same flow with single bytecodes.

use std::sync::Arc;

use fastrand::Rng;
use jportal_bytecode::{Instruction, InvokeRef, Method, MethodTable, testing};
use jportal_flow::{Analysis, Cause, Entry, Event, EventKind, Exclude, Exit, Provenance, Tier};
use jportal_units::{Bci, MethodId, Tsc};
use serde_json::{Value, json};

use crate::blocks::{BlocksOptions, Level};
use crate::calls::CallsAnalysis;
use crate::coverage::split::SplitAnalysis;
use crate::coverage::{CoverageAnalysis, CoverageOptions};
use crate::hot::HotAnalysis;
use crate::testing::{BRANCHY, enter, feed, gap, leave, leave_as, method};

/// m0 is [`BRANCHY`]. m1: 0 `nop`; 1 `invokestatic` m0; 4 `iload_0`; 5 `ifne` 0; 8 `nop`;
/// 9 `ireturn`.
pub(crate) fn methods() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    t.push(method("a/B", "f", BRANCHY));
    let call = InvokeRef { signature: "(I)I".into(), ..testing::calls(1, "a/B", "f") };
    let code = [0, 184, 0, 1, 26, 154, 0xff, 0xfb, 0, 172];
    t.push(Method { invokes: Box::new([call]), ..method("a/B", "g", &code) });
    Arc::new(t)
}

/// A random flow of single bytecodes.
pub(crate) struct RandomFlow {
    rng: Rng,
    pub(crate) events: Vec<Event>,
    tier: Tier,
    provenance: Provenance,
}

impl RandomFlow {
    pub(crate) fn random(seed: u64) -> Self {
        let rng = Rng::with_seed(seed);
        Self { rng, events: Vec::new(), tier: Tier::C1, provenance: Provenance::Decoded }
    }
    fn at(&mut self, m: u32, bcis: &[u16]) {
        for &bci in bcis {
            let kind = EventKind::Bytecode { method: MethodId(m), bci: Bci(bci), tier: self.tier };
            self.events.push(Event { kind, provenance: self.provenance });
            if self.rng.u8(..8) == 0 {
                self.events.push(Event::decoded(EventKind::Time(Tsc(self.events.len() as u64))));
            }
        }
        match self.rng.u8(..12) {
            0 => self.events.push(gap(false)),
            1 => self.events.push(Event::decoded(EventKind::Unresolved {
                method: MethodId(m),
                from: bcis.last().map(|b| Bci(*b)),
                to: None,
                cause: Cause::EmptyDiamond,
                callers: 0,
            })),
            2 => {
                let (method, tier) = (MethodId(m), self.tier);
                self.events.push(leave_as(m, Exit::Replaced));
                self.events.push(Event::decoded(EventKind::Enter { method, tier, entry: Entry::Osr }));
            }
            _ => {}
        }
    }
    fn leaf(&mut self) {
        self.events.push(enter(0));
        self.at(0, &[0, 1]);
        let way: &[u16] = if self.rng.bool() { &[8, 9] } else { &[4, 5, 9] };
        self.at(0, way);
        self.events.push(leave(0));
    }
    pub(crate) fn caller(&mut self) {
        self.provenance = match self.rng.u8(..4) {
            0 => Provenance::Projected { paths: 1 },
            1 => Provenance::Recovered { confidence: 0.5 },
            _ => Provenance::Decoded,
        };
        self.tier = if self.rng.bool() { Tier::C2 } else { Tier::Interpreter };
        self.events.push(enter(1));
        loop {
            self.at(1, &[0, 1]);
            if self.rng.bool() {
                self.leaf();
            }
            self.at(1, &[4, 5]);
            if self.rng.bool() {
                break;
            }
        }
        self.at(1, &[8, 9]);
        self.events.push(leave(1));
    }
}

/// The same flow with the longest possible runs.
pub(crate) fn in_runs(methods: &MethodTable, events: &[Event]) -> Vec<Event> {
    let mut out: Vec<Event> = Vec::new();
    for event in events {
        let EventKind::Bytecode { method, bci, tier } = event.kind else {
            out.push(event.clone());
            continue;
        };
        let before = out.last().filter(|e| e.provenance == event.provenance);
        let before = before.and_then(|e| match e.kind {
            EventKind::Bytecode { method: m, bci: last, tier: t } => Some((m, last, last, 1, t)),
            EventKind::Run { method: m, first, last, len, tier: t } => Some((m, first, last, len, t)),
            _ => None,
        });
        let code = &methods.get(method).unwrap().code;
        let follows = |last: Bci| Instruction::at(code, last.0.into()).is_ok_and(|i| i.next() == bci);
        match before {
            Some((m, first, last, len, t)) if (m, t) == (method, tier) && follows(last) => {
                let kind = EventKind::Run { method, first, last: bci, len: len + 1, tier };
                *out.last_mut().unwrap() = Event { kind, ..*event };
            }
            _ => out.push(event.clone()),
        }
    }
    out
}

fn reports(methods: &Arc<MethodTable>, events: &[Event], exclude: Exclude) -> Value {
    let new = || (Arc::clone(methods), Arc::default());
    let (a, b) = new();
    let mut hot = HotAnalysis::new(a, b).excluding(exclude);
    let (a, b) = new();
    let mut calls = CallsAnalysis::new(a, b).excluding(exclude);
    let (a, b) = new();
    let mut coverage = CoverageAnalysis::new(a, b).excluding(exclude);
    assert!(hot.takes_runs() && calls.takes_runs() && coverage.takes_runs());
    feed(&mut hot, 1, events);
    feed(&mut calls, 1, events);
    feed(&mut coverage, 1, events);
    let (a, b) = new();
    let mut split = SplitAnalysis::new(a, b, |m| &*m.name == "g").excluding(exclude);
    feed(&mut split, 1, events);
    assert!(split.takes_runs());
    let blocks = BlocksOptions { level: Level::Bytecodes, ..BlocksOptions::default() };
    let options = CoverageOptions { counts: true, exception_branches: true };
    json!([
        hot.report(9, |_| true),
        calls.report(9, |_| true),
        coverage.report_with(options, |_| true),
        coverage.counts().blocks(blocks, |_| true),
        split.report(|_| true),
    ])
}

#[test]
fn reports_on_runs_equal_those_on_single_bytecodes() {
    let methods = methods();
    let mut runs = 0;
    for seed in 0..300 {
        let mut flow = RandomFlow::random(seed);
        (0..6).for_each(|_| flow.caller());
        let with_runs = in_runs(&methods, &flow.events);
        runs += with_runs.iter().filter(|e| matches!(e.kind, EventKind::Run { .. })).count();
        for recovered in [false, true] {
            let exclude = Exclude { recovered, ..Exclude::default() };
            let single = reports(&methods, &flow.events, exclude);
            assert_eq!(reports(&methods, &with_runs, exclude), single, "seed {seed}");
        }
    }
    assert!(runs > 3000, "{runs}");
}
