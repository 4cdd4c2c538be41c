// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Steps inside a method. Each must be an edge of its control flow graph.

use jportal_bytecode::{Opcode, Transfer};
use jportal_flow::{Cause, Tier};
use jportal_units::{Bci, MethodId};

use crate::check::finding::Names;
use crate::check::frames::due_name;
use crate::check::rule::{Reset, Rule};
use crate::check::stack::{At, CheckedFrame, Due};
use crate::check::walk::{Stretch, Walk};

impl Walk {
    /// The bytecode at `bci` began.
    #[inline]
    pub(crate) fn bytecode(&mut self, method: MethodId, bci: Bci, tier: Tier) {
        if let Some(top) = self.top_of(method, tier, "a bytecode") {
            self.figures().steps += 1;
            self.step(&top, bci, tier);
        }
        if let Some(top) = self.stack.top_mut().filter(|t| t.method == method) {
            (top.at, top.due, top.called) = (At::Bytecode(bci), Due::Step, false);
        }
    }
    #[inline]
    fn step(&mut self, top: &CheckedFrame, bci: Bci, tier: Tier) {
        if tier != top.tier {
            let (is, was) = (tier.name(), top.tier.name());
            self.broken(Rule::Tier, |_| format!("a bytecode executed by {is} in a frame of {was}"));
        }
        if self.op(top.method, bci).is_none() {
            self.broken(Rule::Instruction, |n| {
                format!("no bytecode begins at {}", n.bytecode(top.method, bci))
            });
            return;
        }
        match top.due {
            Due::Step => self.follows(top, bci),
            Due::Handler(to) if to == bci => {}
            Due::Handler(to) => self.broken(Rule::Handler, |n| {
                format!("the handler at bci {to} was entered but {} begins", n.bytecode(top.method, bci))
            }),
            Due::Stretch(to) if to == bci => {}
            due @ (Due::Stretch(_) | Due::End { .. }) => self.broken(Rule::Stretch, |n| {
                format!("{} begins where {} is due", n.bytecode(top.method, bci), due_name(due))
            }),
            Due::Exception => self.ignores_exception(top, bci),
            Due::Again if top.at.bci().is_none_or(|at| at == bci) => {}
            Due::Again => self.broken(Rule::Edge, |n| {
                format!("{} begins where {} is due", n.bytecode(top.method, bci), due_name(top.due))
            }),
        }
    }
    /// A frame whose callee was unwound executes a bytecode without catching anything.
    fn ignores_exception(&mut self, top: &CheckedFrame, bci: Bci) {
        self.broken(Rule::ExceptionLost, |n| {
            format!("the callee was unwound but its caller continues with {}", n.bytecode(top.method, bci))
        });
    }
    /// Checks that the frame's position allows `bci` as the next bytecode.
    #[inline]
    fn follows(&mut self, top: &CheckedFrame, bci: Bci) {
        match top.at {
            At::Bytecode(from) => {
                if self.code(top.method).is_some_and(|c| c.is_edge(from, bci)) {
                    self.came_back(top, from);
                } else {
                    self.no_edge(top, from, bci);
                }
            }
            At::Entry if bci.0 == 0 => {}
            At::Entry => self.not_at_entry(top, bci),
            At::Resumed(from) | At::Osr(from) => {
                let again = from == bci && matches!(top.at, At::Resumed(_)) && self.may_restart(top, bci);
                if !again && !self.code(top.method).is_some_and(|c| c.is_edge(from, bci)) {
                    self.no_edge(top, from, bci);
                }
            }
            At::Unknown => {}
        }
    }
    /// Whether the bytecode of a deoptimised frame may begin again. After a callee has returned, it
    /// cannot, except in JDK 17's C2.
    fn may_restart(&mut self, top: &CheckedFrame, at: Bci) -> bool {
        let clone = || {
            let target = self.method(top.method).and_then(|m| m.invoke_at(at));
            target.is_some_and(|t| &*t.name == "clone" && &*t.signature == "()Ljava/lang/Object;")
        };
        if top.called && clone() {
            self.reset(Reset::ClonedAgain);
            return true;
        }
        !top.called
    }
    /// An interpreted invoke is complete only when a callee has returned.
    #[inline]
    fn came_back(&mut self, top: &CheckedFrame, from: Bci) {
        if top.called || top.tier != Tier::Interpreter {
            return;
        }
        if self.op(top.method, from).is_some_and(|op| op.transfer == Transfer::Invoke) {
            self.broken(Rule::CallMissing, |n| {
                format!("{} is over but no callee came back", n.bytecode(top.method, from))
            });
        }
    }
    #[cold]
    fn not_at_entry(&mut self, top: &CheckedFrame, bci: Bci) {
        let rule =
            if self.op(top.method, bci).is_some_and(|op| op.leader) { Rule::Entry } else { Rule::MidBlock };
        self.broken(rule, |n| {
            format!("the frame was entered but {} begins instead of bci 0", n.bytecode(top.method, bci))
        });
    }
    #[cold]
    fn no_edge(&mut self, top: &CheckedFrame, from: Bci, bci: Bci) {
        let code = self.code(top.method);
        let block = code.and_then(|c| c.block_of(bci)).filter(|b| *b != bci);
        let may = code.map(|c| c.successors(from)).unwrap_or_default();
        let rule = if block.is_some() { Rule::MidBlock } else { Rule::Edge };
        self.broken(rule, |n| {
            let mut text =
                format!("{} follows {}", n.bytecode(top.method, bci), n.bytecode(top.method, from));
            text.push_str(&format!(", which leads to {}", Names::bcis(&may)));
            if let Some(block) = block {
                text.push_str(&format!("; its block begins at bci {block}"));
            }
            text
        });
    }
    /// Compiled code went from `from` to `to` on one of several paths. With `anew`, the
    /// activation may be another one than before. After a moved allocation, the interpreter
    /// restarts at `to`, which control had passed: the path leads from there to `from`.
    pub(crate) fn unresolved(
        &mut self,
        method: MethodId,
        (from, to): (Option<Bci>, Option<Bci>),
        cause: Cause,
        anew: bool,
    ) {
        let mut returns = true;
        if let Some(top) = self.top_of(method, Tier::C2, "an unresolved stretch") {
            self.reset(Reset::Unresolved);
            if !top.is_compiled() {
                let tier = top.tier.name();
                self.broken(Rule::Stretch, |_| format!("an unresolved stretch in a frame of {tier}"));
            } else if !self.begins_at(&top, from) {
                self.broken(Rule::Stretch, |n| {
                    let from = from.map_or_else(|| "the entry".to_owned(), |f| n.bytecode(method, f));
                    format!("an unresolved stretch begins at {from}, where the frame does not stand")
                });
            } else {
                let restarts = cause == Cause::MovedAllocation
                    && from.is_some()
                    && to.is_some()
                    && self.reaches((method, to, from, false));
                returns = restarts || self.leads(&top, (from, to), anew);
            }
        }
        if let Some(top) = self.stack.top_mut() {
            (top.due, top.called) = (to.map_or(Due::End { returns }, Due::Stretch), false);
        }
    }
    fn begins_at(&self, top: &CheckedFrame, from: Option<Bci>) -> bool {
        if !matches!(top.due, Due::Step | Due::Exception) {
            return false;
        }
        match (top.at, from) {
            (At::Unknown, _) | (At::Entry, None) => true,
            (At::Bytecode(at) | At::Resumed(at), Some(from)) => at == from,
            (At::Osr(at), Some(from)) => self.code(top.method).is_some_and(|c| c.is_edge(at, from)),
            _ => false,
        }
    }
    /// Whether a path leads from `from` to `to`. A missing path to a return is not a finding
    /// here, because the frame may end with an exception.
    fn leads(&mut self, top: &CheckedFrame, (from, to): (Option<Bci>, Option<Bci>), anew: bool) -> bool {
        let thrown = top.due == Due::Exception;
        // A frame that was found may have been at any position.
        let anywhere = top.at == At::Unknown && from.is_none();
        let leads = anywhere
            || self.reaches((top.method, from, to, thrown))
            || anew && self.reaches((top.method, None, to, false));
        if thrown && (leads || to.is_none()) {
            self.reset(Reset::CaughtInStretch);
        }
        if let Some(to) = to.filter(|_| !leads) {
            self.broken(Rule::Stretch, |n| {
                let from = from.map_or_else(|| "the entry".to_owned(), |b| n.bytecode(top.method, b));
                format!("no path leads from {from} to {}", n.bytecode(top.method, to))
            });
        }
        leads
    }
    /// [`Code::reaches`](crate::code::Code::reaches), cached.
    fn reaches(&mut self, stretch: Stretch) -> bool {
        if let Some(known) = self.stretches.get(&stretch) {
            return *known;
        }
        let (method, from, to, thrown) = stretch;
        let reaches = self.code(method).is_some_and(|c| c.reaches(from, to, thrown));
        self.stretches.insert(stretch, reaches);
        reaches
    }
    /// The opcode at the frame's position.
    pub(crate) fn opcode_at(&self, frame: &CheckedFrame) -> Option<Opcode> {
        self.op(frame.method, frame.at.bci()?).map(|op| op.opcode)
    }
}
