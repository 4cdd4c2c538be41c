// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The instructions and branch outcomes of a method, numbered for counters.

use std::sync::OnceLock;

use jportal_units::{Bci, MethodId};

use crate::{Instruction, Method, MethodTable, Transfer, instructions};

/// A bytecode with more than one successor.
#[derive(Debug)]
pub struct Branch {
    /// Its place.
    pub bci: Bci,
    /// Distinct successors, ascending.
    pub successors: Box<[Bci]>,
    /// Number of the first successor among all branch outcomes of the method.
    pub slot: usize,
}

/// The countable parts of a method.
#[derive(Debug, Default)]
pub struct Shape {
    /// Instruction starts, ascending.
    pub starts: Box<[Bci]>,
    /// Branches, ascending by bci.
    pub branches: Box<[Branch]>,
    /// Invoke bytecodes, ascending.
    pub invokes: Box<[Bci]>,
    /// Conditionals whose target is the next instruction, so that both outcomes lead there.
    /// Ascending.
    pub one_way: Box<[Bci]>,
    /// Number of branch outcomes of the method.
    pub slots: usize,
    /// Whether the bytecodes could not be parsed completely.
    pub malformed: bool,
}

impl Shape {
    /// Parses the bytecodes of a method.
    pub fn of(method: &Method) -> Self {
        let mut shape = Self::default();
        let (mut starts, mut branches, mut one_way) = (Vec::new(), Vec::new(), Vec::new());
        let mut invokes = Vec::new();
        for instruction in instructions(&method.code) {
            let Ok(i) = instruction else {
                shape.malformed = true;
                break;
            };
            starts.push(i.bci);
            if i.opcode.transfer() == Transfer::Invoke {
                invokes.push(i.bci);
            }
            let Some(mut successors) = successors(&i) else { continue };
            successors.sort_unstable();
            successors.dedup();
            if successors.len() > 1 {
                let slot = shape.slots;
                shape.slots += successors.len();
                branches.push(Branch { bci: i.bci, successors: successors.into(), slot });
            } else if i.opcode.transfer() == Transfer::If {
                one_way.push(i.bci);
            }
        }
        shape.starts = starts.into();
        shape.branches = branches.into();
        shape.one_way = one_way.into();
        shape.invokes = invokes.into();
        shape
    }
    /// The slot of the outcome `from` → `to`.
    pub fn slot(&self, from: Bci, to: Bci) -> Option<usize> {
        let branch = self.branch(from)?;
        branch.successors.binary_search(&to).ok().map(|n| branch.slot + n)
    }
    /// The instruction that follows the one at `bci`.
    pub fn next(&self, bci: Bci) -> Option<Bci> {
        let i = self.starts.binary_search(&bci).ok()?;
        self.starts.get(i + 1).copied()
    }
    /// The branch at `bci`, if there is one.
    pub fn branch(&self, bci: Bci) -> Option<&Branch> {
        let i = self.branches.binary_search_by_key(&bci, |b| b.bci).ok()?;
        self.branches.get(i)
    }
    /// The items of an ascending list from `first` on and before `last`.
    fn before<T>(all: &[T], bci: impl Fn(&T) -> Bci, (first, last): (Bci, Bci)) -> &[T] {
        let from = all.partition_point(|item| bci(item) < first);
        let to = all.partition_point(|item| bci(item) < last);
        all.get(from..to).unwrap_or_default()
    }
    /// The instructions from `first` on and before `last`.
    pub fn starts_before(&self, run: (Bci, Bci)) -> &[Bci] {
        Self::before(&self.starts, |bci| *bci, run)
    }
    /// The invokes from `first` on and before `last`.
    pub fn invokes_before(&self, run: (Bci, Bci)) -> &[Bci] {
        Self::before(&self.invokes, |bci| *bci, run)
    }
    /// The branches from `first` on and before `last`.
    pub fn branches_before(&self, run: (Bci, Bci)) -> &[Branch] {
        Self::before(&self.branches, |branch| branch.bci, run)
    }
    /// Whether `bci` is a bytecode with more than one successor.
    pub fn is_branch(&self, bci: Bci) -> bool {
        self.branch(bci).is_some()
    }
}

/// Successors of a conditional or switch. `None` for other bytecodes and malformed ones.
fn successors(i: &Instruction<'_>) -> Option<Vec<Bci>> {
    match i.opcode.transfer() {
        Transfer::If => Some(vec![i.branch_target().ok().flatten()?, i.next()]),
        Transfer::Switch => {
            let s = i.switch().ok().flatten()?;
            Some(s.cases.iter().map(|c| c.1).chain([s.default]).collect())
        }
        _ => None,
    }
}

/// The shapes of all methods. Each is computed on first use.
#[derive(Debug)]
pub struct Shapes {
    shapes: Box<[OnceLock<Shape>]>,
}

impl Shapes {
    /// For the methods of one recording.
    pub fn new(methods: &MethodTable) -> Self {
        Self { shapes: (0..methods.len()).map(|_| OnceLock::new()).collect() }
    }
    /// The shape of a method of `methods`; `None` if there is no such method.
    pub fn get(&self, methods: &MethodTable, id: MethodId) -> Option<&Shape> {
        let method = methods.get(id)?;
        Some(self.shapes.get(id.get() as usize)?.get_or_init(|| Shape::of(method)))
    }
}
