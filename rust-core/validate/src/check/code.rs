// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The control flow graph of a method, built from its bytecodes.

use std::sync::OnceLock;

use hashbrown::HashMap;
use jportal_bytecode::{ExceptionRow, Instruction, Method, MethodTable, Opcode, Transfer};
use jportal_units::{Bci, MethodId};

/// One byte of code. Only entries where an instruction starts are meaningful.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) opcode: Opcode,
    pub(crate) transfer: Transfer,
    /// Whether a block starts here.
    pub(crate) leader: bool,
    /// The bci of the next instruction.
    pub(crate) next: Bci,
    /// Target of a branch; otherwise equal to `next`.
    target: Bci,
}

/// The graph of one method.
#[derive(Debug, Default)]
pub(crate) struct Code {
    ops: Box<[Option<Op>]>,
    /// Distinct targets of the switches, ascending, by bci.
    switches: HashMap<u16, Box<[Bci]>>,
    /// The targets of `ret`: the bci after each `jsr`.
    after_jsr: Box<[Bci]>,
    exceptions: Box<[ExceptionRow]>,
}

impl Code {
    /// Builds the graph. Malformed code yields the instructions before the fault.
    pub(crate) fn of(method: &Method) -> Self {
        let mut code = Self {
            ops: vec![None; method.code.len()].into(),
            exceptions: method.exceptions.clone(),
            ..Self::default()
        };
        let mut after_jsr = Vec::new();
        let mut leaders = vec![Bci(0)];
        let mut at = 0;
        while at < method.code.len() {
            let Ok(i) = Instruction::at(&method.code, at) else { break };
            let Some(op) = code.put(&i, &mut leaders) else { break };
            if op.transfer == Transfer::Jsr {
                after_jsr.push(op.next);
            }
            at += usize::from(i.len);
        }
        leaders.extend(code.exceptions.iter().map(|e| e.handler));
        for leader in leaders {
            if let Some(Some(op)) = code.ops.get_mut(usize::from(leader.0)) {
                op.leader = true;
            }
        }
        code.after_jsr = after_jsr.into();
        code
    }
    fn put(&mut self, i: &Instruction<'_>, leaders: &mut Vec<Bci>) -> Option<Op> {
        let (transfer, next) = (i.opcode.transfer(), i.next());
        let target = i.branch_target().ok()?;
        if let Some(switch) = i.switch().ok()? {
            let mut to: Vec<Bci> = switch.cases.iter().map(|c| c.1).chain([switch.default]).collect();
            to.sort_unstable();
            to.dedup();
            leaders.extend(&to);
            self.switches.insert(i.bci.0, to.into());
        }
        leaders.extend(target);
        if !matches!(transfer, Transfer::None | Transfer::Invoke) {
            leaders.push(next);
        }
        let op = Op { opcode: i.opcode, transfer, leader: false, next, target: target.unwrap_or(next) };
        self.ops[usize::from(i.bci.0)] = Some(op);
        Some(op)
    }
    /// The bytecode that starts at `bci`.
    #[inline]
    pub(crate) fn op(&self, bci: Bci) -> Option<&Op> {
        self.ops.get(usize::from(bci.0))?.as_ref()
    }
    /// Whether the bytecode at `to` may follow the one at `from` without an exception.
    #[inline]
    pub(crate) fn is_edge(&self, from: Bci, to: Bci) -> bool {
        let Some(op) = self.op(from) else { return false };
        match op.transfer {
            Transfer::None | Transfer::Invoke => to == op.next,
            Transfer::Goto | Transfer::Jsr => to == op.target,
            Transfer::If => to == op.next || to == op.target,
            Transfer::Switch | Transfer::Ret => self.many(from, op).binary_search(&to).is_ok(),
            Transfer::Return | Transfer::Throw => false,
        }
    }
    /// The targets of a switch or `ret`, ascending.
    fn many(&self, from: Bci, op: &Op) -> &[Bci] {
        match op.transfer {
            Transfer::Ret => &self.after_jsr,
            _ => self.switches.get(&from.0).map_or(&[], |to| to),
        }
    }
    /// What may follow the bytecode at `from` without an exception.
    pub(crate) fn successors(&self, from: Bci) -> Vec<Bci> {
        let Some(op) = self.op(from) else { return Vec::new() };
        match op.transfer {
            Transfer::None | Transfer::Invoke => vec![op.next],
            Transfer::Goto | Transfer::Jsr => vec![op.target],
            Transfer::If => vec![op.next, op.target],
            Transfer::Switch | Transfer::Ret => self.many(from, op).to_vec(),
            Transfer::Return | Transfer::Throw => Vec::new(),
        }
    }
    /// The handlers that an exception thrown at `bci` may reach, in table order: those of
    /// the covering rows up to the first one that takes every exception.
    pub(crate) fn handlers(&self, bci: Bci) -> impl Iterator<Item = &ExceptionRow> {
        let mut open = true;
        self.exceptions
            .iter()
            .filter(move |e| (e.start..e.end).contains(&bci))
            .take_while(move |e| std::mem::replace(&mut open, e.catch_type.is_some()))
    }
    /// Whether a handler takes every exception thrown at `bci`.
    pub(crate) fn catches_all(&self, bci: Bci) -> bool {
        self.handlers(bci).any(|e| e.catch_type.is_none())
    }
    /// Whether some row has this handler.
    pub(crate) fn is_handler(&self, bci: Bci) -> bool {
        self.exceptions.iter().any(|e| e.handler == bci)
    }
    /// The start of the block that the bytecode at `bci` belongs to.
    pub(crate) fn block_of(&self, bci: Bci) -> Option<Bci> {
        (0..=bci.0).rev().map(Bci).find(|b| self.op(*b).is_some_and(|op| op.leader))
    }
    /// Whether control can reach the bytecode at `to` (`None`: any return) after the one at
    /// `from` (`None`: from the entry), exceptions included. `thrown`: the bytecode at `from`
    /// threw. If `from` is itself a return that did not throw, a return counts as reached.
    pub(crate) fn reaches(&self, from: Option<Bci>, to: Option<Bci>, thrown: bool) -> bool {
        let is_return = |b| self.op(b).is_some_and(|op| op.transfer == Transfer::Return);
        if to.is_none() && !thrown && from.is_some_and(is_return) {
            return true;
        }
        let mut work: Vec<Bci> = match from {
            None => vec![Bci(0)],
            Some(f) => {
                let normal = if thrown { Vec::new() } else { self.successors(f) };
                self.handlers(f).map(|e| e.handler).chain(normal).collect()
            }
        };
        let mut seen = vec![false; self.ops.len()];
        while let Some(b) = work.pop() {
            let Some(op) = self.op(b) else { continue };
            if std::mem::replace(&mut seen[usize::from(b.0)], true) {
                continue;
            }
            if to.map_or(op.transfer == Transfer::Return, |t| t == b) {
                return true;
            }
            work.extend(self.successors(b));
            work.extend(self.handlers(b).map(|e| e.handler));
        }
        false
    }
}

/// Whether the interpreter's template of `opcode` may enter the VM, and therefore may throw or
/// let the VM call Java (JVMS 6.5 and HotSpot's templates; branches and returns poll for
/// safepoints).
pub(crate) const fn may_enter_vm(opcode: Opcode) -> bool {
    match opcode.0 {
        // Constants, loads and stores of locals, the operand stack.
        0..=17 | 21..=45 | 54..=78 | 87..=95 => false,
        // Integer division and remainder. All other arithmetic, conversions and comparisons do
        // not.
        108 | 109 | 112 | 113 => true,
        96..=152 => false,
        _ => true,
    }
}

/// The graphs of all methods. Each is built on first use.
#[derive(Debug)]
pub(crate) struct Codes {
    codes: Box<[OnceLock<Code>]>,
}

impl Codes {
    pub(crate) fn new(methods: &MethodTable) -> Self {
        Self { codes: (0..methods.len()).map(|_| OnceLock::new()).collect() }
    }
    /// `None` for a method that is not in the table.
    #[inline]
    pub(crate) fn get(&self, methods: &MethodTable, id: MethodId) -> Option<&Code> {
        let cell = self.codes.get(id.0 as usize)?;
        Some(cell.get_or_init(|| methods.get(id).map(Code::of).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{method, row};

    #[test]
    fn edges_of_branch_switch_and_subroutine() {
        // 0 iload_0; 1 ifeq 8; 4 iconst_1; 5 goto 9; 8 iconst_0; 9 ireturn
        let code = Code::of(&method("f", &[26, 153, 0, 7, 4, 167, 0, 4, 3, 172]));
        assert!(code.is_edge(Bci(1), Bci(4)) && code.is_edge(Bci(1), Bci(8)));
        assert!(!code.is_edge(Bci(4), Bci(8)) && code.is_edge(Bci(5), Bci(9)));
        assert!(code.successors(Bci(9)).is_empty() && code.op(Bci(2)).is_none());
        assert_eq!(code.block_of(Bci(5)), Some(Bci(4)));
        // 0 jsr 4; 3 return; 4 astore_1; 5 ret 1
        let code = Code::of(&method("g", &[168, 0, 4, 177, 76, 169, 1]));
        assert!(code.is_edge(Bci(5), Bci(3)) && !code.is_edge(Bci(5), Bci(4)));
        assert!(code.is_edge(Bci(0), Bci(4)) && !code.is_edge(Bci(0), Bci(3)));
        // 0 tableswitch (3 bytes of padding) default 20, 0 → 21; 20 nop; 21 return
        let mut bytes = vec![170, 0, 0, 0];
        [20i32, 0, 0, 21].iter().for_each(|v| bytes.extend_from_slice(&v.to_be_bytes()));
        bytes.extend([0, 177]);
        let code = Code::of(&method("h", &bytes));
        assert_eq!(code.successors(Bci(0)), [Bci(20), Bci(21)]);
        assert!(code.is_edge(Bci(0), Bci(21)) && !code.is_edge(Bci(0), Bci(4)));
    }

    #[test]
    fn a_handler_after_one_that_takes_all_is_never_reached() {
        let mut m = method("f", &[0, 0, 0, 0, 177]);
        m.exceptions = Box::new([row(0, 2, 2, Some("E")), row(0, 2, 3, None), row(0, 2, 4, Some("F"))]);
        let code = Code::of(&m);
        let handlers: Vec<_> = code.handlers(Bci(1)).map(|e| e.handler.0).collect();
        assert_eq!(handlers, [2, 3]);
        assert!(code.catches_all(Bci(0)) && !code.catches_all(Bci(2)));
        assert!(code.is_handler(Bci(4)) && code.op(Bci(4)).unwrap().leader);
    }

    #[test]
    fn reaching_through_handlers_only_when_thrown() {
        // 0 nop; 1 return; 2 pop; 3 return, handler 2 for 0
        let mut m = method("f", &[0, 177, 87, 177]);
        m.exceptions = Box::new([row(0, 1, 2, None)]);
        let code = Code::of(&m);
        assert!(code.reaches(Some(Bci(0)), Some(Bci(1)), false));
        assert!(!code.reaches(Some(Bci(0)), Some(Bci(1)), true));
        assert!(code.reaches(Some(Bci(0)), Some(Bci(3)), true));
        assert!(code.reaches(Some(Bci(1)), None, false) && code.reaches(None, None, false));
        assert!(!code.reaches(Some(Bci(1)), Some(Bci(0)), false));
    }

    #[test]
    fn malformed_code_ends_in_front_of_the_fault() {
        let code = Code::of(&method("f", &[0, 167, 0x7f, 0xff]));
        assert!(code.op(Bci(0)).is_some() && code.op(Bci(1)).is_none());
        assert!(Code::of(&method("n", &[])).op(Bci(0)).is_none());
    }
}
