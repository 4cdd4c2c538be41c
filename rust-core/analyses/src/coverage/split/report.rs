// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on buckets.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use jportal_bytecode::Method;
use jportal_flow::Tally;
use jportal_plain::table::{Align, table};
use jportal_units::MethodId;
use serde::Serialize;

use super::{Cell, Rest, SplitAnalysis, add_cells};
use crate::blocks::{Facts, State, perhaps};
use crate::buckets::{BucketNames, FURTHER, OTHERS, OUTSIDE};
use crate::hidden::{Account, Hidden, Inexact};
use crate::names::Names;

/// A line of a class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SplitLine {
    /// Binary name of the class.
    pub class: String,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// The `SourceFile` attribute, possibly empty.
    pub source_file: String,
    /// The line.
    pub line: u16,
}

/// What a bucket executed of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SplitCell {
    /// The line: a place in [`Split::lines`].
    pub line: usize,
    /// Executions of the line: the greatest count of its bytecodes.
    pub times: Tally,
    /// Bytecodes executed. These add up over the buckets.
    pub bytecodes: Tally,
    /// Whether more executions are possible in an unresolved stretch, or in a frame that existed
    /// where trace was lost.
    pub perhaps_more: bool,
}

/// The thread of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BucketThread {
    /// OS thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
}

/// A bucket: an activation of a chosen method, or one of the rests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// `class.name(descriptor)#n`, `(none)`, `(other threads)` or `(further)`.
    pub name: String,
    /// Its thread. `None` for the rests.
    pub thread: Option<BucketThread>,
    /// Number of activations: 1, or that of `(further)`. 0 for the other rests.
    pub activations: u64,
    /// Whether the beginning and the end of the activation were seen.
    pub complete: bool,
    /// Whether nothing is unknown, lost or inferred.
    pub exact: bool,
    /// Whether the lines that are not among `cells` were certainly not executed in the bucket. It
    /// is not certain where trace was lost, or if the bucket is not complete.
    pub missed_is_certain: bool,
    /// Why it is not exact.
    pub inexact: Inexact,
    /// Bytecodes executed in the selected methods, including those without a line.
    pub bytecodes: Tally,
    /// The lines that it executed, or may have executed, ascending by `line`.
    pub cells: Vec<SplitCell>,
}

impl Bucket {
    /// Number of lines executed.
    pub fn covered(&self) -> usize {
        self.cells.iter().filter(|c| c.times.total() > 0).count()
    }
}

/// The report: a sparse matrix of buckets and lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    /// Whether all buckets are exact.
    pub exact: bool,
    /// The lines of the selected methods that a bucket executed or may have executed, by class,
    /// loader, source file and line.
    pub lines: Vec<SplitLine>,
    /// The buckets, by start of their threads, and in order of execution; then the rests.
    pub buckets: Vec<Bucket>,
}

/// A bucket that covers a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Covers<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// The class.
    pub class: &'a str,
    /// Executed or unknown.
    pub state: State,
    /// Executions of the line.
    pub times: Tally,
}

/// One cell of the matrix, for CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SplitRow<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// Its OS thread id.
    pub tid: Option<u32>,
    /// Binary name of the class.
    pub class: &'a str,
    /// Loader, empty for the boot loader.
    pub loader: &'a str,
    /// The `SourceFile` attribute, possibly empty.
    pub source_file: &'a str,
    /// The line.
    pub line: u16,
    /// Executions of the line.
    pub times: u64,
    /// Bytecodes executed.
    pub bytecodes: u64,
    /// Whether more executions are possible.
    pub perhaps_more: bool,
}

/// What the buckets have in common.
struct SplitContext<'a> {
    analysis: &'a SplitAnalysis,
    names: Names<'a>,
    account: Account<'a>,
    wanted: Box<[bool]>,
    /// Class, loader and source file by method.
    classes: HashMap<MethodId, (String, String, String)>,
}

/// The cells of a bucket by line.
type ByLine = BTreeMap<SplitLine, (Tally, Tally, bool)>;

impl SplitAnalysis {
    /// The report over the lines of the methods that `wanted` accepts.
    pub fn report(&self, wanted: impl Fn(&Method) -> bool) -> Split {
        let mut scope = SplitContext::new(self, wanted);
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|of| (of.thread.started, of.thread.tid));
        let mut bucket_names = BucketNames::default();
        let mut rows = Vec::new();
        for of in threads {
            for ended in &of.buckets {
                let name = bucket_names.next(scope.names.get(ended.method).qualified());
                let thread = BucketThread { tid: of.thread.tid.get(), name: of.thread.name.clone() };
                let (bucket, lines) = scope.bucket(name, &ended.cells, &ended.hidden);
                let (thread, complete) = (Some(thread), ended.complete);
                rows.push((
                    Bucket {
                        thread,
                        complete,
                        missed_is_certain: complete && bucket.missed_is_certain,
                        activations: 1,
                        ..bucket
                    },
                    lines,
                ));
            }
        }
        let rests = [(OUTSIDE, &self.outside), (OTHERS, &self.others), (FURTHER, &self.further)];
        rows.extend(rests.into_iter().filter_map(|(name, rest)| scope.rest(name, rest)));
        assemble(rows)
    }
}

/// Numbers the lines.
fn assemble(rows: Vec<(Bucket, ByLine)>) -> Split {
    let keys = rows.iter().flat_map(|(_, lines)| lines.keys());
    let mut numbers: BTreeMap<&SplitLine, usize> = keys.map(|line| (line, 0)).collect();
    numbers.values_mut().enumerate().for_each(|(number, place)| *place = number);
    let lines: Vec<SplitLine> = numbers.keys().map(|line| (*line).clone()).collect();
    let cell = |(line, (times, bytecodes, perhaps_more)): (&SplitLine, &(Tally, Tally, bool))| SplitCell {
        line: numbers.get(line).copied().unwrap_or_default(),
        times: *times,
        bytecodes: *bytecodes,
        perhaps_more: *perhaps_more,
    };
    let cells: Vec<Vec<SplitCell>> = rows.iter().map(|(_, l)| l.iter().map(cell).collect()).collect();
    let buckets = rows.into_iter().zip(cells).map(|((b, _), cells)| Bucket { cells, ..b });
    let buckets: Vec<Bucket> = buckets.collect();
    Split { exact: buckets.iter().all(|b| b.exact), lines, buckets }
}

impl<'a> SplitContext<'a> {
    fn new(analysis: &'a SplitAnalysis, wanted: impl Fn(&Method) -> bool) -> Self {
        let code = &analysis.code;
        Self {
            analysis,
            names: Names::new(&code.methods, analysis.naming),
            account: Account::new(&code.methods, &code.inlined),
            wanted: code.methods.iter().map(wanted).collect(),
            classes: HashMap::new(),
        }
    }
    fn is_wanted(&self, method: MethodId) -> bool {
        self.wanted.get(method.get() as usize).copied().unwrap_or(false)
    }
    fn line(&mut self, method: MethodId, line: u16) -> Option<SplitLine> {
        let of = self.analysis.code.methods.get(method)?;
        let names = &self.names;
        let (class, loader, source_file) = self.classes.entry(method).or_insert_with(|| {
            let name = names.of(of);
            (name.class, name.loader, of.source_file.to_string())
        });
        let (class, loader, source_file) = (class.clone(), loader.clone(), source_file.clone());
        Some(SplitLine { class, loader, source_file, line })
    }
    fn bucket(&mut self, name: String, cells: &[Cell], hidden: &Hidden) -> (Bucket, ByLine) {
        let (mut lines, mut bytecodes) = (ByLine::new(), Tally::default());
        for cell in cells {
            if !self.is_wanted(cell.method) {
                continue;
            }
            bytecodes.merge(&cell.bytecodes);
            let Some(line) = cell.line.and_then(|line| self.line(cell.method, line)) else { continue };
            let (times, sum, _) = lines.entry(line).or_default();
            if cell.times.total() > times.total() {
                *times = cell.times;
            }
            sum.merge(&cell.bytecodes);
        }
        let mut exact = !hidden.inexact.is_lossy();
        for (method, line) in self.unknown(hidden) {
            exact = false;
            let Some(line) = line.and_then(|line| self.line(method, line)) else { continue };
            lines.entry(line).or_default().2 = true;
        }
        let inexact = hidden.inexact.clone();
        let missed_is_certain = !inexact.is_blind();
        let (thread, complete, activations) = (None, true, 0);
        let cells = Vec::new();
        (
            Bucket {
                name,
                thread,
                activations,
                complete,
                exact,
                missed_is_certain,
                inexact,
                bytecodes,
                cells,
            },
            lines,
        )
    }
    /// What is not in a bucket of its own; `None` if there is nothing.
    fn rest(&mut self, name: &str, rest: &Rest) -> Option<(Bucket, ByLine)> {
        let mut cells = Vec::new();
        for (method, counts) in rest.table.iter() {
            add_cells(&self.analysis.code, method, counts, &mut cells);
        }
        let (bucket, lines) = self.bucket(name.to_owned(), &cells, &rest.hidden);
        let activations = rest.activations;
        let is_empty = activations == 0 && cells.is_empty() && lines.is_empty() && bucket.exact;
        (!is_empty).then_some((Bucket { activations, ..bucket }, lines))
    }
    /// The lines of which a bucket may have executed more than was seen. `None`: bytecodes without
    /// a line.
    fn unknown(&mut self, hidden: &Hidden) -> Vec<(MethodId, Option<u16>)> {
        if hidden.stretches.is_empty() && hidden.lost.is_empty() {
            return Vec::new();
        }
        let code = &self.analysis.code;
        let mut all = Vec::new();
        for (method, perhaps) in perhaps(code, &mut self.account, hidden) {
            let Some(parts) = code.parts(method).filter(|_| self.is_wanted(method)) else { continue };
            let facts = Facts::of(&parts, None, Some(&perhaps));
            let lines = facts.lines(&parts);
            let more = lines.iter().filter(|(_, of)| of.perhaps_more);
            all.extend(more.map(|(line, _)| (method, Some(*line))));
            if facts.has_more() {
                all.push((method, None));
            }
        }
        all
    }
}

impl Split {
    /// The buckets that executed a line of a source file, or may have. `file`: the name of the
    /// file, alone or with the directories of its package and further ones in front. A bucket of
    /// which [`Bucket::missed_is_certain`] is false may have executed it without being listed.
    pub fn which_covers(&self, file: &str, line: u16) -> Vec<Covers<'_>> {
        let is_meant = |l: &SplitLine| l.line == line && is_file(file, l);
        let meant: Vec<bool> = self.lines.iter().map(is_meant).collect();
        let mut all = Vec::new();
        for bucket in &self.buckets {
            for cell in bucket.cells.iter().filter(|c| meant.get(c.line) == Some(&true)) {
                let Some(line) = self.lines.get(cell.line) else { continue };
                let state = State::of(&cell.times, cell.perhaps_more);
                all.push(Covers { bucket: &bucket.name, class: &line.class, state, times: cell.times });
            }
        }
        all
    }
    /// All cells, for CSV.
    pub fn rows(&self) -> impl Iterator<Item = SplitRow<'_>> {
        let cells = self.buckets.iter().flat_map(|b| b.cells.iter().map(move |c| (b, c)));
        cells.filter_map(|(bucket, cell)| {
            let line = self.lines.get(cell.line)?;
            Some(SplitRow {
                bucket: &bucket.name,
                tid: bucket.thread.as_ref().map(|t| t.tid),
                class: &line.class,
                loader: &line.loader,
                source_file: &line.source_file,
                line: line.line,
                times: cell.times.total(),
                bytecodes: cell.bytecodes.total(),
                perhaps_more: cell.perhaps_more,
            })
        })
    }
    /// A table of the buckets.
    pub fn text(&self) -> String {
        let row = |b: &Bucket| {
            let unknown = b.cells.iter().filter(|c| c.times.total() == 0).count();
            let lines = match unknown {
                0 => b.covered().to_string(),
                _ => format!("{}–{}", b.covered(), b.covered() + unknown),
            };
            let loose = if b.exact { "" } else { "≥ " };
            let remark = match (b.complete, b.activations) {
                (false, _) => "beginning or end not seen".to_owned(),
                (true, 0 | 1) => String::new(),
                (true, n) => format!("{n} activations"),
            };
            let thread = b.thread.as_ref().map_or_else(String::new, |t| format!("{} ({})", t.name, t.tid));
            vec![b.name.clone(), thread, lines, format!("{loose}{}", b.bytecodes.text()), remark]
        };
        let columns = [
            ("bucket", Align::Left),
            ("thread", Align::Left),
            ("lines", Align::Right),
            ("bytecodes", Align::Right),
            ("", Align::Left),
        ];
        let mut text = table(&columns, &self.buckets.iter().map(row).collect::<Vec<_>>());
        if !self.exact {
            let inexact = self.buckets.iter().filter(|b| !b.exact).count();
            let n = self.buckets.len();
            text.push_str(&format!("≥: some may be missing, in {inexact} of {n} buckets\n"));
        }
        text
    }
}

fn is_file(file: &str, line: &SplitLine) -> bool {
    if line.source_file.is_empty() {
        return false;
    }
    let path = match line.class.rsplit_once('.') {
        Some((package, _)) => format!("{}/{}", package.replace('.', "/"), line.source_file),
        None => line.source_file.clone(),
    };
    let ends = |whole: &str, end: &str| {
        whole.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    ends(&path, file) || ends(file, &path)
}
