// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Where the bytecodes of a stretch stand.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use jportal_bytecode::{ByName, Icfg, MethodTable, Node, SharedIcfg, Transfer};
use jportal_recover::Outcome;
use jportal_recover::project::paths::Below;
use jportal_recover::project::{
    Enumerate, Extent, Fit, Guided, Indexed, Limits, Places, Project, Projected, Projection,
};

use crate::stretch::{Begin, Bytecode, Stretch};
use crate::summary::Summary;

/// How stretches are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// The paper's Algorithm 1.
    Enumerate,
    /// The paper's Algorithm 2.
    Guided,
    /// Our own.
    Indexed,
}

/// How stretches are placed, and what that may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How.
    pub method: Method,
    /// Limits for one attempt.
    pub limits: Limits,
    /// Transitions that one attempt may cost beyond that for each of its bytecodes.
    pub each: u64,
    /// Where a stretch fits only in part, or a limit is met in its middle, it is divided. So many of its bytecodes are looked at for that:
    /// at first, and for each of them.
    pub looked_at: (usize, usize),
    /// Events of a stretch, a run counted as its bytecodes; a longer one is divided.
    pub buffered: u64,
    /// Transitions for all stretches of a thread: at first, and for each of its orphans.
    pub budget: (u64, u64),
}

impl Settings {
    /// With limits that keep projection cheaper than decoding: what is too wide somewhere is divided there.
    pub const fn new(method: Method) -> Self {
        let (transitions, each) = match method {
            // Where the start is looked up, what has not come to an end by then hardly ever does: of the transitions of H2, Xalan and FOP
            // nine tenths went into attempts that were given up in the end.
            Method::Indexed => (1 << 14, 8),
            Method::Enumerate | Method::Guided => (500_000, 0),
        };
        let limits = Limits { transitions, width: 1 << 14, stacked: 1 << 10, cached: 1 << 15, returns: 16 };
        let (looked_at, budget) = ((1 << 22, 16), (200_000_000, 1000));
        Self { method, limits, each, looked_at, buffered: 1 << 20, budget }
    }
}

/// Part of a stretch.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Which of its bytecodes.
    pub(crate) bytecodes: Range<usize>,
    /// Where these stand, if that was found.
    pub(crate) place: Option<Projection>,
}

impl Part {
    /// Whether its last bytecode has one place only.
    pub(crate) fn ends_certain(&self) -> bool {
        self.place
            .as_ref()
            .is_some_and(|p| p.nodes.len().checked_sub(1).is_some_and(|last| p.is_certain(last)))
    }
}

/// Where the program comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Its graph is built when it is needed first.
    Methods(Arc<MethodTable>),
    /// It is there, or will be.
    Graph(SharedIcfg),
}

/// Places stretches; shared by all threads. The graph is made when the first one asks.
#[derive(Debug)]
pub(crate) struct Placer {
    source: Source,
    settings: Settings,
    program: OnceLock<(Arc<Icfg>, Places)>,
}

impl Placer {
    pub(crate) const fn new(source: Source, settings: Settings) -> Self {
        Self { source, settings, program: OnceLock::new() }
    }
    pub(crate) const fn settings(&self) -> &Settings {
        &self.settings
    }
    fn program(&self) -> &(Arc<Icfg>, Places) {
        self.program.get_or_init(|| {
            let icfg = match &self.source {
                Source::Methods(methods) => Arc::new(Icfg::build(methods, &mut ByName::new(methods))),
                Source::Graph(icfg) => Arc::clone(icfg.get()),
            };
            let places = Places::new(&icfg);
            (icfg, places)
        })
    }
    pub(crate) fn icfg(&self) -> &Icfg {
        &self.program().0
    }
    /// The parts of `stretch`, in order; `anchor`: where its first bytecode stands, if that is known.
    pub(crate) fn place(&self, stretch: &Stretch, anchor: Option<Node>, summary: &mut Summary) -> Vec<Part> {
        let all = stretch.bytecodes.len();
        let (mut parts, mut from) = (Vec::new(), 0);
        let mut begin = anchor.map_or(Begin::Anywhere, Begin::At);
        summary.stretches += 1;
        summary.orphans += all as u64;
        let (at_first, each) = self.settings.looked_at;
        let mut left = at_first.saturating_add(each.saturating_mul(all));
        while from < all && left > 0 {
            left = left.saturating_sub(all - from);
            let found = self.part(stretch, from..all, begin, summary);
            let mut gave_up = matches!(found.fit, Fit::GivenUp { .. });
            let (to, place) = match found.fit {
                Fit::Paths(place) => (all, Some(place)),
                // What returned may have been called by the VM, as class initialisers are.
                Fit::Nowhere { .. } if matches!(begin, Begin::Behind(_)) => {
                    begin = Begin::Anywhere;
                    continue;
                }
                Fit::GivenUp { resume, front: Some(front) } => (from + resume, Some(front)),
                Fit::GivenUp { resume, front: None } => {
                    (stretch.behind_returns(all.min(from + resume)), None)
                }
                // What fits is asked for again: where it ends, nothing constrains it.
                Fit::Nowhere { matched } if matched > 1 => {
                    let found = self.part(stretch, from..from + matched, begin, summary);
                    gave_up = matches!(found.fit, Fit::GivenUp { .. });
                    match found.fit {
                        Fit::Paths(place) => (from + matched, Some(place)),
                        _ => (from + matched, None),
                    }
                }
                // Behind its first bytecode it may be easier.
                Fit::Nowhere { .. } => (from + 1, None),
            };
            let len = (to - from) as u64;
            match &place {
                Some(place) => {
                    let ambiguous: u64 = place.ambiguous.iter().map(|r| u64::from(r.end - r.start)).sum();
                    summary.ambiguous += ambiguous;
                    summary.certain += len - ambiguous;
                }
                None if gave_up => summary.given_up += len,
                None => summary.nowhere += len,
            }
            let part = Part { bytecodes: from..to, place };
            begin = self.behind(stretch, &part);
            parts.push(part);
            from = to;
        }
        if from < all {
            summary.given_up += (all - from) as u64;
            parts.push(Part { bytecodes: from..all, place: None });
        }
        parts
    }
    /// What `part` says of the bytecode behind it.
    fn behind(&self, stretch: &Stretch, part: &Part) -> Begin {
        let icfg = self.icfg();
        let returns = |b: &Bytecode| b.opcode.transfer() == Transfer::Return && b.outcome == Outcome::Open;
        let last =
            stretch.bytecodes[part.bytecodes.clone()].last().filter(|b| returns(b) && part.ends_certain());
        let node = last.and(part.place.as_ref()).and_then(|place| place.nodes.last());
        node.map_or(Begin::Anywhere, |node| Begin::Behind(icfg.method(*node)))
    }
    /// Where some bytecodes of `stretch` fit, for what is left of the thread's budget.
    fn part(
        &self,
        stretch: &Stretch,
        bytecodes: Range<usize>,
        begin: Begin,
        summary: &mut Summary,
    ) -> Projected {
        let (icfg, places) = self.program();
        let (at_first, each) = self.settings.budget;
        let left = (at_first + each * summary.orphans).saturating_sub(summary.transitions);
        let limits = &self.settings.limits;
        let transitions = limits.transitions.saturating_add(self.settings.each * bytecodes.len() as u64);
        let limits = &Limits { transitions: transitions.min(left), ..*limits };
        let segment = stretch.segment(icfg, bytecodes, begin);
        let found = match self.settings.method {
            Method::Enumerate => Enumerate::new(icfg, Extent::All).project(&segment, limits),
            Method::Guided => Guided::new(icfg, Extent::All).project(&segment, limits),
            Method::Indexed => Indexed::over(icfg, places).project_above(&segment, Below::Unknown, limits),
        };
        summary.transitions += found.work.transitions + found.work.abstract_transitions;
        found
    }
}
