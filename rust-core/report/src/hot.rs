//! Hot methods: bytecodes executed in each method itself, by who executed them, and calls.

use std::sync::{Arc, Mutex, PoisonError};

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Entry, Event, EventKind, FlowConsumer, FlowSink, Provenance, ThreadInfo, Tier};
use jportal_units::MethodId;
use serde::Serialize;

use crate::table::{Align, percent, table};
use crate::tally::{Exclude, Tally};

/// Bytecodes by executing tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByTier {
    /// The template interpreter.
    pub interpreter: u64,
    /// C1.
    pub c1: u64,
    /// C2.
    pub c2: u64,
}

/// Figures of one method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Bytecodes executed in the method itself.
    pub bytecodes: Tally,
    /// The same by tier.
    pub tiers: ByTier,
    /// Times it was entered by a call; going on after OSR or deoptimisation is none.
    pub calls: Tally,
}

impl Counts {
    fn merge(&mut self, o: &Self) {
        self.bytecodes.merge(&o.bytecodes);
        self.calls.merge(&o.calls);
        self.tiers.interpreter += o.tiers.interpreter;
        self.tiers.c1 += o.tiers.c1;
        self.tiers.c2 += o.tiers.c2;
    }
    fn bytecode(&mut self, tier: Tier, provenance: Provenance) {
        self.bytecodes.add(provenance);
        match tier {
            Tier::Interpreter => self.tiers.interpreter += 1,
            Tier::C1 => self.tiers.c1 += 1,
            Tier::C2 => self.tiers.c2 += 1,
            Tier::Native => {}
        }
    }
}

/// One method of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotMethod {
    /// `class.name(descriptor)`.
    pub method: String,
    /// Loader, empty for boot.
    pub loader: String,
    /// The figures.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotMethods {
    /// All methods of the recording together.
    pub total: Counts,
    /// Methods that were executed, of those asked for.
    pub executed: usize,
    /// Most bytecodes first, as many as asked for.
    pub methods: Vec<HotMethod>,
}

/// Counts bytecodes and calls per method.
#[derive(Debug)]
pub struct HotConsumer {
    methods: Arc<MethodTable>,
    counts: Arc<Mutex<Vec<Counts>>>,
    exclude: Exclude,
}

impl HotConsumer {
    /// For the methods of one recording.
    pub fn new(methods: Arc<MethodTable>) -> Self {
        Self { methods, counts: Arc::default(), exclude: Exclude::default() }
    }
    /// The same without some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The `top` hottest of the methods that `wanted` accepts.
    pub fn report(&self, top: usize, wanted: impl Fn(&Method) -> bool) -> HotMethods {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total = Counts::default();
        counts.iter().for_each(|c| total.merge(c));
        let mut hot: Vec<(&Method, Counts)> = self
            .methods
            .iter()
            .zip(counts.iter().copied())
            .filter(|(m, c)| c.bytecodes.total() + c.calls.total() > 0 && wanted(m))
            .collect();
        let executed = hot.len();
        hot.sort_by_key(|(m, c)| (u64::MAX - c.bytecodes.total(), u64::MAX - c.calls.total(), m.id));
        hot.truncate(top);
        let methods = hot
            .into_iter()
            .map(|(m, counts)| HotMethod { method: m.qualified_name(), loader: m.loader.to_string(), counts })
            .collect();
        HotMethods { total, executed, methods }
    }
}

impl FlowConsumer for HotConsumer {
    fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(Sink {
            all: Arc::clone(&self.counts),
            methods: self.methods.len(),
            own: Vec::new(),
            exclude: self.exclude,
        })
    }
}

struct Sink {
    all: Arc<Mutex<Vec<Counts>>>,
    methods: usize,
    own: Vec<Counts>,
    exclude: Exclude,
}

impl Sink {
    fn of(&mut self, method: MethodId) -> Option<&mut Counts> {
        let n = method.get() as usize;
        if n < self.methods && self.own.len() <= n {
            self.own.resize(n + 1, Counts::default());
        }
        self.own.get_mut(n)
    }
}

impl FlowSink for Sink {
    fn events(&mut self, events: &[Event]) {
        let exclude = self.exclude;
        for e in events.iter().filter(|e| !exclude.hides(e.provenance)) {
            match e.kind {
                EventKind::Bytecode { method, tier, .. } => {
                    if let Some(c) = self.of(method) {
                        c.bytecode(tier, e.provenance);
                    }
                }
                EventKind::Enter { method, entry: Entry::Call | Entry::Upcall, .. } => {
                    if let Some(c) = self.of(method) {
                        c.calls.add(e.provenance);
                    }
                }
                _ => {}
            }
        }
    }
    fn end(self: Box<Self>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < self.own.len() {
            all.resize(self.own.len(), Counts::default());
        }
        all.iter_mut().zip(&self.own).for_each(|(a, b)| a.merge(b));
    }
}

impl HotMethods {
    /// A table.
    pub fn text(&self) -> String {
        let all = self.total.bytecodes.total();
        let mut rows = Vec::new();
        for m in &self.methods {
            let c = &m.counts;
            rows.push(row(&m.method, c, &percent(c.bytecodes.total(), all)));
        }
        rows.push(row("all methods of the recording", &self.total, &percent(all, all)));
        let columns = [
            ("bytecodes", Align::Right),
            ("share", Align::Right),
            ("interpreter", Align::Right),
            ("C1", Align::Right),
            ("C2", Align::Right),
            ("calls", Align::Right),
            ("method", Align::Left),
        ];
        let shown = self.methods.len();
        let rest = self.executed.saturating_sub(shown);
        let more = if rest > 0 { format!("{rest} more methods were executed\n") } else { String::new() };
        format!("{}{more}", table(&columns, &rows))
    }
}

fn row(name: &str, c: &Counts, share: &str) -> Vec<String> {
    vec![
        c.bytecodes.text(),
        share.to_owned(),
        c.tiers.interpreter.to_string(),
        c.tiers.c1.to_string(),
        c.tiers.c2.to_string(),
        c.calls.text(),
        name.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, feed, methods, recovered};

    #[test]
    fn counts_by_method_tier_and_provenance() {
        let mut c = HotConsumer::new(methods());
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
}
