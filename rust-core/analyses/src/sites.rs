// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Invokes without a callee: silent calls, and calls that did not happen.
//!
//! A *silent call* is an invoke after which the same frame executes the next bytecode, without a
//! callee in between. An intrinsic's instructions ran in the callee's place, a linker of method
//! handles, or nothing, because a compiler removed the call with all its effects. The
//! interpreter has intrinsic entries, too. A *call that did not happen* is an invoke that threw:
//! the receiver was null, linking failed, or a class initialiser threw. The exception is caught
//! in the invoking frame or leaves it.
//!
//! Frames that the VM calls between the invoke and its outcome are no callees: they load and
//! initialise classes, link call sites and construct the exceptions that the VM throws. A
//! deoptimised frame that executes its invoke again has made no call before, either.

use std::cmp::Ordering;

use jportal_bytecode::{Instruction, InvokeRef, MethodTable, Opcode, Shapes, Transfer};
use jportal_flow::{Entry, EventKind, Exit};
use jportal_units::{Bci, MethodId};

/// The outcome of an invoke without a callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UncalledOutcome {
    /// The same frame executed the next bytecode.
    Silent,
    /// The invoke threw before it called.
    DidNotHappen,
}

/// An invoke without a callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uncalled<'m> {
    /// The method of the invoke.
    pub method: MethodId,
    /// The invoke.
    pub bci: Bci,
    /// What happened instead of the call.
    pub outcome: UncalledOutcome,
    /// The symbolic target; `None` if the capture does not have it. For virtual calls the method
    /// that was meant may override it.
    pub target: Option<&'m InvokeRef>,
}

/// An invoke: its method and its bci.
type Site = (MethodId, Bci);

/// Follows the invokes of one thread.
#[derive(Debug, Default)]
pub struct Sites {
    depth: u64,
    /// The last bytecode of the top frame, if it is an invoke of which the outcome is not known.
    pending: Option<Site>,
    /// Invokes on top of which the VM called other frames: the depth of the invoking frame, and
    /// the invoke.
    under: Vec<(u64, Site)>,
}

impl Sites {
    /// The last bytecode of the top frame, if it is an invoke of which the outcome is not known.
    pub const fn pending(&self) -> Option<(MethodId, Bci)> {
        self.pending
    }
    /// Processes the next event of the thread, and reports the invokes whose outcome it decides.
    #[inline]
    pub fn event<'m>(
        &mut self,
        (methods, shapes): (&'m MethodTable, &Shapes),
        kind: &EventKind,
        mut found: impl FnMut(Uncalled<'m>),
    ) {
        if let Some(run) = kind.executed() {
            return self.executes((methods, shapes), run, found);
        }
        let mut report = |(method, bci): Site, outcome| {
            let target = methods.get(method).and_then(|m| m.invoke_at(bci));
            found(Uncalled { method, bci, outcome, target });
        };
        match kind {
            EventKind::Bytecode { .. } | EventKind::Run { .. } => {}
            EventKind::Enter { entry, .. } => self.enter(*entry),
            EventKind::Leave { method, exit } => self.leave(*method, *exit, &mut report),
            EventKind::Catch { method, .. } => {
                if let Some(site) = self.pending.take().filter(|(m, _)| m == method) {
                    report(site, UncalledOutcome::DidNotHappen);
                }
            }
            EventKind::Gap(gap) if gap.stack_lost => *self = Self::default(),
            EventKind::Gap(_) | EventKind::Unresolved { .. } | EventKind::Orphan(_) => self.pending = None,
            EventKind::Time(_) | EventKind::Code(_) => {}
        }
    }
    /// The top frame, one of this method, executes the bytecodes from the first to the last.
    #[inline]
    pub(crate) fn executes<'m>(
        &mut self,
        (methods, shapes): (&'m MethodTable, &Shapes),
        (method, first, last): (MethodId, Bci, Bci),
        mut found: impl FnMut(Uncalled<'m>),
    ) {
        let mut report = |(method, bci): Site, outcome| {
            let target = methods.get(method).and_then(|m| m.invoke_at(bci));
            found(Uncalled { method, bci, outcome, target });
        };
        if self.pending.is_some() {
            self.resume(methods, (method, first), &mut report);
        }
        if first == last {
            return self.stand_at(methods, (method, last));
        }
        let shape = shapes.get(methods, method);
        let invokes = shape.map_or(&[][..], |s| &s.invokes);
        let from = invokes.partition_point(|bci| *bci < first);
        for &bci in &invokes[from..] {
            match bci.cmp(&last) {
                Ordering::Less => report((method, bci), UncalledOutcome::Silent),
                Ordering::Equal => self.pending = Some((method, bci)),
                Ordering::Greater => break,
            }
        }
        // A shape ends where its code is malformed.
        if shape.is_none_or(|s| s.malformed) {
            self.stand_at(methods, (method, last));
        }
    }
    /// The top frame executes a bytecode after its invoke.
    fn resume(&mut self, methods: &MethodTable, at: Site, report: &mut impl FnMut(Site, UncalledOutcome)) {
        let Some(site) = self.pending.take().filter(|(m, _)| *m == at.0) else { return };
        let code = methods.get(site.0).map_or(&[][..], |m| &m.code);
        if Instruction::at(code, site.1.get().into()).is_ok_and(|i| i.next() == at.1) {
            report(site, UncalledOutcome::Silent);
        }
    }
    /// The last bytecode of an event.
    fn stand_at(&mut self, methods: &MethodTable, (method, bci): Site) {
        let opcode = methods.get(method).and_then(|m| m.code.get(usize::from(bci.get())));
        if opcode.is_some_and(|o| Opcode(*o).transfer() == Transfer::Invoke) {
            self.pending = Some((method, bci));
        }
    }
    fn enter(&mut self, entry: Entry) {
        match entry {
            Entry::Upcall => self.under.extend(self.pending.take().map(|site| (self.depth, site))),
            // The frame keeps its position.
            Entry::Osr | Entry::Deoptimisation => {}
            Entry::Call | Entry::Found => self.pending = None,
        }
        self.depth += 1;
    }
    fn leave(&mut self, method: MethodId, exit: Exit, report: &mut impl FnMut(Site, UncalledOutcome)) {
        self.depth = self.depth.saturating_sub(1);
        if exit == Exit::Replaced {
            return;
        }
        if let Some(site) = self.pending.take().filter(|(m, _)| exit == Exit::Unwind && *m == method) {
            report(site, UncalledOutcome::DidNotHappen);
        }
        while let Some(&(depth, site)) = self.under.last().filter(|u| u.0 >= self.depth) {
            self.under.pop();
            let back = depth == self.depth && depth > 0 && exit != Exit::Lost;
            self.pending = Some(site).filter(|_| back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, gap, leave, leave_as, method};
    use jportal_bytecode::{Method, testing};
    use jportal_flow::{Event, Tier};

    /// m0: 0 `invokestatic` java/lang/Math.abs; 3 `nop`; 4 `invokestatic`; 7 `return`. The
    /// second target is not in the capture. m1 is `return`.
    fn methods() -> MethodTable {
        let mut t = MethodTable::default();
        let invokes = Box::new([testing::calls(0, "java/lang/Math", "abs")]);
        t.push(Method { invokes, ..method("a/B", "f", &[184, 0, 1, 0, 184, 0, 2, 177]) });
        t.push(method("a/B", "g", &[177]));
        t
    }

    fn uncalled(events: &[Event]) -> Vec<(u32, u16, UncalledOutcome)> {
        let t = methods();
        let (shapes, mut sites, mut all) = (Shapes::new(&t), Sites::default(), Vec::new());
        for e in events {
            sites.event((&t, &shapes), &e.kind, |u| {
                assert_eq!(u.target.map(|i| &*i.name), (u.bci == Bci(0)).then_some("abs"));
                all.push((u.method.get(), u.bci.get(), u.outcome));
            });
        }
        all
    }

    fn run(first: u16, last: u16, len: u16) -> Event {
        let (method, tier) = (MethodId(0), Tier::C2);
        Event::decoded(EventKind::Run { method, first: Bci(first), last: Bci(last), len, tier })
    }

    fn catch(m: u32, bci: u16) -> Event {
        Event::decoded(EventKind::Catch { method: MethodId(m), bci: Bci(bci) })
    }

    #[test]
    fn the_next_bytecode_of_the_frame_makes_a_call_silent() {
        let silent = |bci| (0, bci, UncalledOutcome::Silent);
        assert_eq!(uncalled(&[enter(0), bytecode(0, 0), bytecode(0, 3)]), [silent(0)]);
        assert_eq!(uncalled(&[enter(0), bytecode(0, 0), run(3, 7, 3)]), [silent(0), silent(4)]);
        assert_eq!(uncalled(&[enter(0), run(0, 4, 3), bytecode(0, 7)]), [silent(0), silent(4)]);
        assert_eq!(uncalled(&[enter(0), bytecode(0, 0), enter(1), leave(1), bytecode(0, 3)]), []);
        assert_eq!(uncalled(&[enter(0), bytecode(0, 0), bytecode(0, 7)]), [], "not the next one");
        assert_eq!(uncalled(&[enter(0), bytecode(0, 0), gap(false), bytecode(0, 3)]), []);
    }

    #[test]
    fn frames_that_the_vm_calls_are_no_callees() {
        let upcall = [enter(0), bytecode(0, 0), enter_as(1, Entry::Upcall), bytecode(1, 0)];
        let then = |rest: &[Event]| uncalled(&[&upcall[..], rest].concat());
        assert_eq!(then(&[leave(1), bytecode(0, 3)]), [(0, 0, UncalledOutcome::Silent)]);
        assert_eq!(then(&[leave(1), enter(1), leave(1), bytecode(0, 3)]), []);
        assert_eq!(then(&[leave(1), catch(0, 7)]), [(0, 0, UncalledOutcome::DidNotHappen)]);
        let unwound = leave_as(1, Exit::Unwind);
        let out = leave_as(0, Exit::Unwind);
        assert_eq!(then(&[unwound, out]), [(0, 0, UncalledOutcome::DidNotHappen)]);
        // The called frame is replaced; the invoke below it waits on.
        let osr = [leave_as(1, Exit::Replaced), enter_as(1, Entry::Osr), leave(1), bytecode(0, 3)];
        assert_eq!(then(&osr), [(0, 0, UncalledOutcome::Silent)]);
        assert_eq!(then(&[leave_as(1, Exit::Lost), bytecode(0, 3)]), []);
    }

    #[test]
    fn an_invoke_that_throws_does_not_call() {
        let begun = [enter(0), bytecode(0, 0)];
        let then = |rest: &[Event]| uncalled(&[&begun[..], rest].concat());
        assert_eq!(then(&[catch(0, 7), bytecode(0, 7)]), [(0, 0, UncalledOutcome::DidNotHappen)]);
        assert_eq!(then(&[leave_as(0, Exit::Unwind)]), [(0, 0, UncalledOutcome::DidNotHappen)]);
        assert_eq!(then(&[leave_as(0, Exit::Lost)]), []);
        assert_eq!(then(&[enter(1), leave_as(1, Exit::Unwind), catch(0, 7)]), [], "the callee threw");
    }

    #[test]
    fn an_invoke_that_is_executed_again_is_one_call() {
        let again = [leave_as(0, Exit::Replaced), enter_as(0, Entry::Deoptimisation)];
        let begun = [enter(0), bytecode(0, 0)];
        let then = |rest: &[Event]| uncalled(&[&begun[..], &again, rest].concat());
        assert_eq!(then(&[bytecode(0, 0), enter(1)]), []);
        assert_eq!(then(&[bytecode(0, 0), bytecode(0, 3)]), [(0, 0, UncalledOutcome::Silent)]);
        assert_eq!(
            then(&[bytecode(0, 3)]),
            [(0, 0, UncalledOutcome::Silent)],
            "it resumed with the next one"
        );
    }
}
