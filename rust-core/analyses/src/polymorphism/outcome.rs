// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What became of each invoke bytecode that was executed.

use jportal_bytecode::{MethodTable, Opcode, Shapes, Transfer};
use jportal_flow::{Entry, Event, EventKind, Exit, Provenance, Tier};
use jportal_units::{Bci, MethodId};

use crate::paths::Frames;

/// The method and bci of an invoke.
pub(crate) type Site = (MethodId, Bci);

/// What became of an invoke, or how a frame began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InvokeOutcome {
    /// A frame of this method was entered. The site is `None` if it is not known.
    Called { site: Option<Site>, callee: MethodId, native: bool },
    /// The next bytecode of the frame follows without a callee.
    Silent(Site),
    /// An exception in the caller came in the callee's place: the call did not happen.
    NotCalled(Site),
    /// What follows is not known.
    Unknown(Site),
    /// The VM or native code entered a frame. `from`: the native method that did it.
    Upcall { callee: MethodId, native: bool, from: Option<MethodId> },
    /// An exception left a frame of this method before its first bytecode.
    Unstarted(MethodId),
}

/// An activation.
#[derive(Clone, Copy, Debug)]
struct InvokeState {
    /// The last bytecode.
    last: Option<Bci>,
    /// The last bytecode is an invoke, and nothing is known of its callee so far.
    open: bool,
    /// The last bytecode may be executed again.
    again: bool,
    native: bool,
    /// It was entered by a call, and nothing happened since.
    new: bool,
}

impl InvokeState {
    const fn new(native: bool, new: bool) -> Self {
        Self { last: None, open: false, again: false, native, new }
    }
    /// The invoke whose callee is not known, which is so no longer.
    fn take(&mut self, method: MethodId) -> Option<Site> {
        let open = std::mem::take(&mut self.open);
        self.last.filter(|_| open).map(|bci| (method, bci))
    }
}

/// Follows the invokes of one thread.
#[derive(Debug, Default)]
pub(crate) struct Invokes {
    frames: Frames<InvokeState>,
}

fn is_invoke(methods: &MethodTable, method: MethodId, bci: Bci) -> bool {
    let opcode = methods.get(method).and_then(|m| m.code.get(usize::from(bci.get())));
    opcode.is_some_and(|o| Opcode(*o).transfer() == Transfer::Invoke)
}

impl Invokes {
    /// Processes the next event. `out` receives what it shows.
    pub(crate) fn event(
        &mut self,
        tables: (&MethodTable, &Shapes),
        event: &Event,
        mut out: impl FnMut(InvokeOutcome, Provenance),
    ) {
        let p = event.provenance;
        match &event.kind {
            EventKind::Bytecode { method, bci, .. } => {
                self.executed(tables, (*method, *bci, *bci), &mut |o| out(o, p));
            }
            EventKind::Run { method, first, last, .. } => {
                self.executed(tables, (*method, *first, *last), &mut |o| out(o, p));
            }
            EventKind::Enter { method, entry, tier } => {
                self.enter(tables.0, (*method, *entry, *tier == Tier::Native), &mut |o| out(o, p));
            }
            EventKind::Leave { exit, .. } => self.leave(*exit, &mut |o| out(o, p)),
            EventKind::Catch { method, .. } => {
                if let Some(top) = self.frames.at(*method, || InvokeState::new(false, false)) {
                    top.state.new = false;
                    top.state
                        .take(*method)
                        .into_iter()
                        .for_each(|site| out(InvokeOutcome::NotCalled(site), p));
                }
            }
            EventKind::Gap(gap) if gap.stack_lost => self.end(|o| out(o, p)),
            EventKind::Gap(_) | EventKind::Unresolved { .. } => {
                if let Some(top) = self.frames.top() {
                    top.state.new = false;
                    let site = top.state.take(top.method);
                    site.into_iter().for_each(|site| out(InvokeOutcome::Unknown(site), p));
                }
            }
            EventKind::Orphan(_) | EventKind::Time(_) | EventKind::Code(_) => {}
        }
    }
    /// The flow has ended.
    pub(crate) fn end(&mut self, mut out: impl FnMut(InvokeOutcome)) {
        self.frames.lose(|mut f| {
            f.state.take(f.method).into_iter().for_each(|site| out(InvokeOutcome::Unknown(site)));
        });
    }
    fn executed(
        &mut self,
        (methods, shapes): (&MethodTable, &Shapes),
        (method, first, last): (MethodId, Bci, Bci),
        out: &mut impl FnMut(InvokeOutcome),
    ) {
        let Some(top) = self.frames.at(method, || InvokeState::new(false, false)) else { return };
        let state = &mut top.state;
        // The same invoke again has one outcome.
        let before = state.take(method).filter(|site| !(state.again && site.1 == first));
        before.into_iter().for_each(|site| out(InvokeOutcome::Silent(site)));
        if first != last {
            let shape = shapes.get(methods, method);
            for bci in shape.map_or(&[][..], |s| s.invokes_before((first, last))) {
                out(InvokeOutcome::Silent((method, *bci)));
            }
        }
        *state = InvokeState { last: Some(last), ..InvokeState::new(state.native, false) };
        state.open = is_invoke(methods, method, last);
    }
    fn enter(
        &mut self,
        methods: &MethodTable,
        (method, entry, native): (MethodId, Entry, bool),
        out: &mut impl FnMut(InvokeOutcome),
    ) {
        if let Some(top) = self.frames.top() {
            top.state.new = false;
        }
        match entry {
            Entry::Call => {
                let site = self.frames.top().and_then(|top| {
                    top.state.open = false;
                    top.state.last.map(|bci| (top.method, bci))
                });
                let site = site.filter(|(m, bci)| is_invoke(methods, *m, *bci));
                out(InvokeOutcome::Called { site, callee: method, native });
            }
            Entry::Upcall => {
                let from = self.frames.top().filter(|top| top.state.native).map(|top| top.method);
                out(InvokeOutcome::Upcall { callee: method, native, from });
            }
            Entry::Osr | Entry::Deoptimisation | Entry::Found => {}
        }
        let new = matches!(entry, Entry::Call | Entry::Upcall) && !native;
        self.frames.enter(
            (method, entry),
            || InvokeState::new(native, new),
            |mut lost| {
                lost.state.take(lost.method).into_iter().for_each(|site| out(InvokeOutcome::Unknown(site)));
            },
        );
        if let Some(top) = self.frames.top().filter(|_| entry == Entry::Deoptimisation) {
            top.state.again = true;
        }
    }
    fn leave(&mut self, exit: Exit, out: &mut impl FnMut(InvokeOutcome)) {
        let popped = self.frames.leave(exit, |mut lost| {
            lost.state.take(lost.method).into_iter().for_each(|site| out(InvokeOutcome::Unknown(site)));
        });
        if let Some(mut frame) = popped {
            let unwound = exit == Exit::Unwind;
            if frame.state.new && unwound {
                out(InvokeOutcome::Unstarted(frame.method));
            }
            if let Some(site) = frame.state.take(frame.method) {
                out(if unwound { InvokeOutcome::NotCalled(site) } else { InvokeOutcome::Unknown(site) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_tests::in_runs;
    use crate::testing::{bytecode, enter, enter_as, gap, leave, leave_as, method};
    use jportal_flow::Cause;

    /// m0: 0 nop; 1 invokestatic; 4 nop; 5 invokestatic; 8 return. m1: native.
    fn methods() -> MethodTable {
        let mut t = MethodTable::default();
        t.push(method("a/B", "f", &[0, 184, 0, 1, 0, 184, 0, 1, 177]));
        t.push(method("a/B", "g", &[]));
        t
    }
    fn outcomes(events: &[Event]) -> Vec<InvokeOutcome> {
        let methods = methods();
        let shapes = Shapes::new(&methods);
        let of = |events: &[Event]| {
            let (mut invokes, mut all) = (Invokes::default(), Vec::new());
            events.iter().for_each(|e| invokes.event((&methods, &shapes), e, |o, _| all.push(o)));
            invokes.end(|o| all.push(o));
            all.retain(|o| !matches!(o, InvokeOutcome::Upcall { .. }));
            all
        };
        let all = of(events);
        assert_eq!(all, of(&in_runs(&methods, events)));
        all
    }
    fn site(bci: u16) -> Site {
        (MethodId(0), Bci(bci))
    }
    fn called(bci: u16) -> InvokeOutcome {
        InvokeOutcome::Called { site: Some(site(bci)), callee: MethodId(1), native: false }
    }
    fn replaced(entry: Entry) -> [Event; 2] {
        [leave_as(0, Exit::Replaced), enter_as(0, entry)]
    }

    #[test]
    fn calls_and_silent_calls() {
        let start = [enter_as(0, Entry::Upcall), bytecode(0, 0), bytecode(0, 1)];
        let rest = [bytecode(0, 4), bytecode(0, 5), bytecode(0, 8), leave(0)];
        let call = [enter(1), leave(1)];
        assert_eq!(
            outcomes(&[&start[..], &call, &rest].concat()),
            [called(1), InvokeOutcome::Silent(site(5))]
        );
        // The VM loads a class first.
        let upcall = [enter_as(1, Entry::Upcall), leave(1)];
        assert_eq!(
            outcomes(&[&start[..], &upcall, &rest].concat()),
            [InvokeOutcome::Silent(site(1)), InvokeOutcome::Silent(site(5))]
        );
        assert_eq!(outcomes(&[&start[..], &upcall, &call, &rest[..1]].concat()), [called(1)]);
    }

    #[test]
    fn calls_that_did_not_happen() {
        let start = [enter(0), bytecode(0, 0), bytecode(0, 1)];
        let catch = Event::decoded(EventKind::Catch { method: MethodId(0), bci: Bci(4) });
        let not = InvokeOutcome::NotCalled(site(1));
        assert_eq!(outcomes(&[&start[1..], &[leave_as(0, Exit::Unwind)]].concat()), [not]);
        assert_eq!(outcomes(&[&start[1..], &[catch.clone(), bytecode(0, 4)]].concat()), [not]);
        let thrown = [enter(1), leave_as(1, Exit::Unwind), catch];
        assert_eq!(
            outcomes(&[&start[1..], &thrown].concat()),
            [called(1), InvokeOutcome::Unstarted(MethodId(1))],
            "the callee threw"
        );
    }

    #[test]
    fn an_invoke_executed_again_is_one_invoke() {
        for entry in [Entry::Deoptimisation, Entry::Osr] {
            let again = [&[bytecode(0, 1)][..], &replaced(entry), &[bytecode(0, 1), enter(1)]].concat();
            let silent = if entry == Entry::Osr { vec![InvokeOutcome::Silent(site(1))] } else { vec![] };
            assert_eq!(outcomes(&again), [silent, vec![called(1)]].concat());
        }
        let after = [&[bytecode(0, 1)][..], &replaced(Entry::Deoptimisation), &[bytecode(0, 4)]].concat();
        assert_eq!(outcomes(&after), [InvokeOutcome::Silent(site(1))]);
        let run =
            [&[bytecode(0, 1)][..], &replaced(Entry::Deoptimisation), &[bytecode(0, 1), bytecode(0, 4)]];
        assert_eq!(outcomes(&run.concat()), [InvokeOutcome::Silent(site(1))]);
    }

    #[test]
    fn what_is_not_known() {
        let unknown = [InvokeOutcome::Unknown(site(1))];
        let (from, to, cause) = (Some(Bci(1)), Some(Bci(4)), Cause::EmptyLoop);
        let stretch = EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 };
        for e in [gap(true), gap(false), Event::decoded(stretch), leave(0), leave_as(0, Exit::Lost)] {
            assert_eq!(outcomes(&[bytecode(0, 1), e.clone(), bytecode(0, 4)]), unknown, "{e:?}");
        }
        assert_eq!(outcomes(&[bytecode(0, 1)]), unknown, "the flow ends");
        let nowhere = InvokeOutcome::Called { site: None, callee: MethodId(1), native: false };
        assert_eq!(outcomes(&[bytecode(0, 4), enter(1)]), [nowhere]);
    }
}
