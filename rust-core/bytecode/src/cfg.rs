// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The control flow graph of a method at the granularity of instructions.

use crate::method::Method;
use crate::opcode::{BytecodeError, Instruction, Transfer, instructions};
use jportal_units::Bci;

/// How control passes from an instruction to another one of the same method.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum EdgeKind {
    /// The next instruction follows.
    Fall,
    /// The conditional branch is not taken.
    NotTaken,
    /// The conditional branch is taken.
    Taken,
    /// `goto`, `jsr` and `ret`.
    Jump,
    /// A case or the default of a switch; cases with the same target share one edge.
    Case,
    /// A call returns: the instruction after an invoke.
    Behind,
}

/// An edge inside a method. Instructions are numbered by index, not by bci.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CfgEdge {
    /// How control passes.
    pub kind: EdgeKind,
    /// Index of the instruction that follows.
    pub to: u32,
}

/// A row of the exception table, with indices of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandlerRow {
    /// First covered instruction.
    pub start: u32,
    /// First instruction after the covered ones.
    pub end: u32,
    /// The handler's first instruction.
    pub handler: u32,
    /// Whether it catches every exception.
    pub catches_all: bool,
}

/// The instructions of one method and the edges between them.
///
/// There are no edges for exceptions: [`Cfg::rows`] says which handlers cover an instruction. If
/// the code ends without a transfer (dead code may), the last instruction has no successor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cfg {
    starts: Box<[Bci]>,
    first: Box<[u32]>,
    edges: Box<[CfgEdge]>,
    rows: Box<[HandlerRow]>,
}

impl Cfg {
    /// The graph of `method`; empty for native and abstract methods.
    ///
    /// # Errors
    /// If the bytecodes are malformed, or a branch or handler leads into the middle of an
    /// instruction.
    pub fn of(method: &Method) -> Result<Self, BytecodeError> {
        let parsed = instructions(&method.code).collect::<Result<Vec<_>, _>>()?;
        let starts: Box<[Bci]> = parsed.iter().map(|i| i.bci).collect();
        let after_jsr: Vec<Bci> =
            parsed.iter().filter(|i| i.opcode.transfer() == Transfer::Jsr).map(Instruction::next).collect();
        let mut cfg = Self { starts, ..Self::default() };
        let mut first = Vec::with_capacity(parsed.len() + 1);
        let mut edges = Vec::with_capacity(parsed.len() + 8);
        for i in &parsed {
            first.push(edges.len() as u32);
            cfg.add_edges(i, &after_jsr, &mut edges)?;
        }
        first.push(edges.len() as u32);
        (cfg.first, cfg.edges) = (first.into(), edges.into());
        cfg.rows = cfg.handler_rows(method)?;
        Ok(cfg)
    }
    /// The bcis of the instructions, ascending.
    pub fn starts(&self) -> &[Bci] {
        &self.starts
    }
    /// The edges from instruction `index`; those of a switch are sorted by target.
    pub fn edges(&self, index: u32) -> &[CfgEdge] {
        let at = index as usize;
        match (self.first.get(at), self.first.get(at + 1)) {
            (Some(&a), Some(&b)) => &self.edges[a as usize..b as usize],
            _ => &[],
        }
    }
    /// The exception table, in table order.
    pub fn rows(&self) -> &[HandlerRow] {
        &self.rows
    }
    /// The handlers that an exception thrown by instruction `index` may reach, in table order:
    /// those of the covering rows up to the first row that catches every exception.
    pub fn handlers(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        reachable_rows(&self.rows, index).map(|row| row.handler)
    }
    /// The index of the instruction at `bci`; `None` if no instruction begins there.
    pub fn index_of(&self, bci: Bci) -> Option<u32> {
        self.starts.binary_search(&bci).ok().map(|i| i as u32)
    }

    fn add_edges(
        &self,
        i: &Instruction<'_>,
        after_jsr: &[Bci],
        edges: &mut Vec<CfgEdge>,
    ) -> Result<(), BytecodeError> {
        let next = |kind| self.index_of(i.next()).map(|to| CfgEdge { kind, to });
        match i.opcode.transfer() {
            Transfer::None => edges.extend(next(EdgeKind::Fall)),
            Transfer::Invoke => edges.extend(next(EdgeKind::Behind)),
            Transfer::If => {
                edges.extend(next(EdgeKind::NotTaken));
                edges.push(CfgEdge { kind: EdgeKind::Taken, to: self.branch(i)? });
            }
            Transfer::Goto | Transfer::Jsr => {
                edges.push(CfgEdge { kind: EdgeKind::Jump, to: self.branch(i)? });
            }
            Transfer::Ret => {
                let to = after_jsr.iter().filter_map(|b| self.index_of(*b));
                edges.extend(to.map(|to| CfgEdge { kind: EdgeKind::Jump, to }));
            }
            Transfer::Switch => self.add_cases(i, edges)?,
            Transfer::Return | Transfer::Throw => {}
        }
        Ok(())
    }
    fn branch(&self, i: &Instruction<'_>) -> Result<u32, BytecodeError> {
        self.target(i, i.branch_target()?.unwrap_or(i.bci))
    }
    fn target(&self, i: &Instruction<'_>, to: Bci) -> Result<u32, BytecodeError> {
        let at = usize::from(i.bci.0);
        self.index_of(to).ok_or(BytecodeError::InsideInstruction {
            at,
            opcode: i.opcode,
            target: to.0.into(),
        })
    }
    fn add_cases(&self, i: &Instruction<'_>, edges: &mut Vec<CfgEdge>) -> Result<(), BytecodeError> {
        let Some(switch) = i.switch()? else { return Ok(()) };
        let mut to = switch
            .cases
            .iter()
            .map(|case| case.1)
            .chain([switch.default])
            .map(|bci| self.target(i, bci))
            .collect::<Result<Vec<_>, _>>()?;
        to.sort_unstable();
        to.dedup();
        edges.extend(to.into_iter().map(|to| CfgEdge { kind: EdgeKind::Case, to }));
        Ok(())
    }
    fn handler_rows(&self, method: &Method) -> Result<Box<[HandlerRow]>, BytecodeError> {
        let index = |bci: Bci| self.starts.partition_point(|s| *s < bci) as u32;
        let row = |e: &crate::ExceptionRow| {
            let handler = self.index_of(e.handler);
            let handler = handler.ok_or(BytecodeError::BadHandler { handler: e.handler })?;
            let (start, end) = (index(e.start), index(e.end));
            Ok(HandlerRow { start, end, handler, catches_all: e.catch_type.is_none() })
        };
        method.exceptions.iter().map(row).collect()
    }
}

/// The rows that an exception thrown by instruction `at` may reach.
pub(crate) fn reachable_rows(rows: &[HandlerRow], at: u32) -> impl Iterator<Item = &HandlerRow> {
    let mut open = true;
    rows.iter()
        .filter(move |row| (row.start..row.end).contains(&at))
        .take_while(move |row| std::mem::replace(&mut open, !row.catches_all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{method, row};

    fn edges(cfg: &Cfg, index: u32) -> Vec<(EdgeKind, u32)> {
        cfg.edges(index).iter().map(|e| (e.kind, e.to)).collect()
    }

    #[test]
    fn branches_and_calls() {
        // 0 iload_0; 1 ifeq 8; 4 iconst_1; 5 goto 9; 8 iconst_0; 9 invokestatic; 12 ireturn
        let cfg = Cfg::of(&method("f", &[26, 153, 0, 7, 4, 167, 0, 4, 3, 184, 0, 1, 172])).unwrap();
        assert_eq!(cfg.starts().iter().map(|b| b.0).collect::<Vec<_>>(), [0, 1, 4, 5, 8, 9, 12]);
        assert_eq!(edges(&cfg, 0), [(EdgeKind::Fall, 1)]);
        assert_eq!(edges(&cfg, 1), [(EdgeKind::NotTaken, 2), (EdgeKind::Taken, 4)]);
        assert_eq!(edges(&cfg, 3), [(EdgeKind::Jump, 5)]);
        assert_eq!(edges(&cfg, 5), [(EdgeKind::Behind, 6)]);
        assert_eq!(edges(&cfg, 6), []);
        assert_eq!(edges(&cfg, 7), []);
    }

    #[test]
    fn cases_with_one_target_are_one_edge() {
        // tableswitch at 0: default 21, cases 20, 21, 20; 20 nop... returns at 28 and 29
        let mut code = vec![170, 0, 0, 0];
        for v in [29i32, 0, 2, 28, 29, 28] {
            code.extend_from_slice(&v.to_be_bytes());
        }
        code.extend([177, 177]);
        let cfg = Cfg::of(&method("f", &code)).unwrap();
        assert_eq!(edges(&cfg, 0), [(EdgeKind::Case, 1), (EdgeKind::Case, 2)]);
    }

    #[test]
    fn ret_goes_after_every_jsr() {
        // 0 jsr 7; 3 jsr 7; 6 return; 7 astore_0; 8 ret 0
        let cfg = Cfg::of(&method("f", &[168, 0, 7, 168, 0, 4, 177, 75, 169, 0])).unwrap();
        assert_eq!(edges(&cfg, 0), [(EdgeKind::Jump, 3)]);
        assert_eq!(edges(&cfg, 4), [(EdgeKind::Jump, 1), (EdgeKind::Jump, 2)]);
    }

    #[test]
    fn handlers_end_with_the_one_that_takes_all() {
        let mut m = method("f", &[0, 0, 177, 75, 177, 75, 177]);
        m.exceptions = [row(0, 1, 3, Some("x/X")), row(0, 2, 5, None), row(0, 2, 3, None)].into();
        let cfg = Cfg::of(&m).unwrap();
        assert_eq!(cfg.handlers(0).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(cfg.handlers(1).collect::<Vec<_>>(), [5]);
        assert_eq!(cfg.handlers(2).count(), 0);
    }

    #[test]
    fn malformed_code_is_refused() {
        // goto into the goto's own operand
        let inside = Cfg::of(&method("f", &[167, 0, 1]));
        assert!(matches!(inside, Err(BytecodeError::InsideInstruction { at: 0, target: 1, .. })));
        let mut m = method("f", &[16, 1, 177]);
        m.exceptions = [row(0, 1, 1, None)].into();
        assert!(matches!(Cfg::of(&m), Err(BytecodeError::BadHandler { .. })));
        // The code ends without a transfer.
        assert_eq!(Cfg::of(&method("f", &[0])).unwrap().edges(0), []);
    }
}
