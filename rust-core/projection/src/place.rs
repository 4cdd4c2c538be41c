//! Where the bytecodes of a stretch stand.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use jportal_bytecode::{ByName, Icfg, MethodTable, Node};
use jportal_recover::project::paths::Below;
use jportal_recover::project::{
    Enumerate, Extent, Fit, Guided, Indexed, Limits, Places, Project, Projected, Projection,
};

use crate::stretch::Stretch;
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
    /// Attempts for one stretch: where it fits only in part, or a limit is met in its middle, it is divided.
    pub attempts: usize,
    /// Events of a stretch; a longer one is divided.
    pub buffered: usize,
    /// Transitions for all stretches of a thread: at first, and for each of its orphans.
    pub budget: (u64, u64),
}

impl Settings {
    /// With limits that keep projection cheaper than decoding: what is too wide somewhere is divided there.
    pub const fn new(method: Method) -> Self {
        let limits = Limits { transitions: 2_000_000, width: 1 << 14, stacked: 1 << 10, cached: 1 << 15 };
        Self { method, limits, attempts: 16, buffered: 1 << 20, budget: (200_000_000, 1000) }
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
    /// It is there.
    Graph(Arc<Icfg>),
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
                Source::Graph(icfg) => Arc::clone(icfg),
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
        summary.stretches += 1;
        summary.orphans += all as u64;
        for _ in 0..self.settings.attempts {
            if from == all {
                return parts;
            }
            let found = self.part(stretch, from..all, anchor.filter(|_| from == 0), summary);
            let mut gave_up = matches!(found.fit, Fit::GivenUp { .. });
            let (to, place) = match found.fit {
                Fit::Paths(place) => (all, Some(place)),
                // What fits is asked for again: where it ends, nothing constrains it.
                Fit::Nowhere { matched } | Fit::GivenUp { matched } if matched > 1 => {
                    let found =
                        self.part(stretch, from..from + matched, anchor.filter(|_| from == 0), summary);
                    gave_up = matches!(found.fit, Fit::GivenUp { .. });
                    match found.fit {
                        Fit::Paths(place) => (from + matched, Some(place)),
                        _ => (from + matched, None),
                    }
                }
                // Behind its first bytecode it may be easier.
                Fit::Nowhere { .. } | Fit::GivenUp { .. } => (from + 1, None),
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
            parts.push(Part { bytecodes: from..to, place });
            from = to;
        }
        if from < all {
            summary.given_up += (all - from) as u64;
            parts.push(Part { bytecodes: from..all, place: None });
        }
        parts
    }
    /// Where some bytecodes of `stretch` fit, for what is left of the thread's budget.
    fn part(
        &self,
        stretch: &Stretch,
        bytecodes: Range<usize>,
        anchor: Option<Node>,
        summary: &mut Summary,
    ) -> Projected {
        let (icfg, places) = self.program();
        let (at_first, each) = self.settings.budget;
        let left = (at_first + each * summary.orphans).saturating_sub(summary.transitions);
        let limits = &self.settings.limits;
        let limits = &Limits { transitions: limits.transitions.min(left), ..*limits };
        let segment = stretch.segment(icfg, bytecodes, anchor);
        let found = match self.settings.method {
            Method::Enumerate => Enumerate::new(icfg, Extent::All).project(&segment, limits),
            Method::Guided => Guided::new(icfg, Extent::All).project(&segment, limits),
            Method::Indexed => Indexed::over(icfg, places).project_above(&segment, Below::Unknown, limits),
        };
        summary.transitions += found.work.transitions + found.work.abstract_transitions;
        found
    }
}
