// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The call graph: which method called which, how often, and in which tiers the callees began.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use jportal_bytecode::Method;
use jportal_flow::{Tally, Tier};
use jportal_units::Bci;
use serde::Serialize;

use super::{CallOrigin, CallsAnalysis};
use crate::hidden::{Account, Inexact, Missing};
use crate::hot::at_least;
use crate::names::{Name, Names, version_text};

/// Calls by the tier of the callee when it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CalleeTiers {
    /// The template interpreter.
    pub interpreter: u64,
    /// C1.
    pub c1: u64,
    /// C2.
    pub c2: u64,
    /// Native methods.
    pub native: u64,
}

impl CalleeTiers {
    pub(super) fn add(&mut self, tier: Tier) {
        *match tier {
            Tier::Interpreter => &mut self.interpreter,
            Tier::C1 => &mut self.c1,
            Tier::C2 => &mut self.c2,
            Tier::Native => &mut self.native,
        } += 1;
    }
    pub(super) fn merge(&mut self, other: &Self) {
        self.interpreter += other.interpreter;
        self.c1 += other.c1;
        self.c2 += other.c2;
        self.native += other.native;
    }
    /// The counts by name.
    pub const fn named(&self) -> [(&'static str, u64); 4] {
        [("interpreter", self.interpreter), ("c1", self.c1), ("c2", self.c2), ("native", self.native)]
    }
}

/// A method of a call graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct GraphMethod {
    /// `class.name(descriptor)`, with its version if it was redefined; `(VM)` or `(unknown)`.
    pub name: String,
    /// Loader of the class; empty for the boot loader and for texts in parentheses.
    pub loader: String,
}

/// The calls from one method to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GraphCalls {
    /// The caller: a place in [`CallGraph::methods`].
    pub from: usize,
    /// The callee.
    pub to: usize,
    /// Calls that were seen.
    pub calls: Tally,
    /// The same by the callee's tier.
    pub tiers: CalleeTiers,
    /// Number of call sites that made such a call, or may have. 0 for the VM and unknown callers.
    pub sites: u64,
    /// Whether the count is complete.
    pub exact: bool,
    /// Calls that may be missing, see [`super::Call::missing`].
    pub missing: Missing,
}

/// A graph of methods and calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallGraph {
    /// Whether the figures are complete.
    pub exact: bool,
    /// Why they are not, in the threads shown.
    pub inexact: Inexact,
    /// The methods that called or were called, by name and loader.
    pub methods: Vec<GraphMethod>,
    /// The calls, by caller and callee.
    pub calls: Vec<GraphCalls>,
}

/// What is known of a pair of methods.
#[derive(Default)]
struct GraphPair {
    calls: Tally,
    tiers: CalleeTiers,
    sites: BTreeSet<Bci>,
    missing: Missing,
}

impl CallsAnalysis {
    /// The graph of the calls whose callee `wanted` accepts.
    pub fn graph(&self, wanted: impl Fn(&Method) -> bool) -> CallGraph {
        let names = Names::new(&self.methods, self.naming);
        let method = |name: Name| GraphMethod {
            name: name.qualified().trim_start_matches('.').to_owned() + &version_text(name.version),
            loader: name.loader,
        };
        let text = |text: &str| GraphMethod { name: text.to_owned(), loader: String::new() };
        let hidden = Account::new(&self.methods, &self.inlined).of_calls(&self.hidden);
        let hidden = hidden
            .into_iter()
            .map(|((m, bci, callee), missing)| (CallOrigin::Java(m, Some(bci)), callee, None, missing));
        let seen = self.edges.iter().map(|((from, to), edge)| (*from, *to, Some(edge), Missing::default()));
        let mut pairs: HashMap<(GraphMethod, GraphMethod), GraphPair> = HashMap::new();
        for (from, callee, edge, missing) in seen.chain(hidden) {
            if !self.methods.get(callee).is_some_and(&wanted) {
                continue;
            }
            let (caller, bci) = match from {
                CallOrigin::Java(m, bci) => (method(names.get(m)), bci),
                CallOrigin::Vm => (text("(VM)"), None),
                CallOrigin::Unknown => (text("(unknown)"), None),
            };
            let pair = pairs.entry((caller, method(names.get(callee)))).or_default();
            if let Some(edge) = edge {
                pair.calls.merge(&edge.tally);
                pair.tiers.merge(&edge.tiers);
            }
            pair.sites.extend(bci);
            pair.missing.merge(&missing);
        }
        self.assemble(pairs)
    }
    fn assemble(&self, pairs: HashMap<(GraphMethod, GraphMethod), GraphPair>) -> CallGraph {
        let all: BTreeSet<&GraphMethod> = pairs.keys().flat_map(|(from, to)| [from, to]).collect();
        let places: HashMap<&GraphMethod, usize> = all.iter().copied().zip(0..).collect();
        let lossy = self.hidden.inexact.is_lossy();
        let edge = |((from, to), pair): (&(GraphMethod, GraphMethod), &GraphPair)| GraphCalls {
            from: places[from],
            to: places[to],
            calls: pair.calls,
            tiers: pair.tiers,
            sites: pair.sites.len() as u64,
            exact: !lossy && pair.missing.is_none(),
            missing: pair.missing,
        };
        let mut calls: Vec<GraphCalls> = pairs.iter().map(edge).collect();
        calls.sort_by_key(|c| (c.from, c.to));
        let methods = all.into_iter().cloned().collect();
        let exact = calls.iter().all(|c| c.exact) && !lossy;
        CallGraph { exact, inexact: self.hidden.inexact.clone(), methods, calls }
    }
}

impl CallGraph {
    /// The same graph with only the `most` edges of which most calls were seen, and their methods.
    pub fn top(mut self, most: usize) -> Self {
        self.calls.sort_by_key(|c| (u64::MAX - c.calls.total(), c.from, c.to));
        self.calls.truncate(most);
        self.calls.sort_by_key(|c| (c.from, c.to));
        let kept: BTreeSet<usize> = self.calls.iter().flat_map(|c| [c.from, c.to]).collect();
        let places: HashMap<usize, usize> = kept.iter().copied().zip(0..).collect();
        for call in &mut self.calls {
            (call.from, call.to) = (places[&call.from], places[&call.to]);
        }
        let methods = self.methods.into_iter().enumerate();
        self.methods = methods.filter(|(at, _)| kept.contains(at)).map(|(_, method)| method).collect();
        self
    }
    /// A count of calls in words: `12`, or `≥ 12 (at most 3 more)`.
    pub fn count_text(&self, calls: &GraphCalls) -> String {
        let missing = &calls.missing;
        at_least(&calls.calls, missing.calls, missing.silent_calls, self.inexact.is_blind())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jportal_flow::{Cause, Entry, Event, EventKind};
    use jportal_units::MethodId;

    use super::*;
    use crate::hidden::Inlined;
    use crate::testing::{bytecode, enter, enter_as, feed, leave, methods};

    /// The edges as `caller callee calls sites`.
    fn edges(graph: &CallGraph) -> Vec<String> {
        let name = |at: usize| graph.methods[at].name.split('(').find(|s| !s.is_empty()).unwrap_or_default();
        let edge =
            |c: &GraphCalls| format!("{} {} {} {}", name(c.from), name(c.to), graph.count_text(c), c.sites);
        graph.calls.iter().map(edge).collect()
    }

    #[test]
    fn edges_have_calls_sites_and_tiers() {
        let call =
            |m, tier| Event::decoded(EventKind::Enter { method: MethodId(m), tier, entry: Entry::Call });
        let mut calls = CallsAnalysis::new(methods(), Arc::default());
        let flow = [
            enter_as(0, Entry::Upcall),
            bytecode(0, 4),
            call(1, Tier::C1),
            leave(1),
            bytecode(0, 5),
            call(1, Tier::C2),
            bytecode(1, 0),
            call(2, Tier::Native),
            leave(2),
            leave(1),
            bytecode(0, 4),
            call(1, Tier::C2),
            leave(1),
        ];
        feed(&mut calls, 1, &flow);
        let graph = calls.graph(|_| true);
        assert_eq!(edges(&graph), ["VM) a.B.f 1 0", "a.B.f a.B.g 3 2", "a.B.g java.lang.Math.abs 1 1"]);
        assert_eq!(graph.calls[1].tiers, CalleeTiers { c1: 1, c2: 2, ..CalleeTiers::default() });
        assert_eq!(graph.calls[2].tiers.named()[3], ("native", 1));
        assert!(graph.exact);
        let loaders: Vec<_> = graph.methods.iter().map(|m| &*m.loader).collect();
        assert_eq!(loaders, ["", "app", "app", ""]);
        let only = calls.graph(|m| m.loader.is_empty());
        assert_eq!(edges(&only), ["a.B.g java.lang.Math.abs 1 1"]);
        assert_eq!(edges(&graph.top(1)), ["a.B.f a.B.g 3 2"]);
    }

    #[test]
    fn calls_that_may_be_hidden_are_edges() {
        let inlined = Inlined::new(&methods(), [(MethodId(0), Bci(4), MethodId(1))], true);
        let mut calls = CallsAnalysis::new(methods(), Arc::new(inlined));
        let (from, to, cause) = (Some(Bci(1)), Some(Bci(9)), Cause::ConditionalMove);
        let lost = EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 };
        let lost = Event::decoded(lost);
        feed(&mut calls, 2, &[enter(0), bytecode(0, 0), bytecode(0, 1), lost, bytecode(0, 9), leave(0)]);
        let graph = calls.graph(|m| &*m.name == "g");
        assert_eq!(edges(&graph), ["a.B.f a.B.g ≥ 0 (at most 1 more) 1"]);
        assert!(!graph.exact && !graph.calls[0].exact);
    }
}
