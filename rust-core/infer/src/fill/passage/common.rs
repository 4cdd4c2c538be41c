// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A passage through a common caller: out of the frames before a gap, up to a method that
//! leads, call by call, to the frames after it.
//!
//! Where the callers at either end are unknown, the likeliest callers of both are followed up
//! to where they meet.

use super::super::back::Spot;
use super::walk::Walk;
use super::{Caller, Cost, Reached};
use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{EdgeKind, Node, Transfer};
use jportal_units::MethodId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Number of places in callers that are considered on either side.
const CALLERS: usize = 1 << 11;
/// Number of methods for which it is kept what leads down to them: some 60 kB each.
const KEPT: usize = 256;
/// Number of common callers in which a way from one call to the other is searched.
const TRIED: usize = 32;

/// By method, how it leads to the outermost frame that is known after a gap.
pub(super) type Downwards = HashMap<MethodId, Down>;

/// How a method leads to the outermost frame that is known after the gap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Down {
    cost: f64,
    /// The call site in this method.
    site: Node,
    /// The method that it calls.
    callee: MethodId,
}

/// A place before the gap, or a place after a call in one of the callers of the frames there.
struct CallerPlace {
    /// The instruction where the frame continues. That of the first place has been executed
    /// already.
    at: Node,
    cost: f64,
    /// The index of the place in the callee.
    from: Option<usize>,
}

/// The likeliest common caller, and the way in it from the place to the call site.
struct Meeting {
    place: usize,
    site: Node,
    reached: Reached,
}

impl Walk<'_, '_> {
    /// The instructions that lead to a spot, and the spot.
    pub(super) fn by_common_caller(mut self) -> Option<(Vec<Node>, Spot)> {
        let (known, whole) = self.back.below(0);
        if whole {
            return None;
        }
        let outermost = known.first().copied().or_else(|| self.back.first())?;
        let (bottom, level) = (self.passages.icfg.method(outermost), known.len() as u32);
        let down = self.down(bottom);
        let places = self.places();
        let Meeting { place, site, reached } = self.meeting(&places, &down)?;
        let mut way: Vec<usize> = std::iter::successors(Some(place), |at| places[*at].from).collect();
        way.reverse();
        let (_, left) = way.split_last()?;
        for place in left {
            self.leave_place(places[*place].at, *place == 0)?;
        }
        let at = places[place].at;
        if at != site || place == 0 {
            if place != 0 {
                self.go(at)?;
            }
            self.go_to(&reached, at, site)?;
        }
        let spot = self.call_down(site, &down, (bottom, level))?;
        Some((self.into_nodes(), spot))
    }
    /// The methods that lead to `bottom`, each by its likeliest way. The result is the same for
    /// all gaps and is kept, because many gaps need it.
    fn down(&self, bottom: MethodId) -> Arc<Downwards> {
        let known = &self.passages.known.down;
        if let Some(down) = known.borrow().get(&bottom) {
            return Arc::clone(down);
        }
        let down = Arc::new(self.look_down(bottom));
        let mut known = known.borrow_mut();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(bottom, Arc::clone(&down));
        down
    }
    fn look_down(&self, bottom: MethodId) -> Downwards {
        let g = self.passages.icfg;
        let mut all = Downwards::new();
        let mut queue = BinaryHeap::from([Reverse((Cost(0.0), bottom))]);
        let mut settled = HashSet::new();
        while let Some(Reverse((Cost(cost), callee))) = queue.pop() {
            if settled.len() >= CALLERS || !settled.insert(callee) {
                continue;
            }
            for &Caller { site, cost: surprise, .. } in &*self.passages.callers(callee) {
                let (caller, cost) = (g.method(site), cost + surprise);
                if settled.contains(&caller) {
                    continue;
                }
                if all.get(&caller).is_none_or(|known| cost < known.cost) {
                    all.insert(caller, Down { cost, site, callee });
                    queue.push(Reverse((Cost(cost), caller)));
                }
            }
        }
        // A passage does not lead from `bottom` to itself.
        all.remove(&bottom);
        all
    }
    /// Where the walk is, where the known frames below continue, and where their likeliest
    /// callers do.
    fn places(&self) -> Vec<CallerPlace> {
        let g = self.passages.icfg;
        let mut all = vec![CallerPlace { at: self.last, cost: 0.0, from: None }];
        let mut left = self.cost_of_leaving(self.last, true);
        for site in self.frames.sites().iter().rev() {
            let Some((_, at)) = g.edges(*site).find(|(kind, _)| *kind == EdgeKind::Behind) else {
                return all;
            };
            all.push(CallerPlace { at, cost: left, from: Some(all.len() - 1) });
            left += self.cost_of_leaving(at, false);
        }
        if self.frames.is_whole() {
            return all;
        }
        let mut queue = BinaryHeap::from([Reverse((Cost(left), all.len() - 1))]);
        let mut known = HashSet::new();
        while let Some(Reverse((Cost(left), from))) = queue.pop() {
            for &Caller { behind: at, cost: surprise, .. } in &*self.passages.callers(g.method(all[from].at))
            {
                if all.len() >= CALLERS || !left.is_finite() {
                    return all;
                }
                if known.insert(at) {
                    let cost = left + surprise;
                    queue.push(Reverse((Cost(cost + self.cost_of_leaving(at, false)), all.len())));
                    all.push(CallerPlace { at, cost, from: Some(from) });
                }
            }
        }
        all
    }
    /// The cost of leaving the frame that continues at `at`. `executed` says that `at` has been
    /// executed.
    fn cost_of_leaving(&self, at: Node, executed: bool) -> f64 {
        let g = self.passages.icfg;
        if !executed {
            return self.passages.look(g.method(at), |exits| exits.of(at).0).unwrap_or(f64::INFINITY);
        }
        let Some(exits) = self.passages.exits(g.method(at)) else { return f64::INFINITY };
        if g.opcode(at).transfer() == Transfer::Return {
            return 0.0;
        }
        let edges = self.passages.edges(at).into_iter();
        edges.map(|edge| edge.cost + exits.of(edge.to).0).fold(f64::INFINITY, f64::min)
    }
    fn meeting(&self, places: &[CallerPlace], down: &Downwards) -> Option<Meeting> {
        let g = self.passages.icfg;
        let lead = |(at, place): (usize, &CallerPlace)| {
            let down = down.get(&g.method(place.at)).filter(|_| place.cost.is_finite())?;
            let ended = at == 0 && g.opcode(place.at).transfer() == Transfer::Return;
            (!ended).then_some((place.cost + down.cost, at, down.site))
        };
        let mut all: Vec<_> = places.iter().enumerate().filter_map(lead).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut best: Option<(f64, Meeting)> = None;
        for (cost, place, site) in all.into_iter().take(TRIED) {
            let least = best.as_ref().map_or(f64::INFINITY, |best| best.0);
            if cost >= least {
                break;
            }
            let at = places[place].at;
            let reached = self.passages.reach(at);
            let between = if place != 0 && at == site { Some(0.0) } else { reached.get(&site).map(|r| r.0) };
            if let Some(cost) = between.map(|between| cost + between).filter(|cost| *cost < least) {
                best = Some((cost, Meeting { place, site, reached }));
            }
        }
        best.map(|best| best.1)
    }
    /// Goes from `at`, which has been `executed` or comes next, to the end of its frame.
    fn leave_place(&mut self, at: Node, executed: bool) -> Option<()> {
        if !executed {
            self.go(at)?;
        }
        if self.passages.icfg.opcode(at).transfer() == Transfer::Return {
            return Some(());
        }
        let exits = self.passages.exits(self.passages.icfg.method(at))?;
        let cost = |edge: &super::Edge| edge.cost + exits.of(edge.to).0;
        let edges = self.passages.edges(at).into_iter().filter(|edge| cost(edge).is_finite());
        let edge = edges.min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        self.step(edge)?;
        self.leave(edge.to)
    }
    /// Executes `site` and continues from call to call into the frame of `bottom`, whose
    /// `level` after the gap is known, and there to a spot.
    fn call_down(
        &mut self,
        mut site: Node,
        down: &Downwards,
        (bottom, level): (MethodId, u32),
    ) -> Option<Spot> {
        let g = self.passages.icfg;
        loop {
            self.go(site)?;
            let callee = down.get(&g.method(site))?.callee;
            let entry = g.entry(callee).filter(|entry| g.may_call(site, *entry))?;
            if callee == bottom {
                if let Some(spot) = self.spot_at(entry) {
                    return Some(spot);
                }
                self.go(entry)?;
                let reached = self.passages.reach(entry);
                let target = self.nearest(&reached, entry, Some(level))?;
                return self.arrive(&reached, entry, target);
            }
            let next = down.get(&callee)?.site;
            if next != entry {
                self.go(entry)?;
                let reached = self.passages.reach(entry);
                self.go_to(&reached, entry, next)?;
            }
            site = next;
        }
    }
}
