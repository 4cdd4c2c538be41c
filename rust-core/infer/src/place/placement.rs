// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the places of a stretch's bytecodes.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::Outcome;
use crate::project::paths::Below;
use crate::project::{
    Enumerate, Extent, Fit, Guided, Indexed, Places, Project, Projection, ProjectionLimits,
};
use jportal_bytecode::{ByName, Icfg, MethodTable, Node, SharedIcfg, Transfer};

use crate::place::known::KnownFits;
use crate::place::stretch::{Begin, Bytecode, OrphanStretch};
use crate::place::summary::Summary;

/// How stretches are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// The paper's Algorithm 1.
    Enumerate,
    /// The paper's Algorithm 2.
    Guided,
    /// JPortal's own method, which looks up where a segment may start.
    Indexed,
}

/// How stretches are placed, and what that may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementSettings {
    /// The method.
    pub method: Method,
    /// The limits of one attempt.
    pub limits: ProjectionLimits,
    /// The additional number of transitions that one attempt may cost for each of its
    /// bytecodes.
    pub each: u64,
    /// A stretch that fits only in part, or reaches a limit in its middle, is divided. This is
    /// the number of bytecodes that may be examined for that: a base, and a number for each
    /// bytecode of the stretch.
    pub looked_at: (usize, usize),
    /// The maximum number of events of a stretch, where a run counts as its bytecodes; a longer
    /// stretch is divided.
    pub buffered: u64,
    /// The [work](crate::project::Work::total) for all stretches of a thread: a base, and a
    /// number for each of its orphans.
    pub budget: (u64, u64),
}

impl PlacementSettings {
    /// Limits that keep placing cheaper than decoding: a stretch that is too wide somewhere is
    /// divided there.
    pub const fn new(method: Method) -> Self {
        let (transitions, each) = match method {
            // With a looked-up start, an attempt that has not ended within this limit hardly
            // ever succeeds: in H2, Xalan and FOP nine tenths of the transitions went into
            // attempts that were given up in the end.
            Method::Indexed => (1 << 14, 8),
            Method::Enumerate | Method::Guided => (500_000, 0),
        };
        let limits =
            ProjectionLimits { transitions, width: 1 << 14, stacked: 1 << 10, cached: 1 << 15, returns: 16 };
        // A transition takes about 40 ns. Captures of H2 that lost a third of their trace need 15
        // transitions for each orphan.
        let (looked_at, budget) = ((1 << 22, 16), (20_000_000, 64));
        Self { method, limits, each, looked_at, buffered: 1 << 20, budget }
    }
}

/// A part of a stretch.
#[derive(Clone, Debug)]
pub(crate) struct StretchPart {
    /// The indices of its bytecodes.
    pub(crate) bytecodes: Range<usize>,
    /// The places of these bytecodes, if they were found.
    pub(crate) place: Option<Projection>,
}

impl StretchPart {
    /// Whether its last bytecode has one place only.
    pub(crate) fn ends_certain(&self) -> bool {
        self.place
            .as_ref()
            .is_some_and(|p| p.nodes.len().checked_sub(1).is_some_and(|last| p.is_certain(last)))
    }
}

/// The source of the program's graph.
#[derive(Debug)]
pub(crate) enum GraphSource {
    /// The graph is built when it is first needed.
    Methods(Arc<MethodTable>),
    /// The graph exists, or another thread builds it.
    Graph(SharedIcfg),
}

/// Places stretches, for all threads. The graph is built at the first use.
#[derive(Debug)]
pub(crate) struct Placer {
    source: GraphSource,
    settings: PlacementSettings,
    program: OnceLock<(Arc<Icfg>, Places)>,
}

impl Placer {
    pub(crate) const fn new(source: GraphSource, settings: PlacementSettings) -> Self {
        Self { source, settings, program: OnceLock::new() }
    }
    pub(crate) const fn settings(&self) -> &PlacementSettings {
        &self.settings
    }
    fn program(&self) -> &(Arc<Icfg>, Places) {
        self.program.get_or_init(|| {
            let icfg = match &self.source {
                GraphSource::Methods(methods) => Arc::new(Icfg::build(methods, &mut ByName::new(methods))),
                GraphSource::Graph(icfg) => Arc::clone(icfg.get()),
            };
            let places = Places::new(&icfg);
            (icfg, places)
        })
    }
    pub(crate) fn icfg(&self) -> &Icfg {
        &self.program().0
    }
    /// Places `stretch`: its parts, in order. `anchor` is the position of its first bytecode,
    /// if known. `known` and `summary` belong to the thread.
    pub(crate) fn place(
        &self,
        stretch: &OrphanStretch,
        anchor: Option<Node>,
        known: &mut KnownFits,
        summary: &mut Summary,
    ) -> Vec<StretchPart> {
        let all = stretch.bytecodes.len();
        let (mut parts, mut from) = (Vec::new(), 0);
        let mut begin = anchor.map_or(Begin::Anywhere, Begin::At);
        summary.stretches += 1;
        summary.orphans += all as u64;
        let (at_first, each) = self.settings.looked_at;
        let mut left = at_first.saturating_add(each.saturating_mul(all));
        while from < all && left > 0 {
            left = left.saturating_sub(all - from);
            let fit = self.part(stretch, from..all, begin, known, summary);
            let mut gave_up = matches!(fit, Fit::GivenUp { .. });
            let (to, place) = match fit {
                Fit::Paths(place) => (all, Some(place)),
                // The VM may have called the method that returned, for example a class
                // initialiser.
                Fit::Nowhere { .. } if matches!(begin, Begin::Behind(_)) => {
                    begin = Begin::Anywhere;
                    continue;
                }
                Fit::GivenUp { resume, front: Some(front) } => (from + resume, Some(front)),
                Fit::GivenUp { resume, front: None } => (stretch.after_returns(all.min(from + resume)), None),
                // Places the matched bytecodes alone, without a constraint at their end.
                Fit::Nowhere { matched } if matched > 1 => {
                    let fit = self.part(stretch, from..from + matched, begin, known, summary);
                    gave_up = matches!(fit, Fit::GivenUp { .. });
                    match fit {
                        Fit::Paths(place) => (from + matched, Some(place)),
                        _ => (from + matched, None),
                    }
                }
                // Without its first bytecode, the rest may fit.
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
            let part = StretchPart { bytecodes: from..to, place };
            begin = self.behind(stretch, &part);
            parts.push(part);
            from = to;
        }
        if from < all {
            summary.given_up += (all - from) as u64;
            parts.push(StretchPart { bytecodes: from..all, place: None });
        }
        parts
    }
    /// The knowledge that `part` gives about the next bytecode.
    fn behind(&self, stretch: &OrphanStretch, part: &StretchPart) -> Begin {
        let icfg = self.icfg();
        let returns = |b: &Bytecode| b.opcode.transfer() == Transfer::Return && b.outcome == Outcome::Open;
        let last =
            stretch.bytecodes[part.bytecodes.clone()].last().filter(|b| returns(b) && part.ends_certain());
        let node = last.and(part.place.as_ref()).and_then(|place| place.nodes.last());
        node.map_or(Begin::Anywhere, |node| Begin::Behind(icfg.method(*node)))
    }
    /// Places some bytecodes of `stretch` within the rest of the thread's budget.
    fn part(
        &self,
        stretch: &OrphanStretch,
        bytecodes: Range<usize>,
        begin: Begin,
        known: &mut KnownFits,
        summary: &mut Summary,
    ) -> Fit {
        let (icfg, places) = self.program();
        let (at_first, each) = self.settings.budget;
        let left = (at_first + each * summary.orphans).saturating_sub(summary.transitions);
        let limits = &self.settings.limits;
        let transitions = limits.transitions.saturating_add(self.settings.each * bytecodes.len() as u64);
        let limits = &ProjectionLimits { transitions: transitions.min(left), ..*limits };
        let segment = stretch.segment(icfg, bytecodes, begin);
        if let Some(fit) = known.get(&segment) {
            return fit.clone();
        }
        if left == 0 {
            return Fit::GivenUp { front: None, resume: segment.len() };
        }
        let found = match self.settings.method {
            Method::Enumerate => Enumerate::new(icfg, Extent::All).project(&segment, limits),
            Method::Guided => Guided::new(icfg, Extent::All).project(&segment, limits),
            Method::Indexed => Indexed::over(icfg, places).project_above(&segment, Below::Unknown, limits),
        };
        summary.transitions += found.work.total();
        if transitions <= left {
            known.insert(segment, &found.fit);
        }
        found.fit
    }
}
