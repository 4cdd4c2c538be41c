// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! JPortal's own method of placing: the start is looked up, not searched.
//!
//! 1. The first anchor, if there is one, fixes a position. Otherwise the part of the segment
//!    with the fewest possible places is taken: a window of the segment that the
//!    [index](Places) has, an invoke whose callee is known, a first symbol that follows a known
//!    call, or a last return to a known invoke.
//! 2. From there the segment is resolved backwards to its first symbol: this gives the nodes
//!    that each symbol on the way may be.
//! 3. The paths through these nodes are searched with calls and returns paired, down to the
//!    frames that survived the gap.
//!
//! A segment with neither anchor nor window (shorter than a run) may begin wherever its first
//! symbol matches.

use super::backwards::{Backwards, Reach};
use super::nfa::Nfa;
use super::paths::{Below, search};
use super::places::{Places, Window};
use super::work::{ProjectionLimits, Work};
use super::{Fit, Project, Projected};
use crate::Segment;
use crate::segment::Ends;
use jportal_bytecode::{Icfg, Node};
use jportal_units::MethodId;
use std::borrow::Cow;

/// The maximum number of windows looked up before the best one is taken.
const WINDOWS: usize = 256;
/// The maximum number of known callees looked up.
const CALLS: usize = 16;

/// Places segments with the index.
#[derive(Debug)]
pub struct Indexed<'a> {
    nfa: Nfa<'a>,
    places: Cow<'a, Places>,
}

impl<'a> Indexed<'a> {
    /// Places segments in `icfg` and makes its index.
    pub fn new(icfg: &'a Icfg) -> Self {
        Self { nfa: Nfa::new(icfg), places: Cow::Owned(Places::new(icfg)) }
    }
    /// Places segments in `icfg`, whose index is `places`.
    pub const fn over(icfg: &'a Icfg, places: &'a Places) -> Self {
        Self { nfa: Nfa::new(icfg), places: Cow::Borrowed(places) }
    }
    /// The index.
    pub fn places(&self) -> &Places {
        &self.places
    }
    /// Looks for the paths of `segment` above the frames of `below`.
    pub fn project_above(&self, segment: &Segment, below: Below<'_>, limits: &ProjectionLimits) -> Projected {
        let mut work = Work::default();
        let Some(first) = segment.symbols().first() else {
            return Projected { fit: Fit::Nowhere { matched: 0 }, work };
        };
        let everywhere = self.places.of(first.opcode);
        let reach = self.reach(segment, limits, &mut work);
        let behind = match reach.as_ref() {
            Some(reach) if reach.first() == 0 => None,
            _ => self.after_calls(segment, &mut work),
        };
        let starts = match (&reach, &behind) {
            (_, Some(behind)) => behind,
            (Some(reach), _) => reach.at(0).unwrap_or_default(),
            (None, None) => everywhere,
        };
        let mut find = |starts, reach| search(&self.nfa, segment, (starts, reach), below, limits, &mut work);
        let fit = match &reach {
            // The beginning cannot be resolved: give up to where more is known.
            Some(reach) if reach.first() > 0 && behind.is_none() => {
                Fit::GivenUp { front: None, resume: reach.first() }
            }
            // If the segment cannot be there, the search over all nodes says how much of it
            // fits.
            Some(reach) => match find(starts, Some(reach)) {
                Fit::Nowhere { matched } if matched <= reach.last() => find(everywhere, None),
                fit => fit,
            },
            None => find(starts, None),
        };
        Projected { fit, work }
    }
    /// The nodes that symbol 0 may be if it follows a known call or return; `None` if no such
    /// call or return is known.
    fn after_calls(&self, segment: &Segment, work: &mut Work) -> Option<Vec<Node>> {
        let Ends { after, returned, .. } = segment.ends();
        let rare = after.map(Clue::After).or(returned.map(Clue::Returned))?;
        let nodes = self.behind(segment, &rare).flatten().copied();
        Some(once(nodes.inspect(|_| work.candidates += 1)))
    }
    /// The nodes that the symbols may be, up to the symbol that restricts them most; `None` if
    /// no symbol does.
    fn reach(&self, segment: &Segment, limits: &ProjectionLimits, work: &mut Work) -> Option<Reach> {
        let (index, nodes) = match segment.anchors().first() {
            Some((index, node)) => (*index as usize, vec![*node]),
            None => self.rarest(segment, work)?,
        };
        // Resolving backwards may use half of the transitions.
        let half = ProjectionLimits { transitions: limits.transitions / 2, ..*limits };
        Some(Backwards::new(self.nfa, &self.places).reach(segment, index, nodes, &half, work))
    }
    /// The symbol with the fewest possible nodes, and these nodes.
    fn rarest(&self, segment: &Segment, work: &mut Work) -> Option<(usize, Vec<Node>)> {
        let window = self.best_window(segment).map(|w| (self.places.candidates(&w).len(), Clue::Window(w)));
        let calls =
            segment.callees().iter().take(CALLS).map(|(at, method)| Clue::Call(*at as usize, *method));
        let Ends { after, returned, .. } = segment.ends();
        let after = after.map(Clue::After).or(returned.map(Clue::Returned));
        let behind =
            calls.chain(after).map(|rare| (self.behind(segment, &rare).map(<[Node]>::len).sum(), rare));
        let into = segment.ends().into.and_then(|site| self.returns(segment, site));
        let into = into.map(|nodes| (nodes.len(), Clue::Into(nodes)));
        // Of equals, the first one is the cheapest to resolve backwards.
        let all = window.into_iter().chain(behind).chain(into);
        let (_, rare) = all.min_by_key(|(count, rare)| (*count, rare.index(segment)))?;
        let (at, g) = (rare.index(segment), self.nfa.icfg());
        let nodes: Vec<Node> = match &rare {
            Clue::Window(window) => self.places.candidates(window).collect(),
            Clue::Into(nodes) => nodes.clone(),
            Clue::After(_) | Clue::Returned(_) => self.behind(segment, &rare).flatten().copied().collect(),
            Clue::Call(..) => {
                self.behind(segment, &rare).flatten().filter_map(|n| g.site_before(*n)).collect()
            }
        };
        work.candidates += nodes.len() as u64;
        Some((at, once(nodes.into_iter().filter(|n| self.nfa.matches(*n, segment, at)))))
    }
    /// The nodes after the calls that `rare` names; for the first symbol, only those with its
    /// opcode.
    fn behind(&self, segment: &Segment, rare: &Clue) -> impl Iterator<Item = &'a [Node]> + use<'a> {
        let g = self.nfa.icfg();
        let first = segment.symbols().first().map(|s| s.opcode);
        let (own, any, opcode) = match rare {
            Clue::Call(_, method) => (Some(*method), None, None),
            Clue::After(method) => (Some(*method), None, first),
            Clue::Returned(method) => (None, Some(*method), first),
            _ => (None, None, None),
        };
        let behind = own.into_iter().flat_map(|m| g.after_own_calls_of(m));
        let behind = behind.chain(any.into_iter().flat_map(|m| g.after_calls_of(m)));
        behind.map(move |nodes| opcode.map_or(nodes, |opcode| g.with_opcode(nodes, opcode)))
    }
    /// The returns of the methods that `site` may call, with the opcode of the last symbol;
    /// `None` if `site` may call any method.
    fn returns(&self, segment: &Segment, site: Node) -> Option<Vec<Node>> {
        let g = self.nfa.icfg();
        let opcode = segment.symbols().last()?.opcode;
        let of = |entry: &Node| self.places.returns_of(g, g.method(*entry), opcode);
        (!g.is_outside(site)).then(|| once(g.callees(site).iter().flat_map(of)))
    }
    /// The window with the fewest candidates; of equals the first one, which is the cheapest to
    /// resolve.
    fn best_window(&self, segment: &Segment) -> Option<Window> {
        let symbols = segment.symbols();
        let begins = (1..symbols.len()).filter(|i| symbols[i - 1].is_control());
        let mut best: Option<(usize, Window)> = None;
        for window in begins.filter_map(|i| Places::window(symbols, i)).take(WINDOWS) {
            let count = self.places.candidates(&window).len();
            if best.is_none_or(|(least, _)| count < least) {
                best = Some((count, window));
            }
            if count <= 1 {
                break;
            }
        }
        best.map(|(_, window)| window)
    }
}

/// Knowledge that may restrict where a segment lies.
#[derive(Clone)]
enum Clue {
    Window(Window),
    /// A symbol, and the method that it calls.
    Call(usize, MethodId),
    /// The method that was called before the first symbol.
    After(MethodId),
    /// The method that returned to the first symbol; it may have been called from outside.
    Returned(MethodId),
    /// The nodes that the last symbol may be.
    Into(Vec<Node>),
}

impl Clue {
    fn index(&self, segment: &Segment) -> usize {
        match self {
            Self::Window(window) => window.index,
            Self::Call(at, _) => *at,
            Self::After(_) | Self::Returned(_) => 0,
            Self::Into(_) => segment.len() - 1,
        }
    }
}

/// The nodes, ascending and without duplicates.
fn once(nodes: impl Iterator<Item = Node>) -> Vec<Node> {
    let mut all: Vec<Node> = nodes.collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Project for Indexed<'_> {
    fn project(&mut self, segment: &Segment, limits: &ProjectionLimits) -> Projected {
        self.project_above(segment, Below::Unknown, limits)
    }
}
