//! The alphabet of a trace and the segments written in it.

use crate::Error;
use jportal_bytecode::{Icfg, Node, Opcode, Transfer};
use jportal_units::{Bci, MethodId};

/// How a bytecode ended, as far as the trace tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Outcome {
    /// Without an exception; which way a conditional branch or a switch went is not told.
    #[default]
    Open,
    /// The conditional branch was not taken: the instruction behind it followed.
    NotTaken,
    /// The conditional branch was taken.
    Taken,
    /// It threw, and a handler of its own method follows.
    Thrown,
    /// It threw, the exception left its method and perhaps callers of it, and a handler of a caller follows.
    Unwound,
}

/// A letter of Σ (paper, Definition 4.1): a bytecode instruction as the trace shows it, without its position.
///
/// The outcomes are those of the bytecode. The bits in the paper's Figure 2(d) are those of the interpreter's machine
/// code, whose templates jump where the bytecode does *not*: its bit 0 of `ifeq` is [`Outcome::Taken`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Symbol {
    /// Which instruction.
    pub opcode: Opcode,
    /// How it ended.
    pub outcome: Outcome,
}

impl Symbol {
    /// `opcode` without an exception and with no branch outcome known.
    pub const fn open(opcode: Opcode) -> Self {
        Self { opcode, outcome: Outcome::Open }
    }
    /// `opcode` with a known outcome.
    pub const fn with(opcode: Opcode, outcome: Outcome) -> Self {
        Self { opcode, outcome }
    }
    /// Whether the trace shows an exception here.
    pub const fn throws(self) -> bool {
        matches!(self.outcome, Outcome::Thrown | Outcome::Unwound)
    }
    /// Whether the symbol belongs to the abstraction α_s (Definition 4.2: jumps, branches, calls, returns).
    ///
    /// The paper does not say where exceptions belong. Whatever throws transfers control here, so a symbol that threw
    /// is one of them.
    pub fn is_control(self) -> bool {
        self.throws() || self.opcode.transfer() != Transfer::None
    }
}

/// A stretch of one thread's trace with no data missing: ω of the paper.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Segment {
    symbols: Vec<Symbol>,
    anchors: Vec<(u32, Node)>,
}

impl Segment {
    /// A segment without anchors.
    pub fn new(symbols: Vec<Symbol>) -> Self {
        Self { symbols, anchors: Vec::new() }
    }
    /// Notes that symbol `index` is the instruction at `bci` of `method`. Anchors come in ascending order.
    ///
    /// # Errors
    /// When the ICFG has no such instruction there, or `index` is out of order.
    pub fn anchor(&mut self, icfg: &Icfg, index: usize, method: MethodId, bci: Bci) -> Result<(), Error> {
        let last = self.anchors.last().map(|a| a.0 as usize);
        let Some(symbol) = self.symbols.get(index).filter(|_| last.is_none_or(|l| l < index)) else {
            return Err(Error::AnchorOrder { index, len: self.symbols.len(), last });
        };
        let node = icfg.node_at(method, bci).ok_or(Error::NoSuchNode { index, method, bci })?;
        let (symbol, found) = (symbol.opcode, icfg.opcode(node));
        if symbol != found {
            return Err(Error::OtherOpcode { index, symbol, found, method, bci });
        }
        self.anchors.push((index as u32, node));
        Ok(())
    }
    /// The symbols, in order of execution.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }
    /// Symbols whose position is known, ascending.
    pub fn anchors(&self) -> &[(u32, Node)] {
        &self.anchors
    }
    /// The position of symbol `index`, if the trace tells it.
    pub fn anchor_at(&self, index: usize) -> Option<Node> {
        let at = self.anchors.binary_search_by_key(&(index as u32), |a| a.0).ok()?;
        Some(self.anchors[at].1)
    }
    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.symbols.len()
    }
    /// Whether there is no symbol.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{fun, graph, open};

    #[test]
    fn anchors_are_checked() {
        let g = graph(vec![fun()]);
        let fun = MethodId(0);
        let mut segment = open(&[Opcode::ILOAD_1, Opcode::ICONST_2, Opcode::ISUB]);
        segment.anchor(&g, 1, fun, Bci(12)).unwrap();
        assert_eq!((segment.anchor_at(0), segment.anchor_at(1)), (None, g.node_at(fun, Bci(12))));
        let order = segment.anchor(&g, 1, fun, Bci(12));
        assert_eq!(order, Err(Error::AnchorOrder { index: 1, len: 3, last: Some(1) }));
        assert!(matches!(segment.anchor(&g, 3, fun, Bci(0)), Err(Error::AnchorOrder { index: 3, .. })));
        assert!(matches!(segment.anchor(&g, 2, fun, Bci(2)), Err(Error::NoSuchNode { bci: Bci(2), .. })));
        assert!(matches!(segment.anchor(&g, 2, MethodId(7), Bci(0)), Err(Error::NoSuchNode { .. })));
        let other = segment.anchor(&g, 2, fun, Bci(6));
        assert!(matches!(other, Err(Error::OtherOpcode { symbol: Opcode::ISUB, found: Opcode::IADD, .. })));
    }

    #[test]
    fn control_is_what_transfers_it() {
        assert!(Symbol::open(Opcode::GOTO).is_control() && Symbol::open(Opcode::INVOKESTATIC).is_control());
        assert!(!Symbol::open(Opcode::IDIV).is_control());
        assert!(Symbol::with(Opcode::IDIV, Outcome::Thrown).is_control());
    }
}
