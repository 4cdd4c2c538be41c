// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The tables of methods, threads, calls and blocks.

use std::collections::BTreeMap;
use std::io;

use jportal_analyses::block_trace::Accounts;
use jportal_analyses::names::{Names, Naming, stable};
use jportal_analyses::{Inexact, Missing, Most};
use jportal_flow::Tally;
use jportal_units::{Bci, MethodId};

use super::analysis::{Counted, TableAnalysis};
use super::counts::{BlockCounts, InvocationOrigin};
use super::options::{Output, Partition, Table};
use super::sheet::{Cell, ColumnKind, Sheet, Spec};
use crate::Error;

const METHODS: [Spec; 11] = [
    ("method", ColumnKind::Long, true),
    ("class_id", ColumnKind::Long, true),
    ("class", ColumnKind::Text, true),
    ("stable_class", ColumnKind::Text, true),
    ("name", ColumnKind::Text, true),
    ("descriptor", ColumnKind::Text, true),
    ("loader", ColumnKind::Text, true),
    ("source", ColumnKind::Text, false),
    ("code_bytes", ColumnKind::Long, true),
    ("flags", ColumnKind::Long, true),
    ("version", ColumnKind::Long, false),
];
const THREADS: [Spec; 14] = [
    ("thread", ColumnKind::Text, true),
    ("tid", ColumnKind::Long, true),
    ("java_tid", ColumnKind::Long, false),
    ("name", ColumnKind::Text, true),
    ("started", ColumnKind::Long, false),
    ("bytecodes", ColumnKind::Long, true),
    ("bytecodes_projected", ColumnKind::Long, true),
    ("bytecodes_recovered", ColumnKind::Long, true),
    ("exact", ColumnKind::Flag, true),
    ("gaps", ColumnKind::Long, true),
    ("unresolved", ColumnKind::Long, true),
    ("orphans", ColumnKind::Long, true),
    ("found", ColumnKind::Long, true),
    ("silent_calls", ColumnKind::Long, true),
];
const CALLS: [Spec; 11] = [
    ("origin", ColumnKind::Text, true),
    ("caller", ColumnKind::Long, false),
    ("bci", ColumnKind::Long, false),
    ("callee", ColumnKind::Long, true),
    ("count", ColumnKind::Long, true),
    ("count_projected", ColumnKind::Long, true),
    ("count_recovered", ColumnKind::Long, true),
    ("exact", ColumnKind::Flag, true),
    ("missing_min", ColumnKind::Long, false),
    ("missing_max", ColumnKind::Long, false),
    ("silent", ColumnKind::Long, true),
];
const BLOCKS: [Spec; 10] = [
    ("method", ColumnKind::Long, true),
    ("leader", ColumnKind::Long, false),
    ("end", ColumnKind::Long, false),
    ("executions", ColumnKind::Long, false),
    ("executions_projected", ColumnKind::Long, false),
    ("executions_recovered", ColumnKind::Long, false),
    ("bytecodes", ColumnKind::Long, true),
    ("bytecodes_projected", ColumnKind::Long, true),
    ("bytecodes_recovered", ColumnKind::Long, true),
    ("exact", ColumnKind::Flag, true),
];

/// A sheet, with the value of the column `thread` if there is one.
struct Rows {
    sheet: Sheet,
    thread: Option<String>,
}

impl Rows {
    fn add(&mut self, cells: &[Cell<'_>]) -> Result<(), Error> {
        let Some(thread) = &self.thread else { return Ok(self.sheet.full_row(cells)?) };
        let all: Vec<Cell<'_>> = [Cell::Text(thread)].into_iter().chain(cells.iter().cloned()).collect();
        Ok(self.sheet.full_row(&all)?)
    }
}

fn long(n: impl Into<u64>) -> Cell<'static> {
    n.into().into()
}

/// A count: all events, and how many of them are projected and recovered.
fn tally(t: &Tally) -> [Cell<'static>; 3] {
    [t.total().into(), t.projected.into(), t.recovered.into()]
}

/// Writes all tables but that of events. Returns whether all counts are complete.
pub(super) fn write<F>(tables: &TableAnalysis<F>) -> Result<bool, Error>
where
    F: Fn(&Partition) -> io::Result<Output>,
{
    methods(tables)?;
    let mut accounts = Accounts::new(&tables.methods, &tables.inlined);
    let mut exact = Vec::with_capacity(tables.threads.len());
    for t in &tables.threads {
        let of_methods = accounts.methods(&t.open);
        let blocks =
            blocks(tables, t, |m| of_methods.get(&m).is_some_and(|m| m.bytecodes.max != Most(Some(0))))?;
        let of_calls = accounts.calls(&t.open);
        let calls = calls(tables, t, of_calls.into_iter().collect())?;
        exact.push(blocks && calls);
    }
    threads(tables, &exact)?;
    Ok(exact.into_iter().all(|e| e))
}

/// The metadata that says whether counts are complete.
fn exactness(exact: bool, inexact: &Inexact, columns: &[&'static str]) -> Vec<(String, String)> {
    let means = if exact { "exact" } else { "lower bounds; the column exact says which rows are complete" };
    let json = serde_json::to_string(inexact).unwrap_or_default();
    let mut all = vec![("exact".to_owned(), exact.to_string()), ("inexact".to_owned(), json)];
    all.extend(columns.iter().map(|c| (format!("column.{c}"), means.to_owned())));
    all.into_iter().map(|(key, value)| (format!("jportal.{key}"), value)).collect()
}

fn start<F>(
    tables: &TableAnalysis<F>,
    t: &Counted,
    table: Table,
    columns: &[Spec],
) -> Result<(Rows, Partition), Error>
where
    F: Fn(&Partition) -> io::Result<Output>,
{
    let partition = Partition { table, thread: Some(t.key), slice: None };
    let thread = tables.options.thread_column.then(|| t.key.to_string());
    Ok((Rows { sheet: tables.sheet(&partition, columns)?, thread }, partition))
}

fn end<F>(
    tables: &TableAnalysis<F>,
    (rows, partition): (Rows, Partition),
    pairs: Vec<(String, String)>,
) -> Result<(), Error>
where
    F: Fn(&Partition) -> io::Result<Output>,
{
    let mut metadata = tables.metadata(&partition, &[]);
    metadata.extend(pairs);
    Ok(rows.sheet.end(metadata)?)
}

/// Blocks of which bytecodes began, and blocks of methods that may have run unseen. Returns whether
/// the counts are complete.
fn blocks<F>(tables: &TableAnalysis<F>, t: &Counted, hides: impl Fn(MethodId) -> bool) -> Result<bool, Error>
where
    F: Fn(&Partition) -> io::Result<Output>,
{
    let (mut rows, partition) = start(tables, t, Table::Blocks, &BLOCKS)?;
    let lossy = t.open.is_lossy();
    let mut all = !lossy && t.counts.unplaced.is_empty();
    for m in tables.methods.iter() {
        let exact = !lossy && !hides(m.id);
        all &= exact || lossy;
        let counts = t.counts.blocks.get(&m.id);
        let numbers = tables.numbers.get(&tables.methods, m.id).filter(|_| counts.is_some() || hides(m.id));
        for block in 0..numbers.map_or(0, |n| n.len()) {
            let counted = counts.and_then(|c| c.get(block)).copied().unwrap_or_default();
            if counted == BlockCounts::default() && !hides(m.id) {
                continue;
            }
            let extent = numbers.and_then(|n| n.extent(block));
            let place =
                [long(m.id.get()), extent.map(bci_of).into(), extent.map(|e| bci_of((e.1, e.1))).into()];
            let cells = place.into_iter().chain(tally(&counted.executions)).chain(tally(&counted.bytecodes));
            rows.add(&cells.chain([Cell::Flag(exact)]).collect::<Vec<_>>())?;
        }
    }
    let unplaced: BTreeMap<MethodId, Tally> = t.counts.unplaced.iter().map(|(m, n)| (*m, *n)).collect();
    for (method, bytecodes) in &unplaced {
        let unknown = [const { Cell::Null }; 5];
        let cells = [long(method.get())].into_iter().chain(unknown).chain(tally(bytecodes));
        rows.add(&cells.chain([Cell::Flag(false)]).collect::<Vec<_>>())?;
    }
    let pairs = exactness(all, t.open.inexact(), &["executions", "bytecodes"]);
    end(tables, (rows, partition), pairs)?;
    Ok(all)
}

fn bci_of((bci, _): (Bci, Bci)) -> u64 {
    bci.get().into()
}

/// Calls that were seen, and calls that may be hidden. Returns whether the counts are complete.
fn calls<F>(
    tables: &TableAnalysis<F>,
    t: &Counted,
    missing: BTreeMap<(MethodId, Bci, MethodId), Missing>,
) -> Result<bool, Error>
where
    F: Fn(&Partition) -> io::Result<Output>,
{
    let (mut rows, partition) = start(tables, t, Table::Calls, &CALLS)?;
    let lossy = t.open.is_lossy();
    let mut all: BTreeMap<(InvocationOrigin, MethodId), (Tally, Option<Missing>)> =
        t.counts.calls.iter().map(|(key, n)| (*key, (*n, None))).collect();
    for ((caller, bci, callee), missing) in missing {
        all.entry((InvocationOrigin::Java(caller, Some(bci)), callee)).or_default().1 = Some(missing);
    }
    let exact = !lossy && all.values().all(|(_, missing)| missing.is_none());
    for ((site, callee), (count, missing)) in &all {
        let (origin, caller, bci) = match site {
            InvocationOrigin::Java(caller, bci) => ("java", Some(*caller), *bci),
            InvocationOrigin::Vm => ("vm", None, None),
            InvocationOrigin::Unknown => ("unknown", None, None),
        };
        let most = missing.map_or(Some(0), |m| m.calls.max.0).filter(|_| !lossy);
        let least = missing.map_or(0, |m| m.calls.min);
        let place = [
            Cell::Word(origin),
            caller.map(|m| u64::from(m.get())).into(),
            bci.map(|b| u64::from(b.get())).into(),
            long(callee.get()),
        ];
        let rest = [
            Cell::Flag(!lossy && missing.is_none()),
            least.into(),
            most.into(),
            missing.map_or(0, |m| m.silent_calls).into(),
        ];
        rows.add(&place.into_iter().chain(tally(count)).chain(rest).collect::<Vec<_>>())?;
    }
    end(tables, (rows, partition), exactness(exact, t.open.inexact(), &["count"]))?;
    Ok(exact)
}

fn methods<F>(tables: &TableAnalysis<F>) -> Result<(), Error>
where
    F: Fn(&Partition) -> io::Result<Output>,
{
    let partition = Partition { table: Table::Methods, thread: None, slice: None };
    let mut rows = Rows { sheet: tables.sheet(&partition, &METHODS)?, thread: None };
    let names = Names::new(&tables.methods, Naming::default());
    for m in tables.methods.iter() {
        let class = m.class_name.replace('/', ".");
        let source = Some(&*m.source_file).filter(|s| !s.is_empty());
        rows.add(&[
            long(m.id.get()),
            long(m.class),
            Cell::Text(&class),
            Cell::Text(&stable(&class)),
            Cell::Text(&m.name),
            Cell::Text(&m.signature),
            Cell::Text(&m.loader),
            source.map_or(Cell::Null, Cell::Text),
            Cell::from(m.code.len() as u64),
            long(m.access_flags),
            names.version(m.id).map(|v| u64::from(v.number)).into(),
        ])?;
    }
    end(tables, (rows, partition), Vec::new())
}

fn threads<F>(tables: &TableAnalysis<F>, exact: &[bool]) -> Result<(), Error>
where
    F: Fn(&Partition) -> io::Result<Output>,
{
    let partition = Partition { table: Table::Threads, thread: None, slice: None };
    let mut rows = Rows { sheet: tables.sheet(&partition, &THREADS)?, thread: None };
    for (t, exact) in tables.threads.iter().zip(exact) {
        let (key, inexact) = (t.key.to_string(), t.open.inexact());
        let known = |n: u64| Some(n).filter(|n| *n != 0);
        let place = [
            Cell::Text(&key),
            long(t.key.tid),
            known(t.info.java_tid).into(),
            Cell::Text(&t.info.name),
            known(t.key.started).into(),
        ];
        let rest = [
            Cell::Flag(*exact),
            inexact.gaps.into(),
            inexact.stretches().into(),
            inexact.orphans.into(),
            inexact.found.into(),
            inexact.silent_calls.into(),
        ];
        rows.add(&place.into_iter().chain(tally(&t.counts.bytecodes)).chain(rest).collect::<Vec<_>>())?;
    }
    end(tables, (rows, partition), Vec::new())
}
