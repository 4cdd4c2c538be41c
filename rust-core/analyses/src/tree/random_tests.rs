// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What holds for every flow, on random ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use jportal_bytecode::{Cfg, Method, MethodTable, Opcode, Transfer, testing::calls, testing::row};
use jportal_flow::{Cause, Entry, Event, EventKind, Exit, Provenance, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId, Tsc};

use super::testing::{table, tree_of};
use super::{
    CallTree, Change, Counting, Hide, Kind, Live, NodeId, Options, Profiler, Replay, TreeAnalysis, Upcalls,
};
use crate::hot::{HotAnalysis, HotRank};
use crate::run_tests::in_runs;
use crate::testing::{BRANCHY, feed, gap, leave_as, method};

const NATIVE: u32 = 2;

/// m0 `f` is [`BRANCHY`]. m1 `g`: 0 `nop`; 1 `invokestatic` f; 4 `iload_0`; 5 `ifne` 0; 8 `nop`; 9
/// `ireturn`, and a handler at 8 for 1. m2 is native. m3 of the library: 0 `invokestatic` g; 3
/// `iload_0`; 4 `ifeq` 8; 7 `nop`; 8 `return`.
fn methods() -> Arc<MethodTable> {
    let g = [0, 184, 0, 1, 26, 154, 255, 251, 0, 172];
    let invokes = |bci, name| Box::new([calls(bci, "a/B", name)]);
    let exceptions = [row(1, 4, 8, None)].into();
    table(vec![
        method("a/B", "f", BRANCHY),
        Method { invokes: invokes(1, "f"), exceptions, ..method("a/B", "g", &g) },
        Method { access_flags: 0x100, ..method("a/B", "n", &[]) },
        Method { invokes: invokes(0, "g"), ..method("java/L", "l", &[184, 0, 1, 26, 153, 0, 4, 0, 177]) },
    ])
}

struct FlowGenerator<'m> {
    rng: Rng,
    methods: &'m MethodTable,
    cfgs: Vec<Cfg>,
    events: Vec<Event>,
    tier: Tier,
    /// Calls that may still be made.
    budget: u32,
    /// Gaps, unresolved stretches, and events that are not decoded.
    lossy: bool,
}

impl FlowGenerator<'_> {
    fn push(&mut self, kind: EventKind) {
        let provenance = match self.rng.u8(..16) {
            0 if self.lossy => Provenance::Projected { paths: 1 },
            1 if self.lossy => Provenance::Recovered { confidence: 0.5 },
            _ => Provenance::Decoded,
        };
        self.events.push(Event { kind, provenance });
    }
    fn enter(&mut self, m: u32, entry: Entry) {
        let tier = if m == NATIVE { Tier::Native } else { self.tier };
        self.push(EventKind::Enter { method: MethodId(m), tier, entry });
    }
    /// Executes `m`; returns whether an exception left it.
    fn activation(&mut self, m: u32, entry: Entry, depth: u32) -> bool {
        self.budget = self.budget.saturating_sub(1);
        self.enter(m, entry);
        if m == NATIVE {
            if depth < 6 && self.rng.bool() {
                self.activation(1, Entry::Upcall, depth + 1);
            }
            self.events.push(leave_as(m, Exit::Return));
            return false;
        }
        if self.rng.u8(..30) == 0 {
            self.events.push(leave_as(m, Exit::Unwind));
            return true;
        }
        let mut at = 0;
        loop {
            let bci = self.cfgs[m as usize].starts()[at as usize];
            self.bytecode(m, bci);
            let code = &self.methods.get(MethodId(m)).unwrap().code;
            let transfer = Opcode(code[usize::from(bci.get())]).transfer();
            if transfer == Transfer::Return {
                self.events.push(leave_as(m, Exit::Return));
                return false;
            }
            if transfer == Transfer::Invoke && self.threw(depth) {
                let Some(handler) = self.cfgs[m as usize].handlers(at).next() else { break };
                at = handler;
                let bci = self.cfgs[m as usize].starts()[at as usize];
                self.events.push(Event::decoded(EventKind::Catch { method: MethodId(m), bci }));
                continue;
            }
            let edges = self.cfgs[m as usize].edges(at);
            at = match self.budget {
                0 => edges.iter().map(|e| e.to).max().unwrap(),
                _ => edges[self.rng.usize(..edges.len())].to,
            };
        }
        self.events.push(leave_as(m, Exit::Unwind));
        true
    }
    /// An invoke: returns whether it threw.
    fn threw(&mut self, depth: u32) -> bool {
        let call = depth < 6 && self.budget > 0;
        if call && self.rng.u8(..6) == 0 && self.activation(0, Entry::Upcall, depth + 1) {
            return true;
        }
        match self.rng.u8(..8) {
            0 => false,
            1 => true,
            _ if call => {
                let callee = self.rng.u32(..4);
                self.activation(callee, Entry::Call, depth + 1)
            }
            _ => false,
        }
    }
    fn bytecode(&mut self, m: u32, bci: Bci) {
        let (method, tier) = (MethodId(m), self.tier);
        self.push(EventKind::Bytecode { method, bci, tier });
        match self.rng.u8(..40) {
            0 | 1 => {
                self.events.push(leave_as(m, Exit::Replaced));
                self.tier = if self.rng.bool() { Tier::C2 } else { Tier::Interpreter };
                let again = self.rng.bool();
                let entry = if again { Entry::Deoptimisation } else { Entry::Osr };
                self.events.push(Event::decoded(EventKind::Enter { method, tier: self.tier, entry }));
                if again {
                    self.push(EventKind::Bytecode { method, bci, tier: self.tier });
                }
            }
            2 | 3 => {
                let now = Tsc(self.events.len() as u64);
                self.events.push(Event::decoded(EventKind::Time(now)));
            }
            4 if self.lossy => self.events.push(gap(self.rng.u8(..4) == 0)),
            5 if self.lossy => {
                let callers = self.rng.u16(..3) / 2;
                let (from, to, cause) = (Some(bci), None, Cause::EmptyDiamond);
                self.push(EventKind::Unresolved { method, from, to, cause, callers });
            }
            _ => {}
        }
    }
}

fn flow(methods: &MethodTable, seed: u64, lossy: bool) -> Vec<Event> {
    let cfgs = methods.iter().map(|m| Cfg::of(m).unwrap()).collect();
    let (rng, events, tier) = (Rng::with_seed(seed), Vec::new(), Tier::Interpreter);
    let mut flow = FlowGenerator { rng, methods, cfgs, events, tier, budget: 60, lossy };
    while flow.budget > 0 {
        let m = flow.rng.u32(..4);
        flow.activation(m, Entry::Upcall, 0);
    }
    flow.events
}

const BOTH: Counting = Counting::Both;

fn options() -> Options {
    Options { counting: BOTH, ..Options::default() }
}

/// Invocations, unstarted ones included, and bytecodes.
type Sums = BTreeMap<String, (u64, u64)>;

fn add(sums: &mut Sums, name: &str, (invocations, bytecodes): (u64, u64)) {
    let sum = sums.entry(name.to_owned()).or_default();
    *sum = (sum.0 + invocations, sum.1 + bytecodes);
}

/// The sums of the nodes of each method.
fn by_method(tree: &CallTree) -> Sums {
    let mut sums = Sums::new();
    for n in tree.nodes.iter().filter(|n| matches!(n.kind, Kind::Call | Kind::Upcall)) {
        add(&mut sums, &n.method, (n.invocations.total() + n.unstarted, n.bytecodes.total()));
    }
    sums.retain(|_, sum| *sum != (0, 0));
    sums
}

/// The sums of the nodes of each path.
fn by_path(tree: &CallTree) -> Sums {
    let (mut paths, mut sums) = (Vec::<String>::new(), Sums::new());
    for n in &tree.nodes {
        let parent = n.parent.map_or("", |p| paths[p as usize].as_str());
        let path = format!("{parent} > {}", n.method);
        add(&mut sums, &path, (n.invocations.total(), n.bytecodes.total()));
        paths.push(path);
    }
    sums
}

fn hot(methods: &Arc<MethodTable>, threads: &[Vec<Event>], wanted: impl Fn(&Method) -> bool) -> Sums {
    let mut hot = HotAnalysis::new(Arc::clone(methods), Arc::default());
    (1..).zip(threads).for_each(|(tid, events)| feed(&mut hot, tid, events));
    let rows = hot.report(usize::MAX, wanted).methods.into_iter();
    let sums = rows.map(|m| (m.method, (m.counts.calls.total(), m.counts.bytecodes.total())));
    sums.filter(|(_, sum)| *sum != (0, 0)).collect()
}

#[test]
fn nodes_add_up_to_the_rows_of_hot_methods() {
    let methods = methods();
    let (mut events_seen, mut unstarted) = (0, 0);
    for seed in 0..200 {
        for lossy in [false, true] {
            let events = flow(&methods, seed, lossy);
            events_seen += events.len();
            let tree = tree_of(&methods, &events, options());
            let all = hot(&methods, std::slice::from_ref(&events), |_| true);
            assert_eq!(by_method(&tree), all, "seed {seed}");
            assert_eq!(tree.nodes[0].total, all.values().map(|s| s.1).sum::<u64>());
            let delta = tree.delta.unwrap();
            assert!(delta.default >= delta.precise, "seed {seed}: {delta:?}");
            assert!(tree.nodes.iter().all(|n| n.default.unwrap() >= n.bytecodes.total()), "seed {seed}");
            let tiers: u64 = tree.nodes.iter().map(|n| n.tiers.interpreter + n.tiers.c1 + n.tiers.c2).sum();
            assert_eq!(tiers, delta.precise);
            unstarted += tree.nodes.iter().map(|n| n.unstarted).sum::<u64>();
            let ticks: u64 = tree.nodes.iter().map(|n| n.ticks).sum();
            assert!(ticks <= events.len() as u64);
            if !lossy {
                let silent = tree.inexact.silent_calls;
                assert_eq!(tree.exact, silent == 0, "seed {seed}: {:?}", tree.inexact);
                assert!(tree.nodes.iter().all(|n| n.exact || n.kind == Kind::Silent));
            }
            check_other_shapes(&methods, &events, &tree);
        }
    }
    assert!(events_seen > 50_000 && unstarted > 100, "{events_seen} {unstarted}");
}

/// Bytecodes with those of all callees, and ticks, by method. An activation inside another one of
/// the method is part of it.
fn costs_by_method(tree: &CallTree) -> BTreeMap<&str, (u64, u64)> {
    let is_method = |at: u32| matches!(tree.nodes[at as usize].kind, Kind::Call | Kind::Upcall);
    let mut costs: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for n in tree.nodes.iter().filter(|n| is_method(n.id)) {
        let above = std::iter::successors(n.parent, |p| tree.nodes[*p as usize].parent);
        let is_inside = above.filter(|p| is_method(*p)).any(|p| tree.nodes[p as usize].method == n.method);
        let cost = costs.entry(&n.method).or_default();
        *cost = (cost.0 + if is_inside { 0 } else { n.total }, cost.1 + n.ticks);
    }
    costs
}

#[test]
fn costs_of_hot_methods_are_those_of_the_tree() {
    let methods = methods();
    let mut compared = 0;
    for seed in 0..200 {
        let lossy = seed % 2 == 0;
        let events = flow(&methods, seed, lossy);
        let tree = tree_of(&methods, &events, Options::default());
        let mut hot = HotAnalysis::new(Arc::clone(&methods), Arc::default())
            .ranked(HotRank::Inclusive, Arc::new(|_, t| t.get()));
        feed(&mut hot, 7, &events);
        let report = hot.report(usize::MAX, |_| true);
        let steps = report.time.unwrap().steps;
        let costs = costs_by_method(&tree);
        for row in &report.methods {
            let (inclusive, ticks) = costs.get(&*row.method).copied().unwrap_or_default();
            let cost = row.cost.unwrap();
            // These flows continue in a frame that a gap has lost. The tree gives it a node.
            assert!(
                cost.inclusive == inclusive || lossy && cost.inclusive < inclusive && !cost.inclusive_exact,
                "seed {seed}: {} {cost:?} {inclusive}",
                row.method
            );
            // Shares are whole ticks, by node there and by method here.
            assert!(cost.ticks.abs_diff(ticks) <= steps * 8, "seed {seed}: {} {cost:?} {ticks}", row.method);
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

fn check_other_shapes(methods: &Arc<MethodTable>, events: &[Event], tree: &CallTree) {
    let root = tree_of(methods, events, Options { upcalls: Upcalls::Root, ..options() });
    assert_eq!(by_method(&root), by_method(tree), "nested and root");
    let nested = root.nodes.iter().filter(|n| n.kind == Kind::Upcall);
    assert!(nested.clone().all(|n| root.nodes[n.parent.unwrap() as usize].parent.is_none()));
    let folded = tree_of(methods, events, Options { fold_recursion: true, ..options() });
    assert_eq!(by_method(&folded), by_method(tree), "folded");
    for n in folded.nodes.iter().filter(|n| n.kind == Kind::Call) {
        let mut above = n.parent;
        while let Some(p) = above {
            assert_ne!(folded.nodes[p as usize].method, n.method);
            above = folded.nodes[p as usize].parent;
        }
    }
    let sites = tree_of(methods, events, Options { sites: true, ..options() });
    assert_eq!(by_path(&sites), by_path(tree), "sites");
    let application = |m: &Method| crate::select::is_application(m);
    let spliced = tree_of(methods, events, Options { hide: Hide::Splice, ..options() });
    assert_eq!(by_method(&spliced), hot(methods, &[events.to_vec()], application), "spliced");
    let folded = tree_of(methods, events, Options { hide: Hide::Fold, ..options() });
    assert_eq!(by_method(&folded), by_method(&spliced));
    assert_eq!(folded.nodes[0].total, tree.nodes[0].total);
}

#[test]
fn a_merged_tree_is_the_sum_of_the_threads() {
    let methods = methods();
    for seed in 0..50 {
        let threads: Vec<_> = (0..3).map(|n| flow(&methods, 3 * seed + n, n == 2)).collect();
        let tree = |merged, order: [usize; 3]| {
            let mut analysis =
                TreeAnalysis::new(Arc::clone(&methods), Arc::default(), Options { merged, ..options() });
            order.iter().for_each(|n| feed(&mut analysis, *n as u32, &threads[*n]));
            analysis.tree().unwrap()
        };
        let (apart, merged) = (tree(false, [0, 1, 2]), tree(true, [0, 1, 2]));
        assert_eq!(by_path(&apart), by_path(&merged), "seed {seed}");
        assert_eq!(apart.threads.len(), 3);
        assert_eq!(tree(false, [2, 0, 1]), apart);
        assert_eq!(tree(true, [1, 2, 0]), merged);
        assert!(merged.nodes.windows(2).all(|n| n[1].parent.unwrap() <= n[0].id));
    }
}

/// Invocations and bytecodes by path.
type Changes = BTreeMap<String, (i64, u64)>;

/// The changes of a thread, and the number of reports.
type Reported = (Changes, u64);

/// Keeps the changes of each thread by path, and the number of reports.
#[derive(Default)]
struct Deltas {
    granularity: u32,
    all: Mutex<Vec<Reported>>,
}

fn path(tree: &Live<'_>, node: NodeId) -> String {
    let mut path = String::new();
    let mut at = Some(node);
    while let Some(node) = at {
        let name = tree.method(node).map_or_else(|| format!("{:?}", tree.kind(node)), Method::qualified_name);
        path = format!(" > {name}{path}");
        at = tree.parent(node);
    }
    path
}

impl Profiler for Deltas {
    type Thread = Reported;

    fn register(&self, _: &ThreadInfo, tree: &mut Live<'_>) -> (Self::Thread, u32) {
        assert_eq!(tree.callees(tree.root()).count(), 0);
        (Default::default(), self.granularity)
    }
    fn report(&self, own: &mut Self::Thread, tree: &mut Live<'_>, at: NodeId) -> u32 {
        own.1 += 1;
        assert!(tree.parent(at).is_none() || tree.method(at).is_some() || tree.kind(at) == Kind::Unknown);
        for Change { node, invocations, bytecodes } in tree.take_changes() {
            let sum = own.0.entry(path(tree, node)).or_default();
            *sum = (sum.0 + invocations, sum.1 + bytecodes);
            assert_eq!(tree.counts(node), Change { node, invocations: 0, bytecodes: 0 });
        }
        self.granularity
    }
    fn end(&mut self, own: Self::Thread) {
        self.all.get_mut().unwrap().push(own);
    }
}

fn replayed(methods: &Arc<MethodTable>, events: &[Event], granularity: u32) -> (CallTree, Changes, u64) {
    let tree = TreeAnalysis::new(Arc::clone(methods), Arc::default(), Options::default());
    let mut replay = Replay::new(tree, Deltas { granularity, ..Deltas::default() });
    feed(&mut replay, 1, events);
    feed(&mut replay, 2, &[]);
    let (deltas, tree) = replay.finish();
    let (sums, reports) = deltas.all.into_inner().unwrap().pop().unwrap();
    (tree.tree().unwrap(), sums, reports)
}

#[test]
fn the_changes_of_a_replay_add_up_to_the_tree() {
    let methods = methods();
    let mut least = u64::MAX;
    for seed in 0..100 {
        let events = flow(&methods, seed, seed % 2 == 1);
        for granularity in [1, 10, 1_000_000, (1 << 31) - 1] {
            let (tree, changes, reports) = replayed(&methods, &events, granularity);
            assert_eq!(
                replayed(&methods, &in_runs(&methods, &events), granularity),
                (tree.clone(), changes.clone(), reports)
            );
            // Silent leaves and the root have no method.
            let mut sums = Changes::new();
            let mut paths = Vec::<String>::new();
            for n in &tree.nodes {
                let name =
                    if n.method.starts_with('(') { format!("{:?}", n.kind) } else { n.method.to_string() };
                let path = format!("{} > {name}", n.parent.map_or("", |p| paths[p as usize].as_str()));
                let sum = sums.entry(path.clone()).or_default();
                *sum = (sum.0 + n.invocations.total() as i64, sum.1 + n.bytecodes.total());
                paths.push(path);
            }
            sums.retain(|_, sum| *sum != (0, 0));
            let changed: BTreeMap<_, _> = changes.into_iter().filter(|(_, sum)| *sum != (0, 0)).collect();
            assert_eq!(changed, sums, "seed {seed}, granularity {granularity}");
            match granularity {
                1 => least = least.min(reports),
                10 => assert!(reports <= tree.nodes[0].total / 10 + 1, "at most one in ten bytecodes"),
                _ => assert_eq!(reports, 1, "at the end"),
            }
        }
    }
    assert!(least > 20, "{least}");
}

#[test]
fn reports_come_at_check_points() {
    // g: 0 1 | 4 5 0 | 1 4 5 0 … : the first bytecode and each round are check points.
    let methods = methods();
    let round = [0, 1, 4, 5].map(|b| crate::testing::bytecode(1, b));
    let silent: Vec<Event> =
        [vec![crate::testing::enter_as(1, Entry::Upcall)], vec![round.clone(); 10].concat()].concat();
    let reports = |granularity| replayed(&methods, &silent, granularity).2;
    // The counter is 1, or 4, when g begins; then each of nine rounds; then the end.
    assert_eq!([1, 4, 5, 8, 9, 40].map(reports), [10, 10, 5, 5, 4, 1]);
    // A handler is no check point, nor is a bytecode that is executed again.
    let begun = [crate::testing::enter_as(1, Entry::Upcall)].into_iter().chain(round[..2].to_vec());
    let caught = Event::decoded(EventKind::Catch { method: MethodId(1), bci: Bci(0) });
    let handled: Vec<Event> = begun.clone().chain([caught, round[0].clone()]).collect();
    assert_eq!(replayed(&methods, &handled, 1).2, 1, "at the end only");
    let replaced = leave_as(1, Exit::Replaced);
    let back = crate::testing::enter_as(1, Entry::Deoptimisation);
    let again: Vec<Event> = begun.chain([replaced, back, round[1].clone()]).collect();
    assert_eq!(replayed(&methods, &again, 1).2, 1, "at the end only");
}

/// Notes the bytecodes of the tree at each report, and has enough after some.
struct FewReports {
    most: usize,
    seen: Mutex<Vec<u64>>,
    registered: Mutex<u32>,
}

impl Profiler for FewReports {
    type Thread = ();

    fn register(&self, _: &ThreadInfo, tree: &mut Live<'_>) -> ((), u32) {
        assert_eq!(tree.nodes_from(1).count(), 0);
        *self.registered.lock().unwrap() += 1;
        ((), 1)
    }
    fn report(&self, _: &mut (), tree: &mut Live<'_>, _: NodeId) -> u32 {
        let all = tree.nodes_from(0).map(|node| tree.counts(node).bytecodes).sum();
        self.seen.lock().unwrap().push(all);
        1
    }
    fn end(&mut self, (): ()) {}
    fn has_enough(&self) -> bool {
        self.seen.lock().unwrap().len() >= self.most
    }
}

fn few_reports(events: &[Event], most: usize, library: bool) -> (u32, Vec<u64>) {
    let options = Options { hide: Hide::Splice, ..Options::default() };
    let tree = TreeAnalysis::new(methods(), Arc::default(), options)
        .within(|m| crate::select::is_application(m) != library);
    let profiler = FewReports { most, seen: Mutex::default(), registered: Mutex::default() };
    let mut replay = Replay::new(tree, profiler);
    feed(&mut replay, 1, events);
    let profiler = replay.finish().0;
    (profiler.registered.into_inner().unwrap(), profiler.seen.into_inner().unwrap())
}

#[test]
fn a_thread_is_registered_when_its_first_node_appears() {
    // The library's method calls g, which loops.
    let library = [crate::testing::enter_as(3, Entry::Upcall), crate::testing::bytecode(3, 0)];
    assert_eq!(few_reports(&library, 9, false), (0, vec![]), "no frame has a node");
    // The counter is 1 when the first method begins, and nothing is a check point afterwards.
    assert_eq!(few_reports(&library, 9, true), (1, vec![1]), "at the end only");
    let round = [0, 1, 4, 5].map(|b| crate::testing::bytecode(1, b));
    let called = [vec![crate::testing::enter_as(1, Entry::Call)], vec![round.to_vec(); 5].concat()].concat();
    let both = [library.to_vec(), called].concat();
    assert_eq!(few_reports(&both, 99, false), (1, vec![4, 8, 12, 16, 20]), "only bytecodes of g count");
    // Events come in batches of three. The last report comes in any case.
    assert_eq!(few_reports(&both, 2, false), (1, vec![4, 8, 8 + 1]), "two are enough");
}
