//! Calls: who called whom, from where, how often.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Entry, Event, EventKind, FlowConsumer, FlowSink, ThreadInfo};
use jportal_units::{Bci, MethodId};
use serde::Serialize;

use crate::stack::Stack;
use crate::table::{Align, table};
use crate::tally::{Exclude, Tally};

/// Where a call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Site {
    /// A bytecode; its bci is `None` when only the method is known.
    Java(MethodId, Option<Bci>),
    /// The VM or native code.
    Vm,
    /// The caller's frame was lost.
    Unknown,
}

type Edges = HashMap<(Site, MethodId), Tally>;

/// One call site and target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// `class.name(descriptor)`, `(VM)` or `(unknown)`.
    pub caller: String,
    /// The calling bytecode.
    pub bci: Option<u16>,
    /// Its source line.
    pub line: Option<u16>,
    /// `class.name(descriptor)`.
    pub callee: String,
    /// How often.
    pub count: Tally,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// Calls of the whole recording.
    pub total: Tally,
    /// Call site and target pairs, of those asked for.
    pub pairs: usize,
    /// Most frequent first, as many as asked for.
    pub calls: Vec<Call>,
}

/// Counts calls.
#[derive(Debug)]
pub struct CallsConsumer {
    methods: Arc<MethodTable>,
    edges: Arc<Mutex<Edges>>,
    exclude: Exclude,
}

impl CallsConsumer {
    /// For the methods of one recording.
    pub fn new(methods: Arc<MethodTable>) -> Self {
        Self { methods, edges: Arc::default(), exclude: Exclude::default() }
    }
    /// The same without some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The `top` most frequent calls whose callee `wanted` accepts.
    pub fn report(&self, top: usize, wanted: impl Fn(&Method) -> bool) -> Calls {
        let edges = self.edges.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total = Tally::default();
        edges.values().for_each(|t| total.merge(t));
        let wanted = |m: MethodId| self.methods.get(m).is_some_and(&wanted);
        let mut chosen: Vec<_> = edges.iter().filter(|((_, callee), _)| wanted(*callee)).collect();
        let pairs = chosen.len();
        chosen.sort_by_key(|(key, t)| (u64::MAX - t.total(), **key));
        chosen.truncate(top);
        let calls = chosen.into_iter().map(|((site, callee), t)| self.call(*site, *callee, *t)).collect();
        Calls { total, pairs, calls }
    }
    fn call(&self, site: Site, callee: MethodId, count: Tally) -> Call {
        let name = |m| self.methods.get(m).map_or_else(|| "(unknown)".to_owned(), Method::qualified_name);
        let (caller, bci, line) = match site {
            Site::Vm => ("(VM)".to_owned(), None, None),
            Site::Unknown => ("(unknown)".to_owned(), None, None),
            Site::Java(m, bci) => {
                let line = bci.and_then(|b| self.methods.get(m)?.line_at(b));
                (name(m), bci.map(Bci::get), line)
            }
        };
        Call { caller, bci, line, callee: name(callee), count }
    }
}

impl FlowConsumer for CallsConsumer {
    fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(Sink {
            all: Arc::clone(&self.edges),
            own: Edges::new(),
            stack: Stack::default(),
            exclude: self.exclude,
        })
    }
}

struct Sink {
    all: Arc<Mutex<Edges>>,
    own: Edges,
    stack: Stack,
    exclude: Exclude,
}

impl FlowSink for Sink {
    fn events(&mut self, events: &[Event]) {
        for e in events {
            if let EventKind::Enter { method, entry, .. } = e.kind {
                let site = match entry {
                    Entry::Call => self.stack.top().map_or(Site::Unknown, |f| Site::Java(f.method, f.bci)),
                    Entry::Upcall => Site::Vm,
                    Entry::Osr | Entry::Deoptimisation | Entry::Found => {
                        self.stack.follow(&e.kind);
                        continue;
                    }
                };
                if !self.exclude.hides(e.provenance) {
                    self.own.entry((site, method)).or_default().add(e.provenance);
                }
            }
            self.stack.follow(&e.kind);
        }
    }
    fn end(self: Box<Self>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, tally) in self.own {
            all.entry(key).or_default().merge(&tally);
        }
    }
}

impl Calls {
    /// A table.
    pub fn text(&self) -> String {
        let row = |c: &Call| {
            let place = match (c.bci, c.line) {
                (Some(bci), Some(line)) => format!("{} @{bci} line {line}", c.caller),
                (Some(bci), None) => format!("{} @{bci}", c.caller),
                _ => c.caller.clone(),
            };
            vec![c.count.text(), place, c.callee.clone()]
        };
        let rows: Vec<_> = self.calls.iter().map(row).collect();
        let columns = [("calls", Align::Right), ("from", Align::Left), ("to", Align::Left)];
        let rest = self.pairs.saturating_sub(rows.len());
        let more = if rest > 0 { format!("{rest} more pairs of site and target\n") } else { String::new() };
        format!("{}total {} calls\n{more}", table(&columns, &rows), self.total.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, methods};

    #[test]
    fn sites_targets_and_lost_callers() {
        let mut c = CallsConsumer::new(methods());
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
}
