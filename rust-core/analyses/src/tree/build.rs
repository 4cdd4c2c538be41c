// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! From the trees of threads to the result: names, exactness, order.

use hashbrown::HashMap;
use jportal_bytecode::MethodTable;
use jportal_flow::Tally;
use jportal_units::{Bci, MethodId};

use super::arena::{Arena, FROM_JAVA, FROM_VM, Id, LOSSY, LOWER, NO_SITE, Node, ROOT, Tag};
use super::open::{Effect, Shown};
use super::options::{Counting, Hide};
use super::report::{CallTree, Context, Delta, Kind, Limits, Site, ThreadTree, Tiers};
use super::rules::Rules;
use super::walk::TreeThread;
use crate::hidden::{Inexact, Inlined};
use crate::names::{Names, Naming, stable, version_text};

/// A name as the result states it: text, loader, kind of node.
type Label = (String, String, Tag);

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
            return self.number((label, String::new(), node.tag));
        }
        if let Some(known) = self.of_methods.get(&node.method) {
            return *known;
        }
        let name = self.names.get(node.method);
        let text = name.qualified().trim_start_matches('.').to_owned() + &version_text(name.version);
        let number = self.number((text, name.loader, Tag::Method));
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

/// The result for all threads.
pub(super) fn tree(rules: &Rules, (inlined, naming): (&Inlined, Naming), threads: &[TreeThread]) -> CallTree {
    let labels = Labels::new(rules, naming);
    let mut builder = CallTreeBuilder { rules, labels, sums: Vec::new(), index: HashMap::new() };
    let mut threads: Vec<&TreeThread> = threads.iter().collect();
    threads.sort_by_key(|t| (t.info.started, t.info.tid));
    let (mut inexact, mut all) = (Inexact::default(), Vec::new());
    let merged = rules.options.merged;
    let mut exact = true;
    if merged {
        builder.add_root();
        all.push(ThreadTree { tid: None, java_tid: 0, name: "(merged)".to_owned(), exact: true, root: 0 });
    }
    for thread in threads {
        let (effect, own) = doubts_of(rules, inlined, thread);
        let is_clean = own == Inexact::default() && !thread.contradicts;
        if thread.arena.nodes.len() == 1 && is_clean {
            continue;
        }
        let root = if merged { 0 } else { builder.add_root() };
        let nodes_exact = builder.add(thread, &effect, root);
        let thread_exact = nodes_exact && is_clean;
        inexact.merge(&own);
        exact &= thread_exact;
        if !merged {
            let (tid, java_tid) = (Some(thread.info.tid.get()), thread.info.java_tid);
            let name = thread.info.name.clone();
            all.push(ThreadTree { tid, java_tid, name, exact: thread_exact, root });
        }
    }
    all.iter_mut().filter(|_| merged).for_each(|t| t.exact = exact);
    builder.finish((exact, inexact), all)
}

/// What unresolved stretches of a thread may hide, and why its figures are not exact.
fn doubts_of(rules: &Rules, inlined: &Inlined, thread: &TreeThread) -> (Effect, Inexact) {
    let shown = Shown { scope: &rules.scope, spliced: rules.options.hide == Hide::Splice };
    let effect = thread.stretches.effect((&rules.methods, inlined), &shown);
    let mut own = thread.inexact.clone();
    own.merge(&effect.unresolved);
    (effect, own)
}

/// Whether all figures of all threads are complete, and why not: as [`tree`] says it, in less
/// memory.
pub(super) fn exactness(rules: &Rules, inlined: &Inlined, threads: &[TreeThread]) -> (bool, Inexact) {
    let (mut exact, mut inexact) = (true, Inexact::default());
    for thread in threads {
        let (effect, own) = doubts_of(rules, inlined, thread);
        let is_clean = own == Inexact::default() && !thread.contradicts;
        if thread.arena.nodes.len() == 1 && is_clean {
            continue;
        }
        exact &= is_clean
            && doubts(&thread.arena, &effect)
                .all(|(id, doubt)| is_exact(&thread.arena, id, doubt, effect.limits.get(&id)));
        inexact.merge(&own);
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
        let above = id != ROOT && lossy[node.parent as usize];
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
        let label = self.labels.number(("(root)".to_owned(), String::new(), Tag::Root));
        self.sums.push(Sum::new(None, label, None));
        (self.sums.len() - 1) as Id
    }
    /// Adds the tree of a thread under `root`. Returns whether the figures of all nodes are
    /// complete.
    fn add(&mut self, thread: &TreeThread, effect: &Effect, root: Id) -> bool {
        let arena = &thread.arena;
        let mut places = Vec::with_capacity(arena.nodes.len());
        let mut all_exact = true;
        for (id, doubt) in doubts(arena, effect) {
            let place = match id {
                ROOT => root,
                _ => self.place(arena, id, places[arena.node(id).parent as usize]),
            };
            places.push(place);
            all_exact &= self.sums[place as usize].add(arena, id, doubt, effect.limits.get(&id));
        }
        all_exact
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
    fn finish(self, (exact, inexact): (bool, Inexact), mut threads: Vec<ThreadTree>) -> CallTree {
        let order = self.preorder();
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
        CallTree { exact, inexact, settings: self.rules.options.settings(), threads, delta, nodes }
    }
    /// The nodes to show, parents before their children, children by name.
    fn preorder(&self) -> Vec<Id> {
        let mut kept = vec![false; self.sums.len()];
        for (at, sum) in self.sums.iter().enumerate().rev() {
            kept[at] |= sum.parent.is_none() || sum.is_something();
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
        let parent = |id: &Id| self.sums[*id as usize].parent;
        let (mut order, mut open) = (Vec::with_capacity(ids.len()), Vec::new());
        let roots = ids.partition_point(|id| parent(id).is_none());
        let mut threads: Vec<Id> = ids[..roots].to_vec();
        threads.sort_unstable();
        open.extend(threads.into_iter().rev());
        while let Some(id) = open.pop() {
            order.push(id);
            let first = ids.partition_point(|i| parent(i) < Some(id));
            let children = ids[first..].partition_point(|i| parent(i) == Some(id));
            open.extend(ids[first..first + children].iter().rev());
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
    /// Adds a node. Returns whether its figures are complete.
    fn add(&mut self, arena: &Arena, id: Id, (hides, lossy): (bool, bool), limits: Option<&Limits>) -> bool {
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
        exact
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
    while at != ROOT {
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
