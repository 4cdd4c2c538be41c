// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Unresolved stretches by node, and what they may hide of a tree.

use hashbrown::{HashMap, HashSet};
use jportal_bytecode::MethodTable;
use jportal_flow::{Cause, EventKind, Exit, Frame};
use jportal_units::{Bci, MethodId};

use super::arena::Id;
use super::options::Scope;
use super::report::Limits;
use crate::hidden::{Account, Inexact, Inlined, To, UnresolvedStretch, Ways, has_rounds};

/// A stretch in a node. `own`: its frame counts for the node; otherwise the node is the nearest
/// one below. `shown`: its frame has a node, or a caller that it may have left.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Item {
    node: Id,
    own: bool,
    shown: bool,
    cause: Cause,
    stretch: UnresolvedStretch,
}

/// The stretches of one thread.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    items: HashMap<Item, u64>,
    /// Nodes of frames that may have ended and begun again in a stretch of a frame above.
    below: HashMap<Id, u64>,
    /// A stretch that leads to the end of its frame. The next event says how the frame ended.
    open: Option<Item>,
}

/// The ends of a stretch.
pub(super) type Ends = (Option<Bci>, Option<Bci>);

impl Stretches {
    pub(super) fn add(
        &mut self,
        (node, own, shown): (Id, bool, bool),
        (method, ends, cause): (MethodId, Ends, Cause),
        (called, callers): (bool, Box<[Frame]>),
    ) {
        let to = ends.1.map_or(To::Anywhere, To::At);
        let ways = Ways { from: ends.0, to, rounds: has_rounds(cause) };
        let item =
            Item { node, own, shown, cause, stretch: UnresolvedStretch { method, ways, called, callers } };
        match ends.1 {
            Some(_) => self.count(item),
            None => self.open = Some(item),
        }
    }
    /// A frame of `node` may have ended and begun again.
    pub(super) fn add_below(&mut self, node: Id) {
        *self.below.entry(node).or_default() += 1;
    }
    fn count(&mut self, item: Item) {
        *self.items.entry(item).or_default() += 1;
    }
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }
    /// The open stretch ended with this event.
    pub(super) fn close(&mut self, kind: &EventKind) {
        let Some(mut item) = self.open.take() else { return };
        if matches!(kind, EventKind::Leave { method, exit: Exit::Return } if *method == item.stretch.method) {
            item.stretch.ways.to = To::Return;
        }
        self.count(item);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.below.is_empty() && self.open.is_none()
    }
    /// What the stretches mean for the tree.
    pub(super) fn effect(&self, (methods, inlined): (&MethodTable, &Inlined), scope: &Shown<'_>) -> Effect {
        let mut effect = Effect::default();
        if self.is_empty() {
            return effect;
        }
        let mut account = Account::new(methods, inlined);
        let open = self.open.iter().map(|item| (item, 1));
        for (item, n) in self.items.iter().map(|(item, n)| (item, *n)).chain(open) {
            effect.add(&mut account, (item, n), scope);
        }
        for (node, n) in &self.below {
            effect.limit(*node, *n, (0, None));
        }
        effect
    }
}

/// Which methods have nodes.
pub(super) struct Shown<'a> {
    pub(super) scope: &'a Scope,
    /// Methods outside of the scope have no nodes.
    pub(super) spliced: bool,
}

impl Shown<'_> {
    pub(super) fn has(&self, method: MethodId) -> bool {
        !self.spliced || self.scope.contains(method)
    }
}

/// What stretches mean for a tree.
#[derive(Debug, Default)]
pub(super) struct Effect {
    /// What they may hide of the nodes' own figures.
    pub(super) limits: HashMap<Id, Limits>,
    /// Methods of which calls may be hidden under a node.
    pub(super) callees: HashMap<Id, HashSet<MethodId>>,
    /// By cause, those that may hide something that is shown.
    pub(super) unresolved: Inexact,
}

impl Effect {
    fn add(&mut self, account: &mut Account<'_>, (item, n): (&Item, u64), shown: &Shown<'_>) {
        let (min, max, callees) = account.of_stretch(&item.stretch);
        let mut callees = callees.into_iter().filter(|m| shown.has(*m)).peekable();
        if !item.shown && callees.peek().is_none() {
            return;
        }
        self.unresolved.add_unresolved(item.cause, n);
        if callees.peek().is_some() {
            self.callees.entry(item.node).or_default().extend(callees);
        }
        if item.own {
            self.limit(item.node, n, (min, max));
        }
    }
    fn limit(&mut self, node: Id, n: u64, (min, max): (u64, Option<u64>)) {
        let new = Limits { stretches: 0, min: 0, max: Some(0) };
        let limits = self.limits.entry(node).or_insert(new);
        let more =
            Limits { stretches: n, min: min.saturating_mul(n), max: max.and_then(|m| m.checked_mul(n)) };
        limits.add(more);
    }
}

impl Limits {
    /// Adds what other stretches may hide.
    pub(super) fn add(&mut self, other: Self) {
        self.stretches += other.stretches;
        self.min = self.min.saturating_add(other.min);
        self.max = self.max.zip(other.max).and_then(|(a, b)| a.checked_add(b));
    }
}
