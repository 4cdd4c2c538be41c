// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The alphabet of a trace and the segments written in it.

use crate::Error;
use jportal_bytecode::{Icfg, Node, Opcode, Transfer};
use jportal_units::{Bci, MethodId};

/// How a bytecode ended, if the trace says so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Outcome {
    /// It ended without an exception; the direction of a conditional branch or a switch is not
    /// known.
    #[default]
    Open,
    /// The conditional branch was not taken: the next instruction followed.
    NotTaken,
    /// The conditional branch was taken.
    Taken,
    /// It threw, and a handler of its own method follows.
    Thrown,
    /// It threw, the exception left its method and perhaps callers of it, and a handler of a
    /// caller follows.
    Unwound,
    /// The invoke called a method that returned, and the instruction after the invoke follows.
    /// The bytecodes in between are not part of the segment.
    Returned,
}

/// A letter of Σ (paper, Definition 4.1): a bytecode instruction as the trace shows it, without
/// its position.
///
/// The outcomes are those of the bytecode. The bits in the paper's Figure 2(d) are those of the
/// interpreter's machine code, whose templates jump where the bytecode does *not*: its bit 0 of
/// `ifeq` is [`Outcome::Taken`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Symbol {
    /// The instruction.
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
    /// Whether the symbol belongs to the abstraction α_s (Definition 4.2: jumps, branches,
    /// calls, returns).
    ///
    /// The paper does not say whether exceptions belong to it. An exception transfers control,
    /// so a symbol that threw belongs to it here.
    pub fn is_control(self) -> bool {
        self.throws() || self.opcode.transfer() != Transfer::None
    }
}

/// A stretch of one thread's trace with no data missing: ω of the paper.
///
/// Knowledge that the paper's tracer does not have restricts the positions further:
/// [anchors](Self::anchor), [callees](Self::call), and the calls at either [end](Self::ends).
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct Segment {
    symbols: Vec<Symbol>,
    anchors: Vec<(u32, Node)>,
    callees: Vec<(u32, MethodId)>,
    ends: Ends,
}

/// Calls that lead out of a segment at its ends.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Ends {
    /// The first symbol follows a call of this method.
    pub after: Option<MethodId>,
    /// A frame of this method returned to the first symbol; the method may have been called
    /// from outside the graph.
    pub returned: Option<MethodId>,
    /// The last symbol, a return, leads to the instruction after this invoke.
    pub into: Option<Node>,
}

impl Segment {
    /// A segment without anchors.
    pub fn new(symbols: Vec<Symbol>) -> Self {
        Self { symbols, ..Self::default() }
    }
    /// Notes that symbol `index`, an invoke, called `method`. Calls come in ascending order.
    ///
    /// # Errors
    /// If `index` is out of order or its symbol is no invoke.
    pub fn call(&mut self, index: usize, method: MethodId) -> Result<(), Error> {
        let last = self.callees.last().map(|c| c.0 as usize);
        let invoke = |s: &&Symbol| s.opcode.transfer() == Transfer::Invoke;
        let symbol = self.symbols.get(index).filter(invoke);
        if symbol.is_none() || last.is_some_and(|l| l >= index) {
            return Err(Error::CallOrder { index, len: self.symbols.len(), last });
        }
        self.callees.push((index as u32, method));
        Ok(())
    }
    /// Notes the calls that lead out of the segment at its ends.
    pub const fn end(&mut self, ends: Ends) {
        self.ends = ends;
    }
    /// The invokes whose callees are known, ascending.
    pub fn callees(&self) -> &[(u32, MethodId)] {
        &self.callees
    }
    /// The calls that lead out of the segment at its ends.
    pub const fn ends(&self) -> Ends {
        self.ends
    }
    /// Whether symbol `index` may be `node`, by the knowledge beside the symbols. The caller
    /// must have compared the opcodes.
    pub fn admits(&self, icfg: &Icfg, index: usize, node: Node) -> bool {
        let is_last = index + 1 == self.symbols.len();
        let calls = || match self.callees.binary_search_by_key(&(index as u32), |c| c.0) {
            Ok(at) => icfg.may_call_method(node, self.callees[at].1),
            Err(_) => true,
        };
        let follows = |method| icfg.site_before(node).is_some_and(|site| icfg.may_call_method(site, method));
        let returned = |method| icfg.site_before(node).is_some_and(|site| icfg.may_return_to(site, method));
        let returns = |site| icfg.may_call_method(site, icfg.method(node));
        (self.anchors.is_empty() || self.anchor_at(index).is_none_or(|a| a == node))
            && (self.callees.is_empty() || calls())
            && (index > 0 || self.ends.after.is_none_or(follows) && self.ends.returned.is_none_or(returned))
            && (!is_last || self.ends.into.is_none_or(returns))
    }
    /// Notes that symbol `index` is the instruction at `bci` of `method`. Anchors come in
    /// ascending order.
    ///
    /// # Errors
    /// If the ICFG has no such instruction there, or `index` is out of order.
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
    /// The symbols whose position is known, ascending.
    pub fn anchors(&self) -> &[(u32, Node)] {
        &self.anchors
    }
    /// The position of symbol `index`, if known.
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
        assert!(matches!(order, Err(Error::AnchorOrder { index: 1, len: 3, last: Some(1) })), "{order:?}");
        assert!(matches!(segment.anchor(&g, 3, fun, Bci(0)), Err(Error::AnchorOrder { index: 3, .. })));
        assert!(matches!(segment.anchor(&g, 2, fun, Bci(2)), Err(Error::NoSuchNode { bci: Bci(2), .. })));
        assert!(matches!(segment.anchor(&g, 2, MethodId(7), Bci(0)), Err(Error::NoSuchNode { .. })));
        let other = segment.anchor(&g, 2, fun, Bci(6));
        assert!(matches!(other, Err(Error::OtherOpcode { symbol: Opcode::ISUB, found: Opcode::IADD, .. })));
    }

    #[test]
    fn calls_are_checked() {
        let mut segment = open(&[Opcode::INVOKESTATIC, Opcode::POP, Opcode::INVOKESTATIC]);
        let first = segment.call(1, MethodId(0));
        assert!(matches!(first, Err(Error::CallOrder { index: 1, len: 3, last: None })), "{first:?}");
        let outside = segment.call(3, MethodId(0));
        assert!(matches!(outside, Err(Error::CallOrder { index: 3, len: 3, last: None })), "{outside:?}");
        segment.call(2, MethodId(0)).unwrap();
        let earlier = segment.call(0, MethodId(0));
        assert!(matches!(earlier, Err(Error::CallOrder { index: 0, len: 3, last: Some(2) })), "{earlier:?}");
        assert_eq!(segment.callees(), [(2, MethodId(0))]);
    }

    #[test]
    fn the_last_return_leads_into_its_caller() {
        // f0 calls f1; f2 is never called.
        let caller = crate::support::calling(crate::support::method("f0", &[184, 0, 1, 172]), &["f1"]);
        let leaf = |name| crate::support::method(name, &[172]);
        let g = graph(vec![caller, leaf("f1"), leaf("f2")]);
        let mut segment = open(&[Opcode::IRETURN]);
        segment.end(Ends { into: Some(Node(0)), ..Ends::default() });
        let admitted: Vec<u32> = g.nodes().filter(|n| segment.admits(&g, 0, *n)).map(|n| n.0).collect();
        // f0's own nodes are not in a callee; the symbols are not compared.
        assert_eq!(admitted, [2]);
    }

    #[test]
    fn a_return_leads_to_the_first_symbol() {
        // f0 calls f1. f2 can be called only from outside, and so may return to f3, which calls
        // a method that the graph does not have.
        let calling = |name, callee| {
            crate::support::calling(crate::support::method(name, &[184, 0, 1, 172]), &[callee])
        };
        let leaf = |name| crate::support::method(name, &[172]);
        let g = graph(vec![calling("f0", "f1"), leaf("f1"), leaf("f2"), calling("f3", "elsewhere")]);
        let mut segment = open(&[Opcode::IRETURN]);
        let mut admitted = |ends| {
            segment.end(ends);
            g.nodes().filter(|n| segment.admits(&g, 0, *n)).map(|n| n.0).collect::<Vec<u32>>()
        };
        let returned = |method| Ends { returned: Some(MethodId(method)), ..Ends::default() };
        assert_eq!((admitted(returned(1)), admitted(returned(2))), (vec![1, 5], vec![5]));
        let after = Ends { after: Some(MethodId(1)), ..Ends::default() };
        assert_eq!(admitted(after), [1]);
    }

    #[test]
    fn control_is_what_transfers_it() {
        assert!(Symbol::open(Opcode::GOTO).is_control() && Symbol::open(Opcode::INVOKESTATIC).is_control());
        assert!(!Symbol::open(Opcode::IDIV).is_control());
        assert!(Symbol::with(Opcode::IDIV, Outcome::Thrown).is_control());
    }
}
