// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Turns the events of a flow into steps at the level of blocks.

use std::sync::Arc;

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Entry, Event, EventKind, Exclude, Exit, Provenance, Tier};
use jportal_units::{Bci, MethodId, Tsc};

use super::numbers::Numbers;
use super::step::{Left, Step};
use crate::known::Known;

/// The rules by which events become steps.
///
/// A block is executed when its first bytecode begins. A run may pass several leaders, and each
/// counts. A bytecode that the flow reports twice, because it was executed again after a
/// deoptimisation, counts twice, as in all other reports.
#[derive(Debug)]
pub struct Steps {
    methods: Arc<MethodTable>,
    numbers: Numbers,
    /// By method: whether it is in scope.
    scope: Box<[bool]>,
    natives: bool,
    exclude: Exclude,
}

/// The state of one thread.
#[derive(Debug, Default)]
pub struct StepsThread {
    /// A frame that has not executed a bytecode yet.
    pending: Option<(MethodId, Provenance)>,
    /// The time that passed since that frame was entered.
    time: Option<Tsc>,
    orphans: u64,
    excluded: u64,
    no_blocks: Option<(MethodId, u64)>,
    known: Known,
    /// The position is not known from the steps before.
    resumed: bool,
}

impl Steps {
    /// `scope` says of which methods there are steps. `natives`: whether native methods begin and
    /// end.
    pub fn new(
        methods: Arc<MethodTable>,
        scope: impl Fn(&Method) -> bool,
        natives: bool,
        exclude: Exclude,
    ) -> Self {
        let scope = methods.iter().map(scope).collect();
        Self { numbers: Numbers::new(&methods), methods, scope, natives, exclude }
    }
    /// The methods.
    pub const fn methods(&self) -> &Arc<MethodTable> {
        &self.methods
    }
    /// The numbers of blocks.
    pub const fn numbers(&self) -> &Numbers {
        &self.numbers
    }
    /// Whether there are steps of a method. Unknown methods are in scope.
    #[inline]
    pub fn in_scope(&self, method: MethodId) -> bool {
        self.scope.get(method.get() as usize).copied().unwrap_or(true)
    }
    /// Passes the steps of the next event to `out`. `out` also gets how the step is known.
    pub fn event(&self, t: &mut StepsThread, e: &Event, out: &mut impl FnMut(Step<'_>, Provenance)) {
        if self.exclude.hides_event(e) && !matches!(e.kind, EventKind::Time(_)) {
            t.start(out);
            t.excluded += e.kind.bytecodes().max(1);
            t.resumed = true;
            return;
        }
        match &e.kind {
            EventKind::Orphan(_) => {
                t.start(out);
                t.orphans += 1;
                t.resumed = true;
            }
            EventKind::Code(_) => {}
            EventKind::Time(tsc) if t.pending.is_some() => t.time = Some(*tsc),
            EventKind::Bytecode { method, bci, .. } => {
                self.run(t, *method, (*bci, *bci), 1, e.provenance, out)
            }
            EventKind::Run { method, first, last, len, .. } => {
                self.run(t, *method, (*first, *last), u64::from(*len), e.provenance, out);
            }
            _ => self.other(t, e, out),
        }
    }
    /// The thread's flow has ended.
    pub fn end(&self, t: &mut StepsThread, out: &mut impl FnMut(Step<'_>, Provenance)) {
        t.settle(out);
    }

    fn run(
        &self,
        t: &mut StepsThread,
        method: MethodId,
        run: (Bci, Bci),
        len: u64,
        provenance: Provenance,
        out: &mut impl FnMut(Step<'_>, Provenance),
    ) {
        let resumed = std::mem::take(&mut t.resumed);
        if !self.in_scope(method) {
            t.start(out);
            t.resumed = resumed;
            return;
        }
        let Some(blocks) = self.numbers.get(&self.methods, method).and_then(|n| n.begun(run).map(|b| (n, b)))
        else {
            t.no_blocks(method, len, out);
            return;
        };
        t.settle(out);
        t.known(provenance, out);
        let (numbers, begun) = blocks;
        if resumed && numbers.at(run.0).is_none_or(|(_, leader)| !leader) {
            out(Step::At { method, bci: run.0 }, provenance);
        }
        for block in begun {
            out(Step::Block { method, block: block as u16 }, provenance);
        }
    }

    fn other(&self, t: &mut StepsThread, e: &Event, out: &mut impl FnMut(Step<'_>, Provenance)) {
        let provenance = e.provenance;
        if let (Some((method, _)), EventKind::Leave { method: left, exit: Exit::Unwind }) =
            (t.pending, &e.kind)
            && method == *left
        {
            t.pending = None;
            t.settle(out);
            t.known(provenance, out);
            out(Step::Left { method, how: Left::Unstarted }, provenance);
            return;
        }
        t.settle(out);
        match &e.kind {
            EventKind::Enter { method, tier, entry } => {
                self.enter(t, *method, (*tier, *entry), provenance, out)
            }
            EventKind::Leave { method, exit } => {
                if let Some(step) = self.leave(*method, *exit) {
                    t.known(provenance, out);
                    out(step, provenance);
                }
            }
            EventKind::Catch { method, bci } if self.in_scope(*method) => {
                t.known(provenance, out);
                out(Step::Catch { method: *method, bci: *bci }, provenance);
            }
            EventKind::Unresolved { method, from, to, cause, callers } => {
                let (method, from, to, cause, callers) = (*method, *from, *to, *cause, *callers);
                out(Step::Unresolved { method, from, to, cause, callers }, provenance);
            }
            EventKind::Gap(gap) => {
                t.resumed = true;
                out(Step::Gap(gap), provenance);
            }
            EventKind::Time(tsc) => out(Step::Time(*tsc), provenance),
            EventKind::Catch { .. }
            | EventKind::Bytecode { .. }
            | EventKind::Run { .. }
            | EventKind::Code(_)
            | EventKind::Orphan(_) => {}
        }
    }

    fn enter(
        &self,
        t: &mut StepsThread,
        method: MethodId,
        (tier, entry): (Tier, Entry),
        provenance: Provenance,
        out: &mut impl FnMut(Step<'_>, Provenance),
    ) {
        let native = tier == Tier::Native;
        if !self.in_scope(method) || (native && !self.natives) {
            return;
        }
        match entry {
            Entry::Call | Entry::Upcall => {
                t.pending = Some((method, provenance));
                // A native method has no first bytecode to wait for.
                if native {
                    t.start(out);
                }
            }
            Entry::Found => {
                t.known(provenance, out);
                out(Step::Found { method }, provenance);
                t.resumed = true;
            }
            Entry::Osr | Entry::Deoptimisation => {}
        }
    }

    fn leave(&self, method: MethodId, exit: Exit) -> Option<Step<'static>> {
        let native = self.methods.get(method).is_some_and(Method::is_native);
        if !self.in_scope(method) || (native && !self.natives) {
            return None;
        }
        match exit {
            Exit::Return => Some(Step::End { method }),
            Exit::Unwind => Some(Step::Left { method, how: Left::Unwind }),
            Exit::PopFrame => Some(Step::Left { method, how: Left::PopFrame }),
            Exit::EarlyReturn => Some(Step::Left { method, how: Left::EarlyReturn }),
            Exit::Lost => Some(Step::Lost { method, ended: false }),
            Exit::Unknown => Some(Step::Lost { method, ended: true }),
            Exit::Replaced => None,
        }
    }
}

impl StepsThread {
    /// The frame that was entered last has started.
    fn start(&mut self, out: &mut impl FnMut(Step<'_>, Provenance)) {
        if let Some((method, provenance)) = self.pending.take() {
            self.counts(out);
            self.known(provenance, out);
            out(Step::Start { method }, provenance);
        }
        if let Some(tsc) = self.time.take() {
            out(Step::Time(tsc), Provenance::Decoded);
        }
    }
    /// Steps that were held back.
    fn settle(&mut self, out: &mut impl FnMut(Step<'_>, Provenance)) {
        self.start(out);
        self.counts(out);
    }
    fn counts(&mut self, out: &mut impl FnMut(Step<'_>, Provenance)) {
        if self.excluded > 0 {
            out(Step::Excluded(std::mem::take(&mut self.excluded)), Provenance::Decoded);
        }
        if self.orphans > 0 {
            out(Step::Orphans(std::mem::take(&mut self.orphans)), Provenance::Decoded);
        }
        if let Some((method, bytecodes)) = self.no_blocks.take() {
            out(Step::NoBlocks { method, bytecodes }, Provenance::Decoded);
        }
    }
    /// Bytecodes of a method whose blocks are not known.
    fn no_blocks(&mut self, method: MethodId, len: u64, out: &mut impl FnMut(Step<'_>, Provenance)) {
        let counted = match self.no_blocks.take() {
            Some((m, n)) if m == method && self.pending.is_none() => n,
            other => {
                self.no_blocks = other;
                self.settle(out);
                0
            }
        };
        self.no_blocks = Some((method, counted + len));
    }
    fn known(&mut self, provenance: Provenance, out: &mut impl FnMut(Step<'_>, Provenance)) {
        let known = Known::from(provenance);
        if known != self.known {
            self.known = known;
            out(Step::Known(known), provenance);
        }
    }
}
