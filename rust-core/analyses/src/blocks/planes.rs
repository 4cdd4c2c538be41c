// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counters of methods.
//!
//! An event of any length costs two increments: where its bytecodes begin and where they end. The
//! executions of each bytecode are the runs that began at it or before it, less those that ended
//! before it. The same sums give the ways from one bytecode to the next inside of runs.

use hashbrown::HashMap;
use jportal_flow::{Provenance, Tally};
use jportal_units::{Bci, MethodId};
use serde::{Deserialize, Serialize};

use super::code::{Code, Parts};

/// How often a method was entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entries {
    /// Calls by Java code, by the VM or by native code. A continuation after OSR or
    /// deoptimisation is no call.
    pub calls: Tally,
    /// Activations whose beginning was not seen.
    pub found: Tally,
    /// Calls of which an exception removed the frame before its first bytecode. They are among
    /// `calls`.
    pub unstarted: Tally,
}

impl Entries {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.calls.merge(&other.calls);
        self.found.merge(&other.found);
        self.unstarted.merge(&other.unstarted);
    }
    /// Activations: called and found.
    pub const fn activations(&self) -> u64 {
        self.calls.total() + self.found.total()
    }
}

/// A way that an exception took: from the bytecode that threw, or whose callee did, to a handler
/// or out of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Throw {
    /// `None`: the position of the frame was unknown.
    pub(crate) from: Option<Bci>,
    /// `None`: out of the method.
    pub(crate) to: Option<Bci>,
}

/// Number of provenances.
const PLANES: usize = 3;

/// The number of a provenance. The greater of two is the less certain one.
pub(crate) const fn plane(provenance: Provenance) -> usize {
    match provenance {
        Provenance::Decoded => 0,
        Provenance::Projected { .. } => 1,
        Provenance::Recovered { .. } => 2,
    }
}

/// Adds to the part of a count that `plane` names.
pub(crate) const fn tally_in(tally: &mut Tally, plane: usize, n: u64) {
    let part = match plane {
        0 => &mut tally.decoded,
        1 => &mut tally.projected,
        _ => &mut tally.recovered,
    };
    *part += n;
}

/// What was counted of a method under one provenance.
#[derive(Clone, Debug)]
struct Plane {
    /// By bci: the runs that began there, and the runs of which it was the last bytecode.
    runs: Box<[[u64; 2]]>,
    /// By slot of the shape: the ways between two events.
    ways: Box<[u64]>,
    /// By number of the line: entered from another line between two events.
    entered: Box<[u64]>,
}

const BEGAN: usize = 0;
const ENDED: usize = 1;

impl Plane {
    fn new(parts: &Parts<'_>) -> Self {
        Self {
            runs: vec![[0; 2]; parts.method.code.len()].into(),
            ways: vec![0; parts.shape.slots].into(),
            entered: vec![0; parts.lines.all.len()].into(),
        }
    }
    fn merge(&mut self, other: &Self) {
        for (a, b) in self.runs.iter_mut().zip(&other.runs) {
            a[BEGAN] += b[BEGAN];
            a[ENDED] += b[ENDED];
        }
        self.ways.iter_mut().zip(&other.ways).for_each(|(a, b)| *a += b);
        self.entered.iter_mut().zip(&other.entered).for_each(|(a, b)| *a += b);
    }
    /// Calls `each` for each instruction: its number, how often it was executed, and how often a
    /// run continued from it to the next instruction.
    fn sums(&self, parts: &Parts<'_>, mut each: impl FnMut(usize, u64, u64)) {
        let (mut began, mut ended, mut at) = (0u64, 0u64, 0);
        for (number, start) in parts.shape.starts.iter().enumerate() {
            let start = usize::from(start.get());
            for runs in self.runs.get(at..start).unwrap_or_default() {
                began += runs[BEGAN];
                ended += runs[ENDED];
            }
            let here = self.runs.get(start).copied().unwrap_or_default();
            began += here[BEGAN];
            let executed = began.saturating_sub(ended);
            ended += here[ENDED];
            each(number, executed, began.saturating_sub(ended));
            at = start + 1;
        }
    }
}

/// What was counted of one method.
#[derive(Clone, Debug, Default)]
pub(crate) struct MethodCounts {
    planes: [Option<Box<Plane>>; PLANES],
    pub(crate) entries: Entries,
}

impl MethodCounts {
    fn plane(&mut self, plane: usize, parts: &Parts<'_>) -> &mut Plane {
        self.planes[plane].get_or_insert_with(|| Box::new(Plane::new(parts)))
    }
    /// The bytecodes from `first` to `last` were executed.
    pub(crate) fn run(&mut self, plane: usize, parts: &Parts<'_>, (first, last): (Bci, Bci)) {
        let runs = &mut self.plane(plane, parts).runs;
        let (first, last) = (usize::from(first.get()), usize::from(last.get()));
        if first <= last && last < runs.len() {
            runs[first][BEGAN] += 1;
            runs[last][ENDED] += 1;
        }
    }
    /// Control passed from the branch at `from` to `to`.
    pub(crate) fn way(&mut self, plane: usize, parts: &Parts<'_>, from: Bci, to: Bci) {
        if let Some(slot) = parts.shape.slot(from, to) {
            self.plane(plane, parts).ways[slot] += 1;
        }
    }
    /// Control entered the line of `bci` from another line.
    pub(crate) fn entered(&mut self, plane: usize, parts: &Parts<'_>, bci: Bci) {
        if let Some(line) = parts.lines.number(bci) {
            self.plane(plane, parts).entered[line] += 1;
        }
    }
    fn merge(&mut self, other: Self) {
        self.entries.merge(&other.entries);
        for (into, from) in self.planes.iter_mut().zip(other.planes) {
            match (into, from) {
                (Some(into), Some(from)) => into.merge(&from),
                (into @ None, from) => *into = from,
                (Some(_), None) => {}
            }
        }
    }
    /// Whether no bytecode was executed.
    pub(crate) fn is_empty(&self) -> bool {
        self.planes.iter().flatten().all(|p| p.runs.iter().all(|r| r[BEGAN] == 0))
    }
    /// The counts by instruction, by branch way, and by line.
    pub(crate) fn sums(&self, parts: &Parts<'_>) -> Sums {
        let mut sums = Sums {
            times: vec![Tally::default(); parts.shape.starts.len()],
            ways: vec![Tally::default(); parts.shape.slots],
            entered: vec![Tally::default(); parts.lines.all.len()],
        };
        for (number, plane) in self.planes.iter().enumerate() {
            if let Some(plane) = plane {
                sums.add(number, plane, parts);
            }
        }
        sums
    }
}

/// The counts of a method.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// By number of the instruction.
    pub(crate) times: Vec<Tally>,
    /// By slot of the shape.
    pub(crate) ways: Vec<Tally>,
    /// By number of the line.
    pub(crate) entered: Vec<Tally>,
}

impl Sums {
    fn add(&mut self, number: usize, plane: &Plane, parts: &Parts<'_>) {
        let starts = &parts.shape.starts;
        let mut next_branch = parts.shape.branches.iter().peekable();
        plane.sums(parts, |at, executed, continued| {
            tally_in(&mut self.times[at], number, executed);
            let bci = starts[at];
            let branch = next_branch.next_if(|b| b.bci == bci);
            let Some(next) = starts.get(at + 1).copied().filter(|_| continued > 0) else { return };
            if let Some(branch) = branch
                && let Ok(way) = branch.successors.binary_search(&next)
            {
                tally_in(&mut self.ways[branch.slot + way], number, continued);
            }
            let line = parts.lines.number(next);
            if let Some(line) = line.filter(|_| parts.lines.number(bci) != line) {
                tally_in(&mut self.entered[line], number, continued);
            }
        });
        let parts = [(&mut self.ways, &plane.ways), (&mut self.entered, &plane.entered)];
        for (into, from) in parts {
            into.iter_mut().zip(from).for_each(|(t, n)| tally_in(t, number, *n));
        }
    }
}

/// The counts of all methods.
#[derive(Debug, Default)]
pub(crate) struct Table {
    methods: Vec<Option<Box<MethodCounts>>>,
    /// The methods that have counts, in order of their first event.
    touched: Vec<MethodId>,
    pub(crate) throws: HashMap<(MethodId, Throw), Tally>,
    /// Bytecodes that the flow has twice in a row: before a deoptimisation and after it.
    pub(crate) repeated: u64,
}

impl Table {
    /// The counts of a method of `code`, created on first use.
    pub(crate) fn of(&mut self, code: &Code, id: MethodId) -> Option<&mut MethodCounts> {
        let index = id.get() as usize;
        if index >= code.methods.len() {
            return None;
        }
        if self.methods.len() <= index {
            self.methods.resize_with(index + 1, || None);
        }
        let place = &mut self.methods[index];
        if place.is_none() {
            self.touched.push(id);
        }
        Some(place.get_or_insert_default())
    }
    /// The counts of a method, if it has any.
    pub(crate) fn get(&self, id: MethodId) -> Option<&MethodCounts> {
        self.methods.get(id.get() as usize)?.as_deref()
    }
    /// All counts, by method.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MethodId, &MethodCounts)> {
        let all = (0..).zip(&self.methods);
        all.filter_map(|(id, counts)| Some((MethodId(id), counts.as_deref()?)))
    }
    /// Takes all counts out, by method.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (MethodId, Box<MethodCounts>)> {
        self.touched.sort_unstable();
        let Self { methods, touched, .. } = self;
        touched.drain(..).filter_map(|id| Some((id, methods.get_mut(id.get() as usize)?.take()?)))
    }
    pub(crate) fn merge(&mut self, mut other: Self) {
        if self.methods.len() < other.methods.len() {
            self.methods.resize_with(other.methods.len(), || None);
        }
        for (id, counts) in other.drain() {
            match &mut self.methods[id.get() as usize] {
                Some(into) => into.merge(*counts),
                into @ None => {
                    *into = Some(counts);
                    self.touched.push(id);
                }
            }
        }
        for (way, n) in &other.throws {
            self.throws.entry(*way).or_default().merge(n);
        }
        self.repeated += other.repeated;
    }
}
