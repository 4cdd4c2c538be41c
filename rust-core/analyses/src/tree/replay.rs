// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Replays the periodic activation of the profiler JP (section 5.1) on a flow.
//!
//! Each executed bytecode lowers a counter of its thread by one. When the counter is 0 or less at
//! a *check point*, the profiler is called, between bytecodes, and answers after how many
//! bytecodes it is called again. A check point is the first bytecode of an activation (bci 0), or
//! a bytecode reached by a backward edge. So an interval has at least as many bytecodes as the
//! answer says; the excess is what is executed up to the next check point. Only bytecodes that
//! the tree counts lower the counter.
//!
//! JP itself lowers its counter ahead, by the longest path to the next check point, and calls
//! earlier. Sums over intervals are comparable, their ends are not.

use std::ops::ControlFlow;

use jportal_bytecode::Method;
use jportal_flow::{Analysis, Enough, Event, EventKind, Orphan, ThreadInfo};
use jportal_units::MethodId;

use super::TreeAnalysis;
use super::arena::{Arena, Id, ROOT, Tag};
use super::build;
use super::options::FrameRole;
use super::report::Kind;
use super::rules::Rules;
use super::walk::{Hook, TreeThread};

/// A node of a growing tree. Numbers are those of one thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u32);

impl NodeId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
    /// The number: 0 for the root. A parent's number is smaller than those of its children.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// What a node counted since its last reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The node.
    pub node: NodeId,
    /// Invocations. Less than 0 if an invocation that was counted before the reset turned out to
    /// be [unstarted](super::Context::unstarted).
    pub invocations: i64,
    /// Bytecodes.
    pub bytecodes: u64,
}

/// Invocations and bytecodes at the last reset.
type Base = (u64, u64);

/// A growing tree.
pub struct Live<'a> {
    rules: &'a Rules,
    arena: &'a mut Arena,
    bases: &'a mut Vec<Base>,
}

impl std::fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("nodes", &self.arena.nodes.len()).finish_non_exhaustive()
    }
}

impl Live<'_> {
    /// The root.
    pub const fn root(&self) -> NodeId {
        NodeId(ROOT)
    }
    /// The caller's node; `None` for the root.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        (node.0 != ROOT).then(|| NodeId(self.arena.node(node.0).parent))
    }
    /// What the node stands for. Frames that the VM called have [`Kind::Call`], too.
    pub fn kind(&self, node: NodeId) -> Kind {
        match self.arena.node(node.0).tag {
            Tag::Root => Kind::Root,
            Tag::Method => Kind::Call,
            Tag::Unknown => Kind::Unknown,
            Tag::Orphans => Kind::Orphans,
            Tag::Silent => Kind::Silent,
            Tag::Library => Kind::Library,
        }
    }
    /// The node's method; `None` for nodes of other kinds than [`Kind::Call`].
    pub fn method(&self, node: NodeId) -> Option<&Method> {
        self.rules.methods.get(self.method_id(node)?)
    }
    /// The number of the node's method, which may be one that was never described; `None` for
    /// nodes of other kinds than [`Kind::Call`].
    pub fn method_id(&self, node: NodeId) -> Option<MethodId> {
        let node = self.arena.node(node.0);
        (node.tag == Tag::Method).then_some(node.method)
    }
    /// The text that reports show for a node that has no method, such as `(unknown)`.
    pub fn label(&self, node: NodeId) -> String {
        let node = self.arena.node(node.0);
        build::label(&self.rules.methods, node)
    }
    /// The nodes with numbers from `first` on, in order: those that began to exist since there
    /// were `first` nodes.
    pub fn nodes_from(&self, first: u32) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (first..self.arena.nodes.len() as u32).map(NodeId)
    }
    /// The children of a node. Looks at all nodes.
    pub fn callees(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let children = (0..).zip(&self.arena.nodes).skip(1).filter(move |(_, n)| n.parent == node.0);
        children.map(|(id, _)| NodeId(id))
    }
    /// What a node counted since its last reset.
    pub fn counts(&self, node: NodeId) -> Change {
        let (invocations, bytecodes) = self.now(node.0);
        let base = self.bases.get(node.0 as usize).copied().unwrap_or_default();
        Change {
            node,
            invocations: invocations.wrapping_sub(base.0) as i64,
            bytecodes: bytecodes.wrapping_sub(base.1),
        }
    }
    /// The node counts from 0 again.
    pub fn reset(&mut self, node: NodeId) {
        let at = node.0 as usize;
        if self.bases.len() <= at {
            self.bases.resize(at + 1, Base::default());
        }
        self.bases[at] = self.now(node.0);
    }
    /// What all nodes counted since their last reset, without those that counted nothing since
    /// the last call, in order of the nodes. Resets them.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let mut changed = self.arena.take_changed();
        changed.sort_unstable();
        let all: Vec<Change> = changed.into_iter().map(|id| self.counts(NodeId(id))).collect();
        all.iter().for_each(|change| self.reset(change.node));
        all
    }
    fn now(&self, id: Id) -> Base {
        let node = self.arena.node(id);
        (node.invocations, node.tiers.iter().sum())
    }
}

/// Is called periodically with the trees of all threads.
///
/// The threads are decoded at the same time, so a profiler keeps what belongs to a thread in a
/// state of its own, and puts the states together at the end.
pub trait Profiler: Send + Sync + 'static {
    /// What the profiler keeps of one thread.
    type Thread: Send + 'static;

    /// The first frame of a thread that has a node appears. Returns the state and after how many
    /// bytecodes to report, where 0 counts as 1.
    fn register(&self, thread: &ThreadInfo, tree: &mut Live<'_>) -> (Self::Thread, u32);

    /// The number of bytecodes has been reached, or the thread has ended. `at` is the node of the
    /// frame on top. Returns after how many bytecodes to report again.
    fn report(&self, own: &mut Self::Thread, tree: &mut Live<'_>, at: NodeId) -> u32;

    /// A thread has ended, after its last report.
    fn end(&mut self, own: Self::Thread);

    /// Whether the profiler needs nothing more of any thread. The answer `true` is final. The
    /// decode may end early; the last reports come all the same.
    fn has_enough(&self) -> bool {
        false
    }
}

/// Builds call trees, and calls a profiler meanwhile.
#[derive(Debug)]
pub struct Replay<P> {
    pub(super) tree: TreeAnalysis,
    pub(super) profiler: P,
}

impl<P: Profiler> Replay<P> {
    /// Calls `profiler` while `tree` is built.
    pub fn new(tree: TreeAnalysis, profiler: P) -> Self {
        Self { tree, profiler }
    }
    /// The profiler and the complete trees.
    pub fn finish(self) -> (P, TreeAnalysis) {
        (self.profiler, self.tree)
    }
}

/// One thread of a replay.
#[derive(Debug)]
pub struct ReplayThread<T> {
    tree: TreeThread,
    /// Set when the first frame with a node appeared.
    own: Option<T>,
    /// Bytecodes until the next report.
    left: i64,
    bases: Vec<Base>,
}

/// Counts down.
struct Countdown<'a, P: Profiler> {
    rules: &'a Rules,
    profiler: &'a P,
    own: &'a mut Option<P::Thread>,
    left: &'a mut i64,
    bases: &'a mut Vec<Base>,
}

impl<P: Profiler> Hook for Countdown<'_, P> {
    #[inline]
    fn executes(&mut self, arena: &mut Arena, at: Id, len: u64, check: bool) {
        if let Some(own) = self.own.as_mut().filter(|_| check && *self.left <= 0) {
            let mut live = Live { rules: self.rules, arena, bases: self.bases };
            *self.left = self.profiler.report(own, &mut live, NodeId(at)).max(1).into();
        }
        *self.left -= len as i64;
    }
}

impl<P: Profiler> Analysis for Replay<P> {
    type Thread = ReplayThread<P::Thread>;

    fn begin(&self, info: &ThreadInfo) -> Self::Thread {
        let tree = TreeThread::new(info.clone(), true);
        ReplayThread { tree, own: None, left: 0, bases: Vec::new() }
    }
    fn events(&self, thread: &mut Self::Thread, events: &[Event]) -> ControlFlow<Enough> {
        let rules = &self.tree.rules;
        let ReplayThread { tree, own, left, bases } = thread;
        let mut events = events;
        if self.profiler.has_enough() {
            return ControlFlow::Break(Enough::OfAll);
        }
        if own.is_none() {
            let first = events.iter().position(|e| has_node(rules, &e.kind)).unwrap_or(events.len());
            self.tree.process(tree, &events[..first], &mut ())?;
            events = &events[first..];
        }
        if own.is_none() && !events.is_empty() {
            let mut live = Live { rules, arena: &mut tree.arena, bases };
            let (state, first) = self.profiler.register(&tree.info, &mut live);
            (*own, *left) = (Some(state), first.max(1).into());
        }
        let mut hook = Countdown { rules, profiler: &self.profiler, own, left, bases };
        self.tree.process(tree, events, &mut hook)
    }
    fn merge(&mut self, thread: Self::Thread) {
        let ReplayThread { mut tree, own, mut bases, .. } = thread;
        if let Some(mut own) = own {
            let at = NodeId(tree.at());
            let mut live = Live { rules: &self.tree.rules, arena: &mut tree.arena, bases: &mut bases };
            self.profiler.report(&mut own, &mut live, at);
            self.profiler.end(own);
        }
        self.tree.merge(tree);
    }
}

/// Whether the event is one of a frame, or of an orphan, that has a node.
fn has_node(rules: &Rules, kind: &EventKind) -> bool {
    match *kind {
        EventKind::Enter { method, tier, .. }
        | EventKind::Bytecode { method, tier, .. }
        | EventKind::Run { method, tier, .. } => {
            rules.scope.place(&rules.options, method, tier) != FrameRole::Transparent
        }
        EventKind::Orphan(Orphan::Bytecode { .. }) => true,
        _ => false,
    }
}
