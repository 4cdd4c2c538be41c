//! The passage from a trail to the way back where these do not meet: out of frames that only the one has, into those that only
//! the other has.
//!
//! A thread that is in one loop in front of a gap and in another one behind it is followed round and round on both sides. What
//! lies between is looked for here: the likeliest way out of each frame until one is reached in which the way back is too, and
//! from there the likeliest way to it. Ways are looked for inside a method; a call on the way is the likeliest way through
//! its callee. They are ways that were seen, if there are any.

use super::ancestors::may_be;
use super::back::{Back, Spot};
use super::frames::Frames;
use super::frequencies::Frequencies;
use super::{Tier, Tiers};
use jportal_bytecode::{EdgeKind, Icfg, Node, Transfer};
use jportal_units::MethodId;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

/// Calls inside each other that are gone through.
const DEPTH: usize = 64;
/// The same on a passage.
const DEEPEST: usize = 1024;
/// Instructions of a method that is gone through.
const LARGEST: usize = 1 << 13;
/// Instructions of a passage.
const LONGEST: usize = 1 << 16;
/// What a way costs beyond its surprise, by instruction.
const STEP: f64 = 0.05;
/// Times that a way out of unknown frames is looked for, and methods looked at each time.
const CLIMBS: usize = 16;
const CLIMBED: usize = 1 << 12;
/// Callees that are asked for where none was seen.
const CALLEES: usize = 4;
/// What a callee costs that was never seen called here.
const UNSEEN: f64 = 8.0;
/// What it costs to go past a call that was never seen, and of which the callee may be nowhere in the graph.
const UNKNOWN: f64 = 40.0;
/// Methods of which the ways out are asked for at once.
const SOLVED: usize = 1 << 14;

/// A step inside a frame: to an instruction of the same method, perhaps through a callee.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: Node,
    callee: Option<Node>,
    cost: f64,
}

/// Of each instruction of a method, the cost of the likeliest way from there to where the frame ends, and its next step.
#[derive(Debug)]
struct Exits {
    first: u32,
    ways: Vec<(f64, Option<Edge>)>,
}

impl Exits {
    fn of(&self, node: Node) -> (f64, Option<Edge>) {
        let at = node.0.checked_sub(self.first).map(|at| at as usize);
        at.and_then(|at| self.ways.get(at)).copied().unwrap_or((f64::INFINITY, None))
    }
}

/// Where a method returns to, with what speaks against it.
type Callers = Rc<[(Node, f64)]>;

/// What is known of methods so far.
#[derive(Debug, Default)]
pub(super) struct Exited {
    methods: RefCell<HashMap<MethodId, Rc<Exits>>>,
    callers: RefCell<HashMap<MethodId, Callers>>,
}

/// Looks for passages.
#[derive(Clone, Copy)]
pub(super) struct Passages<'a> {
    pub(super) icfg: &'a Icfg,
    pub(super) frequencies: &'a Frequencies,
    pub(super) known: &'a Exited,
}

/// Least first.
#[derive(Clone, Copy, PartialEq)]
struct Cost(f64);
impl Eq for Cost {}
impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Cost {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'a> Passages<'a> {
    /// The steps from `node`, which was executed, that stay in its frame, each with what is known to speak against it and against its
    /// callee.
    fn edges(&self, node: Node) -> Vec<Edge> {
        let through = |edge: Edge| {
            let callee = edge.callee.map_or(Some(0.0), |entry| self.through(entry));
            callee.map(|cost| Edge { cost: edge.cost + cost, ..edge })
        };
        self.steps(node).into_iter().filter_map(through).collect()
    }
    /// The same without what speaks against the callees.
    fn steps(&self, node: Node) -> Vec<Edge> {
        let g = self.icfg;
        match g.opcode(node).transfer() {
            Transfer::Return | Transfer::Throw => Vec::new(),
            Transfer::Invoke => self.calls(node),
            _ if g.tier(node) == Tier::Concrete => {
                g.edges(node).map(|(_, to)| Edge { to, callee: None, cost: STEP }).collect()
            }
            _ => {
                let method = g.method(node);
                let within = |to: Node| g.method(to) == method && g.edges(node).any(|(_, n)| n == to);
                let ways = self.frequencies.after(g, node).into_iter().filter(|(to, _)| within(*to));
                ways.map(|(to, p)| Edge { to, callee: None, cost: STEP - p.ln() }).collect()
            }
        }
    }
    fn calls(&self, site: Node) -> Vec<Edge> {
        let g = self.icfg;
        let Some((_, to)) = g.edges(site).find(|(kind, _)| *kind == EdgeKind::Behind) else {
            return Vec::new();
        };
        let seen = self.frequencies.after(g, site);
        let called = seen.iter().filter(|(n, _)| g.may_call(site, *n));
        let called = called.map(|(entry, p)| Edge { to, callee: Some(*entry), cost: STEP - p.ln() });
        let mut all: Vec<Edge> = called.collect();
        let passed = seen.iter().find(|(n, _)| *n == to).map(|(_, p)| -p.ln());
        if let Some(cost) = passed.or_else(|| g.passes(site).then_some(UNKNOWN)) {
            all.push(Edge { to, callee: None, cost: STEP + cost });
        }
        let others = g.callees(site).iter().filter(|entry| seen.iter().all(|(n, _)| n != *entry));
        all.extend(others.take(CALLEES).map(|entry| Edge { to, callee: Some(*entry), cost: STEP + UNSEEN }));
        all
    }
    /// The likeliest way through a callee of `site`: the callee's instructions, and those of the methods that it calls.
    pub(super) fn callee_of(&self, site: Node) -> Option<Vec<Node>> {
        let called = self.calls(site).into_iter().filter_map(|edge| Some((edge.callee?, edge.cost)));
        // What the VM called there, to link it for example, is no callee.
        let called = called.filter(|(entry, _)| self.icfg.names(site, *entry));
        let seen = called.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(entry, _)| entry);
        // Where only compiled code was seen to go past the call.
        let named =
            || self.icfg.callees(site).iter().copied().take(CALLEES).find(|n| self.through(*n).is_some());
        let entry = seen.or_else(named)?;
        let mut nodes = Vec::new();
        self.way_through(entry, &mut nodes, 0)?;
        Some(nodes)
    }
    fn way_through(&self, entry: Node, nodes: &mut Vec<Node>, depth: usize) -> Option<()> {
        let exits = self.exits(self.icfg.method(entry)).filter(|_| depth < DEPTH)?;
        let mut at = entry;
        nodes.push(at);
        while let (_, Some(edge)) = exits.of(at) {
            if let Some(entry) = edge.callee {
                self.way_through(entry, nodes, depth + 1)?;
            }
            at = edge.to;
            nodes.push(at);
            if nodes.len() >= LARGEST {
                return None;
            }
        }
        (self.icfg.opcode(at).transfer() == Transfer::Return).then_some(())
    }
    /// What it costs to go through a callee.
    fn through(&self, entry: Node) -> Option<f64> {
        let cost = self.exits(self.icfg.method(entry))?.of(entry).0;
        cost.is_finite().then_some(cost)
    }
    /// The ways out of `method`; `None` where it has no code, or too much.
    fn exits(&self, method: MethodId) -> Option<Rc<Exits>> {
        let known = |method| self.known.methods.borrow().get(&method).map(Rc::clone);
        known(method).or_else(|| {
            let found = Solve::of(self, method).run();
            self.known.methods.borrow_mut().extend(found);
            known(method)
        })
    }
    /// Where `method` returns to: behind the calls seen, or else behind those that the program has.
    fn callers(&self, method: MethodId) -> Callers {
        let mut known = self.known.callers.borrow_mut();
        Rc::clone(known.entry(method).or_insert_with(|| {
            let g = self.icfg;
            let sites = g.entry(method).map(|entry| self.frequencies.callers(g, entry)).unwrap_or_default();
            let behind = |site: Node| g.edges(site).find(|(kind, _)| *kind == EdgeKind::Behind).map(|e| e.1);
            sites.into_iter().filter_map(|(site, p)| Some((behind(site)?, STEP - p.ln()))).collect()
        }))
    }
    /// The likeliest ways from `from`, which was executed, to other instructions of its frame: by these the cost and the step
    /// that leads there.
    fn reach(&self, from: Node) -> Reached {
        let mut reached = Reached::new();
        let mut queue = BinaryHeap::from([Reverse((Cost(0.0), from))]);
        while let Some(Reverse((Cost(cost), at))) = queue.pop() {
            let is_start = at == from && cost == 0.0;
            if !is_start && reached.get(&at).is_some_and(|r| cost > r.0) || reached.len() > LARGEST {
                continue;
            }
            for edge in self.edges(at) {
                let next = cost + edge.cost;
                if reached.get(&edge.to).is_none_or(|r| next < r.0) {
                    reached.insert(edge.to, (next, at, edge));
                    queue.push(Reverse((Cost(next), edge.to)));
                }
            }
        }
        reached
    }
    /// Leads on from `last`, where the frames are `frames`, to a spot of `back`. Gives the instructions in between.
    pub(super) fn lead(
        self,
        last: Node,
        frames: &mut Frames<'a>,
        back: &Back<'a>,
        length: Length,
    ) -> Option<(Vec<Node>, Spot)> {
        let spots = back.by_method(self.icfg);
        let mut walk =
            Walk { passages: self, frames, back, spots: &spots, length, last, nodes: Vec::new(), depth: 0 };
        let spot = walk.lead()?;
        Some((walk.nodes, spot))
    }
}

/// The ways out of a method, of those that it may call, and so on.
///
/// A way through a call costs what the callee's costs and what the rest of the way does. Ways are found cheapest first, all methods
/// together (Knuth, "A generalization of Dijkstra's algorithm", 1977), so that recursion is no matter: a way through
/// itself is never a method's cheapest.
struct Solve<'p, 'a> {
    passages: &'p Passages<'a>,
    /// The methods with their first nodes, and where these stand below.
    methods: Vec<(MethodId, u32, usize)>,
    index: HashMap<MethodId, usize>,
    /// Of each node the cheapest way known and its next step.
    ways: Vec<(f64, Option<Edge>)>,
    settled: Vec<bool>,
    /// Steps that wait for a node, the one that they lead to or the entry of their callee: the last one of each node, and of each of them
    /// the step and the one before.
    waiting: Vec<u32>,
    steps: Vec<(Node, Edge, u32)>,
    queue: BinaryHeap<Reverse<(Cost, u32)>>,
}

const NONE: u32 = u32::MAX;

impl<'p, 'a> Solve<'p, 'a> {
    /// For `method` and what it may call, but for what is known already.
    fn of(passages: &'p Passages<'a>, method: MethodId) -> Self {
        let (ways, settled, waiting) = (Vec::new(), Vec::new(), Vec::new());
        let (methods, index) = (Vec::new(), HashMap::new());
        let (steps, queue) = (Vec::new(), BinaryHeap::new());
        let mut all = Self { passages, methods, index, ways, settled, waiting, steps, queue };
        all.add(method);
        let mut done = 0;
        while let Some((_, first, base)) = all.methods.get(done).copied() {
            let len = passages.icfg.nodes_of(all.methods[done].0).len();
            (0..len).for_each(|at| all.node(Node(first + at as u32), base + at));
            done += 1;
        }
        all
    }
    /// Adds a method, unless it is there, known, or too much.
    fn add(&mut self, method: MethodId) {
        let nodes = self.passages.icfg.nodes_of(method);
        if nodes.is_empty()
            || nodes.len() > LARGEST
            || self.methods.len() >= SOLVED
            || self.index.contains_key(&method)
            || self.passages.known.methods.borrow().contains_key(&method)
        {
            return;
        }
        self.index.insert(method, self.methods.len());
        self.methods.push((method, nodes.start, self.ways.len()));
        let len = self.ways.len() + nodes.len();
        self.ways.resize(len, (f64::INFINITY, None));
        self.settled.resize(len, false);
        self.waiting.resize(len, NONE);
    }
    /// Where a node stands here.
    fn at(&self, node: Node) -> Option<usize> {
        let (_, first, base) = self.methods[*self.index.get(&self.passages.icfg.method(node))?];
        Some(base + (node.0 - first) as usize)
    }
    fn node(&mut self, node: Node, at: usize) {
        if self.passages.icfg.opcode(node).transfer() == Transfer::Return {
            self.ways[at].0 = STEP;
            self.queue.push(Reverse((Cost(STEP), node.0)));
        }
        for mut edge in self.passages.steps(node) {
            if let Some(entry) = edge.callee {
                let method = self.passages.icfg.method(entry);
                self.add(method);
                if let Some(exits) = self.passages.known.methods.borrow().get(&method) {
                    edge.cost += exits.of(entry).0;
                }
            }
            if edge.cost.is_finite() {
                let callee = edge.callee.and_then(|entry| self.at(entry));
                [self.at(edge.to), callee].into_iter().flatten().for_each(|target| {
                    self.steps.push((node, edge, self.waiting[target]));
                    self.waiting[target] = self.steps.len() as u32 - 1;
                });
            }
        }
    }
    /// What `edge` costs with what follows, if that is settled; `None` where its callee is left out.
    fn cost(&self, edge: &Edge) -> Option<f64> {
        let settled = |node: Node| self.at(node).filter(|at| self.settled[*at]).map(|at| self.ways[at].0);
        let callee = match edge.callee {
            None => 0.0,
            Some(entry) if self.at(entry).is_some() => settled(entry)?,
            // What is known already is in the cost.
            Some(entry) => {
                let known = self.passages.known.methods.borrow();
                known.get(&self.passages.icfg.method(entry)).map(|_| 0.0)?
            }
        };
        Some(edge.cost + callee + settled(edge.to)?)
    }
    fn run(mut self) -> Vec<(MethodId, Rc<Exits>)> {
        while let Some(Reverse((_, node))) = self.queue.pop() {
            let Some(at) = self.at(Node(node)).filter(|at| !self.settled[*at]) else { continue };
            self.settled[at] = true;
            let mut next = self.waiting[at];
            while let Some((from, edge, before)) = self.steps.get(next as usize).copied() {
                next = before;
                let Some((cost, way)) = self.cost(&edge).zip(self.at(from)) else { continue };
                if cost < self.ways[way].0 {
                    self.ways[way] = (cost, Some(edge));
                    self.queue.push(Reverse((Cost(cost), from.0)));
                }
            }
        }
        let icfg = self.passages.icfg;
        let all = self.methods.iter().map(|(method, first, base)| {
            let ways = self.ways[*base..*base + icfg.nodes_of(*method).len()].to_vec();
            (*method, Rc::new(Exits { first: *first, ways }))
        });
        all.collect()
    }
}

/// How long all of a fill is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// Instructions in front of the passage.
    pub(super) front: usize,
    /// What is wanted, and by how much it may be missed.
    pub(super) wanted: f64,
    pub(super) tolerance: f64,
}

/// The spots in frames that are still there behind the gap, by method.
pub(super) type Spots<'b> = HashMap<MethodId, Vec<(Node, &'b Spot)>>;

/// By instruction, the cost of the likeliest way there, and its last step.
type Reached = HashMap<Node, (f64, Node, Edge)>;

/// What a walk goes to inside a frame.
enum Target {
    Spot(Node, Spot),
    /// A call site, that of the frame below this level.
    Site(Node, u32),
}

/// A passage as far as it goes.
struct Walk<'a, 'f> {
    passages: Passages<'a>,
    frames: &'f mut Frames<'a>,
    back: &'f Back<'a>,
    spots: &'f Spots<'f>,
    length: Length,
    last: Node,
    nodes: Vec<Node>,
    /// Callees that the walk is in.
    depth: usize,
}

impl Walk<'_, '_> {
    fn go(&mut self, to: Node) -> Option<()> {
        if self.nodes.len() >= LONGEST || !self.frames.follow(self.last, to) {
            return None;
        }
        self.last = to;
        self.nodes.push(to);
        Some(())
    }
    /// Takes a step, through its callee if it has one.
    fn step(&mut self, edge: Edge) -> Option<()> {
        if let Some(entry) = edge.callee {
            self.go(entry)?;
            self.leave(entry)?;
        }
        self.go(edge.to)
    }
    /// From `at`, where the walk is, to where its frame ends.
    fn leave(&mut self, at: Node) -> Option<()> {
        let exits = self.passages.exits(self.passages.icfg.method(at)).filter(|_| self.depth < DEEPEST)?;
        let mut at = at;
        self.depth += 1;
        while let (_, Some(edge)) = exits.of(at) {
            self.step(edge)?;
            at = edge.to;
        }
        self.depth -= 1;
        (self.passages.icfg.opcode(at).transfer() == Transfer::Return).then_some(())
    }
    /// From `at`, the instruction executed last in the frame that the walk is in, up to the one in front of `to`.
    fn go_to(&mut self, reached: &Reached, at: Node, to: Node) -> Option<()> {
        let mut steps = Vec::new();
        let mut target = to;
        while let Some((_, from, edge)) = reached.get(&target).filter(|_| steps.len() <= LONGEST) {
            steps.push(*edge);
            if *from == at {
                break;
            }
            target = *from;
        }
        steps.reverse();
        let (last, others) = steps.split_last()?;
        others.iter().try_for_each(|edge| self.step(*edge))?;
        if let Some(entry) = last.callee {
            self.go(entry)?;
            self.leave(entry)?;
        }
        // What comes next is `to`, with the frames as they are.
        Some(())
    }
    /// Leads to a spot, of those that it can lead to the one with which the length is most nearly what is wanted.
    fn lead(&mut self) -> Option<Spot> {
        let g = self.passages.icfg;
        // The frame's instruction executed last.
        let (mut at, mut tried) = (self.last, 0);
        // The places that the frames out of which nobody knows the way are to return to, the last one first.
        let (mut climb, mut avoid) = (Vec::new(), HashSet::new());
        loop {
            let ended = g.opcode(at).transfer() == Transfer::Return && at == self.last;
            if !ended {
                let reached = self.passages.reach(at);
                if let Some(found) = self.nearest(&reached, at, None) {
                    return self.arrive(&reached, at, found);
                }
                let exits = self.passages.exits(g.method(at))?;
                let next = self.passages.edges(at).into_iter();
                let cost = |edge: &Edge| edge.cost + exits.of(edge.to).0;
                let edge = next.min_by(|a, b| cost(a).total_cmp(&cost(b))).filter(|e| cost(e).is_finite())?;
                self.step(edge)?;
                self.leave(edge.to)?;
            }
            let behind = match self.frames.site() {
                Some(site) => g.edges(site).find(|(kind, _)| *kind == EdgeKind::Behind)?.1,
                None => {
                    if let Some(spot) = self.behind_a_call() {
                        return Some(spot);
                    }
                    if climb.is_empty() {
                        tried += 1;
                        climb = self.climb(&mut avoid).filter(|_| tried <= CLIMBS)?;
                    }
                    climb.pop()?
                }
            };
            if let Some(spot) = self.spot_at(behind) {
                return Some(spot);
            }
            if let Some(level) = self.site_at(behind) {
                return self.descend(behind, level);
            }
            self.go(behind)?;
            at = behind;
        }
    }
    /// Behind the last frame that is known: a place behind a call of its method.
    fn behind_a_call(&self) -> Option<Spot> {
        let g = self.passages.icfg;
        let entry = g.entry(g.method(self.last)).filter(|_| !self.frames.is_whole())?;
        let behind = |node: Node| g.site_before(node).is_some_and(|site| g.may_call(site, entry));
        let all = self.spots.values().flatten().filter(|(node, _)| behind(*node));
        let mut nodes: Vec<Node> = all.map(|(node, _)| *node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let spots = nodes.into_iter().filter_map(|node| self.spot_at(node));
        spots.min_by(|a, b| self.miss(a).total_cmp(&self.miss(b)))
    }
    /// Behind the last frame that is known: the likeliest callers up to a method with something to go to, but for those in `avoid`, where
    /// that one is put. Gives the places behind the calls, the last one first.
    fn climb(&self, avoid: &mut HashSet<MethodId>) -> Option<Vec<Node>> {
        let g = self.passages.icfg;
        if self.frames.is_whole() {
            return None;
        }
        let known: HashSet<MethodId> = self.back.below(0).0.iter().map(|site| g.method(*site)).collect();
        let start = g.method(self.last);
        // By caller, the cost, the place behind the call, and the callee.
        let mut from: HashMap<MethodId, (f64, Node, MethodId)> = HashMap::new();
        let mut queue = BinaryHeap::from([Reverse((Cost(0.0), start))]);
        let mut left = HashSet::new();
        while let Some(Reverse((Cost(cost), method))) = queue.pop() {
            if !left.insert(method) || left.len() > CLIMBED {
                continue;
            }
            let is_goal = self.spots.contains_key(&method) || known.contains(&method);
            if method != start && is_goal && avoid.insert(method) {
                let up = std::iter::successors(from.get(&method), |(_, _, callee)| from.get(callee));
                return Some(up.map(|(_, behind, _)| *behind).collect());
            }
            for &(behind, surprise) in &*self.passages.callers(method) {
                let (caller, cost) = (g.method(behind), cost + surprise);
                let is_better = from.get(&caller).is_none_or(|known| cost < known.0);
                if is_better && !left.contains(&caller) {
                    from.insert(caller, (cost, behind, method));
                    queue.push(Reverse((Cost(cost), caller)));
                }
            }
        }
        None
    }
    /// By how much the length is missed at `spot`.
    fn miss(&self, spot: &Spot) -> f64 {
        let len = self.length.front + self.nodes.len() + spot.len as usize;
        (len as f64 - self.length.wanted).abs()
    }
    /// The spot at `node` that fits best, if the frames may be its when that comes next.
    fn spot_at(&self, node: Node) -> Option<Spot> {
        let mut frames = self.frames.clone();
        if !frames.follow(self.last, node) {
            return None;
        }
        let fits = |spot: &&Spot| {
            let (sites, whole) = self.back.below(spot.level);
            self.miss(spot) <= self.length.tolerance && may_be(&frames, spot.above.as_deref(), sites, whole)
        };
        let all = self.back.spots(node).iter().filter(fits);
        all.min_by(|a, b| self.miss(a).total_cmp(&self.miss(b))).cloned()
    }
    /// What to go to in the frame that the walk is in: a spot, or else the call site of a frame known behind the gap.
    fn nearest(&self, reached: &Reached, at: Node, only: Option<u32>) -> Option<Target> {
        let method = self.passages.icfg.method(at);
        let fits = |level: u32| {
            let (sites, whole) = self.back.below(level);
            only.is_none_or(|only| only == level) && may_be(self.frames, None, sites, whole)
        };
        let all = self.spots.get(&method).into_iter().flatten().filter(|(node, spot)| {
            reached.contains_key(node) && self.miss(spot) <= self.length.tolerance && fits(spot.level)
        });
        if let Some((node, spot)) = all.min_by(|a, b| self.miss(a.1).total_cmp(&self.miss(b.1))) {
            return Some(Target::Spot(*node, (*spot).clone()));
        }
        let known = self.back.below(0).0;
        let sites = known.iter().rev().zip(1u32..).filter(|(site, level)| {
            self.passages.icfg.method(**site) == method && reached.contains_key(site) && fits(*level)
        });
        sites.map(|(site, level)| Target::Site(*site, level)).next()
    }
    /// Goes to a target, and from a call site on into its callee.
    fn arrive(&mut self, reached: &Reached, at: Node, target: Target) -> Option<Spot> {
        let (site, level) = match target {
            Target::Spot(node, spot) => return self.go_to(reached, at, node).map(|()| spot),
            Target::Site(site, level) => (site, level),
        };
        self.go_to(reached, at, site)?;
        self.descend(site, level)
    }
    /// Of which frame known behind the gap `node` is the call site, if the frames may be those below it when it comes next.
    fn site_at(&self, node: Node) -> Option<u32> {
        let mut frames = self.frames.clone();
        let goes = frames.follow(self.last, node);
        let known = self.back.below(0).0.iter().rev().zip(1u32..).filter(|(site, _)| goes && **site == node);
        let fits = |level: &u32| {
            let (sites, whole) = self.back.below(*level);
            may_be(&frames, None, sites, whole)
        };
        known.map(|(_, level)| level).find(fits)
    }
    /// Executes a call site, that of the frame below `level`, and goes on into its callee.
    fn descend(&mut self, site: Node, level: u32) -> Option<Spot> {
        self.go(site)?;
        let g = self.passages.icfg;
        let known = self.back.below(level - 1).0;
        let frame = if level == 1 { self.back.first()? } else { *known.last()? };
        let entry = g.entry(g.method(frame)).filter(|entry| g.may_call(site, *entry))?;
        if let Some(spot) = self.spot_at(entry) {
            return Some(spot);
        }
        self.go(entry)?;
        let reached = self.passages.reach(entry);
        let target = self.nearest(&reached, entry, Some(level - 1))?;
        self.arrive(&reached, entry, target)
    }
}
