// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Searches the paths of a segment from its starting nodes, their number, and where they
//! differ.
//!
//! The search lists, symbol by symbol, the states that some path leads to, with their
//! predecessors and the number of paths to each. Where only one state is left, all paths so far
//! meet in it. What precedes it can be settled and dropped: memory is bounded by the longest
//! ambiguous stretch.
//!
//! Where calls are paired with returns a state has a stack, and there may be as many stacks as
//! paths. If there are too many, all stacks are dropped: returns may then lead anywhere until
//! calls have been seen again. More paths fit than really do, but no path that does is lost.

use super::backwards::Reach;
use super::nfa::{Nfa, Step};
use super::stacks::{Stack, Stacks};
use super::work::{ProjectionLimits, Work};
use super::{Fit, Projection};
use crate::segment::{Outcome, Segment};
use jportal_bytecode::{Node, Transfer};
use std::ops::Range;

/// The knowledge about the frames below a segment's first symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Below<'a> {
    /// Returns are not paired with calls, as in the paper (§4, *Discussions*).
    Unpaired,
    /// Returns are paired with the calls inside the segment.
    Unknown,
    /// There are exactly these call sites, outermost first: the stack that survived the gap.
    Frames(&'a [Node]),
    /// The topmost frames have these call sites, outermost first; the frames below are unknown.
    Top(&'a [Node]),
}

/// A state that some path leads to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PathState {
    node: Node,
    stack: Stack,
}

/// The states at one symbol.
#[derive(Debug, Default)]
struct Layer {
    states: Vec<PathState>,
    /// The number of paths to each state.
    paths: Vec<u64>,
    /// The first predecessor of each state, and the predecessors of all states, as indices into
    /// the previous layer.
    pred_first: Vec<u32>,
    preds: Vec<u32>,
}

/// Finds the paths of `segment` that begin at one of `starts` and use only the nodes of
/// `reach`.
pub fn search(
    nfa: &Nfa<'_>,
    segment: &Segment,
    (starts, reach): (&[Node], Option<&Reach>),
    below: Below<'_>,
    limits: &ProjectionLimits,
    work: &mut Work,
) -> Fit {
    let mut search = Search::new(*nfa, segment, reach, below);
    if segment.is_empty() {
        return Fit::Nowhere { matched: 0 };
    }
    work.candidates += starts.len() as u64;
    let begins = |n: &Node| search.is_within(0, *n) && nfa.matches(*n, segment, 0) && search.is_called(*n);
    let starts: Vec<Node> = starts.iter().copied().filter(begins).collect();
    if starts.is_empty() {
        return Fit::Nowhere { matched: 0 };
    }
    search.begin(&starts);
    for index in 1..segment.len() {
        if search.leads_anywhere(index, limits) {
            return search.given_up();
        }
        if search.advance_single(index, work) {
            if work.exhausted(limits) {
                return search.given_up();
            }
            continue;
        }
        let Some(next) = search.advance(index, limits, work) else {
            return search.given_up();
        };
        if next.states.is_empty() {
            return Fit::Nowhere { matched: index };
        }
        search.pending += next.preds.len();
        if next.states.len() > limits.width || search.stacks.len() > limits.cached {
            return search.given_up();
        }
        search.layers.push(next);
        search.settle_if_single();
    }
    Fit::Paths(search.finish())
}

/// The number of predecessors kept per symbol, however many symbols stay ambiguous. Also the
/// maximum number of places at which the paths of a search that gives up may end: methods may
/// be copies of each other.
const FEW: usize = 4;
/// The number of layers from which they are settled.
const SETTLE: usize = 1 << 12;

struct Search<'a> {
    nfa: Nfa<'a>,
    segment: &'a Segment,
    reach: Option<&'a Reach>,
    paired: bool,
    stacks: Stacks,
    root: Stack,
    layers: Vec<Layer>,
    /// The number of predecessors in `layers`.
    pending: usize,
    nodes: Vec<Node>,
    ambiguous: Vec<Range<u32>>,
}

impl<'a> Search<'a> {
    fn new(nfa: Nfa<'a>, segment: &'a Segment, reach: Option<&'a Reach>, below: Below<'_>) -> Self {
        let mut stacks = Stacks::new();
        let (sites, bottom): (&[Node], _) = match below {
            Below::Unpaired | Below::Unknown => (&[], Stack::UNKNOWN),
            Below::Frames(sites) => (sites, Stack::BOTTOM),
            Below::Top(sites) => (sites, Stack::UNKNOWN),
        };
        let root = sites.iter().fold(bottom, |rest, site| stacks.push(*site, rest));
        let paired = below != Below::Unpaired;
        let (layers, nodes, ambiguous) = (Vec::new(), Vec::new(), Vec::new());
        Self { nfa, segment, reach, paired, stacks, root, layers, pending: 0, nodes, ambiguous }
    }
    /// Whether the frame below, if known, may have called the method of `start`.
    fn is_called(&self, start: Node) -> bool {
        let g = self.nfa.icfg();
        let entry = g.entry(g.method(start));
        self.stacks.pop(self.root).is_none_or(|(site, _)| entry.is_some_and(|e| g.may_call(site, e)))
    }
    fn begin(&mut self, starts: &[Node]) {
        let mut states: Vec<_> = starts.iter().map(|n| PathState { node: *n, stack: self.root }).collect();
        states.sort_unstable();
        states.dedup();
        let paths = vec![1; states.len()];
        self.layers = vec![Layer { states, paths, ..Layer::default() }];
    }
    /// Gives up: the result reaches to the last symbol at which the paths led to one place, or
    /// to few if they never led to one.
    fn given_up(mut self) -> Fit {
        let last = |most| self.layers.iter().rposition(|l: &Layer| l.states.len() <= most);
        let Some(last) = last(1).or_else(|| last(FEW)) else {
            let resume = self.reach.map_or(1, |reach| reach.first().max(1));
            return Fit::GivenUp { resume, front: None };
        };
        self.layers.truncate(last + 1);
        let front = self.finish();
        Fit::GivenUp { resume: front.nodes.len(), front: Some(front) }
    }
    /// Whether the only state before symbol `index` is a return to more than
    /// [`ProjectionLimits::returns`] places, which nothing but the symbols restricts.
    fn leads_anywhere(&self, index: usize, limits: &ProjectionLimits) -> bool {
        let Some(Layer { states, .. }) = self.layers.last() else { return false };
        let ([from], None) = (&states[..], self.reach.and_then(|r| r.at(index))) else { return false };
        let (g, symbols) = (self.nfa.icfg(), self.segment.symbols());
        let returns = g.opcode(from.node).transfer() == Transfer::Return && !symbols[index - 1].throws();
        let unknown = self.paired && from.stack == Stack::UNKNOWN;
        let behind = || g.after_calls_of(g.method(from.node));
        returns
            && unknown
            && behind().map(|nodes| g.with_opcode(nodes, symbols[index].opcode).len()).sum::<usize>()
                > limits.returns
    }
    /// Whether symbol `index` may be `node` by the knowledge about later symbols.
    fn is_within(&self, index: usize, node: Node) -> bool {
        self.reach.is_none_or(|reach| reach.admits(index, node))
    }
    /// Whether symbol `index` may be `node`.
    fn admits(&self, index: usize, node: Node) -> bool {
        self.is_within(index, node) && self.segment.admits(self.nfa.icfg(), index, node)
    }
    /// Handles the usual case without a list: one state, nothing pending before it, one
    /// successor. Otherwise it does nothing and returns `false`.
    fn advance_single(&mut self, index: usize, work: &mut Work) -> bool {
        let [Layer { states, .. }] = &self.layers[..] else { return false };
        let [from] = states[..] else { return false };
        let outcome = self.segment.symbols()[index - 1].outcome;
        let (mut next, mut others) = (None, false);
        let reach = self.reach;
        self.expand(from, outcome, index, work, &mut |to| {
            if reach.is_none_or(|reach| reach.admits(index, to.node)) {
                others |= next.is_some_and(|n| n != to);
                next = Some(to);
            }
        });
        let next = next.filter(|n| self.admits(index, n.node));
        let (Some(next), false) = (next, others) else { return false };
        self.nodes.push(from.node);
        self.layers[0].states[0] = next;
        true
    }
    /// The next layer; `None` if a limit is reached. The limit is checked after each state,
    /// because a state may have as many successors as there are handlers.
    fn advance(&mut self, index: usize, limits: &ProjectionLimits, work: &mut Work) -> Option<Layer> {
        let outcome = self.segment.symbols()[index - 1].outcome;
        let (segment, reach, icfg) = (self.segment, self.reach, self.nfa.icfg());
        let Some(last) = self.layers.pop() else { return Some(Layer::default()) };
        let most = limits.cached.max(limits.width);
        let mut found = Vec::with_capacity(last.states.len());
        for (pred, state) in (0..).zip(&last.states) {
            let before = found.len();
            self.expand(*state, outcome, index, work, &mut |next| {
                let within = reach.is_none_or(|reach| reach.admits(index, next.node));
                if within && segment.admits(icfg, index, next.node) {
                    found.push((next, pred));
                }
            });
            drop_repeated(&mut found, before);
            if self.pending + found.len() > most + FEW * index || work.exhausted(limits) {
                self.layers.push(last);
                return None;
            }
        }
        let mut layer = Layer::of(&mut found, &last.paths);
        if self.paired && layer.states.len() > limits.stacked {
            work.forgotten += 1;
            self.stacks = Stacks::new();
            found.iter_mut().for_each(|(state, _)| state.stack = Stack::UNKNOWN);
            layer = Layer::of(&mut found, &last.paths);
        }
        self.layers.push(last);
        Some(layer)
    }
    fn expand(
        &mut self,
        from: PathState,
        outcome: Outcome,
        index: usize,
        work: &mut Work,
        each: &mut dyn FnMut(PathState),
    ) {
        let want = self.segment.symbols()[index].opcode;
        let known = self.stacks.pop(from.stack);
        if self.paired && (known.is_some() || from.stack == Stack::BOTTOM) {
            let g = self.nfa.icfg();
            let returns = g.opcode(from.node).transfer() == Transfer::Return;
            match outcome {
                Outcome::Unwound => return self.unwind(from, want, work, each),
                Outcome::Thrown => {}
                _ if returns => {
                    work.transitions += 1;
                    let Some((site, stack)) = known else { return };
                    let behind = g.edges(site).map(|(_, to)| to).filter(|n| g.opcode(*n) == want);
                    return behind.for_each(|node| each(PathState { node, stack }));
                }
                _ => {}
            }
        }
        let (stacks, paired) = (&mut self.stacks, self.paired);
        work.transitions += self.nfa.successors(from.node, outcome, Some(want), &mut |node, step| {
            let stack = match step {
                Step::Call if paired => stacks.push(from.node, from.stack),
                Step::Within => from.stack,
                _ => Stack::UNKNOWN,
            };
            each(PathState { node, stack });
        });
    }
    /// Follows an exception that leaves known frames; below them it continues as in unknown
    /// frames.
    fn unwind(
        &mut self,
        from: PathState,
        want: jportal_bytecode::Opcode,
        work: &mut Work,
        each: &mut dyn FnMut(PathState),
    ) {
        let g = self.nfa.icfg();
        let (mut stack, mut last) = (from.stack, from.node);
        while let Some((site, rest)) = self.stacks.pop(stack) {
            work.transitions += 1;
            (stack, last) = (rest, site);
            g.handlers(site)
                .filter(|n| g.opcode(*n) == want)
                .for_each(|node| each(PathState { node, stack }));
            if g.catches_all(site) {
                return;
            }
        }
        if stack == Stack::UNKNOWN {
            work.transitions += self.nfa.successors(last, Outcome::Unwound, Some(want), &mut |node, _| {
                each(PathState { node, stack });
            });
        }
    }
    fn settle_if_single(&mut self) {
        let single = self.layers.last().is_some_and(|l| l.states.len() == 1);
        if single && self.layers.len() >= SETTLE {
            self.settle();
        }
    }
    /// Writes the nodes of all layers except the last one, which has one state left.
    fn settle(&mut self) {
        let Some(last) = self.layers.pop() else { return };
        let mut layers = std::mem::take(&mut self.layers);
        layers.push(last);
        self.write(&layers, layers.len() - 1);
        let last = layers.pop().unwrap_or_default();
        self.pending = 0;
        self.layers = vec![Layer { preds: Vec::new(), pred_first: Vec::new(), ..last }];
    }
    /// Appends one node for each of the first `count` of `layers`, and notes where other paths
    /// differ.
    fn write(&mut self, layers: &[Layer], count: usize) {
        let base = self.nodes.len();
        let mut live = vec![true; layers.last().map_or(0, |l| l.states.len())];
        let mut chosen = 0;
        let mut backwards = Vec::with_capacity(count);
        for (at, layer) in layers.iter().enumerate().rev() {
            if at < count {
                let node = layer.states[chosen].node;
                let differs = layer.states.iter().zip(&live).any(|(s, live)| *live && s.node != node);
                backwards.push((node, differs));
            }
            if at > 0 {
                (live, chosen) = layer.before(&live, chosen, layers[at - 1].states.len());
            }
        }
        for (at, (node, differs)) in (base as u32..).zip(backwards.into_iter().rev()) {
            self.nodes.push(node);
            match self.ambiguous.last_mut() {
                Some(range) if differs && range.end == at => range.end += 1,
                _ if differs => self.ambiguous.push(at..at + 1),
                _ => {}
            }
        }
    }
    fn finish(mut self) -> Projection {
        let layers = std::mem::take(&mut self.layers);
        let paths = layers.last().map_or(0, |l| l.paths.iter().fold(0, |n: u64, p| n.saturating_add(*p)));
        self.write(&layers, layers.len());
        Projection { nodes: self.nodes, paths, ambiguous: self.ambiguous }
    }
}

/// Sorts the elements of `all` from `first` on and removes duplicates among them.
fn drop_repeated<T: Ord + Copy>(all: &mut Vec<T>, first: usize) {
    if all.len() < first + 2 {
        return;
    }
    all[first..].sort_unstable();
    let mut kept = first;
    for at in first + 1..all.len() {
        if all[at] != all[kept] {
            kept += 1;
            all[kept] = all[at];
        }
    }
    all.truncate(kept + 1);
}

impl Layer {
    /// Makes a layer of states with the indices of their predecessors.
    fn of(found: &mut Vec<(PathState, u32)>, before: &[u64]) -> Self {
        if found.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        let mut layer = Self::default();
        for &(state, pred) in found.iter() {
            if layer.states.last() != Some(&state) {
                layer.states.push(state);
                layer.paths.push(0);
                layer.pred_first.push(layer.preds.len() as u32);
            }
            layer.preds.push(pred);
            if let Some(paths) = layer.paths.last_mut() {
                *paths = paths.saturating_add(before[pred as usize]);
            }
        }
        layer.pred_first.push(layer.preds.len() as u32);
        layer
    }
    fn preds_of(&self, state: usize) -> &[u32] {
        match (self.pred_first.get(state), self.pred_first.get(state + 1)) {
            (Some(&a), Some(&b)) => &self.preds[a as usize..b as usize],
            _ => &[],
        }
    }
    /// Which of the `len` states of the previous layer lead to `live` states, and the first one
    /// that leads to `chosen`.
    fn before(&self, live: &[bool], chosen: usize, len: usize) -> (Vec<bool>, usize) {
        let mut before = vec![false; len];
        for state in (0..live.len()).filter(|s| live[*s]) {
            for pred in self.preds_of(state) {
                before[*pred as usize] = true;
            }
        }
        (before, self.preds_of(chosen).first().map_or(0, |p| *p as usize))
    }
}
