// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Hot methods: bytecodes executed in each method itself, by tier, and calls. On request, also what
//! methods cost with all that they call, and in time.
//!
//! Figures are what was seen. Where the flow says that it does not know what ran (module
//! `hidden`), the figures are lower bounds, and each row says how much may be missing.

mod cost;
#[cfg(test)]
mod cost_tests;

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Exclude, Provenance, Tally, ThreadInfo, Tier};
use jportal_units::MethodId;
use serde::{Deserialize, Serialize};

use self::cost::{CostFollower, Costs, Groups};
pub use self::cost::{MethodCost, TimeSteps};
use crate::execution::OnCore;
use crate::hidden::{Account, Bounds, Follower, Hidden, Inexact, Inlined, Missing};
use crate::names::{Name, Names, Naming, Version, class_and_name, version_text};
use jportal_plain::table::{Align, percent, table};

/// Bytecodes by executing tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByTier {
    /// The template interpreter.
    pub interpreter: u64,
    /// C1.
    pub c1: u64,
    /// C2.
    pub c2: u64,
}

/// By what methods are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HotRank {
    /// Bytecodes executed in the method itself.
    #[default]
    Bytecodes,
    /// Calls.
    Calls,
    /// Bytecodes executed in the method and in all that it called.
    Inclusive,
    /// Time on a core in the method itself.
    Time,
}

impl HotRank {
    /// Whether [`MethodCost`] has the figure.
    const fn is_cost(self) -> bool {
        matches!(self, Self::Inclusive | Self::Time)
    }
}

/// Figures of one method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Bytecodes executed in the method itself.
    pub bytecodes: Tally,
    /// The same bytecodes by tier.
    pub tiers: ByTier,
    /// Number of entries by a call. A continuation after OSR or deoptimisation does not count.
    pub calls: Tally,
}

impl Counts {
    const fn is_none(&self) -> bool {
        self.bytecodes.total() + self.calls.total() == 0
    }
    fn merge(&mut self, o: &Self) {
        self.bytecodes.merge(&o.bytecodes);
        self.calls.merge(&o.calls);
        self.tiers.interpreter += o.tiers.interpreter;
        self.tiers.c1 += o.tiers.c1;
        self.tiers.c2 += o.tiers.c2;
    }
    fn executed(&mut self, tier: Tier, provenance: Provenance, bytecodes: u64) {
        self.bytecodes.add_all(provenance, bytecodes);
        match tier {
            Tier::Interpreter => self.tiers.interpreter += bytecodes,
            Tier::C1 => self.tiers.c1 += bytecodes,
            Tier::C2 => self.tiers.c2 += bytecodes,
            Tier::Native => {}
        }
    }
}

/// One method of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotMethod {
    /// `class.name(descriptor)`.
    pub method: String,
    /// The version, if the method was redefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// The figures.
    #[serde(flatten)]
    pub counts: Counts,
    /// What it cost, if that was requested.
    #[serde(flatten)]
    pub cost: Option<MethodCost>,
    /// Whether the figures are complete. [`MethodCost::inclusive_exact`] speaks of the callees.
    pub exact: bool,
    /// What may be missing in places that the flow marks as unknown. Where trace was lost, any
    /// amount may be missing in addition.
    #[serde(default, skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotMethods {
    /// Whether the figures are complete: in the requested methods nothing is missing, inferred
    /// or lost.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// All methods of the recording together.
    pub total: Counts,
    /// What may be missing of the total, in places that the flow marks as unknown.
    #[serde(default, skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
    /// By what the methods are ranked.
    #[serde(default)]
    pub by: HotRank,
    /// How well time is known, if costs were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeSteps>,
    /// Number of requested methods of which an execution was seen.
    pub executed: usize,
    /// Number of requested methods of which no execution was seen but may be hidden. They come
    /// last.
    pub perhaps_executed: usize,
    /// The requested number of methods, in the order of the rank.
    pub methods: Vec<HotMethod>,
}

/// What methods of one name cost, whatever their descriptors, versions and loaders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCost {
    /// `class.name`, without what differs from run to run.
    pub method: String,
    /// Bytecodes executed in the methods themselves.
    pub bytecodes: u64,
    /// What else they cost.
    pub cost: MethodCost,
}

/// Counts bytecodes and calls per method.
pub struct HotAnalysis {
    methods: Arc<MethodTable>,
    inlined: Arc<Inlined>,
    shapes: Shapes,
    counts: Vec<Counts>,
    hidden: Hidden,
    exclude: Exclude,
    naming: Naming,
    by: HotRank,
    /// Set if costs are requested.
    clock: Option<OnCore>,
    /// Costs of the rows of the report.
    rows: CostTable,
    /// Costs by `class.name`, if requested.
    named: Option<CostTable>,
}

/// Costs by some grouping of methods.
#[derive(Debug, Default)]
struct CostTable {
    groups: OnceLock<Groups>,
    costs: Costs,
}

impl CostTable {
    /// The costs of one more thread.
    fn merge(&mut self, thread: Option<CostFollower>) {
        if let Some(thread) = thread {
            self.costs.merge(thread.end());
        }
    }
}

impl std::fmt::Debug for HotAnalysis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HotAnalysis").field("by", &self.by).finish_non_exhaustive()
    }
}

impl HotAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        let shapes = Shapes::new(&methods);
        let (counts, hidden, exclude, naming, by) = Default::default();
        let (rows, named) = (CostTable::default(), None);
        Self { methods, inlined, shapes, counts, hidden, exclude, naming, by, clock: None, rows, named }
    }
    /// The same analysis with methods ranked by something else. `clock` knows when threads were on
    /// cores.
    pub fn ranked(self, by: HotRank, clock: OnCore) -> Self {
        let clock = self.clock.or_else(|| by.is_cost().then_some(clock));
        Self { by, clock, ..self }
    }
    /// The same analysis, which also knows the costs by `class.name`
    /// ([`HotAnalysis::named_costs`]): what profiles of other tools can be compared with.
    pub fn beside_profiles(self, clock: OnCore) -> Self {
        Self { clock: Some(clock), named: Some(CostTable::default()), ..self }
    }
    fn row_groups(&self) -> &Groups {
        self.rows.groups.get_or_init(|| {
            let names = Names::new(&self.methods, self.naming);
            Groups::new(&self.methods, |m| names.of(m))
        })
    }
    fn named_groups<'a>(&self, table: &'a CostTable) -> &'a Groups {
        table.groups.get_or_init(|| Groups::new(&self.methods, class_and_name))
    }
    /// The costs of all methods by `class.name`, in no order. Empty unless the analysis is made
    /// [`HotAnalysis::beside_profiles`].
    pub fn named_costs(&self) -> Vec<NamedCost> {
        let Some(table) = &self.named else { return Vec::new() };
        let groups = self.named_groups(table);
        let mut all: HashMap<String, NamedCost> = HashMap::new();
        for m in self.methods.iter() {
            let bytecodes = self.counts.get(m.id.get() as usize).map_or(0, |c| c.bytecodes.total());
            let named = all.entry(class_and_name(m)).or_insert_with_key(|method| NamedCost {
                method: method.clone(),
                bytecodes: 0,
                cost: table.costs.of(groups, m.id),
            });
            named.bytecodes += bytecodes;
        }
        all.into_values().collect()
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }
    /// The `top` hottest of the methods that `wanted` accepts.
    pub fn report(&self, top: usize, wanted: impl Fn(&Method) -> bool) -> HotMethods {
        let missing = Account::new(&self.methods, &self.inlined).of_methods(&self.hidden);
        let names = Names::new(&self.methods, self.naming);
        let (mut total, mut total_missing) = (Counts::default(), Missing::default());
        let mut rows: HashMap<Name, (MethodId, Counts, Missing)> = HashMap::new();
        for m in self.methods.iter() {
            let counts = self.counts.get(m.id.get() as usize).copied().unwrap_or_default();
            total.merge(&counts);
            let missing = missing.get(&m.id).copied().unwrap_or_default();
            total_missing.merge(&missing);
            if (counts.is_none() && missing.is_none()) || !wanted(m) {
                continue;
            }
            let row = rows.entry(names.of(m)).or_insert((m.id, Counts::default(), Missing::default()));
            row.1.merge(&counts);
            row.2.merge(&missing);
        }
        let mut hot: Vec<_> = rows.into_iter().collect();
        let executed = hot.iter().filter(|(_, (_, c, _))| !c.is_none()).count();
        let perhaps_executed = hot.len() - executed;
        let cost = |id| self.clock.as_ref().map(|_| self.rows.costs.of(self.row_groups(), id));
        hot.sort_by_cached_key(|(_, (id, c, _))| {
            let rank = match (self.by, cost(*id).unwrap_or_default()) {
                (HotRank::Bytecodes, _) => c.bytecodes.total(),
                (HotRank::Calls, _) => c.calls.total(),
                (HotRank::Inclusive, cost) => cost.inclusive,
                (HotRank::Time, cost) => cost.ticks,
            };
            let [rank, bytecodes, calls] = [rank, c.bytecodes.total(), c.calls.total()].map(|n| u64::MAX - n);
            (rank, bytecodes, calls, *id)
        });
        let inexact = self.hidden.inexact.clone();
        let lossy = inexact.is_lossy();
        let exact = !lossy && hot.iter().all(|(_, (.., missing))| missing.is_none());
        hot.truncate(top);
        let row = |(name, (id, counts, missing)): (Name, (MethodId, Counts, Missing))| HotMethod {
            method: name.qualified(),
            version: name.version,
            loader: name.loader,
            counts,
            cost: cost(id).map(|c| MethodCost {
                inclusive_exact: c.inclusive_exact && !lossy && missing.is_none(),
                ..c
            }),
            exact: !lossy && missing.is_none(),
            missing,
        };
        let methods = hot.into_iter().map(row).collect();
        total_missing.stretches = inexact.stretches();
        let time = self.clock.as_ref().map(|_| self.rows.costs.time);
        HotMethods {
            exact,
            inexact,
            total,
            missing: total_missing,
            by: self.by,
            time,
            executed,
            perhaps_executed,
            methods,
        }
    }
}

/// The figures of one thread.
#[derive(Debug, Default)]
pub struct HotThread {
    counts: Vec<Counts>,
    follower: Follower,
    info: Option<ThreadInfo>,
    rows: Option<CostFollower>,
    named: Option<CostFollower>,
}

impl HotThread {
    /// The counts of a method; `None` if the recording has no such method.
    fn of(&mut self, methods: &MethodTable, method: MethodId) -> Option<&mut Counts> {
        let n = method.get() as usize;
        if n < methods.len() && self.counts.len() <= n {
            self.counts.resize(n + 1, Counts::default());
        }
        self.counts.get_mut(n)
    }
}

impl Analysis for HotAnalysis {
    type Thread = HotThread;

    fn begin(&self, info: &ThreadInfo) -> HotThread {
        if self.clock.is_none() {
            return HotThread::default();
        }
        HotThread {
            info: Some(info.clone()),
            rows: Some(CostFollower::new(self.row_groups())),
            named: self.named.as_ref().map(|table| CostFollower::new(self.named_groups(table))),
            ..HotThread::default()
        }
    }
    fn events(&self, thread: &mut HotThread, events: &[Event]) -> ControlFlow<Enough> {
        let exclude = self.exclude;
        for e in events {
            thread.follower.event((&self.methods, &self.shapes), e, exclude);
            if let (Some(clock), Some(info)) = (&self.clock, &thread.info) {
                let (hidden, now) = (exclude.hides(e.provenance), |time| clock(info, time));
                if let Some(rows) = &mut thread.rows {
                    rows.event(self.row_groups(), e, hidden, now);
                }
                if let (Some(named), Some(table)) = (&mut thread.named, &self.named) {
                    named.event(self.named_groups(table), e, hidden, now);
                }
            }
            match e.kind {
                _ if exclude.hides(e.provenance) => {}
                EventKind::Bytecode { method, tier, .. } | EventKind::Run { method, tier, .. } => {
                    if let Some(c) = thread.of(&self.methods, method) {
                        c.executed(tier, e.provenance, e.kind.bytecodes());
                    }
                }
                EventKind::Enter { method, entry: Entry::Call | Entry::Upcall, .. } => {
                    if let Some(c) = thread.of(&self.methods, method) {
                        c.calls.add(e.provenance);
                    }
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: HotThread) {
        if self.counts.len() < thread.counts.len() {
            self.counts.resize(thread.counts.len(), Counts::default());
        }
        self.counts.iter_mut().zip(&thread.counts).for_each(|(a, b)| a.merge(b));
        self.hidden.merge(thread.follower.end());
        self.rows.merge(thread.rows);
        if let Some(table) = &mut self.named {
            table.merge(thread.named);
        }
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}

impl HotMethods {
    /// The report as a table. An incomplete figure is a lower bound: `≥ 12 (at most 3 more)`.
    pub fn text(&self) -> String {
        let all = self.total.bytecodes.total();
        let mut rows = Vec::new();
        let blind = self.inexact.is_blind();
        let cost = self.cost_columns();
        for m in &self.methods {
            let name = format!("{}{}", m.method, version_text(m.version));
            let share = percent(m.counts.bytecodes.total(), all);
            let mut cells = cost.as_ref().map_or_else(Vec::new, |cost| cost.cells(m));
            cells.extend(row(&name, &m.counts, &share, (&m.missing, blind)));
            rows.push(cells);
        }
        let mut cells = cost.as_ref().map_or_else(Vec::new, |cost| cost.last.to_vec());
        cells.extend(row(
            "all methods of the recording",
            &self.total,
            &percent(all, all),
            (&self.missing, blind),
        ));
        rows.push(cells);
        let heading = |cost: &CostColumns| vec![(cost.heading, Align::Right), ("share", Align::Right)];
        let mut columns = cost.as_ref().map_or_else(Vec::new, heading);
        columns.extend([
            ("bytecodes", Align::Right),
            ("share", Align::Right),
            ("interpreter", Align::Right),
            ("C1", Align::Right),
            ("C2", Align::Right),
            ("calls", Align::Right),
            ("method", Align::Left),
        ]);
        let rest = (self.executed + self.perhaps_executed).saturating_sub(self.methods.len());
        let rest = rest.min(self.executed);
        let mut text = table(&columns, &rows);
        if rest > 0 {
            text.push_str(&format!("{rest} more methods were executed\n"));
        }
        if let (HotRank::Time, Some(time)) = (self.by, self.time) {
            text.push_str(&format!(
                "ticks: time on a core. The flow has {} steps of time, {} ticks long on average; the time of a step is shared by its bytecodes\n",
                time.steps,
                time.mean()
            ));
        }
        text.push_str(&least_note(&self.inexact, self.exact));
        text
    }
    /// The columns of the figure by which methods are ranked, unless the table has it anyway.
    fn cost_columns(&self) -> Option<CostColumns> {
        match self.by {
            HotRank::Bytecodes | HotRank::Calls => None,
            HotRank::Inclusive => Some(CostColumns {
                heading: "with callees",
                all: self.total.bytecodes.total(),
                figure: |cost| (if cost.inclusive_exact { "" } else { "≥ " }, cost.inclusive),
                // Each bytecode counts in several methods.
                last: Default::default(),
            }),
            HotRank::Time => {
                let all = self.time.unwrap_or_default().ticks;
                let last = [all.to_string(), percent(all, all)];
                Some(CostColumns { heading: "ticks", all, figure: |cost| ("", cost.ticks), last })
            }
        }
    }
}

/// Two columns: a figure of [`MethodCost`], and its share.
struct CostColumns {
    heading: &'static str,
    /// Of what the share is.
    all: u64,
    /// A mark, and the figure.
    figure: fn(&MethodCost) -> (&'static str, u64),
    /// The cells of the last row, which is that of all methods together.
    last: [String; 2],
}

impl CostColumns {
    fn cells(&self, m: &HotMethod) -> Vec<String> {
        let (mark, figure) = (self.figure)(&m.cost.unwrap_or_default());
        vec![format!("{mark}{figure}"), percent(figure, self.all)]
    }
}

/// A note on why the figures are incomplete. Empty if they are exact.
pub(crate) fn least_note(inexact: &Inexact, exact: bool) -> String {
    let mut text = String::new();
    if exact {
        return text;
    }
    let stretches = inexact.stretches_text();
    if !stretches.is_empty() {
        text.push_str(&format!("≥: some may be missing, in {stretches}\n"));
    }
    if inexact.silent_calls > 0 {
        text.push_str(&format!(
            "{} calls were made without a frame: instructions of an intrinsic stand for them, or they were left out with all they did\n",
            inexact.silent_calls
        ));
    }
    let blind = inexact.blind_text();
    if !blind.is_empty() {
        text.push_str(&format!("{blind}: any method may have run there, so every figure is the least\n"));
    }
    text
}

/// A count and what may be missing: `12`, `≥ 12 (3–5 more)`, `≥ 12 (at most 5 more)` or `≥ 12`.
pub(crate) fn at_least(tally: &Tally, missing: Bounds, silent: u64, blind: bool) -> String {
    let seen = tally.text();
    if missing.is_none() && silent == 0 {
        return if blind { format!("≥ {seen}") } else { seen };
    }
    let mut more = Vec::new();
    if !missing.is_none() && !blind {
        match (missing.min, missing.max.0) {
            (0, None) => more.push("any number more".to_owned()),
            (min, None) => more.push(format!("at least {min} more")),
            (0, Some(max)) => more.push(format!("at most {max} more")),
            (min, Some(max)) if min == max => more.push(format!("{min} more")),
            (min, Some(max)) => more.push(format!("{min}–{max} more")),
        }
    }
    if silent > 0 {
        more.push(format!("{silent} without a frame"));
    }
    if more.is_empty() { format!("≥ {seen}") } else { format!("≥ {seen} ({})", more.join(", ")) }
}

fn row(name: &str, c: &Counts, share: &str, (missing, blind): (&Missing, bool)) -> Vec<String> {
    vec![
        at_least(&c.bytecodes, missing.bytecodes, 0, blind),
        share.to_owned(),
        c.tiers.interpreter.to_string(),
        c.tiers.c1.to_string(),
        c.tiers.c2.to_string(),
        at_least(&c.calls, missing.calls, missing.silent_calls, blind),
        name.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, feed, methods, recovered};

    #[test]
    fn counts_by_method_tier_and_provenance() {
        let mut c = HotAnalysis::new(methods(), Arc::default());
        let c2 = Event::decoded(EventKind::Bytecode {
            method: MethodId(1),
            bci: jportal_units::Bci(0),
            tier: Tier::C2,
        });
        feed(&mut c, 1, &[enter(0), bytecode(0, 0), enter(1), c2, recovered(bytecode(1, 1))]);
        feed(&mut c, 2, &[enter(1), enter_as(1, Entry::Osr), bytecode(1, 0)]);
        let r = c.report(1, |_| true);
        assert_eq!((r.executed, r.methods.len()), (2, 1));
        let g = &r.methods[0];
        assert_eq!(g.method, "a.B.g(I)I");
        assert_eq!(g.counts.bytecodes, Tally { decoded: 2, recovered: 1, ..Tally::default() });
        assert_eq!(g.counts.tiers, ByTier { interpreter: 2, c1: 0, c2: 1 });
        assert_eq!(g.counts.calls.decoded, 2, "OSR is no call");
        assert_eq!(r.total.bytecodes.total(), 4);
        assert!(r.text().contains("3 (1 recovered)   75.0%"), "{}", r.text());
        assert!(r.text().ends_with("1 more methods were executed\n"));
    }

    #[test]
    fn a_count_of_which_some_may_be_missing_is_the_least() {
        use crate::testing::{gap, leave};
        let mut c = HotAnalysis::new(methods(), Arc::default());
        let (from, to) = (Some(jportal_units::Bci(1)), Some(jportal_units::Bci(9)));
        let cause = jportal_flow::Cause::ConditionalMove;
        let lost = Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 });
        let events = [enter(0), bytecode(0, 0), bytecode(0, 1), lost, bytecode(0, 9), leave(0)];
        feed(&mut c, 1, &events);
        feed(&mut c, 2, &[enter(1), bytecode(1, 0), leave(1)]);
        let r = c.report(9, |_| true);
        let [f, g] = &r.methods[..] else { panic!("{r:?}") };
        assert_eq!((f.counts.bytecodes.total(), f.exact, g.exact, r.exact), (3, false, true, false));
        assert_eq!(
            (f.missing.bytecodes.min, f.missing.bytecodes.max.0, f.missing.stretches),
            (1, Some(2), 1)
        );
        let text = r.text();
        assert!(text.contains("≥ 3 (1–2 more)") && text.contains("≥ 4 (1–2 more)"), "{text}");
        assert!(
            text.contains("≥: some may be missing, in 1 unresolved stretch (1 conditional-move)"),
            "{text}"
        );
        let json = serde_json::to_value(&r).unwrap();
        assert_eq!(json["methods"][0]["missing"]["bytecodes"], serde_json::json!({"min": 1, "max": 2}));
        assert!(json["methods"][1].get("missing").is_none() && json["methods"][1]["exact"] == true);
        feed(&mut c, 3, &[gap(true)]);
        let r = c.report(9, |_| true);
        assert!(!r.methods[1].exact && r.text().contains("≥ 1 "), "{}", r.text());
        assert!(r.text().contains("1 gap: any method may have run there"), "{}", r.text());
    }

    #[test]
    fn what_may_be_hidden_altogether_has_a_row() {
        let inlined = Inlined::new(&methods(), [(MethodId(0), jportal_units::Bci(4), MethodId(2))], true);
        let mut c = HotAnalysis::new(methods(), Arc::new(inlined));
        let (from, to) = (Some(jportal_units::Bci(1)), Some(jportal_units::Bci(9)));
        let cause = jportal_flow::Cause::ConditionalMove;
        let lost = Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 });
        feed(&mut c, 1, &[enter(0), bytecode(0, 0), bytecode(0, 1), lost, bytecode(0, 9)]);
        let r = c.report(9, |_| true);
        let abs = &r.methods[1];
        assert_eq!((abs.method.as_str(), abs.counts.calls.total()), ("java.lang.Math.abs(I)I", 0));
        assert_eq!((abs.missing.calls.max.0, r.executed, r.perhaps_executed), (Some(1), 1, 1));
        assert!(r.text().contains("≥ 0 (at most 1 more)"), "{}", r.text());
    }
}
