//! Compiled code through path markers: executed machine blocks → bytecode blocks.
//!
//! The compilers say which bytecode blocks begin at which instructions and on which edges
//! (`capture/FORMAT.md`, *Path markers*). Between two markers control follows one edge of the method, so
//! every bytecode in between is certain. Debug info joins in where it is exact: at calls, and where an
//! instruction faulted or was interrupted.

use crate::folds;
use crate::frame::{Frame, Position, Run, Trail};
use crate::machine::{Machine, Shared};
use crate::paths::{Ends, to_throw};
use crate::silent::Known;
use jportal_bytecode::Transfer;
use jportal_capture::schema::ambiguities;
use jportal_flow::{Cause, Entry, EventKind, Exit as FrameExit, Tier};
use jportal_native_flow::Exit;
use jportal_units::{Bci, MethodId};
use jportal_vm_image::{Marker, NMethod, Outcome, PathMarkers};

/// How the end of a move is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    /// A marker: a block begins there, perhaps the same one again.
    Block,
    /// Debug info: a bytecode of the block that control is in.
    Inside,
}

impl Machine<'_> {
    /// The top frame executes the block `from..to` of `n`, which ends with `exit`.
    pub(crate) fn follow_markers(
        &mut self,
        n: &NMethod,
        m: &PathMarkers,
        (from, to): (u32, u32),
        exit: Exit,
    ) {
        // Handlers and stubs behind the code belong to no bytecode.
        if from >= n.stub {
            return;
        }
        let Some(trail) = self.trail() else { return };
        let last = trail.last.replace(Run { from, to, exit });
        if let Some(last) = last {
            self.pass_edge(n, m, last, from);
        }
        let marks: Vec<Marker> = m.passed(from, to).flat_map(|(_, list)| list).copied().collect();
        if exit == Exit::Cut {
            return self.pass_until_cut(n, m, marks, to);
        }
        let again = last.is_some_and(|l| l.exit == Exit::Jump && n.position_at(l.from).is_some());
        for &mark in &marks {
            if !(again && self.stands_at(m, mark)) {
                self.pass(m, mark);
            }
        }
        if matches!(exit, Exit::Call | Exit::IndirectCall) {
            // C1 records the position of an athrow in front of the call that throws.
            let thrown = || n.positions_in(from, to).last();
            if let Some(p) = n.position_at(to).or_else(thrown) {
                let chain = scope_chain(n, p.scope);
                self.advance(chain, Target::Inside);
            }
            if let Some(trail) = self.trail() {
                trail.called = true;
            }
        }
    }
    /// Whether control is at `mark` already and no edge leads from there to it: C1's patching stub, when its call
    /// returned, jumps back to the instruction that had led into it, which may be the block's first.
    fn stands_at(&mut self, m: &PathMarkers, mark: Marker) -> bool {
        let Marker::Block { context, bci } = mark else { return false };
        let (Some(chain), Some(Frame::Compiled(c))) = (marker_chain(m, context, bci), self.stack.last())
        else {
            return false;
        };
        let Some(&p) = chain.last().filter(|_| c.chain == chain && !c.trail.fresh) else { return false };
        !self.is_edge(p.method, (p.bci, p.bci))
    }
    fn trail(&mut self) -> Option<&mut Trail> {
        match self.stack.last_mut() {
            Some(Frame::Compiled(c)) => Some(&mut c.trail),
            _ => None,
        }
    }
    /// Control came from the end of `last` to `at`.
    fn pass_edge(&mut self, n: &NMethod, m: &PathMarkers, last: Run, at: u32) {
        let list = match last.exit {
            Exit::Cut if last.to == at => {
                let held = self.trail().map(|t| std::mem::take(&mut t.held)).unwrap_or_default();
                return held.iter().for_each(|&mark| self.pass(m, mark));
            }
            Exit::Cut => {
                self.stop_at_cut(n, last.to);
                m.on_edge(last.to, Outcome::Fault, at)
            }
            Exit::Call | Exit::IndirectCall if last.to == at => m.on_edge(at, Outcome::CallReturn, at),
            Exit::Call | Exit::IndirectCall => {
                self.thrown();
                m.on_edge(last.to, Outcome::Exception, at)
            }
            // QEMU does not say which way a branch to the next instruction went.
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
    /// The block was interrupted before `cut`. What C2 says of a machine block, it says at its start: what lies
    /// behind the interruption by debug info has to wait.
    fn pass_until_cut(&mut self, n: &NMethod, m: &PathMarkers, marks: Vec<Marker>, cut: u32) {
        let state = n.position_at(cut).map(|p| scope_chain(n, p.scope)).filter(|s| !s.is_empty());
        let passed = match &state {
            Some(state) => self.passed_before(m, &marks, state),
            None => marks.len(),
        };
        marks[..passed].iter().for_each(|&mark| self.pass(m, mark));
        if let Some(trail) = self.trail() {
            trail.held = marks[passed..].to_vec();
        }
    }
    /// How many of `marks` control had passed when it stood at `state`.
    fn passed_before(&mut self, m: &PathMarkers, marks: &[Marker], state: &[Position]) -> usize {
        for (i, mark) in marks.iter().enumerate().rev() {
            if let Marker::Block { context, bci } = *mark
                && let Some(chain) = marker_chain(m, context, bci)
                && self.contains(&chain, state)
            {
                return i + 1;
            }
        }
        let Some(Frame::Compiled(c)) = self.stack.last() else { return marks.len() };
        let now = c.chain.clone();
        if self.contains(&now, state) { 0 } else { marks.len() }
    }
    /// Whether `state` lies in the block that `chain` stands in, at or behind it.
    fn contains(&mut self, chain: &[Position], state: &[Position]) -> bool {
        let (Some((a, callers)), Some((b, others))) = (chain.split_last(), state.split_last()) else {
            return false;
        };
        let straight = |s: &mut Self| {
            let path = s.paths.hop(&s.shared.maps, a.method, (a.bci, b.bci));
            // The last step may be a branch.
            path.is_some_and(|p| p.len() < 2 || p.windows(2).all(|w| w[0] < w[1]))
        };
        callers == others && a.method == b.method && (a.bci == b.bci || straight(self))
    }
    /// The instruction at `cut` faulted or the thread was stopped there, and control goes on elsewhere.
    pub(crate) fn stop_at_cut(&mut self, n: &NMethod, cut: u32) {
        if let Some(trail) = self.trail() {
            trail.held.clear();
        }
        // C2 has no debug info where an implicit exception is thrown by code behind the method's own: what comes next
        // is not thrown by the last known bytecode then.
        if let Some(p) = n.position_at(cut) {
            let chain = scope_chain(n, p.scope);
            self.advance(chain, Target::Inside);
            self.thrown();
        }
    }
    fn thrown(&mut self) {
        if let Some(trail) = self.trail() {
            trail.thrown = true;
        }
    }
    fn pass(&mut self, m: &PathMarkers, mark: Marker) {
        match mark {
            Marker::Ambiguous(cause) => {
                self.lose_path(folds::cause(cause));
            }
            Marker::Block { context, bci } => match marker_chain(m, context, bci) {
                Some(chain) => self.advance(chain, Target::Block),
                None => self.lose_path(Cause::UnknownMethod),
            },
        }
    }
    /// What the top frame executes before its next marker is not known.
    fn lose_path(&mut self, cause: Cause) {
        if let Some(trail) = self.trail() {
            trail.ambiguous = Some(cause);
        }
    }
    /// The top frame's position becomes `to`.
    fn advance(&mut self, to: Vec<Position>, target: Target) {
        let Some(Frame::Compiled(c)) = self.stack.last_mut() else { return };
        if to.is_empty() {
            return;
        }
        let tier = c.tier;
        let old = std::mem::replace(&mut c.chain, to.clone());
        let fresh = std::mem::take(&mut c.trail.fresh);
        if !fresh && old == to && target == Target::Inside {
            return;
        }
        let way = Way {
            tier,
            ambiguous: c.trail.ambiguous.take(),
            thrown: std::mem::take(&mut c.trail.thrown),
            called: std::mem::take(&mut c.trail.called),
        };
        if fresh {
            return self.appear(&to, tier);
        }
        self.move_marked(&old, &to, target, way);
    }
    /// Control is found at `chain`; its outermost frame is known already.
    fn appear(&mut self, chain: &[Position], tier: Tier) {
        for p in &chain[1..] {
            self.emit_enter(p.method, tier, Entry::Found);
        }
        if let Some(Position { method, bci: Some(bci) }) = chain.last() {
            self.emit_bytecode(*method, *bci, tier);
        }
    }
    fn move_marked(&mut self, old: &[Position], new: &[Position], target: Target, mut way: Way) {
        // Frames stay as long as method and, for callers, call site are the same.
        let mut same = 0;
        while same < old.len() && same < new.len() && old[same].method == new[same].method {
            same += 1;
            if old[same - 1].bci != new[same - 1].bci {
                break;
            }
        }
        let joint = same.checked_sub(1).map(|i| (old[i], new[i]));
        self.leave_inlined(&old[same..], joint, &mut way);
        if let Some((was, is)) = joint
            && (was.bci != is.bci || same == new.len() && target == Target::Block)
        {
            self.move_in_frame(is.method, (was.bci, is.bci), way);
            way = Way { tier: way.tier, ambiguous: None, thrown: false, called: false };
        }
        for p in &new[same..] {
            self.emit_enter(p.method, way.tier, Entry::Call);
            if p.bci.is_some() {
                self.move_in_frame(p.method, (None, p.bci), way);
                way.ambiguous = None;
            }
        }
    }
    /// The inlined frames `gone`, outermost first, end; their caller goes from one to the other of `joint`.
    fn leave_inlined(&mut self, gone: &[Position], joint: Option<(Position, Position)>, way: &mut Way) {
        if gone.is_empty() {
            return;
        }
        let unwinds = joint.is_some_and(|(was, is)| {
            let (method, ends) = (is.method, (was.bci, is.bci));
            was.bci != is.bci && self.is_handler(method, ends) && !self.is_edge(method, ends)
        });
        for (i, p) in gone.iter().enumerate().rev() {
            let caller = i.checked_sub(1).map(|i| gone[i]).or(joint.map(|(was, _)| was));
            if unwinds && !self.returns_to_throw(p, caller, way) {
                self.unwind(p, way);
            } else {
                self.move_in_frame(p.method, (p.bci, None), *way);
                self.emit(EventKind::Leave { method: p.method, exit: FrameExit::Return });
                way.thrown = false;
            }
            way.ambiguous = None;
            // The caller's bytecode has called, whatever it was.
            way.called = true;
        }
    }
    /// The frame `p` ends by an exception.
    fn unwind(&mut self, p: &Position, way: &mut Way) {
        let known = self.move_to_throw(p, way);
        self.emit(EventKind::Leave { method: p.method, exit: FrameExit::Unwind });
        // Who may have returned need not have thrown: its caller's bytecodes are not certain either.
        way.thrown = known || !self.is_edge(p.method, (p.bci, None));
    }
    /// Whether the inlined frame `p` returned, and its caller threw: the constructor of an exception, as a rule.
    fn returns_to_throw(&mut self, p: &Position, caller: Option<Position>, way: &Way) -> bool {
        let Some((caller, at)) = caller.and_then(|c| Some((c.method, c.bci?))) else { return false };
        !way.thrown
            && self.shared.maps.of(caller).and_then(|map| to_throw(map, at)).is_some()
            && self.is_edge(p.method, (p.bci, None))
    }
    fn is_edge(&mut self, method: MethodId, ends: Ends) -> bool {
        self.paths.hop(&self.shared.maps, method, ends).is_some()
    }
    /// Whether an exception at or behind the first end, in its block, may be caught at the second.
    fn is_handler(&self, method: MethodId, (from, to): Ends) -> bool {
        let (Some(m), Some(from), Some(to)) = (self.shared.maps.method(method), from, to) else {
            return false;
        };
        let end = self.shared.maps.of(method).and_then(|map| to_throw(map, from)?.last().copied());
        m.exceptions.iter().any(|e| {
            let covers = |b: Bci| (e.start..e.end).contains(&b);
            e.handler == to && (covers(from) || end.is_some_and(covers))
        })
    }
    /// The position `p` throws, unless it is known to have thrown itself: what leads to the `athrow`. Where there is
    /// none, compiled code threw for another bytecode without a call, and nothing says for which. Returns whether the
    /// place is known.
    fn move_to_throw(&mut self, p: &Position, way: &Way) -> bool {
        if way.thrown && way.ambiguous.is_none() {
            return true;
        }
        let from = p.bci.filter(|_| way.ambiguous.is_none());
        let path = from.and_then(|from| to_throw(self.shared.maps.of(p.method)?, from));
        let known = path.is_some();
        path.into_iter().flatten().for_each(|b| self.emit_bytecode(p.method, b, way.tier));
        if !known {
            let cause = way.ambiguous.unwrap_or(Cause::UnknownThrower);
            self.emit_unresolved(p.method, (p.bci, None), way.tier, cause);
        }
        known
    }
    /// The bytecodes of one frame between two positions.
    fn move_in_frame(&mut self, method: MethodId, ends: Ends, way: Way) {
        let (from, to) = ends;
        let mut lost = Cause::MissingMarker;
        if way.ambiguous.is_none() {
            let mut paths = std::mem::take(&mut self.paths);
            let hop = paths.hop(&self.shared.maps, method, ends);
            let hides = hop.is_some_and(|path| {
                passes_callee(self.shared, &mut self.known_silent, method, from, path, way.called)
            });
            if hides {
                lost = Cause::HiddenCallee;
            }
            let found = hop.is_some() && !hides && !(way.thrown && self.is_handler(method, ends));
            if found {
                hop.into_iter().flatten().for_each(|&b| self.emit_bytecode(method, b, way.tier));
            }
            self.paths = paths;
            if found {
                return;
            }
            if let Some(handler) = to.filter(|_| self.is_handler(method, ends)) {
                self.move_to_throw(&Position { method, bci: from }, &way);
                self.emit(EventKind::Catch { method, bci: handler });
                return self.emit_bytecode(method, handler, way.tier);
            }
        }
        self.emit_unresolved(method, ends, way.tier, way.ambiguous.unwrap_or(lost));
        if let Some(bci) = to {
            self.emit_bytecode(method, bci, way.tier);
        }
    }
    /// The compiled frame with this chain and trail returned: what its frames did after their last position.
    pub(crate) fn return_marked(&mut self, chain: &[Position], trail: &Trail, tier: Tier) {
        let ambiguous = trail.ambiguous;
        let mut way = Way { tier, ambiguous, thrown: false, called: trail.called };
        for p in chain.iter().rev() {
            if !trail.fresh {
                self.move_in_frame(p.method, (p.bci, None), way);
            }
            self.emit(EventKind::Leave { method: p.method, exit: FrameExit::Return });
            way.ambiguous = None;
            way.called = true;
        }
    }
    /// An exception leaves the compiled frame with this chain and trail.
    pub(crate) fn unwind_marked(&mut self, chain: &[Position], trail: &Trail, tier: Tier) {
        let called =
            trail.last.is_some_and(|l| matches!(l.exit, Exit::Call | Exit::IndirectCall | Exit::Cut));
        let thrown = trail.thrown || called;
        let mut way = Way { tier, ambiguous: trail.ambiguous, thrown, called: true };
        for (i, p) in chain.iter().enumerate().rev() {
            let caller = i.checked_sub(1).map(|i| chain[i]);
            if self.returns_to_throw(p, caller, &way) {
                self.move_in_frame(p.method, (p.bci, None), way);
                self.emit(EventKind::Leave { method: p.method, exit: FrameExit::Return });
            } else {
                self.unwind(p, &mut way);
            }
            way.ambiguous = None;
        }
    }
    /// The compiled top frame is about to be replaced by interpreted ones: its state is that of the
    /// interruption, if there was one.
    pub(crate) fn settle_cut(&mut self) {
        let Some(Frame::Compiled(c)) = self.stack.last() else { return };
        let (code, Some(last)) = (c.code, c.trail.last) else { return };
        let n = self.shared.image.code(code).and_then(|v| v.nmethod());
        if let Some(n) = n.filter(|n| last.exit == Exit::Cut && self.uses_markers(n)) {
            self.stop_at_cut(n, last.to);
        }
    }
}

/// How a frame moves.
#[derive(Clone, Copy, Debug)]
struct Way {
    tier: Tier,
    /// The path is lost.
    ambiguous: Option<Cause>,
    /// By an exception thrown at exactly the position.
    thrown: bool,
    /// The bytecode it starts from has made its call, if it is an invoke.
    called: bool,
}

/// Whether one of the bytecodes from `from` on that `path` leaves behind is an invoke whose callee should have
/// shown: the compiler lost its markers.
fn passes_callee(
    shared: &Shared<'_>,
    known: &mut Known,
    method: MethodId,
    from: Option<Bci>,
    path: &[Bci],
    called: bool,
) -> bool {
    let Some(map) = shared.maps.of(method) else { return false };
    let first = from.filter(|_| !called);
    let behind = first.iter().chain(path.split_last().map_or(&[][..], |(_, passed)| passed));
    let mut invokes = behind.filter(|&&b| map.step(b).is_some_and(|s| s.transfer == Transfer::Invoke));
    invokes.any(|&b| !shared.silent.may_be(shared.image.table(), known, method, b))
}

/// The frames of `scope`, outermost first.
pub(crate) fn scope_chain(n: &NMethod, scope: Option<u32>) -> Vec<Position> {
    let position = |s: &jportal_vm_image::Scope| {
        let bci = u16::try_from(s.bci).ok().map(Bci);
        s.method.map(|method| Position { method, bci })
    };
    let mut chain: Vec<Position> = n.chain(scope).filter_map(position).collect();
    chain.reverse();
    chain
}

/// The frames of a marker, outermost first; `None` where a method is unknown.
fn marker_chain(m: &PathMarkers, context: u32, bci: u16) -> Option<Vec<Position>> {
    let mut chain = Vec::new();
    let mut at = bci;
    for c in m.chain(context) {
        chain.push(Position { method: c.method?, bci: Some(Bci(at)) });
        at = c.call_bci;
    }
    chain.reverse();
    Some(chain)
}
