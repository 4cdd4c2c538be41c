// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Coverage: which of the bytecodes, lines and branch outcomes were executed.
//!
//! A line counts as executed when one of its bytecodes was. A branch outcome is one distinct
//! successor of a conditional or switch. It counts when the flow has the successor directly
//! after the branch. Each of them counts under the best provenance it is known by.
//!
//! What was not seen is *missed* or *unknown*. It is unknown if it may have been executed in a
//! place where the flow says that it does not know (module `hidden`). Therefore `executed` is a
//! lower bound and `at_most` an upper bound. Where trace was lost, any method may have run.
//! Then an item that counts as missed was not seen, but may have been executed nevertheless.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable, Shape, Shapes};
use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Exclude, Exit, Provenance, Tally, ThreadInfo};
use jportal_plain::table::{Align, percent, table};
use jportal_units::{Bci, MethodId};
use serde::{Deserialize, Serialize};

use crate::hidden::{Account, Follower, Hidden, Inexact, Inlined, counted};
use crate::names::{Names, Naming, Version, version_text};

/// The number of executed items and the number present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratio {
    /// Certainly executed, by the best provenance.
    pub executed: Tally,
    /// Present in the class.
    pub present: u64,
    /// Possibly executed, but never seen.
    pub unknown: u64,
    /// Upper bound of the executed items: those that were seen and those that are unknown.
    pub at_most: u64,
}

/// Set, in addition to the bits of [`seen`], for what may have been executed.
const PERHAPS: u8 = 8;

impl Ratio {
    fn add(&mut self, bits: u8) {
        self.present += 1;
        seen::tally(bits, &mut self.executed);
        self.unknown += u64::from(bits == PERHAPS);
        self.at_most = self.executed.total() + self.unknown;
    }
    fn merge(&mut self, other: &Self) {
        self.executed.merge(&other.executed);
        self.present += other.present;
        self.unknown += other.unknown;
        self.at_most += other.at_most;
    }
    /// The count and the percentage: `8/12` and `66.7%`, or `8–9/12` and `66.7–75.0%`.
    fn cells(&self) -> [String; 2] {
        let Self { present, at_most, .. } = *self;
        let done = self.executed.total();
        if self.unknown == 0 {
            return [format!("{done}/{present}"), percent(done, present)];
        }
        let least = percent(done, present);
        let most = percent(at_most, present);
        [format!("{done}–{at_most}/{present}"), format!("{}–{most}", least.trim_end_matches('%'))]
    }
}

/// The three figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    pub(crate) const fn has_unknown(&self) -> bool {
        self.bytecodes.unknown + self.lines.unknown + self.branches.unknown > 0
    }
}

/// One method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodCoverage {
    /// Name and descriptor.
    pub name: String,
    /// The version, if the method was redefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Lines of which no bytecode was executed. See [`Coverage::missed_is_certain`].
    pub missed_lines: Vec<u16>,
    /// Lines of which no bytecode was seen, but some may have been executed.
    pub unknown_lines: Vec<u16>,
}

/// One class of one loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCoverage {
    /// Binary name (`java.lang.Object`).
    pub class: String,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// The `SourceFile` attribute, possibly empty.
    pub source_file: String,
    /// Sum over the methods.
    #[serde(flatten)]
    pub figures: Figures,
    /// Its methods with bytecode, in order of definition. A redefined method has a row for each
    /// version that ran, and one for the last version.
    pub methods: Vec<MethodCoverage>,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Whether nothing is unknown in the classes shown, and nothing was lost or inferred.
    pub exact: bool,
    /// Whether everything that counts as missed was certainly not executed in the threads
    /// shown. It is not certain where trace was lost.
    pub missed_is_certain: bool,
    /// Why the report is not exact, in the threads shown.
    pub inexact: Inexact,
    /// Sum over the classes.
    pub total: Figures,
    /// The classes, by name.
    pub classes: Vec<ClassCoverage>,
}

/// Bits of one method: per bci, and per branch outcome.
#[derive(Clone, Debug)]
struct Marks {
    bcis: Box<[u8]>,
    outcomes: Box<[u8]>,
}

impl Marks {
    fn new(method: Option<&Method>, shape: &Shape) -> Self {
        let code = method.map_or(0, |m| m.code.len());
        Self { bcis: vec![0; code].into(), outcomes: vec![0; shape.slots].into() }
    }
    fn merge(&mut self, other: &Self) {
        self.bcis.iter_mut().zip(&other.bcis).for_each(|(a, b)| *a |= b);
        self.outcomes.iter_mut().zip(&other.outcomes).for_each(|(a, b)| *a |= b);
    }
    fn at(&self, bci: Bci) -> u8 {
        self.bcis.get(usize::from(bci.get())).copied().unwrap_or(0)
    }
    fn is_empty(&self) -> bool {
        self.bcis.iter().all(|b| *b == 0)
    }
}

type MarkTable = Vec<Option<Box<Marks>>>;

/// Collects coverage from the flows of all threads.
#[derive(Debug)]
pub struct CoverageAnalysis {
    methods: Arc<MethodTable>,
    inlined: Arc<Inlined>,
    shapes: Shapes,
    marks: MarkTable,
    hidden: Hidden,
    exclude: Exclude,
    naming: Naming,
}

impl CoverageAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        let shapes = Shapes::new(&methods);
        let (marks, hidden, exclude, naming) = Default::default();
        Self { methods, inlined, shapes, marks, hidden, exclude, naming }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    /// The report over the classes whose methods `wanted` accepts.
    pub fn report(&self, wanted: impl Fn(&Method) -> bool) -> Coverage {
        let Self { methods, shapes, .. } = self;
        let marks = self.marks();
        let inexact = self.hidden.inexact.clone();
        let names = Names::new(methods, self.naming);
        let mut rows = Rows::default();
        for method in methods.iter().filter(|m| !m.code.is_empty() && wanted(m)) {
            let Some(shape) = shapes.get(methods, method.id) else { continue };
            let marks = marks.get(method.id.get() as usize).and_then(Option::as_deref);
            let marks = marks.cloned().unwrap_or_else(|| Marks::new(Some(method), shape));
            // A version that was replaced before it ran cannot have missed anything.
            if names.version(method.id).is_some_and(|v| v.number < v.of) && marks.is_empty() {
                continue;
            }
            rows.add(&names, method, shape, marks);
        }
        let classes = rows.classes();
        let mut total = Figures::default();
        classes.iter().for_each(|c| total.merge(&c.figures));
        Coverage {
            exact: !inexact.is_lossy() && !total.has_unknown(),
            missed_is_certain: !inexact.is_blind(),
            inexact,
            total,
            classes,
        }
    }
    /// Marks for what was seen, and for what may have been executed in addition.
    fn marks(&self) -> MarkTable {
        let Self { methods, inlined, shapes, hidden, .. } = self;
        let mut marks = self.marks.clone();
        for (id, region) in Account::new(methods, inlined).regions(hidden) {
            let Some(shape) = shapes.get(methods, id) else { continue };
            let marks = marks_of(&mut marks, methods, id, shape);
            for place in &region.places {
                if let Some(bits) = marks.bcis.get_mut(usize::from(place.bci.get())) {
                    *bits |= PERHAPS;
                }
            }
            for (from, to) in &region.branches {
                if let Some(slot) = shape.slot(*from, *to) {
                    marks.outcomes[slot] |= PERHAPS;
                }
            }
        }
        marks
    }
}

/// The marks of a method, created on first use.
fn marks_of<'t>(
    table: &'t mut MarkTable,
    methods: &MethodTable,
    id: MethodId,
    shape: &Shape,
) -> &'t mut Marks {
    let index = id.get() as usize;
    if table.len() <= index {
        table.resize_with(index + 1, || None);
    }
    table[index].get_or_insert_with(|| Box::new(Marks::new(methods.get(id), shape)))
}

/// A row: the methods of one name, each with different bytecodes.
type Row<'a> = Vec<(&'a Method, &'a Shape, Marks)>;

/// Classes and their methods under the displayed names. Methods of the same name form one row.
#[derive(Default)]
struct Rows<'a> {
    classes: BTreeMap<(String, String), ClassRows<'a>>,
}

#[derive(Default)]
struct ClassRows<'a> {
    source_file: String,
    rows: Vec<(String, Option<Version>, Row<'a>)>,
    places: HashMap<(String, Option<Version>), usize>,
}

impl<'a> Rows<'a> {
    fn add(&mut self, names: &Names<'_>, method: &'a Method, shape: &'a Shape, marks: Marks) {
        let name = names.of(method);
        let class = self.classes.entry((name.class, name.loader)).or_default();
        if class.source_file.is_empty() {
            class.source_file = method.source_file.to_string();
        }
        let ClassRows { rows, places, .. } = class;
        let place = *places.entry((name.method.clone(), name.version)).or_insert_with(|| {
            rows.push((name.method, name.version, Row::new()));
            rows.len() - 1
        });
        let row = &mut rows[place].2;
        match row.iter_mut().find(|(m, ..)| m.code == method.code && m.lines == method.lines) {
            Some((.., same)) => same.merge(&marks),
            None => row.push((method, shape, marks)),
        }
    }
    fn classes(self) -> Vec<ClassCoverage> {
        let class = |((class, loader), rows): ((String, String), ClassRows<'_>)| {
            let methods: Vec<_> = rows.rows.into_iter().map(|(name, v, row)| cover(name, v, row)).collect();
            let mut figures = Figures::default();
            methods.iter().for_each(|m| figures.merge(&m.figures));
            ClassCoverage { class, loader, source_file: rows.source_file, figures, methods }
        };
        self.classes.into_iter().map(class).collect()
    }
}

/// Sums up one row. Bytecodes and branches of different code are added; equal line numbers are
/// the same line.
fn cover(name: String, version: Option<Version>, row: Row<'_>) -> MethodCoverage {
    let mut figures = Figures::default();
    let mut lines = BTreeMap::<u16, u8>::new();
    for (method, shape, mut marks) in row {
        // Merging may have combined what one version saw with what is unknown in another.
        for bits in marks.bcis.iter_mut().chain(&mut marks.outcomes) {
            *bits = known(*bits);
        }
        for &bci in &shape.starts {
            figures.bytecodes.add(marks.at(bci));
            if let Some(line) = method.line_at(bci) {
                *lines.entry(line).or_default() |= marks.at(bci);
            }
        }
        marks.outcomes.iter().for_each(|bits| figures.branches.add(*bits));
    }
    lines.values_mut().for_each(|bits| *bits = known(*bits));
    lines.values().for_each(|bits| figures.lines.add(*bits));
    let of = |state: u8| lines.iter().filter(|(_, bits)| **bits == state).map(|(line, _)| *line).collect();
    MethodCoverage { name, version, figures, missed_lines: of(0), unknown_lines: of(PERHAPS) }
}

/// Clears [`PERHAPS`] for what was seen: it is not unknown.
const fn known(bits: u8) -> u8 {
    if bits == PERHAPS { PERHAPS } else { bits & !PERHAPS }
}

/// The marks of one thread.
#[derive(Debug, Default)]
pub struct CoverageThread {
    marks: MarkTable,
    /// A branch and its provenance bit. Its outcome is the next bytecode of the same method.
    branch: Option<(MethodId, Bci, u8)>,
    follower: Follower,
}

impl CoverageAnalysis {
    fn bytecode(&self, thread: &mut CoverageThread, method: MethodId, bci: Bci, bit: u8) {
        let Some(shape) = self.shapes.get(&self.methods, method) else { return };
        let marks = marks_of(&mut thread.marks, &self.methods, method, shape);
        if let Some(mark) = marks.bcis.get_mut(usize::from(bci.get())) {
            *mark |= bit;
        }
        let taken = thread.branch.take().filter(|(m, ..)| *m == method);
        if let Some((slot, known)) = taken.and_then(|(_, from, known)| Some((shape.slot(from, bci)?, known)))
        {
            // The provenance of an outcome is the less certain one of its two ends.
            marks.outcomes[slot] |= bit.max(known);
        }
        if shape.is_branch(bci) {
            thread.branch = Some((method, bci, bit));
        }
    }
    /// A run: all bytecodes from `first` to `last`, none of which branched away.
    fn run(&self, thread: &mut CoverageThread, method: MethodId, (first, last): (Bci, Bci), bit: u8) {
        self.bytecode(thread, method, first, bit);
        let Some(shape) = self.shapes.get(&self.methods, method) else { return };
        let marks = marks_of(&mut thread.marks, &self.methods, method, shape);
        for bci in shape.starts_before((first, last)) {
            if let Some(mark) = marks.bcis.get_mut(usize::from(bci.get())) {
                *mark |= bit;
            }
        }
        for branch in shape.branches_before((first, last)) {
            let outcome = shape.next(branch.bci).and_then(|next| shape.slot(branch.bci, next));
            if let Some(slot) = outcome {
                marks.outcomes[slot] |= bit;
            }
        }
        thread.branch = None;
        self.bytecode(thread, method, last, bit);
    }
}

impl Analysis for CoverageAnalysis {
    type Thread = CoverageThread;

    fn begin(&self, _: &ThreadInfo) -> CoverageThread {
        CoverageThread::default()
    }
    fn events(&self, thread: &mut CoverageThread, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            thread.follower.event((&self.methods, &self.shapes), e, self.exclude);
            match &e.kind {
                // Time, whatever its provenance, has no effect on branches.
                EventKind::Time(_) => {}
                _ if self.exclude.hides(e.provenance) => thread.branch = None,
                EventKind::Bytecode { method, bci, .. } => {
                    self.bytecode(thread, *method, *bci, seen::bit(e.provenance));
                }
                EventKind::Run { method, first, last, .. } => {
                    self.run(thread, *method, (*first, *last), seen::bit(e.provenance));
                }
                // The activation continues: OSR may come between a loop's branch and its
                // target.
                EventKind::Leave { exit: Exit::Replaced, .. }
                | EventKind::Enter { entry: Entry::Osr | Entry::Deoptimisation, .. } => {}
                _ => thread.branch = None,
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: CoverageThread) {
        self.hidden.merge(thread.follower.end());
        if self.marks.len() < thread.marks.len() {
            self.marks.resize_with(thread.marks.len(), || None);
        }
        for (into, from) in self.marks.iter_mut().zip(thread.marks) {
            match (into, from) {
                (Some(into), Some(from)) => into.merge(&from),
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
                let name = format!("  {}{}", method.name, version_text(method.version));
                rows.push(row(&name, &method.figures));
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
        [table(&columns, &rows), self.provenance_note(), self.unknown_note(), self.blind_note()].concat()
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
    fn unknown_note(&self) -> String {
        if !self.total.has_unknown() {
            return String::new();
        }
        let Figures { bytecodes, lines, branches } = &self.total;
        let why = [self.inexact.stretches_text(), self.inexact.blind_text()];
        let why: Vec<_> = why.into_iter().filter(|w| !w.is_empty()).collect();
        let parts = [
            counted(bytecodes.unknown, "bytecode"),
            counted(lines.unknown, "line"),
            match branches.unknown {
                1 => "1 branch".to_owned(),
                n => format!("{n} branches"),
            },
        ];
        let (parts, why) = (parts.join(", "), why.join("; "));
        format!("{parts} are unknown, neither executed for certain nor missed: {why}\n")
    }
    fn blind_note(&self) -> String {
        match self.inexact.blind_text() {
            why if why.is_empty() => why,
            why => format!("{why}: what counts as missed was not seen, but may have been executed there\n"),
        }
    }
}

fn row(name: &str, f: &Figures) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    for ratio in [&f.bytecodes, &f.lines, &f.branches] {
        cells.extend(ratio.cells());
    }
    cells
}

/// Whether something was executed, as one bit per provenance.
mod seen {
    use super::{Provenance, Tally};

    pub(crate) const fn bit(provenance: Provenance) -> u8 {
        match provenance {
            Provenance::Decoded => 1,
            Provenance::Projected { .. } => 2,
            Provenance::Recovered { .. } => 4,
        }
    }
    /// Counts one item under its best provenance. Counts nothing if it was not seen.
    pub(crate) fn tally(bits: u8, into: &mut Tally) {
        if bits & 1 != 0 {
            into.decoded += 1;
        } else if bits & 2 != 0 {
            into.projected += 1;
        } else if bits & 4 != 0 {
            into.recovered += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use jportal_flow::{Entry, Exit};

    use super::*;
    use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, methods, recovered};

    #[test]
    fn both_ways_through_a_branch() {
        let mut c = CoverageAnalysis::new(methods(), Arc::default());
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
        let executed = |c: CoverageAnalysis| {
            let mut c = c;
            // Both ends of an outcome must count. An excluded event does not connect its
            // neighbours.
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
        let all = executed(CoverageAnalysis::new(methods(), Arc::default()));
        assert_eq!(all.bytecodes.executed, Tally { decoded: 5, recovered: 1, ..Tally::default() });
        assert_eq!(all.branches.executed, Tally { recovered: 1, ..Tally::default() });
        let some = executed(CoverageAnalysis::new(methods(), Arc::default()).excluding(exclude));
        assert_eq!(some.bytecodes.executed, Tally { decoded: 5, ..Tally::default() });
        assert_eq!(some.branches.executed, Tally::default());
    }

    #[test]
    fn what_is_not_adjacent_is_no_outcome() {
        let outcomes = |events: &[Event]| {
            let mut c = CoverageAnalysis::new(methods(), Arc::default());
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
        let mut c = CoverageAnalysis::new(methods(), Arc::default());
        feed(&mut c, 1, &[bytecode(0, 0)]);
        let r = c.report(|m| &*m.class_name == "a/B");
        assert_eq!(r.classes[0].methods[0].missed_lines, [11, 12]);
        let text = r.text(true);
        let total = text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(total, ["total", "(1", "classes)", "1/12", "8.3%", "1/6", "16.7%", "0/4", "0.0%"]);
        let json = serde_json::to_value(&r).unwrap();
        assert_eq!(json["classes"][0]["lines"]["executed"]["decoded"], 1);
    }

    fn unresolved(from: u16, to: u16) -> Event {
        let cause = jportal_flow::Cause::ConditionalExpression;
        let (from, to) = (Some(Bci(from)), Some(Bci(to)));
        Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 })
    }

    #[test]
    fn what_may_have_run_is_unknown_and_not_missed() {
        let mut c = CoverageAnalysis::new(methods(), Arc::default());
        let early = [enter(0), bytecode(0, 0), bytecode(0, 1), bytecode(0, 8), bytecode(0, 9), leave(0)];
        feed(&mut c, 1, &early);
        feed(
            &mut c,
            2,
            &[enter(0), bytecode(0, 0), bytecode(0, 1), unresolved(1, 9), bytecode(0, 9), leave(0)],
        );
        let r = c.report(|m| &*m.class_name == "a/B");
        let f = &r.classes[0].methods[0];
        let bounds = |r: Ratio| (r.executed.total(), r.unknown, r.at_most, r.present);
        assert_eq!(bounds(f.figures.bytecodes), (4, 2, 6, 6));
        assert_eq!(bounds(f.figures.lines), (2, 1, 3, 3));
        assert_eq!(bounds(f.figures.branches), (1, 1, 2, 2));
        assert_eq!((&f.missed_lines[..], &f.unknown_lines[..]), (&[][..], &[11][..]));
        let g = &r.classes[0].methods[1];
        assert_eq!((&g.missed_lines[..], g.unknown_lines.len()), (&[10, 11, 12][..], 0));
        assert!(!r.exact && r.missed_is_certain);
        let text = r.text(true);
        let row: Vec<_> = text.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(row[1..], ["4–6/6", "66.7–100.0%", "2–3/3", "66.7–100.0%", "1–2/2", "50.0–100.0%"]);
        let note = "2 bytecodes, 1 line, 1 branch are unknown, neither executed for certain nor missed: \
                    1 unresolved stretch (1 conditional-expression)";
        assert!(text.contains(note), "{text}");
        let json = serde_json::to_value(&r).unwrap();
        assert_eq!(json["classes"][0]["methods"][0]["branches"]["at_most"], 2);
        assert_eq!(json["inexact"]["unresolved"]["conditional-expression"], 1);
    }

    #[test]
    fn nothing_is_missed_for_certain_where_trace_was_lost() {
        let mut c = CoverageAnalysis::new(methods(), Arc::default());
        feed(&mut c, 1, &[enter(0), bytecode(0, 0), bytecode(0, 1), gap(true)]);
        let r = c.report(|m| &*m.class_name == "a/B");
        let [f, g] = &r.classes[0].methods[..] else { panic!("{r:?}") };
        assert_eq!(
            (&f.missed_lines[..], &f.unknown_lines[..]),
            (&[][..], &[11, 12][..]),
            "it may have gone on"
        );
        assert_eq!((&g.missed_lines[..], &g.unknown_lines[..]), (&[10, 11, 12][..], &[][..]));
        assert!(!r.missed_is_certain && !r.exact);
        let text = r.text(false);
        assert!(text.contains("1 gap: what counts as missed was not seen, but may have"), "{text}");
    }

    #[test]
    fn versions_of_a_redefined_method() {
        let mut t = MethodTable::default();
        let lines = methods().get(MethodId(0)).unwrap().lines.clone();
        let versions =
            [crate::testing::BRANCHY, crate::testing::BRANCHY, &[26, 172][..], crate::testing::BRANCHY];
        for code in versions {
            t.push(Method { class: 7, lines: lines.clone(), ..crate::testing::method("a/B", "f", code) });
        }
        let report = |naming| {
            let mut c = CoverageAnalysis::new(Arc::new(t.clone()), Arc::default()).naming(naming);
            feed(&mut c, 1, &[enter(1), bytecode(1, 0), bytecode(1, 1), bytecode(1, 8), bytecode(1, 9)]);
            feed(&mut c, 1, &[enter(2), bytecode(2, 0)]);
            c.report(|_| true)
        };
        let r = report(Naming::default());
        let rows: Vec<_> =
            r.classes[0].methods.iter().map(|m| (m.version.unwrap().number, &m.missed_lines[..])).collect();
        // The first version never ran. The last one is the version that would run next.
        assert_eq!(rows, [(2, &[11][..]), (3, &[]), (4, &[10, 11, 12])]);
        assert!(r.text(true).contains("  f(I)I [version 2 of 4]"));
        let r = report(Naming { merge_versions: true, stable: false });
        let [f] = &r.classes[0].methods[..] else { panic!("{r:?}") };
        assert_eq!((f.version, &f.missed_lines[..]), (None, &[11][..]));
        assert_eq!((f.figures.bytecodes.executed.total(), f.figures.bytecodes.present), (5, 8));
    }
}
