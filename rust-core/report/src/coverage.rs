//! Coverage: which bytecodes, lines and branch outcomes were executed, of those present.
//!
//! A line counts as executed when one of its bytecodes was. A branch outcome is one distinct
//! successor of a conditional or switch; it counts when the flow has the successor directly
//! behind the branch. Each counts under the best way it is known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Event, EventKind, FlowConsumer, FlowSink, ThreadInfo};
use jportal_units::{Bci, MethodId};
use serde::Serialize;

use crate::shape::{Shape, Shapes};
use crate::table::{Align, percent, table};
use crate::tally::{Exclude, Tally, seen};

/// So many were executed, of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ratio {
    /// Executed, by the best way it is known.
    pub executed: Tally,
    /// In the class.
    pub present: u64,
}

impl Ratio {
    fn add(&mut self, bits: u8) {
        self.present += 1;
        seen::tally(bits, &mut self.executed);
    }
    fn merge(&mut self, other: &Self) {
        self.executed.merge(&other.executed);
        self.present += other.present;
    }
    fn cells(&self) -> [String; 2] {
        let done = self.executed.total();
        [format!("{done}/{}", self.present), percent(done, self.present)]
    }
}

/// The three figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Bytecode instructions.
    pub bytecodes: Ratio,
    /// Source lines.
    pub lines: Ratio,
    /// Branch outcomes.
    pub branches: Ratio,
}

impl Figures {
    fn merge(&mut self, other: &Self) {
        self.bytecodes.merge(&other.bytecodes);
        self.lines.merge(&other.lines);
        self.branches.merge(&other.branches);
    }
}

/// One method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MethodCoverage {
    /// Name and descriptor.
    pub name: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Lines none of whose bytecodes was executed.
    pub missed_lines: Vec<u16>,
}

/// One class of one loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassCoverage {
    /// Binary name (`java.lang.Object`).
    pub class: String,
    /// Loader, empty for boot.
    pub loader: String,
    /// `SourceFile`, may be empty.
    pub source_file: String,
    /// Sum over the methods.
    #[serde(flatten)]
    pub figures: Figures,
    /// Its methods with bytecode, in order of definition; redefined ones appear again.
    pub methods: Vec<MethodCoverage>,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Sum over the classes.
    pub total: Figures,
    /// By name.
    pub classes: Vec<ClassCoverage>,
}

/// Bits of one method: per bci, and per branch outcome.
#[derive(Debug)]
struct Marks {
    bcis: Box<[u8]>,
    outcomes: Box<[u8]>,
}

type MarkTable = Vec<Option<Box<Marks>>>;

#[derive(Debug)]
struct Shared {
    methods: Arc<MethodTable>,
    shapes: Shapes,
    marks: Mutex<MarkTable>,
}

/// Collects coverage from the flows of all threads.
#[derive(Debug)]
pub struct CoverageConsumer {
    shared: Arc<Shared>,
    exclude: Exclude,
}

impl CoverageConsumer {
    /// For the methods of one recording.
    pub fn new(methods: Arc<MethodTable>) -> Self {
        let shapes = Shapes::new(&methods);
        Self {
            shared: Arc::new(Shared { methods, shapes, marks: Mutex::default() }),
            exclude: Exclude::default(),
        }
    }
    /// The same without some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }

    /// The report over the classes whose methods `wanted` accepts.
    pub fn report(&self, wanted: impl Fn(&Method) -> bool) -> Coverage {
        let marks = self.shared.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut classes = BTreeMap::<(String, String), ClassCoverage>::new();
        let mut total = Figures::default();
        for method in self.shared.methods.iter().filter(|m| !m.code.is_empty() && wanted(m)) {
            let Some(shape) = self.shared.shapes.get(&self.shared.methods, method.id) else { continue };
            let marks = marks.get(method.id.get() as usize).and_then(Option::as_deref);
            let covered = cover(method, shape, marks);
            total.merge(&covered.figures);
            let class = classes
                .entry((method.class_name.replace('/', "."), method.loader.to_string()))
                .or_insert_with(|| class_of(method));
            class.figures.merge(&covered.figures);
            class.methods.push(covered);
        }
        Coverage { total, classes: classes.into_values().collect() }
    }
}

fn class_of(method: &Method) -> ClassCoverage {
    ClassCoverage {
        class: method.class_name.replace('/', "."),
        loader: method.loader.to_string(),
        source_file: method.source_file.to_string(),
        figures: Figures::default(),
        methods: Vec::new(),
    }
}

fn cover(method: &Method, shape: &Shape, marks: Option<&Marks>) -> MethodCoverage {
    let at = |bci: Bci| marks.and_then(|m| m.bcis.get(usize::from(bci.get()))).copied().unwrap_or(0);
    let mut figures = Figures::default();
    let mut lines = BTreeMap::<u16, u8>::new();
    for &bci in &shape.starts {
        let bits = at(bci);
        figures.bytecodes.add(bits);
        if let Some(line) = method.line_at(bci) {
            *lines.entry(line).or_default() |= bits;
        }
    }
    for slot in 0..shape.slots {
        figures.branches.add(marks.and_then(|m| m.outcomes.get(slot)).copied().unwrap_or(0));
    }
    lines.values().for_each(|&bits| figures.lines.add(bits));
    let missed_lines = lines.iter().filter(|(_, bits)| **bits == 0).map(|(line, _)| *line).collect();
    MethodCoverage { name: format!("{}{}", method.name, method.signature), figures, missed_lines }
}

impl FlowConsumer for CoverageConsumer {
    fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(Sink {
            shared: Arc::clone(&self.shared),
            marks: Vec::new(),
            branch: None,
            exclude: self.exclude,
        })
    }
}

struct Sink {
    shared: Arc<Shared>,
    marks: MarkTable,
    /// A branch whose outcome is the next bytecode of the same method, and how the branch is known.
    branch: Option<(MethodId, Bci, u8)>,
    exclude: Exclude,
}

impl Sink {
    fn bytecode(&mut self, method: MethodId, bci: Bci, bit: u8) {
        let index = method.get() as usize;
        let Some(shape) = self.shared.shapes.get(&self.shared.methods, method) else { return };
        if self.marks.len() <= index {
            self.marks.resize_with(index + 1, || None);
        }
        let marks = self.marks[index].get_or_insert_with(|| {
            let code = self.shared.methods.get(method).map_or(0, |m| m.code.len());
            Box::new(Marks { bcis: vec![0; code].into(), outcomes: vec![0; shape.slots].into() })
        });
        if let Some(mark) = marks.bcis.get_mut(usize::from(bci.get())) {
            *mark |= bit;
        }
        let taken = self.branch.take().filter(|(m, ..)| *m == method);
        if let Some((slot, known)) = taken.and_then(|(_, from, known)| Some((shape.slot(from, bci)?, known)))
        {
            // An outcome is known as surely as the less sure of its two ends.
            marks.outcomes[slot] |= bit.max(known);
        }
        if shape.is_branch(bci) {
            self.branch = Some((method, bci, bit));
        }
    }
}

impl FlowSink for Sink {
    fn events(&mut self, events: &[Event]) {
        use jportal_flow::{Entry, Exit};
        for e in events {
            match &e.kind {
                // Time says nothing about branches, however it is known.
                EventKind::Time(_) => {}
                _ if self.exclude.hides(e.provenance) => self.branch = None,
                EventKind::Bytecode { method, bci, .. } => {
                    self.bytecode(*method, *bci, seen::bit(e.provenance))
                }
                // The activation goes on: OSR stands between a loop's branch and its target.
                EventKind::Leave { exit: Exit::Replaced, .. }
                | EventKind::Enter { entry: Entry::Osr | Entry::Deoptimisation, .. } => {}
                _ => self.branch = None,
            }
        }
    }
    fn end(self: Box<Self>) {
        let mut all = self.shared.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < self.marks.len() {
            all.resize_with(self.marks.len(), || None);
        }
        for (into, from) in all.iter_mut().zip(self.marks) {
            match (into, from) {
                (Some(into), Some(from)) => {
                    into.bcis.iter_mut().zip(&from.bcis).for_each(|(a, b)| *a |= b);
                    into.outcomes.iter_mut().zip(&from.outcomes).for_each(|(a, b)| *a |= b);
                }
                (into @ None, from) => *into = from,
                (Some(_), None) => {}
            }
        }
    }
}

impl Coverage {
    /// A table of classes, with their methods when `methods` is set.
    pub fn text(&self, methods: bool) -> String {
        let mut rows = Vec::new();
        for class in &self.classes {
            rows.push(row(&class.class, &class.figures));
            for method in class.methods.iter().filter(|_| methods) {
                rows.push(row(&format!("  {}", method.name), &method.figures));
            }
        }
        rows.push(row(&format!("total ({} classes)", self.classes.len()), &self.total));
        let columns = [
            ("class", Align::Left),
            ("bytecodes", Align::Right),
            ("", Align::Right),
            ("lines", Align::Right),
            ("", Align::Right),
            ("branches", Align::Right),
            ("", Align::Right),
        ];
        let note = self.provenance_note();
        format!("{}{note}", table(&columns, &rows))
    }
    fn provenance_note(&self) -> String {
        let Tally { projected, recovered, .. } = self.total.bytecodes.executed;
        if projected + recovered == 0 {
            return String::new();
        }
        format!(
            "of the executed bytecodes, {projected} are known by projection only, {recovered} by recovery only\n"
        )
    }
}

fn row(name: &str, f: &Figures) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    for ratio in [&f.bytecodes, &f.lines, &f.branches] {
        cells.extend(ratio.cells());
    }
    cells
}

#[cfg(test)]
mod tests {
    use jportal_flow::{Entry, Exit};

    use super::*;
    use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, methods, recovered};

    #[test]
    fn both_ways_through_a_branch() {
        let mut c = CoverageConsumer::new(methods());
        feed(
            &mut c,
            1,
            &[enter(0), bytecode(0, 0), bytecode(0, 1), bytecode(0, 4), bytecode(0, 5), bytecode(0, 9)],
        );
        let r = c.report(|m| &*m.class_name == "a/B");
        assert_eq!(r.classes.len(), 1);
        let f = &r.classes[0].methods[0];
        assert_eq!((f.figures.bytecodes.executed.decoded, f.figures.bytecodes.present), (5, 6));
        assert_eq!((f.figures.lines.executed.decoded, f.figures.lines.present), (3, 3));
        assert_eq!((f.figures.branches.executed.decoded, f.figures.branches.present), (1, 2));
        assert_eq!(r.total.bytecodes.present, 12, "g counts as present");

        feed(&mut c, 2, &[bytecode(0, 1), recovered(bytecode(0, 8))]);
        let f = &c.report(|_| true).classes[0].methods[0];
        assert_eq!(f.figures.branches.executed, Tally { decoded: 1, recovered: 1, ..Tally::default() });
        assert_eq!(f.figures.bytecodes.executed, Tally { decoded: 5, recovered: 1, ..Tally::default() });
    }

    #[test]
    fn what_is_excluded_is_not_covered() {
        let exclude = Exclude { recovered: true, ..Exclude::default() };
        let executed = |c: CoverageConsumer| {
            let mut c = c;
            // Both ends of an outcome count, and what is left out joins nothing.
            let events = [
                bytecode(0, 0),
                recovered(bytecode(0, 1)),
                bytecode(0, 4),
                recovered(bytecode(0, 5)),
                bytecode(0, 9),
            ];
            feed(&mut c, 1, &events);
            feed(&mut c, 2, &[bytecode(0, 1), recovered(bytecode(0, 4)), bytecode(0, 8)]);
            c.report(|_| true).total
        };
        let all = executed(CoverageConsumer::new(methods()));
        assert_eq!(all.bytecodes.executed, Tally { decoded: 5, recovered: 1, ..Tally::default() });
        assert_eq!(all.branches.executed, Tally { recovered: 1, ..Tally::default() });
        let some = executed(CoverageConsumer::new(methods()).excluding(exclude));
        assert_eq!(some.bytecodes.executed, Tally { decoded: 5, ..Tally::default() });
        assert_eq!(some.branches.executed, Tally::default());
    }

    #[test]
    fn what_is_not_adjacent_is_no_outcome() {
        let outcomes = |events: &[Event]| {
            let mut c = CoverageConsumer::new(methods());
            feed(&mut c, 1, events);
            c.report(|_| true).total.branches.executed.total()
        };
        assert_eq!(outcomes(&[bytecode(0, 1), gap(false), bytecode(0, 4)]), 0);
        assert_eq!(outcomes(&[bytecode(0, 1), leave(0), enter(0), bytecode(0, 4)]), 0);
        assert_eq!(outcomes(&[bytecode(0, 1), bytecode(1, 4)]), 0);
        assert_eq!(outcomes(&[bytecode(0, 1), bytecode(0, 9)]), 0, "not a successor");
        let osr = [bytecode(0, 1), leave_as(0, Exit::Replaced), enter_as(0, Entry::Osr), bytecode(0, 8)];
        assert_eq!(outcomes(&osr), 1);
    }

    #[test]
    fn the_table_names_missed_lines_and_sums() {
        let mut c = CoverageConsumer::new(methods());
        feed(&mut c, 1, &[bytecode(0, 0)]);
        let r = c.report(|m| &*m.class_name == "a/B");
        assert_eq!(r.classes[0].methods[0].missed_lines, [11, 12]);
        let text = r.text(true);
        let total = text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(total, ["total", "(1", "classes)", "1/12", "8.3%", "1/6", "16.7%", "0/4", "0.0%"]);
        let json = serde_json::to_value(&r).unwrap();
        assert_eq!(json["classes"][0]["lines"]["executed"]["decoded"], 1);
    }
}
