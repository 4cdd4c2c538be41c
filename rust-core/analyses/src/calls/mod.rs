// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Calls: caller, call site, callee and count.
//!
//! Counts are what was seen. Where the flow says that it does not know what ran (module
//! `hidden`), the counts are lower bounds, and each row says how many calls may be missing.

mod graph;

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Exclude, Tally, ThreadInfo};
use jportal_plain::table::{Align, table};
use jportal_units::{Bci, MethodId};
use serde::{Deserialize, Serialize};

pub use self::graph::{CallGraph, CalleeTiers, GraphCalls, GraphMethod};
use crate::hidden::{Account, Follower, Hidden, Inexact, Inlined, Missing};
use crate::hot::{at_least, least_note};
use crate::names::{Name, Names, Naming, Version, version_text};

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum CallOrigin {
    /// A bytecode. Its bci is `None` when only the method is known.
    Java(MethodId, Option<Bci>),
    /// The VM or native code.
    Vm,
    /// The caller's frame was lost.
    Unknown,
}

/// What was seen of one call site and target.
#[derive(Clone, Copy, Debug, Default)]
struct SeenCalls {
    tally: Tally,
    tiers: CalleeTiers,
}

type Edges = HashMap<(CallOrigin, MethodId), SeenCalls>;

/// One call site and target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// `class.name(descriptor)`, `(VM)` or `(unknown)`.
    pub caller: String,
    /// The caller's version, if its method was redefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_version: Option<Version>,
    /// The calling bytecode.
    pub bci: Option<u16>,
    /// Its source line.
    pub line: Option<u16>,
    /// `class.name(descriptor)`.
    pub callee: String,
    /// The callee's version, if its method was redefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callee_version: Option<Version>,
    /// Number of calls seen.
    pub count: Tally,
    /// Whether the count is complete.
    pub exact: bool,
    /// Calls that may be missing in places that the flow marks as unknown. Where trace was
    /// lost, any number may be missing in addition.
    #[serde(default, skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Whether the figures are complete: of the requested calls nothing is missing, inferred or
    /// lost.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// Calls in the whole recording.
    pub total: Tally,
    /// Calls of the whole recording that may be missing in places that the flow marks as
    /// unknown.
    #[serde(default, skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
    /// Number of requested pairs of call site and target with at least one call seen.
    pub pairs: usize,
    /// Number of requested pairs without a call seen of which a call may be hidden. They come
    /// last.
    pub perhaps_pairs: usize,
    /// The requested number of pairs, most frequent first.
    pub calls: Vec<Call>,
}

/// Counts calls.
#[derive(Debug)]
pub struct CallsAnalysis {
    methods: Arc<MethodTable>,
    inlined: Arc<Inlined>,
    shapes: Shapes,
    edges: Edges,
    hidden: Hidden,
    exclude: Exclude,
    naming: Naming,
}

/// The displayed form of a site: the caller, bci and line.
type Place = (Option<Name>, &'static str, Option<u16>, Option<u16>);

/// The first pair of that name in the recording, how often calls were seen, and what may be
/// missing.
type Row = ((CallOrigin, MethodId), Tally, Missing);

impl CallsAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        let shapes = Shapes::new(&methods);
        let (edges, hidden, exclude, naming) = Default::default();
        Self { methods, inlined, shapes, edges, hidden, exclude, naming }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }
    /// The `top` most frequent calls whose callee `wanted` accepts.
    pub fn report(&self, top: usize, wanted: impl Fn(&Method) -> bool) -> Calls {
        let names = Names::new(&self.methods, self.naming);
        let hidden = Account::new(&self.methods, &self.inlined).of_calls(&self.hidden);
        let hidden = hidden.into_iter().map(|((m, bci, callee), missing)| {
            ((CallOrigin::Java(m, Some(bci)), callee), Tally::default(), missing)
        });
        let seen = self.edges.iter().map(|(key, edge)| (*key, edge.tally, Missing::default()));
        let (mut total, mut total_missing) = (Tally::default(), Missing::default());
        // Pairs of the same name form one row, ordered by the pair that is first in the
        // recording.
        let mut rows: HashMap<(Place, Name), Row> = HashMap::new();
        for (key, tally, missing) in seen.chain(hidden) {
            total.merge(&tally);
            total_missing.merge(&missing);
            if !self.methods.get(key.1).is_some_and(&wanted) {
                continue;
            }
            let named = (self.place(&names, key.0), names.get(key.1));
            let row = rows.entry(named).or_insert((key, Tally::default(), Missing::default()));
            row.0 = row.0.min(key);
            row.1.merge(&tally);
            row.2.merge(&missing);
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        let pairs = rows.iter().filter(|(_, (_, tally, _))| tally.total() > 0).count();
        let perhaps_pairs = rows.len() - pairs;
        let inexact = self.hidden.inexact.clone();
        let lossy = inexact.is_lossy();
        let exact = !lossy && rows.iter().all(|(_, (.., missing))| missing.is_none());
        rows.sort_by_key(|(_, (key, tally, _))| (u64::MAX - tally.total(), *key));
        rows.truncate(top);
        total_missing.stretches = inexact.stretches();
        let calls = rows.into_iter().map(|((place, callee), (_, count, missing))| {
            let (caller, otherwise, bci, line) = place;
            Call {
                caller: caller.as_ref().map_or_else(|| otherwise.to_owned(), Name::qualified),
                caller_version: caller.and_then(|c| c.version),
                bci,
                line,
                callee: callee.qualified(),
                callee_version: callee.version,
                count,
                exact: !lossy && missing.is_none(),
                missing,
            }
        });
        let calls = calls.collect();
        Calls { exact, inexact, total, missing: total_missing, pairs, perhaps_pairs, calls }
    }
    fn place(&self, names: &Names<'_>, site: CallOrigin) -> Place {
        match site {
            CallOrigin::Vm => (None, "(VM)", None, None),
            CallOrigin::Unknown => (None, "(unknown)", None, None),
            CallOrigin::Java(m, bci) => {
                let line = bci.and_then(|b| self.methods.get(m)?.line_at(b));
                (Some(names.get(m)), "", bci.map(Bci::get), line)
            }
        }
    }
}

/// The figures of one thread.
#[derive(Debug, Default)]
pub struct CallsThread {
    edges: Edges,
    follower: Follower,
}

impl Analysis for CallsAnalysis {
    type Thread = CallsThread;

    fn begin(&self, _: &ThreadInfo) -> CallsThread {
        CallsThread::default()
    }
    fn events(&self, thread: &mut CallsThread, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            if let EventKind::Enter { method, entry, tier } = e.kind {
                let top = || thread.follower.stack().top();
                let site = match entry {
                    Entry::Call => {
                        Some(top().map_or(CallOrigin::Unknown, |f| CallOrigin::Java(f.method, f.bci)))
                    }
                    Entry::Upcall => Some(CallOrigin::Vm),
                    Entry::Osr | Entry::Deoptimisation | Entry::Found => None,
                };
                if let Some(site) = site.filter(|_| !self.exclude.hides(e.provenance)) {
                    let edge = thread.edges.entry((site, method)).or_default();
                    edge.tally.add(e.provenance);
                    edge.tiers.add(tier);
                }
            }
            thread.follower.event((&self.methods, &self.shapes), e, self.exclude);
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: CallsThread) {
        for (key, seen) in thread.edges {
            let edge = self.edges.entry(key).or_default();
            edge.tally.merge(&seen.tally);
            edge.tiers.merge(&seen.tiers);
        }
        self.hidden.merge(thread.follower.end());
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}

impl Calls {
    /// The report as a table. An incomplete figure is a lower bound: `≥ 12 (at most 3 more)`.
    pub fn text(&self) -> String {
        let blind = self.inexact.is_blind();
        let row = |c: &Call| {
            let caller = format!("{}{}", c.caller, version_text(c.caller_version));
            let place = match (c.bci, c.line) {
                (Some(bci), Some(line)) => format!("{caller} @{bci} line {line}"),
                (Some(bci), None) => format!("{caller} @{bci}"),
                _ => caller,
            };
            let count = at_least(&c.count, c.missing.calls, c.missing.silent_calls, blind);
            vec![count, place, format!("{}{}", c.callee, version_text(c.callee_version))]
        };
        let rows: Vec<_> = self.calls.iter().map(row).collect();
        let columns = [("calls", Align::Right), ("from", Align::Left), ("to", Align::Left)];
        let rest = self.pairs.saturating_sub(rows.len());
        let more = if rest > 0 { format!("{rest} more pairs of site and target\n") } else { String::new() };
        let total = at_least(&self.total, self.missing.calls, self.missing.silent_calls, blind);
        let note = least_note(&self.inexact, self.exact);
        format!("{}total {total} calls\n{more}{note}", table(&columns, &rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, methods};

    #[test]
    fn sites_targets_and_lost_callers() {
        let mut c = CallsAnalysis::new(methods(), Arc::default());
        feed(
            &mut c,
            1,
            &[
                enter_as(0, Entry::Upcall),
                bytecode(0, 4),
                enter(1),
                leave(1),
                bytecode(0, 4),
                enter(1),
                leave(1),
                gap(true),
                enter(1),
                bytecode(1, 8),
                enter(2),
            ],
        );
        let r = c.report(10, |_| true);
        let all: Vec<_> =
            r.calls.iter().map(|c| (c.caller.as_str(), c.line, c.callee.as_str(), c.count.total())).collect();
        assert_eq!(
            all,
            [
                ("a.B.f(I)I", Some(11), "a.B.g(I)I", 2),
                ("a.B.g(I)I", Some(12), "java.lang.Math.abs(I)I", 1),
                ("(VM)", None, "a.B.f(I)I", 1),
                ("(unknown)", None, "a.B.g(I)I", 1),
            ]
        );
        assert!(r.text().contains("a.B.f(I)I @4 line 11"));
        let r = c.report(10, |m| m.loader.is_empty());
        assert_eq!((r.pairs, r.total.total()), (1, 5));
    }

    #[test]
    fn calls_that_may_be_hidden() {
        let at = |bci| Some(Bci(bci));
        let inlined = Inlined::new(&methods(), [(MethodId(0), Bci(4), MethodId(1))], true);
        let mut c = CallsAnalysis::new(methods(), Arc::new(inlined));
        let cause = jportal_flow::Cause::ConditionalMove;
        let lost = EventKind::Unresolved { method: MethodId(0), from: at(1), to: at(9), cause, callers: 0 };
        let lost = Event::decoded(lost);
        let once = [enter_as(0, Entry::Upcall), bytecode(0, 0), bytecode(0, 1)];
        feed(&mut c, 1, &[&once[..], &[bytecode(0, 4), enter(1), leave(1), leave(0)]].concat());
        feed(&mut c, 2, &[&once[..], &[lost, bytecode(0, 9), leave(0)]].concat());
        let r = c.report(10, |_| true);
        let rows: Vec<_> = r.calls.iter().map(|c| (c.callee.as_str(), c.count.total(), c.exact)).collect();
        assert_eq!(rows, [("a.B.f(I)I", 2, true), ("a.B.g(I)I", 1, false)]);
        assert_eq!((r.pairs, r.calls[1].missing.calls.max.0), (2, Some(1)));
        assert!(r.text().contains("≥ 1 (at most 1 more)  a.B.f(I)I @4 line 11"), "{}", r.text());
        assert!(r.text().contains("total ≥ 3 (at most 1 more) calls"), "{}", r.text());
    }
}
