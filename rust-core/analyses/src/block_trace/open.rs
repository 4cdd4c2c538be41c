// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the flows of threads leave open, for consumers outside of this crate.

use hashbrown::HashMap;
use jportal_bytecode::{MethodTable, Shapes};
use jportal_flow::{Event, Exclude, Stack};
use jportal_units::{Bci, MethodId};

use crate::hidden::{Account, Follower, Hidden, Inexact, Inlined, Missing};

/// Follows one thread and collects what its flow leaves open.
#[derive(Debug, Default)]
pub struct Watch {
    follower: Follower,
}

impl Watch {
    /// The frames before the next event.
    pub const fn stack(&self) -> &Stack {
        self.follower.stack()
    }
    /// Processes the next event.
    pub fn event(&mut self, methods: (&MethodTable, &Shapes), event: &Event, exclude: Exclude) {
        self.follower.event(methods, event, exclude);
    }
    /// The flow has ended.
    pub fn end(self) -> Open {
        Open { hidden: self.follower.end() }
    }
}

/// What the flow of one thread leaves open, or those of several.
#[derive(Debug, Default)]
pub struct Open {
    hidden: Hidden,
}

impl Open {
    /// Adds what another flow leaves open.
    pub fn merge(&mut self, other: Self) {
        self.hidden.merge(other.hidden);
    }
    /// Why figures are not exact.
    pub const fn inexact(&self) -> &Inexact {
        &self.hidden.inexact
    }
    /// Whether any method may have run unseen, or events were inferred or left out.
    pub const fn is_lossy(&self) -> bool {
        self.hidden.inexact.is_lossy()
    }
}

/// Computes which methods and calls the open parts of flows may contain.
pub struct Accounts<'a> {
    account: Account<'a>,
}

impl<'a> Accounts<'a> {
    /// For the methods of one recording.
    pub fn new(methods: &'a MethodTable, inlined: &'a Inlined) -> Self {
        Self { account: Account::new(methods, inlined) }
    }
    /// What may be missing of each method. Methods of which nothing is missing are not listed.
    pub fn methods(&mut self, open: &Open) -> HashMap<MethodId, Missing> {
        self.account.of_methods(&open.hidden)
    }
    /// What may be missing of each call: caller, bci, callee.
    pub fn calls(&mut self, open: &Open) -> HashMap<(MethodId, Bci, MethodId), Missing> {
        self.account.of_calls(&open.hidden)
    }
}

impl std::fmt::Debug for Accounts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accounts").finish_non_exhaustive()
    }
}
