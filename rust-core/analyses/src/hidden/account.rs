// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The bytecodes and calls that hidden parts of a flow may contain, by method.

use std::rc::Rc;

use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{InvokeRef, MethodTable};
use jportal_units::{Bci, MethodId};
use serde::{Deserialize, Serialize};

use super::follow::{Hidden, UnresolvedStretch};
use super::region::{Region, Ways};
use super::{Inlined, Most};

/// Caller, bci of the call, callee.
pub(crate) type Edge = (MethodId, Bci, MethodId);

/// A call that may be hidden.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Call {
    edge: Edge,
    /// The callee was inlined, so its bytecodes ran. Otherwise an intrinsic's instructions ran.
    runs: bool,
}

/// What may be missing of a method or of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Unresolved stretches that may hide part of it.
    pub stretches: u64,
    /// Bounds of the missing bytecodes.
    pub bytecodes: Bounds,
    /// Bounds of the missing calls.
    pub calls: Bounds,
    /// Calls without a frame. An intrinsic's instructions ran in their place, or nothing at
    /// all.
    pub silent_calls: u64,
}

/// A lower and an upper bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Lower bound.
    pub min: u64,
    /// Upper bound. `null` means no limit.
    pub max: Most,
}

impl Bounds {
    fn add(&mut self, min: u64, max: Most) {
        self.min = self.min.saturating_add(min);
        self.max = self.max.plus(max);
    }
    /// Whether nothing is missing.
    pub(crate) const fn is_none(self) -> bool {
        self.max.is_none()
    }
    fn merge(&mut self, other: Self) {
        self.add(other.min, other.max);
    }
}

impl Missing {
    /// Whether nothing is missing.
    pub(crate) const fn is_none(&self) -> bool {
        self.bytecodes.is_none() && self.calls.is_none() && self.silent_calls == 0
    }
    pub(crate) fn merge(&mut self, other: &Self) {
        self.stretches += other.stretches;
        self.bytecodes.merge(other.bytecodes);
        self.calls.merge(other.calls);
        self.silent_calls += other.silent_calls;
    }
}

/// What one stretch may contain.
#[derive(Debug, Default)]
struct Parts {
    /// Parts of known frames: the method, its region of bytecodes, and the maximum number of
    /// times.
    frames: Vec<(MethodId, Rc<Region>, Most)>,
    /// Calls, each of which begins a whole activation, with their maximum number.
    calls: HashMap<Call, Most>,
}

impl Parts {
    fn call(&mut self, call: Call, times: Most) {
        let most = self.calls.entry(call).or_default();
        *most = most.plus(times);
    }
}

/// Maximum depth of methods inlined into each other. No compiler inlines this deep in one
/// compilation.
const DEEPEST: usize = 500;

/// Computes the content of stretches, and caches the results.
pub(crate) struct Account<'a> {
    methods: &'a MethodTable,
    inlined: &'a Inlined,
    regions: HashMap<(MethodId, Ways), Rc<Region>>,
    rounds: HashMap<(MethodId, Bci), Rc<Region>>,
    below: HashMap<MethodId, Rc<[(Call, Most)]>>,
    /// Methods by class, name and descriptor.
    named: HashMap<(&'a str, &'a str, &'a str), Vec<MethodId>>,
    /// Intrinsics by name and descriptor.
    intrinsics: HashMap<(&'a str, &'a str), Vec<MethodId>>,
}

impl<'a> Account<'a> {
    pub(crate) fn new(methods: &'a MethodTable, inlined: &'a Inlined) -> Self {
        let (mut named, mut intrinsics) = (HashMap::new(), HashMap::<_, Vec<MethodId>>::new());
        for m in methods.iter() {
            let (class, name, signature) = (&*m.class_name, &*m.name, &*m.signature);
            named.entry((class, name, signature)).or_insert_with(Vec::new).push(m.id);
            if m.intrinsic != 0 {
                intrinsics.entry((name, signature)).or_default().push(m.id);
            }
        }
        Self {
            methods,
            inlined,
            regions: HashMap::new(),
            rounds: HashMap::new(),
            below: HashMap::new(),
            named,
            intrinsics,
        }
    }
    fn region(&mut self, method: MethodId, ways: Ways) -> Rc<Region> {
        let of = || self.methods.get(method).map_or_else(Region::default, |m| Region::of(m, ways));
        Rc::clone(self.regions.entry((method, ways)).or_insert_with(|| Rc::new(of())))
    }
    fn round(&mut self, frame: (MethodId, Option<Bci>)) -> Rc<Region> {
        let (method, Some(bci)) = frame else { return self.region(frame.0, Ways::WHOLE) };
        let of = || self.methods.get(method).map_or_else(Region::default, |m| Region::round(m, bci));
        Rc::clone(self.rounds.entry((method, bci)).or_insert_with(|| Rc::new(of())))
    }
    /// The calls that may be hidden in one activation of `method`, each with its maximum
    /// number.
    fn below(&mut self, method: MethodId) -> Rc<[(Call, Most)]> {
        if let Some(known) = self.below.get(&method) {
            return Rc::clone(known);
        }
        let below = match self.layers(method, &mut Vec::new()) {
            Some(calls) => calls,
            // Methods that were inlined into each other recursively: any number of each.
            None => self.all_below(method).into_iter().map(|call| (call, Most::NO_LIMIT)).collect(),
        };
        let below: Rc<[_]> = below.into_iter().collect();
        self.below.insert(method, Rc::clone(&below));
        below
    }
    /// Like `below`, but only if no method occurs below itself; `None` otherwise.
    fn layers(&mut self, method: MethodId, open: &mut Vec<MethodId>) -> Option<HashMap<Call, Most>> {
        if open.len() > DEEPEST || open.contains(&method) {
            return None;
        }
        open.push(method);
        let mut all: HashMap<Call, Most> = HashMap::new();
        let mut add = |call: Call, times: Most| {
            let most = all.entry(call).or_default();
            *most = most.plus(times);
        };
        let whole = self.region(method, Ways::WHOLE);
        for (call, times) in self.sites(method, &whole) {
            add(call, times);
            let callee = call.edge.2;
            match self.below.get(&callee).cloned() {
                _ if !call.runs => {}
                Some(known) => known.iter().for_each(|(c, most)| add(*c, most.times(times))),
                None => {
                    let calls = self.layers(callee, open)?;
                    calls.iter().for_each(|(c, most)| add(*c, most.times(times)));
                    self.below.insert(callee, calls.into_iter().collect());
                }
            }
        }
        open.pop();
        Some(all)
    }
    fn all_below(&mut self, method: MethodId) -> HashSet<Call> {
        let (mut all, mut seen, mut open) = (HashSet::new(), HashSet::new(), vec![method]);
        seen.insert(method);
        while let Some(m) = open.pop() {
            let region = self.region(m, Ways::WHOLE);
            for (call, _) in self.sites(m, &region) {
                all.insert(call);
                if call.runs && seen.insert(call.edge.2) {
                    open.push(call.edge.2);
                }
            }
        }
        all
    }
    /// The calls in `region` of `method`, each with the maximum number of times that a path
    /// passes it.
    fn sites(&self, method: MethodId, region: &Region) -> Vec<(Call, Most)> {
        let mut all = Vec::new();
        for place in &region.places {
            let times = if place.again { Most::NO_LIMIT } else { Most(Some(1)) };
            all.extend(self.site(method, place.bci).into_iter().map(|call| (call, times)));
        }
        all
    }
    /// The calls that may be hidden at one bytecode: of inlined methods and of intrinsics.
    fn site(&self, method: MethodId, bci: Bci) -> Vec<Call> {
        let callees = self.inlined.at(self.methods, method, bci);
        let call = |callee: MethodId, runs| Call { edge: (method, bci, callee), runs };
        let mut all: Vec<Call> = callees.iter().map(|callee| call(*callee, true)).collect();
        let intrinsics = self.intrinsics(method, bci);
        all.extend(intrinsics.into_iter().filter(|m| !callees.contains(m)).map(|m| call(m, false)));
        all
    }
    fn parts(&mut self, stretch: &UnresolvedStretch) -> Parts {
        let mut parts = Parts::default();
        let once = Most(Some(1));
        let UnresolvedStretch { method, ways, called, ref callers } = *stretch;
        let region = self.region(method, ways);
        self.frame(&mut parts, (method, region), once);
        if let Some(from) = ways.from.filter(|_| !called) {
            for call in self.site(method, from) {
                self.called(&mut parts, call, once);
            }
        }
        let mut above = method;
        for (number, caller) in callers.iter().enumerate() {
            let lowest = number + 1 == callers.len();
            if number == 0 {
                let whole = self.region(method, Ways::WHOLE);
                self.frame(&mut parts, (method, whole), Most::NO_LIMIT);
            }
            let region = match lowest {
                true => self.round((caller.method, caller.bci)),
                false => self.region(caller.method, Ways::WHOLE),
            };
            self.frame(&mut parts, (caller.method, region), Most::NO_LIMIT);
            if let Some(bci) = caller.bci {
                let call = Call { edge: (caller.method, bci, above), runs: true };
                self.called(&mut parts, call, Most::NO_LIMIT);
            }
            above = caller.method;
        }
        parts
    }
    /// Adds that a known frame may have executed a region, at most `times` times.
    fn frame(&mut self, parts: &mut Parts, (method, region): (MethodId, Rc<Region>), times: Most) {
        for (call, most) in self.sites(method, &region) {
            self.called(parts, call, most.times(times));
        }
        parts.frames.push((method, region, times));
    }
    fn called(&mut self, parts: &mut Parts, call: Call, times: Most) {
        parts.call(call, times);
        if call.runs {
            for (below, most) in self.below(call.edge.2).iter() {
                parts.call(*below, most.times(times));
            }
        }
    }
    /// Fewest and most bytecodes of the top frame that one such stretch hides, without its
    /// callees, and the methods that it may call, directly or not. The maximum is `None` without
    /// a limit.
    pub(crate) fn of_stretch(
        &mut self,
        stretch: &UnresolvedStretch,
    ) -> (u64, Option<u64>, HashSet<MethodId>) {
        let parts = self.parts(stretch);
        let callees = parts.calls.iter().filter(|(_, most)| !most.is_none()).map(|(call, _)| call.edge.2);
        let callees = callees.collect();
        let min = parts.frames.first().map_or(0, |(_, region, _)| region.min);
        let max = match stretch.callers.is_empty() {
            true => parts.frames.first().map_or(Some(0), |(_, region, _)| region.max),
            false => None,
        };
        (min, max, callees)
    }
    /// What may be missing of each method.
    pub(crate) fn of_methods(&mut self, hidden: &Hidden) -> HashMap<MethodId, Missing> {
        let mut all: HashMap<MethodId, Missing> = HashMap::new();
        for (stretch, &n) in &hidden.stretches {
            let parts = self.parts(stretch);
            let every = Most(Some(n));
            let mut touched: HashSet<MethodId> = HashSet::new();
            for (at, (method, region, times)) in parts.frames.iter().enumerate() {
                // The first frame is known to have executed the region from end to end.
                let min = if at == 0 { region.min.saturating_mul(n) } else { 0 };
                let missing = all.entry(*method).or_default();
                missing.bytecodes.add(min, Most(region.max).times(*times).times(every));
                if !region.places.is_empty() {
                    touched.insert(*method);
                }
            }
            for (call, times) in &parts.calls {
                let callee = call.edge.2;
                let missing = all.entry(callee).or_default();
                missing.calls.add(0, times.times(every));
                if call.runs {
                    let whole = self.region(callee, Ways::WHOLE);
                    all.entry(callee)
                        .or_default()
                        .bytecodes
                        .add(0, Most(whole.max).times(*times).times(every));
                }
                touched.insert(callee);
            }
            for method in touched {
                all.entry(method).or_default().stretches += n;
            }
        }
        for (site, n) in &hidden.silent {
            for method in self.silent_targets(*site) {
                all.entry(method).or_default().silent_calls += n;
            }
        }
        all.retain(|_, missing| !missing.is_none());
        all
    }
    /// What may be missing of each call.
    pub(crate) fn of_calls(&mut self, hidden: &Hidden) -> HashMap<Edge, Missing> {
        let mut all: HashMap<Edge, Missing> = HashMap::new();
        for (stretch, &n) in &hidden.stretches {
            for (call, times) in self.parts(stretch).calls {
                let missing = all.entry(call.edge).or_default();
                missing.calls.add(0, times.times(Most(Some(n))));
                missing.stretches += n;
            }
        }
        for (&(method, bci), n) in &hidden.silent {
            for callee in self.silent_targets((method, bci)) {
                all.entry((method, bci, callee)).or_default().silent_calls += n;
            }
        }
        all.retain(|_, missing| !missing.is_none());
        all
    }
    /// The regions whose bytecodes may have been executed unseen.
    pub(crate) fn regions(&mut self, hidden: &Hidden) -> Vec<(MethodId, Rc<Region>)> {
        let mut all = Vec::new();
        let mut whole: HashSet<MethodId> = HashSet::new();
        for stretch in hidden.stretches.keys() {
            let parts = self.parts(stretch);
            all.extend(parts.frames.into_iter().map(|(method, region, _)| (method, region)));
            whole.extend(parts.calls.keys().filter(|c| c.runs).map(|c| c.edge.2));
        }
        for method in whole {
            all.push((method, self.region(method, Ways::WHOLE)));
        }
        for &(method, ways) in &hidden.lost {
            all.push((method, self.region(method, ways)));
        }
        all
    }
    /// The possible targets of a call without a frame: the method that the symbolic target
    /// names, and the intrinsics of that name and descriptor, because one of them may override
    /// it.
    fn silent_targets(&self, (method, bci): (MethodId, Bci)) -> Vec<MethodId> {
        let methods = self.methods;
        let Some(target) = target(methods, method, bci) else { return Vec::new() };
        let mut meant = self.intrinsics(method, bci);
        let named = self.named.get(&(&*target.class_name, &*target.name, &*target.signature));
        meant.extend(named.into_iter().flatten());
        meant.sort_unstable();
        meant.dedup();
        meant
    }
    /// The intrinsics that have the name and descriptor of the invoke at `bci`.
    fn intrinsics(&self, method: MethodId, bci: Bci) -> Vec<MethodId> {
        let methods = self.methods;
        let Some(target) = target(methods, method, bci) else { return Vec::new() };
        self.intrinsics.get(&(&*target.name, &*target.signature)).cloned().unwrap_or_default()
    }
}

/// The symbolic target of the invoke at `bci`. `None` for `invokedynamic`, which names no
/// class.
fn target(methods: &MethodTable, method: MethodId, bci: Bci) -> Option<&InvokeRef> {
    methods.get(method)?.invoke_at(bci).filter(|i| !i.class_name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Inlined;
    use crate::hidden::Follower;
    use crate::testing::{bytecode, enter, leave, leave_as, method, methods};
    use jportal_bytecode::{InvokeRef, Method, Shapes, testing};
    use jportal_flow::{Cause, Event, EventKind, Exclude, Exit};

    fn unresolved(m: u32, from: Option<u16>, to: Option<u16>, cause: Cause, callers: u16) -> Event {
        let (from, to) = (from.map(Bci), to.map(Bci));
        Event::decoded(EventKind::Unresolved { method: MethodId(m), from, to, cause, callers })
    }
    fn hidden(methods: &MethodTable, events: &[Event]) -> Hidden {
        let (mut follower, shapes) = (Follower::default(), Shapes::new(methods));
        events.iter().for_each(|e| follower.event((methods, &shapes), e, Exclude::default()));
        follower.end()
    }
    fn bounds(min: u64, max: Option<u64>) -> Bounds {
        Bounds { min, max: Most(max) }
    }
    fn id(m: u32) -> MethodId {
        MethodId(m)
    }

    #[test]
    fn a_stretch_hides_one_of_its_ways() {
        let methods = methods();
        let inlined = Inlined::default();
        let once = [
            enter(0),
            bytecode(0, 0),
            bytecode(0, 1),
            unresolved(0, Some(1), Some(9), Cause::ConditionalExpression, 0),
            bytecode(0, 9),
            leave(0),
        ];
        let hidden = hidden(&methods, &[&once[..], &once].concat());
        let all = Account::new(&methods, &inlined).of_methods(&hidden);
        let f = all[&id(0)];
        assert_eq!((f.stretches, f.bytecodes, f.calls), (2, bounds(2, Some(4)), Bounds::default()));
        assert_eq!(all.len(), 1);
        assert_eq!(hidden.inexact.unresolved["conditional-expression"], 2);
    }

    /// m0 is `nop; invokestatic 1; invokestatic 2; return`, m1 is empty, m2 calls m1, and m3 is
    /// a loop that calls m1 at bci 4.
    fn calling() -> MethodTable {
        let mut t = MethodTable::default();
        t.push(method("a/B", "main", &[0, 184, 0, 1, 184, 0, 2, 177]));
        t.push(method("a/B", "empty", &[177]));
        t.push(method("a/B", "through", &[184, 0, 1, 177]));
        t.push(method("a/B", "rounds", &[26, 153, 0, 9, 184, 0, 1, 167, 255, 249, 177]));
        t
    }

    #[test]
    fn what_was_put_in_the_place_of_calls_is_hidden_with_them() {
        let t = calling();
        let calls = [(id(0), Bci(1), id(1)), (id(0), Bci(4), id(2)), (id(2), Bci(0), id(1))];
        let inlined = Inlined::new(&t, calls, true);
        let stretch = |called: bool| {
            let mut events = vec![enter(0), bytecode(0, 0), bytecode(0, 1)];
            events.extend(called.then(|| [enter(1), bytecode(1, 0), leave(1)]).into_iter().flatten());
            events.extend([unresolved(0, Some(1), None, Cause::HiddenCallee, 0), leave(0)]);
            let hidden = hidden(&t, &events);
            let mut account = Account::new(&t, &inlined);
            (account.of_methods(&hidden), account.of_calls(&hidden))
        };
        let (methods, calls) = stretch(false);
        assert_eq!(methods[&id(0)].bytecodes, bounds(2, Some(2)), "the second invoke and the return");
        assert_eq!(
            (methods[&id(1)].calls, methods[&id(1)].bytecodes),
            (bounds(0, Some(2)), bounds(0, Some(2)))
        );
        assert_eq!(
            (methods[&id(2)].calls, methods[&id(2)].bytecodes),
            (bounds(0, Some(1)), bounds(0, Some(2)))
        );
        assert_eq!(calls.len(), 3);
        assert_eq!(calls[&(id(2), Bci(0), id(1))].calls, bounds(0, Some(1)));
        let (methods, calls) = stretch(true);
        assert_eq!(methods[&id(1)].calls, bounds(0, Some(1)), "the first call was seen");
        assert_eq!(calls.len(), 2);
        // If the compilers did not report all inlining, names decide.
        let by_name = Inlined::new(&t, [], false);
        assert_eq!(by_name.at(&t, id(0), Bci(1)), [], "this one names none");
    }

    #[test]
    fn a_lost_loop_may_have_gone_round_with_its_callers() {
        let t = calling();
        let inlined = Inlined::new(&t, [(id(3), Bci(4), id(1))], true);
        let events = [
            enter(3),
            bytecode(3, 0),
            bytecode(3, 1),
            bytecode(3, 4),
            enter(1),
            unresolved(1, None, Some(0), Cause::EmptyLoop, 1),
            bytecode(1, 0),
            leave(1),
        ];
        let hidden = hidden(&t, &events);
        let all = Account::new(&t, &inlined).of_methods(&hidden);
        assert_eq!((all[&id(1)].calls, all[&id(1)].bytecodes), (bounds(0, None), bounds(0, None)));
        assert_eq!((all[&id(3)].calls, all[&id(3)].bytecodes), (Bounds::default(), bounds(0, None)));
        let regions = Account::new(&t, &inlined).regions(&hidden);
        let round = regions.iter().find(|(m, _)| *m == id(3)).unwrap();
        let bcis: Vec<u16> = round.1.places.iter().map(|p| p.bci.0).collect();
        assert_eq!(bcis, [0, 1, 4, 7], "not what follows the loop");
    }

    #[test]
    fn methods_put_into_each_other_have_no_limit() {
        let t = calling();
        let calls = [(id(0), Bci(1), id(2)), (id(2), Bci(0), id(2))];
        let inlined = Inlined::new(&t, calls, true);
        let events = [enter(0), bytecode(0, 0), unresolved(0, Some(0), None, Cause::OtherFold, 0), leave(0)];
        let all = Account::new(&t, &inlined).of_methods(&hidden(&t, &events));
        assert_eq!(all[&id(2)].calls, bounds(0, None));
    }

    #[test]
    fn what_stood_where_trace_was_lost_may_have_gone_on() {
        let methods = methods();
        let lost = |events: &[Event]| {
            let hidden = hidden(&methods, events);
            let mut all: Vec<_> = hidden.lost.iter().map(|(m, w)| (m.0, w.from.map(|b| b.0), w.to)).collect();
            all.sort_by_key(|l| (l.0, l.1));
            (all, hidden.inexact.gaps)
        };
        use super::super::region::To;
        let gap = crate::testing::gap;
        let stands = [enter(0), bytecode(0, 1), enter(1), bytecode(1, 4)];
        let (kept, gaps) = lost(&[&stands[..], &[gap(false), bytecode(1, 9)]].concat());
        assert_eq!((kept, gaps), (vec![(1, Some(4), To::Anywhere)], 1));
        let given_up = [leave_as(1, Exit::Lost), leave_as(0, Exit::Lost)];
        let both = vec![(0, Some(1), To::Anywhere), (1, Some(4), To::Anywhere)];
        assert_eq!(lost(&[&stands[..], &[gap(true)]].concat()).0, both);
        assert_eq!(lost(&[&stands[..], &given_up, &[gap(true)]].concat()).0, both);
        assert_eq!(lost(&[&stands[..], &given_up].concat()).0, [], "the recording ended with them");
        assert_eq!(lost(&[bytecode(0, 8)]).0, [(0, None, To::At(Bci(8)))], "it was found there");
    }

    #[test]
    fn a_call_without_a_frame_is_counted_for_its_target() {
        // 0 invokestatic b/C.f(II)V; 3 invokestatic b/C.f(II)V; 6 return
        let calls = |bci| InvokeRef { signature: "(II)V".into(), ..testing::calls(bci, "b/C", "f") };
        let invokes = Box::new([calls(0), calls(3)]);
        let caller = Method { invokes, ..method("a/B", "h", &[184, 0, 1, 184, 0, 1, 177]) };
        let events = [enter(0), bytecode(0, 0), bytecode(0, 3), enter(1), leave(1), bytecode(0, 6)];
        let silent = |descriptor: &str| {
            let mut t = MethodTable::default();
            t.push(caller.clone());
            t.push(Method { signature: descriptor.into(), ..method("b/C", "f", &[177]) });
            let all = Account::new(&t, &Inlined::default()).of_methods(&hidden(&t, &events));
            all.get(&id(1)).map(|missing| missing.silent_calls)
        };
        assert_eq!(silent("()V"), None, "another descriptor");
        assert_eq!(silent("(II)V"), Some(1));
    }
}
