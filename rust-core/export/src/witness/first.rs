// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! FIRST sets of the grammar of logged call traces (sections 3.3 and 3.4 of the paper).
//!
//! A nonterminal is a list of sites of which one follows. An alternative of it is one of these
//! sites, with one of its targets if it has several.

use hashbrown::HashSet;

use super::plan::LoggedBy;
use super::program::{FunctionId, Program, SiteIndex};

/// What a token looks like to the grammar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Terminal {
    /// Nothing: the end may come without a token.
    Empty,
    /// A site wrote its number.
    Site(u32),
    /// A site with several targets was executed, and this method was called.
    Call(u32, FunctionId),
    /// A method was called by library code, while a call of this site was in progress.
    Callback(u32),
}

type First = HashSet<Terminal>;

/// The FIRST sets of a program.
#[derive(Debug)]
pub struct FirstSets {
    functions: Vec<First>,
    /// By function, site and target.
    sites: Vec<Vec<Vec<First>>>,
}

impl FirstSets {
    /// The sets of all methods that the recording has. A method that it does not have was never
    /// executed, so nothing begins with it.
    pub fn new(program: &Program) -> Self {
        let sites = program.functions.iter().map(|f| {
            let ways = |site| vec![First::new(); f.targets(site).len().max(1)];
            (0..f.plan.sites.len() as SiteIndex).map(ways).collect()
        });
        let mut this =
            Self { functions: vec![First::new(); program.functions.len()], sites: sites.collect() };
        let order = callees_first(program);
        // Calls on back edges of the call graph are logged: one round is enough for a sound plan.
        let mut changes = true;
        while changes {
            changes = false;
            for function in &order {
                changes |= this.compute(program, *function);
            }
        }
        this
    }
    /// The sets of one function, from those of its callees. Says whether they grew.
    fn compute(&mut self, program: &Program, function: FunctionId) -> bool {
        let Some(graph) = &program.function(function).graph else { return false };
        let mut grown = false;
        loop {
            let mut grows = false;
            for site in (0..graph.insns.len() as SiteIndex).rev() {
                grows |= self.extend(program, function, site);
            }
            if !grows {
                break;
            }
            grown = true;
        }
        let entry = self.union(function, &graph.entry);
        let own = &mut self.functions[function as usize];
        let before = own.len();
        own.extend(entry);
        grown || own.len() != before
    }
    fn extend(&mut self, program: &Program, function: FunctionId, at: SiteIndex) -> bool {
        let of = program.function(function);
        let (Some(graph), Some(site)) = (&of.graph, of.plan.sites.get(at as usize)) else { return false };
        let targets = of.targets(at);
        let ways = self.sites[function as usize][at as usize].len();
        let mut grows = false;
        for way in 0..ways {
            let mut more = First::new();
            let target = targets.get(way).copied();
            match site.logged {
                LoggedBy::Site => drop(more.insert(Terminal::Site(site.id))),
                LoggedBy::Callee => more.extend(target.map(|target| Terminal::Call(site.id, target))),
                LoggedBy::Nobody if !site.is_call => drop(more.insert(Terminal::Empty)),
                LoggedBy::Nobody => {
                    let next = self.union(function, &graph.after[at as usize]);
                    match target.filter(|_| !site.may_leave()) {
                        Some(target) => {
                            let callee = &self.functions[target as usize];
                            more.extend(callee.iter().filter(|t| **t != Terminal::Empty));
                            if callee.contains(&Terminal::Empty) {
                                more.extend(next);
                            }
                        }
                        None => {
                            more.extend(site.may_leave().then_some(Terminal::Callback(site.id)));
                            more.extend(next);
                        }
                    }
                }
            }
            let set = &mut self.sites[function as usize][at as usize][way];
            let before = set.len();
            set.extend(more);
            grows |= set.len() != before;
        }
        grows
    }
    fn union(&self, function: FunctionId, alternatives: &[SiteIndex]) -> First {
        if alternatives.is_empty() {
            return First::from([Terminal::Empty]);
        }
        let sites = &self.sites[function as usize];
        alternatives.iter().flat_map(|at| &sites[*at as usize]).flatten().copied().collect()
    }
    /// Whether a site with one of its targets may begin with a token.
    pub(super) fn begins(
        &self,
        (function, site, way): (FunctionId, SiteIndex, usize),
        token: Terminal,
    ) -> bool {
        self.sites[function as usize][site as usize][way].contains(&token)
    }
}

/// The functions, callees before callers where calls do not form a circle.
fn callees_first(program: &Program) -> Vec<FunctionId> {
    let callees = |function: FunctionId| -> Vec<FunctionId> {
        let of = program.function(function);
        let sites = 0..of.graph.as_ref().map_or(0, |graph| graph.insns.len() as SiteIndex);
        sites.flat_map(|site| of.targets(site)).copied().collect()
    };
    let mut order = Vec::new();
    let mut seen = vec![false; program.functions.len()];
    for root in 0..program.functions.len() as FunctionId {
        if std::mem::replace(&mut seen[root as usize], true) {
            continue;
        }
        let mut open = vec![(root, callees(root))];
        while let Some((function, rest)) = open.last_mut() {
            match rest.pop() {
                None => {
                    order.push(*function);
                    open.pop();
                }
                Some(callee) if !std::mem::replace(&mut seen[callee as usize], true) => {
                    open.push((callee, callees(callee)));
                }
                Some(_) => {}
            }
        }
    }
    order
}
