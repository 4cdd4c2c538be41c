// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Whether something that the flow does not show may contain tokens.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use jportal_flow::Cause;
use jportal_units::{Bci, MethodId};

use super::sites::Sites;
use crate::hidden::{Inlined, Region, To, Ways, has_rounds};

/// An unresolved stretch: method, first and last known bytecode, cause.
pub(super) type Stretch = (MethodId, Option<Bci>, Option<Bci>, Cause);

/// Which calls may hide tokens when they leave no event.
#[derive(Debug)]
pub(super) struct Hides {
    sites: Arc<Sites>,
    inlined: Arc<Inlined>,
    /// Methods outside of the scope into which methods of the scope were inlined.
    carriers: HashSet<MethodId>,
}

impl Hides {
    pub(super) fn new(sites: Arc<Sites>, inlined: Arc<Inlined>) -> Self {
        let mut hides = Self { sites, inlined, carriers: HashSet::new() };
        hides.carriers = hides.carriers();
        hides
    }
    /// A fixed point: each pass adds the methods whose inlined callees are inside of the scope or
    /// were added before.
    fn carriers(&self) -> HashSet<MethodId> {
        let methods = self.sites.methods();
        let outside = methods.iter().filter(|m| self.sites.exit(m.id).is_none() && !m.code.is_empty());
        let calls = outside.map(|m| {
            let shape = jportal_bytecode::Shape::of(m);
            let at = |bci: &Bci| self.inlined.at(methods, m.id, *bci).to_vec();
            (m.id, shape.invokes.iter().flat_map(at).collect::<Vec<_>>())
        });
        let calls: Vec<_> = calls.filter(|(_, callees)| !callees.is_empty()).collect();
        let mut all = HashSet::new();
        loop {
            let before = all.len();
            for (caller, callees) in &calls {
                if callees.iter().any(|c| self.sites.exit(*c).is_some() || all.contains(c)) {
                    all.insert(*caller);
                }
            }
            if all.len() == before {
                return all;
            }
        }
    }
    /// Whether a call without a frame may hide tokens: its callee was inlined, and it, or
    /// something inlined into it, is in the scope.
    pub(super) fn silent(&self, caller: MethodId, bci: Bci) -> bool {
        let callees = self.inlined.at(self.sites.methods(), caller, bci);
        callees.iter().any(|c| self.sites.exit(*c).is_some() || self.carriers.contains(c))
    }
    /// Whether an unresolved stretch may hide tokens: a site of its method in the scope, or a call
    /// that may hide some.
    fn stretch(&self, (method, from, to, cause): Stretch) -> bool {
        let Some(m) = self.sites.methods().get(method) else { return true };
        let ways = Ways { from, to: to.map_or(To::Anywhere, To::At), rounds: has_rounds(cause) };
        let inside = self.sites.exit(method).is_some();
        let region = Region::of(m, ways);
        (inside && to.is_none())
            || region.places.iter().any(|place| {
                (inside && self.sites.is_site(method, place.bci))
                    || (self.sites.is_call(method, place.bci) && self.silent(method, place.bci))
            })
    }
}

/// The answers for stretches. Bounded by the pairs of positions.
#[derive(Debug, Default)]
pub(super) struct Stretches(HashMap<Stretch, bool>);

impl Stretches {
    pub(super) fn hides(&mut self, hides: &Hides, stretch: Stretch) -> bool {
        *self.0.entry(stretch).or_insert_with(|| hides.stretch(stretch))
    }
}
