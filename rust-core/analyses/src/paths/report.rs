// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on paths.

use hashbrown::HashMap;
use jportal_bytecode::Method;
use jportal_flow::Tally;
use jportal_units::{Bci, MethodId};
use serde::Serialize;

use super::{Begin, CutKey, End, Numbering, Path, PathsAnalysis, Reason};
use crate::hidden::{Account, Inexact, Missing};
use crate::names::{Name, Names, Version};

/// What the report contains.
#[derive(Clone, Copy, Debug)]
pub struct Show {
    /// Number of methods, of paths of each method, and of hot paths.
    pub top: usize,
    /// Whether cut paths are listed.
    pub cut: bool,
}

/// One path of a method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathRow {
    /// Its number among the method's paths.
    pub id: u64,
    /// How often it was completed.
    pub times: Tally,
    /// The share of the method's completed paths, 0 to 1.
    pub share: f64,
    /// Its beginning: `entry`, `loop @2`, `handler @24`; `entry or loop @0` if the flow's paths
    /// from both have the same identity.
    pub from: String,
    /// Its end: `back @14`, `return`, `throw`.
    pub to: String,
    /// The bcis of its blocks, in order.
    pub blocks: Vec<u16>,
    /// Its source lines: `4-8,15-18,23`. Empty without a line table.
    pub lines: String,
    /// Its number of bytecodes.
    pub length: u64,
}

/// A path that was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CutRow {
    /// The sum of the values of its edges; `null` for bytecodes of which it is not known where
    /// their path began.
    pub prefix: Option<u64>,
    /// The last bytecode; the first one if the beginning of the path is not known.
    pub bci: u16,
    /// Why it was cut: the name of a [`Reason`](super::Reason).
    pub reason: &'static str,
    /// How often.
    pub times: Tally,
    /// The number of bytecodes of all these times.
    pub bytecodes: u64,
    /// The bcis of the blocks up to the last bytecode.
    pub blocks: Vec<u16>,
    /// Their source lines.
    pub lines: String,
}

/// The paths of one method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodPaths {
    /// `class.name(descriptor)`.
    pub method: String,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// The number of paths; `null` if the bytecodes are malformed.
    pub paths: Option<u64>,
    /// Blocks at which too many paths begin, so that their edges end paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limited: Vec<u16>,
    /// Why the paths have no numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Number of distinct paths that were completed.
    pub executed: u64,
    /// Completed paths.
    pub completed: Tally,
    /// Cut paths of which the beginning is known.
    pub cut: Tally,
    /// Parts of paths of which the beginning is not known.
    pub parts: Tally,
    /// Bytecodes of the completed paths, and of what was cut.
    pub bytecodes: u64,
    /// Whether the figures are complete.
    pub exact: bool,
    /// What may be missing in places that the flow marks as unknown.
    #[serde(skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
    /// The paths, most frequent first.
    pub rows: Vec<PathRow>,
    /// What was cut, most frequent first, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuts: Option<Vec<CutRow>>,
}

/// A path among all paths of the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotPath {
    /// `class.name(descriptor)`.
    pub method: String,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// Bytecodes executed on it.
    pub bytecodes: u64,
    /// The share of all executed bytecodes of the recording, 0 to 1.
    pub share_of_bytecodes: f64,
    /// Whether the method's figures are complete.
    pub exact: bool,
    /// The path.
    #[serde(flatten)]
    pub path: PathRow,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paths {
    /// Whether the figures are complete: in the requested methods nothing is missing, inferred
    /// or lost.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// Executed bytecodes of the whole recording.
    pub bytecodes: Tally,
    /// Bytecodes of the whole recording that were executed again after a deoptimisation.
    pub again: u64,
    /// Completed paths of the requested methods.
    pub completed: Tally,
    /// Cut paths of the requested methods of which the beginning is known.
    pub cut: Tally,
    /// Number of requested methods with a bytecode seen.
    pub executed: usize,
    /// Number of requested methods of which no bytecode was seen but may be hidden. They come
    /// last.
    pub perhaps_executed: usize,
    /// The paths with the most bytecodes.
    pub hot: Vec<HotPath>,
    /// The methods, most bytecodes first.
    pub methods: Vec<MethodPaths>,
}

/// Methods of the same name and code.
#[derive(Default)]
struct Group<'a> {
    /// The one that is first in the recording.
    method: Option<&'a Method>,
    missing: Missing,
    completed: HashMap<u64, Tally>,
    cut: HashMap<CutKey, super::CutCount>,
}

/// What makes the paths of two methods comparable: code and handlers.
type Key<'a> = (Name, &'a [u8], Vec<Bci>);

impl PathsAnalysis {
    /// The paths of the methods that `wanted` accepts.
    pub fn report(&self, show: Show, wanted: impl Fn(&Method) -> bool) -> Paths {
        let names = Names::new(&self.methods, self.naming);
        let inexact = self.hidden.inexact.clone();
        let lossy = inexact.is_lossy();
        let groups = self.groups(&names, wanted);
        let all = Show { top: usize::MAX, ..show };
        let described = groups.into_iter().filter_map(|((name, ..), group)| {
            let id = group.method?.id;
            Some((id, self.describe(&names, name, group, (all, lossy))))
        });
        let mut described: Vec<_> = described.collect();
        described.sort_by_key(|(id, m)| (u64::MAX - m.bytecodes, *id));
        let mut methods: Vec<MethodPaths> = described.into_iter().map(|(_, m)| m).collect();
        let hot = self.hot(&methods, show.top);
        let (mut completed, mut cut) = (Tally::default(), Tally::default());
        methods.iter().for_each(|m| {
            completed.merge(&m.completed);
            cut.merge(&m.cut);
        });
        let executed = methods.iter().filter(|m| m.bytecodes > 0).count();
        let perhaps_executed = methods.len() - executed;
        let exact = !lossy && methods.iter().all(|m| m.exact);
        methods.truncate(show.top);
        for m in &mut methods {
            m.rows.truncate(show.top);
            m.cuts.iter_mut().for_each(|cuts| cuts.truncate(show.top));
        }
        let (bytecodes, again) = (self.counts.bytecodes, self.counts.again);
        Paths { exact, inexact, bytecodes, again, completed, cut, executed, perhaps_executed, hot, methods }
    }
    fn groups(&self, names: &Names<'_>, wanted: impl Fn(&Method) -> bool) -> HashMap<Key<'_>, Group<'_>> {
        let mut groups: HashMap<Key<'_>, Group<'_>> = HashMap::new();
        let mut number: HashMap<MethodId, Key<'_>> = HashMap::new();
        let wanted: Vec<bool> = self.methods.iter().map(wanted).collect();
        let mut group = |id: MethodId, add: &mut dyn FnMut(&mut Group<'_>)| {
            if !wanted.get(id.get() as usize).is_some_and(|w| *w) {
                return;
            }
            let Some(method) = self.methods.get(id) else { return };
            let key = number.entry(id).or_insert_with(|| {
                let handlers = method.exceptions.iter().map(|row| row.handler).collect();
                (names.of(method), &method.code, handlers)
            });
            let group = groups.entry(key.clone()).or_default();
            let first = group.method.filter(|m| m.id < id);
            group.method = first.or(Some(method));
            add(group);
        };
        for (&(id, path), tally) in &self.counts.completed {
            group(id, &mut |group| group.completed.entry(path).or_default().merge(tally));
        }
        for (key, cut) in &self.counts.cut {
            group(key.method, &mut |group| {
                let key = CutKey { method: MethodId(0), ..*key };
                let into = group.cut.entry(key).or_default();
                into.times.merge(&cut.times);
                into.bytecodes += cut.bytecodes;
            });
        }
        for (id, missing) in Account::new(&self.methods, &self.inlined).of_methods(&self.hidden) {
            if !missing.bytecodes.is_none() {
                group(id, &mut |group| group.missing.merge(&missing));
            }
        }
        groups
    }
    fn describe(
        &self,
        names: &Names<'_>,
        name: Name,
        group: Group<'_>,
        (show, lossy): (Show, bool),
    ) -> MethodPaths {
        let id = group.method.map_or(MethodId(0), |m| m.id);
        let numbering = self.numbering(id);
        let error = self.numberings.get(&self.methods, id).and_then(Result::err).map(ToString::to_string);
        let (mut completed, mut cut, mut parts) = <(Tally, Tally, Tally)>::default();
        group.completed.values().for_each(|t| completed.merge(t));
        for (key, of) in &group.cut {
            if key.prefix.is_some() { cut.merge(&of.times) } else { parts.merge(&of.times) }
        }
        let row = |(id, times): (&u64, &Tally)| self.row(numbering, group.method, (*id, *times), &completed);
        let mut rows: Vec<PathRow> = group.completed.iter().filter_map(row).collect();
        rows.sort_by_key(|row| (u64::MAX - row.times.total(), row.id));
        let on_paths: u64 = rows.iter().map(|row| row.length * row.times.total()).sum();
        let cuts = show.cut.then(|| cuts(numbering, &group));
        MethodPaths {
            method: name.qualified(),
            // Two versions of which the paths differ are two methods, whatever the naming.
            version: name.version.or_else(|| names.version(id)),
            loader: name.loader,
            paths: error.is_none().then(|| numbering.paths()),
            limited: numbering.limited().iter().map(|bci| bci.get()).collect(),
            error,
            executed: rows.len() as u64,
            completed,
            cut,
            parts,
            bytecodes: on_paths + group.cut.values().map(|cut| cut.bytecodes).sum::<u64>(),
            exact: !lossy && group.missing.is_none() && group.cut.keys().all(is_known),
            missing: group.missing,
            rows,
            cuts,
        }
    }
    fn row(
        &self,
        numbering: &Numbering,
        method: Option<&Method>,
        (id, times): (u64, Tally),
        all: &Tally,
    ) -> Option<PathRow> {
        let Path { begin, blocks, end } = numbering.path(id)?;
        Some(PathRow {
            id,
            times,
            share: times.total() as f64 / all.total() as f64,
            from: begin_text(begin),
            to: end_text(end),
            lines: method.map_or_else(String::new, |m| numbering.lines(m, &blocks)),
            blocks: blocks.into_iter().map(Bci::get).collect(),
            length: numbering.len_of(id)?,
        })
    }
    fn hot(&self, methods: &[MethodPaths], top: usize) -> Vec<HotPath> {
        let all = self.counts.bytecodes.total();
        let rows = methods.iter().flat_map(|m| m.rows.iter().map(move |row| (m, row)));
        let mut rows: Vec<(u64, &MethodPaths, &PathRow)> =
            rows.map(|(m, row)| (row.length * row.times.total(), m, row)).collect();
        // Rows with the same number of bytecodes stay in the order of methods and paths.
        rows.sort_by_key(|(bytecodes, ..)| u64::MAX - bytecodes);
        rows.truncate(top);
        let hot = |(bytecodes, m, row): (u64, &MethodPaths, &PathRow)| HotPath {
            method: m.method.clone(),
            version: m.version,
            loader: m.loader.clone(),
            bytecodes,
            share_of_bytecodes: bytecodes as f64 / all as f64,
            exact: m.exact,
            path: row.clone(),
        };
        rows.into_iter().map(hot).collect()
    }
}

/// Whether all that the frame executed is known, although the path has no end.
const fn is_known(key: &CutKey) -> bool {
    let known =
        matches!(key.reason, Reason::Exception | Reason::End | Reason::PopFrame | Reason::EarlyReturn);
    known && key.prefix.is_some()
}

fn cuts(numbering: &Numbering, group: &Group<'_>) -> Vec<CutRow> {
    let mut cuts: Vec<_> = group.cut.iter().collect();
    cuts.sort_by_key(|(key, cut)| (u64::MAX - cut.times.total(), **key));
    let row = |(key, cut): (&CutKey, &super::CutCount)| {
        let blocks = key.prefix.and_then(|prefix| numbering.blocks_of_prefix(prefix, key.bci));
        let blocks = blocks.unwrap_or_default();
        CutRow {
            prefix: key.prefix,
            bci: key.bci.get(),
            reason: key.reason.name(),
            times: cut.times,
            bytecodes: cut.bytecodes,
            lines: group.method.map_or_else(String::new, |m| numbering.lines(m, &blocks)),
            blocks: blocks.into_iter().map(Bci::get).collect(),
        }
    };
    cuts.into_iter().map(row).collect()
}

fn begin_text(begin: Begin) -> String {
    let at = |name: &str| format!("{name} @{}", begin.bci.get());
    let kinds = [
        (begin.entry, "entry".to_owned()),
        (begin.head, at("loop")),
        (begin.limit, at("limit")),
        (begin.handler, at("handler")),
    ];
    let kinds: Vec<String> = kinds.into_iter().filter(|k| k.0).map(|k| k.1).collect();
    kinds.join(" or ")
}

fn end_text(end: End) -> String {
    match end {
        End::Back { from, .. } => format!("back @{}", from.get()),
        End::Limit { from, .. } => format!("limit @{}", from.get()),
        End::Return(_) => "return".to_owned(),
        End::Throw(_) => "throw".to_owned(),
        End::Nothing(_) => "end".to_owned(),
    }
}
