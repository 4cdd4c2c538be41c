//! What a method has to cover: instructions, lines, branch outcomes.

use std::sync::OnceLock;

use jportal_bytecode::{Method, MethodTable, Transfer, instructions};
use jportal_units::{Bci, MethodId};

/// A bytecode with more than one successor.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) bci: Bci,
    /// Distinct successors, ascending.
    pub(crate) successors: Box<[Bci]>,
    /// Number of the first successor among all of the method.
    pub(crate) slot: usize,
}

/// The countable parts of a method.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// Instruction starts, ascending.
    pub(crate) starts: Box<[Bci]>,
    /// Ascending by bci.
    pub(crate) branches: Box<[Branch]>,
    /// Branch outcomes of the method.
    pub(crate) slots: usize,
    /// Whether the bytecodes could not be parsed to their end.
    pub(crate) malformed: bool,
}

impl Shape {
    fn of(method: &Method) -> Self {
        let mut shape = Self::default();
        let (mut starts, mut branches) = (Vec::new(), Vec::new());
        for instruction in instructions(&method.code) {
            let Ok(i) = instruction else {
                shape.malformed = true;
                break;
            };
            starts.push(i.bci);
            let Some(mut successors) = successors(&i) else { continue };
            successors.sort_unstable();
            successors.dedup();
            if successors.len() > 1 {
                let slot = shape.slots;
                shape.slots += successors.len();
                branches.push(Branch { bci: i.bci, successors: successors.into(), slot });
            }
        }
        shape.starts = starts.into();
        shape.branches = branches.into();
        shape
    }
    /// The slot of the outcome `from` → `to`.
    pub(crate) fn slot(&self, from: Bci, to: Bci) -> Option<usize> {
        let i = self.branches.binary_search_by_key(&from, |b| b.bci).ok()?;
        let branch = &self.branches[i];
        branch.successors.binary_search(&to).ok().map(|n| branch.slot + n)
    }
    /// Whether `bci` is a bytecode with more than one successor.
    pub(crate) fn is_branch(&self, bci: Bci) -> bool {
        self.branches.binary_search_by_key(&bci, |b| b.bci).is_ok()
    }
}

/// Successors of a conditional or switch; `None` for other and malformed bytecodes.
fn successors(i: &jportal_bytecode::Instruction<'_>) -> Option<Vec<Bci>> {
    match i.opcode.transfer() {
        Transfer::If => Some(vec![i.branch_target().ok().flatten()?, i.next()]),
        Transfer::Switch => {
            let s = i.switch().ok().flatten()?;
            Some(s.cases.iter().map(|c| c.1).chain([s.default]).collect())
        }
        _ => None,
    }
}

/// The shapes of all methods, each worked out when first asked for.
#[derive(Debug)]
pub(crate) struct Shapes {
    shapes: Box<[OnceLock<Shape>]>,
}

impl Shapes {
    pub(crate) fn new(methods: &MethodTable) -> Self {
        Self { shapes: (0..methods.len()).map(|_| OnceLock::new()).collect() }
    }
    pub(crate) fn get(&self, methods: &MethodTable, id: MethodId) -> Option<&Shape> {
        let method = methods.get(id)?;
        Some(self.shapes.get(id.get() as usize)?.get_or_init(|| Shape::of(method)))
    }
}
