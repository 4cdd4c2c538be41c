// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Follows compiled code through path markers: executed machine blocks → bytecode blocks.
//!
//! The compilers say which bytecode blocks begin at which instructions and on which edges
//! (`capture/FORMAT.md`, *Path markers*). Between two markers, control follows one edge of the
//! method, so every bytecode in between is certain. Debug info is used in addition where it is
//! exact: at calls, and where an instruction faulted or was interrupted.

use crate::compiled::is_deopt_handler;
use crate::folds;
use crate::frame::{Frame, Position, Restart, Run, Trail};
use crate::machine::{Before, Machine};
use crate::moves::{FrameMove, MoveTarget};
use crate::paths::Ends;
use crate::states::{Marked, Unmarked};
use crate::tags::CodeClass;
use jportal_bytecode::{Opcode, Transfer};
use jportal_capture::schema::{ambiguities, compilers, pc_flags};
use jportal_flow::{Cause, Entry, EventKind, Tier};
use jportal_machine_flow::Exit;
use jportal_units::{Bci, MethodId};
use jportal_vm_image::{Marker, NMethod, Outcome, PathMarkers, PcPosition};

impl<'a> Machine<'a> {
    /// The top frame executes the block `from..to` of `n`, which ends with `exit`.
    pub(crate) fn follow_markers(
        &mut self,
        n: &'a NMethod,
        m: &'a PathMarkers,
        (from, to): (u32, u32),
        exit: Exit,
    ) {
        // Handlers and stubs after the main code belong to no bytecode.
        if from >= n.stub {
            return self.pass_handler(n, from);
        }
        let Some(trail) = self.trail() else { return };
        let run = Run { from, to, exit };
        let again = n.compiler == compilers::C1 && trail.continues_at_patch(from);
        let last = trail.run(run, n.compiler == compilers::C1);
        if let Some(last) = last {
            self.pass_edge(n, m, last, from);
        }
        self.observe_block(from, to);
        if exit == Exit::Cut {
            self.observe_cut();
        }
        let passed = m.passed(from, to).filter(|&(at, _)| !(again && at == from));
        if exit == Exit::Cut && !self.is_early() {
            let marks = passed.flat_map(|(_, list)| list).copied();
            return self.pass_until_cut(n, m, marks.collect(), to);
        }
        // The position at the start of the block may be that of the call that returned there.
        let mut done = from + 1;
        for (at, list) in passed {
            self.observe_inside(n, from, (done, at));
            self.pass_polls(n, m, (done, at));
            done = done.max(at);
            list.iter().for_each(|&mark| self.pass(m, mark));
        }
        self.observe_inside(n, from, (done, to));
        self.pass_polls(n, m, (done, to));
        match exit {
            Exit::Call | Exit::IndirectCall => self.pass_call(n, m, (from, to)),
            Exit::Return => self.settle(m),
            _ => {}
        }
    }
    /// A call returned to a frame that is not valid any more. If the call's state is one at
    /// which the interpreter restarts, control executed no path from the position to that
    /// state.
    fn pass_handler(&mut self, n: &NMethod, from: u32) {
        let Some(restart) = self.trail().and_then(|t| t.restart) else { return };
        if is_deopt_handler(n, from) {
            self.lose_path(restart.cause);
            // The bytecode there begins once.
            self.trail().into_iter().for_each(|t| t.ended = false);
        }
    }
    /// The block `from..to` ends with a call.
    fn pass_call(&mut self, n: &NMethod, m: &PathMarkers, (from, to): (u32, u32)) {
        self.observe_call(from, to);
        let position = n.position_at(to).or_else(|| self.athrow_in(n, from, to));
        self.settle_at(n, m, position);
        let restart = position.and_then(|p| self.restarts(n, p));
        if let Some(trail) = self.trail().filter(|_| restart.is_some()) {
            trail.restart = restart;
            return;
        }
        if let Some(p) = position {
            self.advance_inside(n, p.scope);
        }
        if let Some(trail) = self.trail() {
            trail.called = true;
        }
    }
    /// The position of a call may not be the one that control reached, but an earlier one, from
    /// which the interpreter would execute bytecodes again. Unless the call is that of an
    /// uncommon trap, C2 has
    /// * combined these bytecodes: a string concatenation has the state before the
    ///   `new StringBuilder` (`PhaseStringOpts::replace_string_concat`); or
    /// * moved an allocation after them: the checks of an array copy precede the allocation of
    ///   its destination (`LibraryCallKit::arraycopy_move_allocation_here`). The call is that of
    ///   the slow path.
    fn restarts(&mut self, n: &NMethod, p: &PcPosition) -> Option<Restart> {
        let Some(Frame::Compiled(c)) = self.stack.last() else { return None };
        if c.trail.fresh {
            return None;
        }
        let allocates = scope_positions(n, p.scope).next().is_some_and(|at| self.allocates(at));
        let reexecutes = p.flags & pc_flags::REEXECUTE != 0;
        if !allocates && !reexecutes {
            return None;
        }
        let state = scope_chain(n, p.scope);
        let (is, callers) = state.split_last()?;
        let &was = c.chain.get(callers.len()).filter(|_| c.chain.starts_with(callers))?;
        let passed = was.method == is.method
            && was.bci != is.bci
            && !self.leads_straight(was.method, (was.bci, is.bci));
        if !passed {
            return None;
        }
        let cause = if allocates && self.leads_straight(is.method, (is.bci, was.bci)) {
            Cause::MovedAllocation
        } else if reexecutes {
            Cause::StringConcatenation
        } else {
            return None;
        };
        p.scope.map(|scope| Restart { scope, cause })
    }
    /// Whether the bytecode at `position` allocates an array or an object.
    fn allocates(&self, position: Position) -> bool {
        const ALLOCATIONS: [Opcode; 4] =
            [Opcode::NEW, Opcode::NEWARRAY, Opcode::ANEWARRAY, Opcode::MULTIANEWARRAY];
        let step = position.bci.and_then(|bci| self.step(position.method, bci).ok());
        step.is_some_and(|step| ALLOCATIONS.contains(&step.opcode))
    }
    /// C1 records the position of an `athrow` before the call that throws. Other calls without
    /// a position, those of leaf routines, may have any position before them. The position at
    /// the start of the block may be that of the call that ends the preceding code.
    fn athrow_in<'n>(&self, n: &'n NMethod, from: u32, to: u32) -> Option<&'n PcPosition> {
        n.positions_in(from + 1, to).last().filter(|p| {
            let innermost = scope_positions(n, p.scope).next();
            let step = innermost.and_then(|at| self.step(at.method, at.bci?).ok());
            n.compiler == compilers::C1 && step.is_some_and(|s| s.transfer == Transfer::Throw)
        })
    }
    pub(crate) fn trail(&mut self) -> Option<&mut Trail> {
        match self.stack.last_mut() {
            Some(Frame::Compiled(c)) => Some(&mut c.trail),
            _ => None,
        }
    }
    /// Control came from the end of `last` to `at`.
    fn pass_edge(&mut self, n: &NMethod, m: &PathMarkers, last: Run, at: u32) {
        let restart = self.trail().and_then(|t| t.restart.take());
        let list = match last.exit {
            Exit::Cut if last.to == at && self.is_early() => return,
            Exit::Cut if last.to == at => return self.pass_held(m),
            Exit::Cut if self.came_from_poll(n, last.to, at) => {
                if !self.is_early() {
                    self.pass_held(m);
                }
                m.at(last.to).iter().for_each(|&mark| self.pass(m, mark));
                self.settle(m);
                m.on_edge(last.to, Outcome::NotTaken, at)
            }
            Exit::Cut => {
                self.stop_at_cut(n, last.to, Some(at));
                m.on_edge(last.to, Outcome::Fault, at)
            }
            Exit::Call | Exit::IndirectCall if last.to == at && !self.came_from_stub() => {
                m.on_edge(at, Outcome::CallReturn, at)
            }
            Exit::Call | Exit::IndirectCall => {
                if let Some(Restart { scope, cause }) = restart {
                    self.lose_path(cause);
                    self.advance_inside(n, Some(scope));
                }
                self.thrown();
                self.observe_handler(n, last, at);
                m.on_edge(last.to, Outcome::Exception, at)
            }
            // QEMU does not report the direction of a branch to the next instruction.
            Exit::Taken | Exit::NotTaken
                if last.to == at && self.shared.sees_addresses_only && m.leaves_undirected(last.from, at) =>
            {
                &[Marker::Ambiguous(ambiguities::SHARED_TARGET)]
            }
            Exit::Taken | Exit::Jump => m.leaving(last.from, last.to, Outcome::Taken, at),
            Exit::NotTaken | Exit::FallThrough => m.leaving(last.from, last.to, Outcome::NotTaken, at),
            Exit::IndirectJump => m.leaving(last.from, last.to, Outcome::JumpTable, at),
            Exit::Return | Exit::Far => &[],
        };
        list.iter().for_each(|&mark| self.pass(m, mark));
    }
    /// The interrupted block continues.
    pub(crate) fn pass_held(&mut self, m: &PathMarkers) {
        let mut held = self.trail().map(|t| std::mem::take(&mut t.held)).unwrap_or_default();
        held.drain(..).for_each(|mark| self.pass(m, mark));
        // The list is reused in the next iteration of a loop.
        if let Some(trail) = self.trail().filter(|t| t.held.is_empty()) {
            trail.held = held;
        }
    }
    /// Whether a runtime stub jumped here. C2's exception blob does, and the handler may be
    /// laid out after the call.
    fn came_from_stub(&self) -> bool {
        matches!(
            self.before,
            Before::Block { exit: Exit::Jump | Exit::IndirectJump, class: CodeClass::Transparent, .. }
        )
    }
    /// The block was interrupted before `cut`. C2 places all markers of a machine block at its
    /// start. Those that lie after the interruption, according to debug info, have to wait.
    fn pass_until_cut(&mut self, n: &NMethod, m: &PathMarkers, marks: Vec<Marker>, cut: u32) {
        let state = n.position_of_fault(cut).map(|p| scope_chain(n, p.scope)).filter(|s| !s.is_empty());
        let passed = match &state {
            Some(state) => self.passed_before(m, &marks, state),
            None => marks.len(),
        };
        marks[..passed].iter().for_each(|&mark| self.pass(m, mark));
        if let Some(trail) = self.trail() {
            trail.held = marks[passed..].to_vec();
        }
    }
    /// How many of `marks` control had passed when it was at `state`.
    fn passed_before(&mut self, m: &PathMarkers, marks: &[Marker], state: &[Position]) -> usize {
        if let Some(passed) = self.passed_with(m, marks, state) {
            return passed;
        }
        let Some(Frame::Compiled(c)) = self.stack.last() else { return marks.len() };
        let now = c.chain.clone();
        if self.contains(&now, state) { 0 } else { marks.len() }
    }
    /// How many of `marks` lead to the last block that contains `state`; `None` if none of the
    /// blocks contains it.
    fn passed_with(&mut self, m: &PathMarkers, marks: &[Marker], state: &[Position]) -> Option<usize> {
        for (i, mark) in marks.iter().enumerate().rev() {
            if let Marker::Block { context, bci } = *mark
                && let Some(chain) = marker_chain(m, context, bci)
                && self.contains(&chain, state)
            {
                return Some(i + 1);
            }
        }
        None
    }
    /// Whether `state` lies in the block of `chain`, at or after the position of `chain`.
    pub(crate) fn contains(&mut self, chain: &[Position], state: &[Position]) -> bool {
        let (Some((a, callers)), Some((b, others))) = (chain.split_last(), state.split_last()) else {
            return false;
        };
        let same = callers == others && a.method == b.method;
        same && (a.bci == b.bci || self.leads_straight(a.method, (a.bci, b.bci)))
    }
    /// Whether control gets from one bytecode to the other within a block; the last step may be
    /// a branch.
    fn leads_straight(&mut self, method: MethodId, ends: Ends) -> bool {
        let hop = self.paths.hop(self.shared, method, ends);
        hop.path.as_deref().is_some_and(|p| p.len() < 2 || p.windows(2).all(|w| w[0] < w[1]))
    }
    /// The instruction at `cut` faulted or the thread was stopped there, and control continues
    /// elsewhere: in the same code at `at`, or outside.
    pub(crate) fn stop_at_cut(&mut self, n: &NMethod, cut: u32, at: Option<u32>) {
        self.observe_stop(cut, at);
        if let Some(m) = &n.markers {
            self.settle_at(n, m, n.position_of_fault(cut));
            self.reach_cut(n, m, cut);
        }
        if let Some(trail) = self.trail() {
            trail.held.clear();
        }
        // If code after the method's main code throws an implicit exception, C2 has no debug
        // info for it. The exception that follows was then not thrown by the last known
        // bytecode.
        if let Some(p) = n.position_of_fault(cut) {
            self.advance_inside(n, p.scope);
            self.thrown();
        }
    }
    /// Blocks may begin at the very instruction that did not execute. Control reached these
    /// blocks, unless the state of the instruction says that it did not.
    fn reach_cut(&mut self, n: &NMethod, m: &PathMarkers, cut: u32) {
        if self.trail().is_none_or(|t| !t.held.is_empty()) {
            return;
        }
        let marks = m.at(cut);
        let reached = match n.position_of_fault(cut) {
            None => marks.len(),
            Some(p) => self.passed_with(m, marks, &scope_chain(n, p.scope)).unwrap_or(0),
        };
        marks[..reached].iter().for_each(|&mark| self.pass(m, mark));
    }
    fn thrown(&mut self) {
        if let Some(trail) = self.trail() {
            trail.thrown = true;
        }
    }
    pub(crate) fn pass(&mut self, m: &PathMarkers, mark: Marker) {
        if self.trail().is_some_and(|t| t.astray) {
            return;
        }
        if let Some(trail) = self.trail().filter(|t| t.early) {
            const MOST: usize = 4096;
            if mark != Marker::PollState && trail.held.len() < MOST {
                return trail.held.push(mark);
            }
            self.settle(m);
        }
        self.observe_marker(mark);
        match mark {
            Marker::PollState => {
                if let Some(trail) = self.trail() {
                    trail.early = true;
                }
            }
            Marker::Ambiguous(cause) => {
                self.lose_path(folds::cause(cause));
            }
            Marker::Block { context, bci } if self.is_in_context(context) => self.next_block(Bci(bci)),
            Marker::Block { context, bci } => {
                let mut chain = std::mem::take(&mut self.spare);
                if fill(&mut chain, backwards(m, context, bci)) {
                    self.advance(chain, MoveTarget::Block, Some(context));
                } else {
                    self.spare = chain;
                    self.lose_path(Cause::UnknownMethod);
                }
            }
        }
    }
    /// No step that a JVM could have made leads to the next marker: the compiler lost a marker
    /// or misplaced one.
    fn go_astray(&mut self) {
        if let Some(trail) = self.trail() {
            (trail.astray, trail.lost, trail.thrown) = (true, Some(Cause::MissingMarker), false);
            trail.marked = Marked::Unknown(Unmarked::Astray);
        }
    }
    /// It is not known what the top frame executes before its next marker.
    fn lose_path(&mut self, cause: Cause) {
        if let Some(trail) = self.trail() {
            trail.lost = Some(cause);
            trail.marked = Marked::Unknown(Unmarked::Lost(cause));
        }
    }
    /// Whether the top frame is being followed and its position is in the frames of `context`.
    fn is_in_context(&self, context: u32) -> bool {
        matches!(self.stack.last(), Some(Frame::Compiled(c)) if c.trail.context == Some(context) && !c.trail.fresh)
    }
    /// The innermost frame of the top frame continues at the block `bci`.
    fn next_block(&mut self, bci: Bci) {
        let Some(Frame::Compiled(c)) = self.stack.last_mut() else { return };
        let Some(p) = c.chain.last_mut() else { return };
        let (method, was) = (p.method, p.bci.replace(bci));
        let mut way = FrameMove::take(c.tier, &mut c.trail);
        if way.lost.is_some() {
            let callers = c.chain[..c.chain.len() - 1].to_vec();
            way.callers = self.rounds(&callers, way.lost);
        }
        let length = self.out.len();
        if self.move_in_frame(method, (was, Some(bci)), way) {
            return;
        }
        self.take_back(length, way.tier);
        if let Some(Frame::Compiled(c)) = self.stack.last_mut()
            && let Some(p) = c.chain.last_mut()
        {
            p.bci = was;
        }
        self.go_astray();
    }
    /// The top frame's position becomes that of `scope`.
    fn advance_inside(&mut self, n: &NMethod, scope: Option<u32>) {
        let mut chain = std::mem::take(&mut self.spare);
        fill(&mut chain, scope_positions(n, scope).map(Some));
        self.advance(chain, MoveTarget::Inside, None);
    }
    /// The top frame's position becomes `to`, in the frames of the markers' `context`.
    fn advance(&mut self, to: Vec<Position>, target: MoveTarget, context: Option<u32>) {
        let Some(Frame::Compiled(c)) = self.stack.last_mut() else { return };
        if to.is_empty() {
            return;
        }
        let fresh = std::mem::take(&mut c.trail.fresh);
        // Debug info is valid even if the markers were not.
        c.trail.astray = false;
        if !fresh && c.chain == to && target == MoveTarget::Inside {
            self.spare = to;
            return;
        }
        let (old, tier) = (std::mem::take(&mut c.chain), c.tier);
        let way = FrameMove::take(tier, &mut c.trail);
        let moved = if fresh {
            self.appear(&to, tier);
            true
        } else {
            self.move_or_not(&old, &to, target, way)
        };
        let (chain, spare) = if moved { (to, old) } else { (old, to) };
        self.spare = spare;
        let Some(Frame::Compiled(c)) = self.stack.last_mut() else { return };
        if moved && (target == MoveTarget::Block || !same_frames(&self.spare, &chain)) {
            c.trail.context = context;
        }
        c.chain = chain;
        if !moved {
            self.go_astray();
        }
    }
    /// As [`Machine::move_marked`], but a move to a marker that nothing explains emits no
    /// events.
    fn move_or_not(&mut self, old: &[Position], to: &[Position], target: MoveTarget, way: FrameMove) -> bool {
        let length = self.out.len();
        // The move may extend the run that ends here, so the run is saved.
        let last = self.out.last().filter(|e| e.kind.executed().is_some()).cloned();
        if self.move_marked(old, to, target, way) || target == MoveTarget::Inside {
            return true;
        }
        self.take_back(length, way.tier);
        if let Some((end, last)) = self.out.last_mut().zip(last) {
            self.counters.bytecodes -= end.kind.bytecodes() - last.kind.bytecodes();
            *end = last;
        }
        false
    }
    /// Keeps only the first `length` events. The others are of compiled code of this tier.
    fn take_back(&mut self, length: usize, tier: Tier) {
        if length == 0 {
            self.follows = None;
        }
        for event in self.out.drain(length..) {
            self.counters.bytecodes -= event.kind.bytecodes();
            if let EventKind::Unresolved { cause, .. } = event.kind {
                self.counters.unresolved.take_back(tier, cause);
            }
        }
    }
    /// Control is found at `chain`, whose outermost frame is known already.
    fn appear(&mut self, chain: &[Position], tier: Tier) {
        for p in &chain[1..] {
            self.emit_enter(p.method, tier, Entry::Found);
        }
        if let Some(Position { method, bci: Some(bci) }) = chain.last() {
            self.emit_bytecode(*method, *bci, tier);
        }
    }
    /// The compiled top frame is about to be replaced by interpreted ones. Its state is that of
    /// the interruption, if there was one, or the state before the bytecodes that it had begun.
    pub(crate) fn settle_cut(&mut self) {
        let Some(Frame::Compiled(c)) = self.stack.last() else { return };
        let (code, Some(last)) = (c.code, c.trail.last) else { return };
        let restart = c.trail.restart;
        let n = self.shared.image.code(code).and_then(|v| v.nmethod());
        let Some(n) = n.filter(|n| self.uses_markers(n)) else { return };
        if last.exit == Exit::Cut {
            self.stop_at_cut(n, last.to, None);
        } else if let Some(Restart { scope, cause }) = restart {
            // An uncommon trap. Without a moved allocation its state is its position.
            if cause == Cause::MovedAllocation {
                self.lose_path(cause);
            }
            self.advance_inside(n, Some(scope));
        }
    }
}

/// Whether the chains differ in nothing but the bci of the innermost frame.
fn same_frames(a: &[Position], b: &[Position]) -> bool {
    match (a.split_last(), b.split_last()) {
        (Some((a, callers)), Some((b, others))) => a.method == b.method && callers == others,
        _ => false,
    }
}

/// Fills `chain` with the positions, which are given innermost first. `false` if one is
/// unknown.
fn fill(chain: &mut Vec<Position>, innermost_first: impl Iterator<Item = Option<Position>>) -> bool {
    chain.clear();
    for p in innermost_first {
        let Some(p) = p else { return false };
        chain.push(p);
    }
    chain.reverse();
    true
}

/// The frames of `scope`, innermost first.
fn scope_positions(n: &NMethod, scope: Option<u32>) -> impl Iterator<Item = Position> + '_ {
    n.chain(scope).filter_map(|s| {
        let bci = u16::try_from(s.bci).ok().map(Bci);
        s.method.map(|method| Position { method, bci })
    })
}

/// The frames of `scope`, outermost first.
pub(crate) fn scope_chain(n: &NMethod, scope: Option<u32>) -> Vec<Position> {
    let mut chain = Vec::new();
    fill(&mut chain, scope_positions(n, scope).map(Some));
    chain
}

/// The frames of a marker, innermost first; `None` where a method is unknown.
fn backwards(m: &PathMarkers, context: u32, bci: u16) -> impl Iterator<Item = Option<Position>> + '_ {
    let mut at = bci;
    m.chain(context).map(move |c| {
        let bci = Some(Bci(std::mem::replace(&mut at, c.call_bci)));
        c.method.map(|method| Position { method, bci })
    })
}

/// The frames of a marker, outermost first; `None` where a method is unknown.
pub(crate) fn marker_chain(m: &PathMarkers, context: u32, bci: u16) -> Option<Vec<Position>> {
    let mut chain = Vec::new();
    fill(&mut chain, backwards(m, context, bci)).then_some(chain)
}
