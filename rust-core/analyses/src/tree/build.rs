// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! From the trees of threads to the result: names, exactness, order.

use std::sync::Arc;

use hashbrown::HashMap;
use jportal_bytecode::MethodTable;
use jportal_flow::Tally;
use jportal_units::{Bci, MethodId, Tid, Tsc};

use super::arena::{Arena, FROM_JAVA, FROM_VM, Id, LOSSY, LOWER, NO_SITE, Node, ROOT, Tag};
use super::open::{Effect, Shown};
use super::options::{Counting, Hide};
use super::report::{BucketTree, CallTree, Context, Delta, Kind, Limits, Settings, Site, ThreadTree, Tiers};
use super::rules::Rules;
use super::split::{BucketNodes, Flaws, FurtherNodes};
use super::walk::TreeThread;
use crate::buckets::{BucketNames, FURTHER, OTHERS, OUTSIDE};
use crate::hidden::{Inexact, Inlined};
use crate::names::{Names, Naming, stable, version_text};

/// A name as the result states it: text, loader, kind of node.
type Label = (Arc<str>, Arc<str>, Tag);

/// Nodes with equal paths of labels, added up.
struct Sum {
    parent: Option<Id>,
    label: u32,
    site: Option<Site>,
    invocations: Tally,
    bytecodes: Tally,
    unstarted: u64,
    found: u64,
    tiers: [u64; 3],
    default: u64,
    ticks: u64,
    from_vm: bool,
    from_java: bool,
    exact: bool,
    limits: Option<Limits>,
}

struct Labels<'a> {
    rules: &'a Rules,
    names: Names<'a>,
    naming: Naming,
    all: Vec<Label>,
    numbers: HashMap<Label, u32>,
    of_methods: HashMap<MethodId, u32>,
}

impl<'a> Labels<'a> {
    fn new(rules: &'a Rules, naming: Naming) -> Self {
        let (all, numbers, of_methods) = Default::default();
        Self { rules, names: Names::new(&rules.methods, naming), naming, all, numbers, of_methods }
    }
    fn of(&mut self, arena: &Arena, id: Id) -> u32 {
        let node = arena.node(id);
        if node.tag != Tag::Method {
            let label = other(&self.rules.methods, self.naming, node);
            return self.number((label.into(), "".into(), node.tag));
        }
        if let Some(known) = self.of_methods.get(&node.method) {
            return *known;
        }
        let name = self.names.get(node.method);
        let text = name.qualified().trim_start_matches('.').to_owned() + &version_text(name.version);
        let number = self.number((text.into(), name.loader.into(), Tag::Method));
        self.of_methods.insert(node.method, number);
        number
    }
    fn number(&mut self, label: Label) -> u32 {
        let next = self.all.len() as u32;
        *self.numbers.entry(label).or_insert_with_key(|label| {
            self.all.push(label.clone());
            next
        })
    }
    /// The place of each label in the order of names.
    fn ranks(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.all.len() as u32).collect();
        order.sort_by_key(|n| &self.all[*n as usize]);
        let mut ranks = vec![0; order.len()];
        (0..).zip(order).for_each(|(rank, n)| ranks[n as usize] = rank);
        ranks
    }
}

/// What a node is called that stands for no method.
pub(super) fn label(methods: &MethodTable, node: &Node) -> String {
    other(methods, Naming::default(), node)
}

fn other(methods: &MethodTable, naming: Naming, node: &Node) -> String {
    match node.tag {
        Tag::Root | Tag::Method => "(root)".to_owned(),
        Tag::Unknown => "(unknown)".to_owned(),
        Tag::Orphans => "(orphans)".to_owned(),
        Tag::Library => "(library)".to_owned(),
        Tag::Silent => silent(methods, naming, (node.method, node.site)),
    }
}

fn silent(methods: &MethodTable, naming: Naming, (method, site): (MethodId, u16)) -> String {
    let target = methods.get(method).and_then(|m| m.invoke_at(Bci(site)));
    let Some(target) = target else { return "(intrinsic) (unknown)".to_owned() };
    let class = target.class_name.replace('/', ".");
    let class = if naming.stable { stable(&class).into_owned() } else { class };
    let dot = if class.is_empty() { "" } else { "." };
    format!("(intrinsic) {class}{dot}{}{}", target.name, target.signature)
}

struct CallTreeBuilder<'a> {
    rules: &'a Rules,
    labels: Labels<'a>,
    sums: Vec<Sum>,
    index: HashMap<(Id, u32, Option<u16>), Id>,
}

/// The tree of the result to which each root of a thread's arena belongs.
type Roots = HashMap<Id, usize>;

/// The trees of the result, and what is wrong with each. Their roots are not placed yet.
#[derive(Default)]
struct Trees {
    all: Vec<ThreadTree>,
    flaws: Vec<Flaws>,
}

impl Trees {
    fn push(&mut self, thread: Option<&TreeThread>, name: String, bucket: Option<BucketTree>) -> usize {
        let tid = thread.map(|t| t.info.tid.get());
        let java_tid = thread.map_or(0, |t| t.info.java_tid);
        self.all.push(ThreadTree { tid, java_tid, name, exact: true, root: 0, bucket });
        self.flaws.push(Flaws::default());
        self.all.len() - 1
    }
    /// The trees, if each thread has one or all have one.
    fn whole(&mut self, merged: bool, threads: &[&TreeThread]) -> Vec<Roots> {
        if merged {
            self.push(None, "(merged)".to_owned(), None);
        }
        let place = |thread: &&TreeThread| {
            let tree = if merged { 0 } else { self.push(Some(thread), thread.info.name.clone(), None) };
            self.flaws[tree].merge(&thread.flaws);
            Roots::from([(ROOT, tree)])
        };
        threads.iter().map(place).collect()
    }
    /// The trees of buckets, and those of what is in none.
    fn divided(&mut self, names: &Names<'_>, threads: &[&TreeThread]) -> Vec<Roots> {
        let mut bucket_names = BucketNames::default();
        let mut roots = vec![Roots::new(); threads.len()];
        for (thread, roots) in threads.iter().zip(&mut roots) {
            for BucketNodes { root, end, flaws } in &thread.split.ended {
                let name = bucket_names.next(names.get(end.method).qualified());
                let complete = end.complete;
                let thread_name = Some(thread.info.name.clone());
                let bucket = BucketTree { thread: thread_name, activations: 1, complete };
                let tree = self.push(Some(thread), name, Some(bucket));
                self.flaws[tree] = flaws.clone();
                roots.insert(*root, tree);
            }
        }
        let rest = BucketTree { thread: None, activations: 0, complete: true };
        let [outside, others, further] =
            [OUTSIDE, OTHERS, FURTHER].map(|name| self.push(None, name.to_owned(), Some(rest.clone())));
        for (thread, roots) in threads.iter().zip(&mut roots) {
            let tree = if thread.split.is_empty() { others } else { outside };
            self.flaws[tree].merge(&thread.flaws);
            roots.insert(ROOT, tree);
            if let Some(FurtherNodes { root, activations, flaws }) = &thread.split.further {
                self.flaws[further].merge(flaws);
                roots.insert(*root, further);
                let bucket = self.all[further].bucket.iter_mut();
                bucket.for_each(|bucket| bucket.activations += activations);
            }
        }
        roots
    }
    /// Leaves out what nothing belongs to.
    fn retain(&mut self, is_something: impl Fn(&ThreadTree) -> bool) {
        let of_thread = |tree: &ThreadTree| tree.bucket.as_ref().is_none_or(|b| b.activations > 0);
        self.all.retain(|tree| of_thread(tree) || !tree.exact || is_something(tree));
    }
}

/// The result for all threads, and the number of each node of a thread's arena in it.
pub(super) struct Numbered {
    pub(super) tree: CallTree,
    /// By thread, in the order of the result. A node that is not in the result has a number that
    /// none has.
    pub(super) numbers: Vec<((Tid, Tsc), Vec<u32>)>,
}

/// The result for all threads.
pub(super) fn tree(rules: &Rules, (inlined, naming): (&Inlined, Naming), threads: &[TreeThread]) -> Numbered {
    let labels = Labels::new(rules, naming);
    let mut builder = CallTreeBuilder { rules, labels, sums: Vec::new(), index: HashMap::new() };
    let mut known: Vec<(&TreeThread, Effect)> =
        threads.iter().map(|t| (t, effect_of(rules, inlined, t))).collect();
    known.retain(|(t, effect)| {
        t.arena.nodes.len() > 1 || !t.flaws.are_none() || effect.unresolved != Inexact::default()
    });
    known.sort_by_key(|(t, _)| (t.info.started, t.info.tid));
    let threads: Vec<&TreeThread> = known.iter().map(|(t, _)| *t).collect();
    let mut trees = Trees::default();
    let roots = match rules.split {
        Some(_) => trees.divided(&builder.labels.names, &threads),
        None => trees.whole(rules.options.merged, &threads),
    };
    let (mut inexact, mut places) = (Inexact::default(), Vec::new());
    trees.all.iter_mut().for_each(|tree| tree.root = builder.add_root());
    for ((thread, effect), roots) in known.iter().zip(&roots) {
        let buckets = thread.split.ended.iter().map(|bucket| &bucket.flaws);
        let further = thread.split.further.iter().map(|further| &further.flaws);
        let flaws = buckets.chain(further).chain([&thread.flaws]);
        flaws.for_each(|flaws| inexact.merge(&flaws.inexact));
        inexact.merge(&effect.unresolved);
        // A stretch of a bucket makes one of its nodes inexact.
        if let Some(whole) = roots.get(&ROOT).filter(|_| rules.split.is_none()) {
            trees.flaws[*whole].inexact.merge(&effect.unresolved);
        }
        let nodes = builder.add(thread, effect, |root| trees.all[roots[&root]].root);
        places.push(((thread.info.tid, thread.info.started), nodes));
    }
    let facts = builder.facts_of_trees();
    for (tree, flaws) in trees.all.iter_mut().zip(&trees.flaws) {
        let complete = tree.bucket.as_ref().is_none_or(|bucket| bucket.complete);
        tree.exact = complete && flaws.are_none() && facts[&tree.root].exact;
    }
    trees.retain(|tree| facts[&tree.root].is_something);
    let exact = trees.all.iter().all(|tree| tree.exact);
    let (tree, new) = builder.finish((exact, inexact), trees.all);
    places.iter_mut().for_each(|(_, nodes)| nodes.iter_mut().for_each(|at| *at = new[*at as usize]));
    Numbered { tree, numbers: places }
}

/// What the nodes of a tree have in common.
struct TreeFacts {
    exact: bool,
    is_something: bool,
}

/// What unresolved stretches of a thread may hide.
fn effect_of(rules: &Rules, inlined: &Inlined, thread: &TreeThread) -> Effect {
    let shown = Shown { scope: &rules.scope, spliced: rules.options.hide == Hide::Splice };
    thread.stretches.effect((&rules.methods, inlined), &shown)
}

/// Whether all figures of all threads are complete, and why not: as [`tree`] says it of trees that
/// are not split, in less memory.
pub(super) fn exactness(rules: &Rules, inlined: &Inlined, threads: &[TreeThread]) -> (bool, Inexact) {
    let (mut exact, mut inexact) = (true, Inexact::default());
    for thread in threads {
        let effect = effect_of(rules, inlined, thread);
        let is_clean = thread.flaws.are_none() && effect.unresolved == Inexact::default();
        if thread.arena.nodes.len() == 1 && is_clean {
            continue;
        }
        exact &= is_clean
            && doubts(&thread.arena, &effect)
                .all(|(id, doubt)| is_exact(&thread.arena, id, doubt, effect.limits.get(&id)));
        inexact.merge(&thread.flaws.inexact);
        inexact.merge(&effect.unresolved);
    }
    (exact, inexact)
}

/// For each node: whether a stretch of its frames may hide calls, and whether its figures may be
/// too low because of something above it.
fn doubts<'a>(arena: &'a Arena, effect: &'a Effect) -> impl Iterator<Item = (Id, (bool, bool))> + 'a {
    let mut lossy = Vec::with_capacity(arena.nodes.len());
    (0..).zip(&arena.nodes).map(move |(id, node)| {
        let hidden = effect.callees.get(&node.parent).is_some_and(|callees| match node.tag {
            Tag::Method => callees.contains(&node.method),
            Tag::Silent | Tag::Library => true,
            Tag::Root | Tag::Unknown | Tag::Orphans => false,
        });
        let above = node.tag != Tag::Root && lossy[node.parent as usize];
        let is_lossy = above || hidden || node.flags & LOSSY != 0;
        lossy.push(is_lossy);
        (id, (effect.callees.contains_key(&id), is_lossy))
    })
}

/// Whether the figures of a node are complete.
fn is_exact(arena: &Arena, id: Id, (hides, lossy): (bool, bool), limits: Option<&Limits>) -> bool {
    let node = arena.node(id);
    let decoded = |t: &Tally| t.projected + t.recovered == 0;
    let known = !matches!(node.tag, Tag::Unknown | Tag::Orphans | Tag::Silent);
    let complete = !hides && !lossy && node.flags & LOWER == 0 && limits.is_none();
    complete && known && decoded(&arena.invocations(id)) && decoded(&arena.bytecodes(id))
}

impl CallTreeBuilder<'_> {
    fn add_root(&mut self) -> Id {
        let label = self.labels.number(("(root)".into(), "".into(), Tag::Root));
        self.sums.push(Sum::new(None, label, None));
        (self.sums.len() - 1) as Id
    }
    /// Adds the nodes of a thread. `root` says which node of the result a root is. Returns the
    /// place of each.
    fn add(&mut self, thread: &TreeThread, effect: &Effect, root: impl Fn(Id) -> Id) -> Vec<Id> {
        let arena = &thread.arena;
        let mut places = Vec::with_capacity(arena.nodes.len());
        for (id, doubt) in doubts(arena, effect) {
            let node = arena.node(id);
            let place = match node.tag == Tag::Root {
                true => root(id),
                false => self.place(arena, id, places[node.parent as usize]),
            };
            places.push(place);
            self.sums[place as usize].add(arena, id, doubt, effect.limits.get(&id));
        }
        places
    }
    /// By root: whether all nodes are exact, and whether there is more than the root.
    fn facts_of_trees(&self) -> HashMap<Id, TreeFacts> {
        let mut roots: Vec<Id> = Vec::with_capacity(self.sums.len());
        let mut facts: HashMap<Id, TreeFacts> = HashMap::new();
        for (id, sum) in (0..).zip(&self.sums) {
            let root = sum.parent.map_or(id, |parent| roots[parent as usize]);
            roots.push(root);
            let of = facts.entry(root).or_insert(TreeFacts { exact: true, is_something: false });
            of.exact &= sum.exact;
            of.is_something |= sum.is_something();
        }
        facts
    }
    /// The node of the result to which a node belongs.
    fn place(&mut self, arena: &Arena, id: Id, parent: Id) -> Id {
        let label = self.labels.of(arena, id);
        let node = arena.node(id);
        let bci = (node.site != NO_SITE && self.rules.options.sites).then_some(node.site);
        let next = self.sums.len() as Id;
        let place = *self.index.entry((parent, label, bci)).or_insert(next);
        if place == next {
            let caller = if node.tag == Tag::Silent { node.method } else { arena.node(node.parent).method };
            let line = |bci| self.rules.methods.get(caller).and_then(|m| m.line_at(Bci(bci)));
            let site = bci.map(|bci| Site { bci, line: line(bci) });
            self.sums.push(Sum::new(Some(parent), label, site));
        }
        place
    }
    /// The result, and the number of each node in it.
    fn finish(self, (exact, inexact): (bool, Inexact), mut threads: Vec<ThreadTree>) -> (CallTree, Vec<Id>) {
        let order = self.preorder(&threads);
        let mut numbers = vec![Id::MAX; self.sums.len()];
        (0..).zip(&order).for_each(|(new, old)| numbers[*old as usize] = new);
        let counting = self.rules.options.counting;
        let mut nodes: Vec<Context> =
            (0..).zip(&order).map(|(id, old)| self.context(id, *old, &numbers)).collect();
        for at in (1..nodes.len()).rev() {
            let total = nodes[at].total;
            if let Some(parent) = nodes[at].parent {
                nodes[parent as usize].total += total;
            }
        }
        threads.iter_mut().for_each(|t| t.root = numbers[t.root as usize]);
        let delta = (counting == Counting::Both).then(|| Delta {
            default: nodes.iter().filter_map(|n| n.default).sum(),
            precise: nodes.iter().map(|n| n.bytecodes.total()).sum(),
        });
        let split = self.rules.split.is_some();
        let settings = Settings { split, ..self.rules.options.settings() };
        (CallTree { exact, inexact, settings, threads, delta, nodes }, numbers)
    }
    /// The nodes to show, parents before their children, children by name.
    fn preorder(&self, trees: &[ThreadTree]) -> Vec<Id> {
        let mut kept = vec![false; self.sums.len()];
        trees.iter().for_each(|tree| kept[tree.root as usize] = true);
        for (at, sum) in self.sums.iter().enumerate().rev() {
            kept[at] |= sum.is_something();
            if let Some(parent) = sum.parent.filter(|_| kept[at]) {
                kept[parent as usize] = true;
            }
        }
        let ranks = self.labels.ranks();
        let key = |id: &Id| {
            let sum = &self.sums[*id as usize];
            (sum.parent, ranks[sum.label as usize], sum.site.map(|s| s.bci))
        };
        let mut ids: Vec<Id> = (0..self.sums.len() as Id).filter(|id| kept[*id as usize]).collect();
        ids.sort_unstable_by_key(key);
        // For each node, where its children begin and end among the sorted ones.
        let mut children = vec![(0, 0); self.sums.len()];
        let mut threads = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            match self.sums[*id as usize].parent.map(|p| &mut children[p as usize]) {
                None => threads.push(*id),
                Some((_, end)) if *end > 0 => *end = at + 1,
                Some(range) => *range = (at, at + 1),
            }
        }
        threads.sort_unstable_by(|a, b| b.cmp(a));
        let (mut order, mut open) = (Vec::with_capacity(ids.len()), threads);
        while let Some(id) = open.pop() {
            order.push(id);
            let (first, end) = children[id as usize];
            open.extend(ids[first..end].iter().rev());
        }
        order
    }
    fn context(&self, id: u32, old: Id, numbers: &[Id]) -> Context {
        let sum = &self.sums[old as usize];
        let (method, loader, tag) = self.labels.all[sum.label as usize].clone();
        let counting = self.rules.options.counting;
        let default = (counting != Counting::Precise).then_some(sum.default);
        let [interpreter, c1, c2] = sum.tiers;
        Context {
            id,
            parent: sum.parent.map(|p| numbers[p as usize]),
            kind: sum.kind(tag),
            method,
            loader,
            site: sum.site,
            invocations: sum.invocations,
            unstarted: sum.unstarted,
            found: sum.found,
            bytecodes: sum.bytecodes,
            default,
            // The nodes below are added later.
            total: default.filter(|_| counting == Counting::Default).unwrap_or(sum.bytecodes.total()),
            tiers: Tiers { interpreter, c1, c2 },
            ticks: sum.ticks,
            exact: sum.exact,
            unresolved: sum.limits,
        }
    }
}

impl Sum {
    fn new(parent: Option<Id>, label: u32, site: Option<Site>) -> Self {
        Self {
            parent,
            label,
            site,
            invocations: Tally::default(),
            bytecodes: Tally::default(),
            unstarted: 0,
            found: 0,
            tiers: [0; 3],
            default: 0,
            ticks: 0,
            from_vm: false,
            from_java: false,
            exact: true,
            limits: None,
        }
    }
    /// Adds a node.
    fn add(&mut self, arena: &Arena, id: Id, (hides, lossy): (bool, bool), limits: Option<&Limits>) {
        let node = arena.node(id);
        let (invocations, bytecodes) = (arena.invocations(id), arena.bytecodes(id));
        let exact = is_exact(arena, id, (hides, lossy), limits);
        self.exact &= exact;
        self.invocations.merge(&invocations);
        self.bytecodes.merge(&bytecodes);
        self.tiers.iter_mut().zip(node.tiers).for_each(|(mine, n)| *mine += n);
        self.default += node.default;
        self.ticks += node.ticks;
        self.from_vm |= node.flags & FROM_VM != 0;
        self.from_java |= node.flags & FROM_JAVA != 0;
        if let Some(rare) = arena.rare.get(&id) {
            self.unstarted += rare.unstarted;
            self.found += rare.found;
        }
        if let Some(limits) = limits {
            // Where anything may have run, there is no upper bound.
            let max = limits.max.filter(|_| !lossy);
            let sum = self.limits.get_or_insert(Limits { stretches: 0, min: 0, max: Some(0) });
            sum.add(Limits { max, ..*limits });
        }
    }
    const fn is_something(&self) -> bool {
        let counts = self.invocations.total() + self.bytecodes.total() + self.unstarted + self.found;
        counts + self.ticks > 0 || self.limits.is_some()
    }
    const fn kind(&self, tag: Tag) -> Kind {
        match tag {
            Tag::Root => Kind::Root,
            Tag::Method if self.from_vm && !self.from_java && self.found == 0 => Kind::Upcall,
            Tag::Method => Kind::Call,
            Tag::Unknown => Kind::Unknown,
            Tag::Orphans => Kind::Orphans,
            Tag::Silent => Kind::Silent,
            Tag::Library => Kind::Library,
        }
    }
}

/// The methods from the root to a node: the first and the last ones of a long path.
pub(super) fn path(rules: &Rules, naming: Naming, arena: &Arena, id: Id) -> String {
    const ENDS: usize = 4;
    let (mut ids, mut at) = (Vec::new(), id);
    while arena.node(at).tag != Tag::Root {
        ids.push(at);
        at = arena.node(at).parent;
    }
    ids.reverse();
    let mut labels = Labels::new(rules, naming);
    let left_out = ids.len().saturating_sub(2 * ENDS);
    let mut parts = Vec::new();
    for (n, id) in ids.into_iter().enumerate() {
        match n {
            _ if left_out > 0 && n == ENDS => parts.push(format!("… {left_out} more …")),
            _ if left_out > 0 && n > ENDS && n < ENDS + left_out => {}
            _ => {
                let number = labels.of(arena, id) as usize;
                parts.push(jportal_plain::line(&labels.all[number].0).into_owned());
            }
        }
    }
    if parts.is_empty() { "the root".to_owned() } else { parts.join(" > ") }
}
