// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The methods of a recording, with what counting needs of each.

use std::sync::{Arc, OnceLock};

use jportal_bytecode::{Method, MethodTable, Opcode, Shape, Shapes, Transfer};
use jportal_units::{Bci, MethodId};

use crate::hidden::Inlined;

/// The methods of a recording.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) methods: Arc<MethodTable>,
    pub(crate) inlined: Arc<Inlined>,
    pub(crate) shapes: Shapes,
    lines: Box<[OnceLock<Lines>]>,
}

/// A method with its numbered parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) method: &'a Method,
    pub(crate) shape: &'a Shape,
    pub(crate) lines: &'a Lines,
}

impl Code {
    pub(crate) fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        let shapes = Shapes::new(&methods);
        let lines = (0..methods.len()).map(|_| OnceLock::new()).collect();
        Self { methods, inlined, shapes, lines }
    }
    /// `None` if the recording has no such method.
    pub(crate) fn parts(&self, id: MethodId) -> Option<Parts<'_>> {
        let method = self.methods.get(id)?;
        let shape = self.shapes.get(&self.methods, id)?;
        let lines = self.lines.get(id.get() as usize)?.get_or_init(|| Lines::of(method));
        Some(Parts { method, shape, lines })
    }
}

impl Parts<'_> {
    /// How the instruction at `bci` transfers control; `None` outside of the code.
    pub(crate) fn transfer(&self, bci: Bci) -> Option<Transfer> {
        self.method.code.get(usize::from(bci.get())).map(|code| Opcode(*code).transfer())
    }
    /// The number of the instruction at `bci`.
    pub(crate) fn number(&self, bci: Bci) -> Option<usize> {
        self.shape.starts.binary_search(&bci).ok()
    }
}

/// The source lines of a method, numbered in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// By bci: the number of its line, or [`Lines::NONE`]. Empty without a line table.
    of: Box<[u16]>,
    /// The lines, ascending.
    pub(crate) all: Box<[u16]>,
}

impl Lines {
    const NONE: u16 = u16::MAX;

    fn of(method: &Method) -> Self {
        let mut all: Vec<u16> = method.lines.iter().map(|row| row.line).collect();
        all.sort_unstable();
        all.dedup();
        if all.is_empty() {
            return Self::default();
        }
        let number = |bci: usize| {
            let line = method.line_at(Bci(bci as u16))?;
            all.binary_search(&line).ok()?.try_into().ok()
        };
        let of = (0..method.code.len()).map(|bci| number(bci).unwrap_or(Self::NONE)).collect();
        Self { of, all: all.into() }
    }
    /// The number of the line of `bci`; `None` if it has none.
    pub(crate) fn number(&self, bci: Bci) -> Option<usize> {
        let number = self.of.get(usize::from(bci.get())).copied().filter(|n| *n != Self::NONE);
        number.map(usize::from)
    }
}
