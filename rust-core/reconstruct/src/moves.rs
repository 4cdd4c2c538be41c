// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Moves from one position of a marked frame to the next: what its inlined frames executed in
//! between.
//!
//! One edge of the method joins two consecutive markers, or an exception leads from one to the
//! other. A step that neither explains, or that more than one path explains, is unresolved,
//! with its cause.

use crate::frame::{Position, Trail};
use crate::machine::{Machine, push_run};
use crate::paths::Ends;
use crate::throwers::{Throwers, Thrown, reaches, throwers};
use jportal_flow::{Cause, Entry, EventKind, Exit as FrameExit, Tier};
use jportal_machine_flow::Exit;
use jportal_units::{Bci, MethodId};

/// How the target of a move is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MoveTarget {
    /// A marker: a block begins there, perhaps the same one again.
    Block,
    /// Debug info: a bytecode of the block that control is in.
    Inside,
}

/// What is known of an exception that is being thrown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Flight {
    /// No exception was seen. The bytecodes after the position may have thrown one.
    #[default]
    Unseen,
    /// One was thrown at exactly the position.
    Thrown,
    /// The callee threw it, or returned.
    Perhaps,
}

/// How a frame moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameMove {
    pub tier: Tier,
    /// The path is lost, for this cause.
    pub lost: Option<Cause>,
    pub flight: Flight,
    /// If the bytecode at the start is an invoke, it has made its call.
    pub called: bool,
    /// The number of callers that a lost loop may include:
    /// [`jportal_flow::EventKind::Unresolved`].
    pub callers: u16,
}

impl FrameMove {
    /// Takes from `trail` what is known of the path after the position. The next position
    /// starts without it.
    pub(crate) fn take(tier: Tier, trail: &mut Trail) -> Self {
        let thrown = std::mem::take(&mut trail.thrown);
        Self {
            tier,
            lost: trail.lost.take(),
            flight: if thrown { Flight::Thrown } else { Flight::Unseen },
            called: std::mem::take(&mut trail.called),
            callers: 0,
        }
    }
}

/// The frame in which an exception may have been caught.
#[derive(Clone, Copy, Debug)]
struct Catcher {
    at: Position,
    handler: Bci,
    /// A normal edge leads to the handler as well.
    edge: bool,
}

impl Machine<'_> {
    /// The top frame moves from one position to the other. Returns whether an edge or an
    /// exception explains the move. If neither does, a marker is missing or misplaced, and the
    /// emitted events say so.
    pub(crate) fn move_marked(
        &mut self,
        old: &[Position],
        new: &[Position],
        target: MoveTarget,
        mut way: FrameMove,
    ) -> bool {
        let mut explained = true;
        // A frame stays while its method and, for callers, its call site are the same.
        let mut same = 0;
        while same < old.len() && same < new.len() && old[same].method == new[same].method {
            same += 1;
            if old[same - 1].bci != new[same - 1].bci {
                break;
            }
        }
        let joint = same.checked_sub(1).map(|i| (old[i], new[i]));
        if same < old.len() {
            explained &= if joint.is_some_and(|(was, is)| was.bci == is.bci)
                && same == new.len()
                && target == MoveTarget::Inside
            {
                self.leave_to_call_site(&old[same..], &mut way)
            } else {
                self.leave_inlined(&old[same..], joint, &mut way)
            };
        }
        if let Some((was, is)) = joint
            && (was.bci != is.bci || same == new.len() && target == MoveTarget::Block)
        {
            way.callers = self.rounds(&new[..same - 1], way.lost);
            explained &= self.move_in_frame(is.method, (was.bci, is.bci), way);
            way = FrameMove { flight: Flight::Unseen, called: false, callers: 0, ..way };
        } else {
            // The new callees may have been called before, in earlier rounds of a lost loop.
            way.callers = self.rounds(&new[..same], way.lost);
        }
        // The lost path may lie in any of these frames: a compiler reports where a fold is, but
        // not in which frame.
        for p in &new[same..] {
            self.emit_enter(p.method, way.tier, Entry::Call);
            if p.bci.is_some() {
                explained &= self.move_in_frame(p.method, (None, p.bci), way);
            }
            way.callers += u16::from(way.callers > 0);
        }
        explained
    }
    /// `callers` are frames, outermost first, that each have another frame on top. Returns how
    /// many of them, counted from the innermost, a lost loop may have repeated: down to the
    /// outermost whose call can be reached from itself.
    pub(crate) fn rounds(&mut self, callers: &[Position], lost: Option<Cause>) -> u16 {
        if !matches!(lost, Some(Cause::EmptyLoop | Cause::MissingMarker)) {
            return 0;
        }
        let again =
            |p: &Position| p.bci.is_some_and(|bci| self.paths.comes_again(self.shared, p.method, bci));
        let lowest = callers.iter().position(again);
        lowest.map_or(0, |at| u16::try_from(callers.len() - at).unwrap_or(u16::MAX))
    }
    /// The inlined frames `gone`, outermost first, end. Their caller moves from one position of
    /// `joint` to the other.
    fn leave_inlined(
        &mut self,
        gone: &[Position],
        joint: Option<(Position, Position)>,
        way: &mut FrameMove,
    ) -> bool {
        if way.lost == Some(Cause::MissingMarker) {
            self.leave_unknown(gone, way);
            return true;
        }
        let catcher = joint.filter(|(was, is)| was.bci != is.bci).and_then(|(at, is)| {
            let hop = self.paths.hop(self.shared, at.method, (at.bci, is.bci));
            hop.catches(way.lost).then_some(Catcher { at, handler: is.bci?, edge: hop.path.is_some() })
        });
        match catcher {
            Some(_) => {
                self.leave_by_exception(gone, catcher, way);
                true
            }
            None => self.leave_by_return(gone, way),
        }
    }
    /// The inlined frames `gone`, outermost first, end, and debug info gives their caller's
    /// position at the same call that they came from. C2 code has no state there for callees
    /// that returned. It has one for an exception that left them, if the compiler could not
    /// distinguish the caller's handlers (a catch type that is not loaded,
    /// `Parse::catch_inline_exceptions`): the code calls the stub that rethrows, and the VM
    /// looks for the handler.
    fn leave_to_call_site(&mut self, gone: &[Position], way: &mut FrameMove) -> bool {
        if way.lost == Some(Cause::MissingMarker) {
            self.leave_unknown(gone, way);
        } else if way.tier == Tier::C2 || way.flight == Flight::Thrown {
            self.leave_by_exception(gone, None, way);
        } else {
            return self.leave_by_return(gone, way);
        }
        true
    }
    /// The frames returned one after the other.
    fn leave_by_return(&mut self, gone: &[Position], way: &mut FrameMove) -> bool {
        let mut explained = true;
        for p in gone.iter().rev() {
            explained &= self.move_in_frame(p.method, (p.bci, None), *way);
            self.leave(p, FrameExit::Return, way);
        }
        explained
    }
    /// The frames are gone. The markers contradict each other and do not say how the frames
    /// ended.
    fn leave_unknown(&mut self, gone: &[Position], way: &mut FrameMove) {
        for p in gone.iter().rev() {
            self.emit_unresolved(p.method, (p.bci, None), way.tier, Cause::MissingMarker);
            self.leave(p, FrameExit::Unknown, way);
        }
    }
    /// The position's frame has ended. What follows happens in its caller.
    fn leave(&mut self, p: &Position, exit: FrameExit, way: &mut FrameMove) {
        self.emit(EventKind::Leave { method: p.method, exit });
        // The caller's bytecode has made its call, whatever bytecode it was.
        way.called = true;
        way.flight = match exit {
            FrameExit::Unwind => Flight::Thrown,
            FrameExit::Return => Flight::Unseen,
            _ => Flight::Perhaps,
        };
    }
    /// An exception was thrown. Without a catcher, it left the outermost of the frames. With a
    /// catcher, it was thrown in one of the frames or in the catcher. Each frame inside the
    /// throwing one has returned.
    fn leave_by_exception(&mut self, gone: &[Position], catcher: Option<Catcher>, way: &mut FrameMove) {
        for (i, p) in gone.iter().enumerate().rev() {
            let returns =
                way.flight != Flight::Thrown && self.may_return_first(p, &gone[..i], catcher, way.lost);
            let exit = match (self.may_throw(p, way), returns) {
                (true, false) => FrameExit::Unwind,
                (false, true) => FrameExit::Return,
                _ => FrameExit::Unknown,
            };
            match exit {
                FrameExit::Unwind => self.move_to_throw(p, way),
                FrameExit::Return => {
                    self.move_in_frame(p.method, (p.bci, None), *way);
                }
                _ => {
                    let none = if returns { Cause::UnknownEnd } else { Cause::MissingMarker };
                    self.emit_unresolved(p.method, (p.bci, None), way.tier, way.lost.unwrap_or(none));
                }
            }
            self.leave(p, exit, way);
        }
    }
    /// Whether the frame `p` may have returned before one of its callers (outermost first) or
    /// the catcher threw.
    fn may_return_first(
        &mut self,
        p: &Position,
        callers: &[Position],
        catcher: Option<Catcher>,
        lost: Option<Cause>,
    ) -> bool {
        match lost {
            None => self.may_throw_later(callers, catcher, Thrown::Athrow) && self.may_return(p),
            // The marker with this cause is placed where the exception was thrown.
            Some(Cause::PreparedException) => self.may_throw_later(callers, catcher, Thrown::Prepared),
            // The lost blocks may be a caller's, and may throw.
            Some(_) => !callers.is_empty() || catcher.is_some(),
        }
    }
    /// Whether one of the frames (outermost first) or the catcher may throw after a callee
    /// returned to it.
    fn may_throw_later(&mut self, callers: &[Position], catcher: Option<Catcher>, thrown: Thrown) -> bool {
        for p in callers.iter().rev() {
            if throwers(self.shared, *p, true, None, thrown) != Throwers::Nobody {
                return true;
            }
            if !self.may_return(p) {
                return false;
            }
        }
        catcher.is_some_and(|c| {
            c.edge || throwers(self.shared, c.at, true, Some(c.handler), thrown) != Throwers::Nobody
        })
    }
    fn may_return(&mut self, p: &Position) -> bool {
        self.paths.hop(self.shared, p.method, (p.bci, None)).path.is_some()
    }
    fn may_throw(&self, p: &Position, way: &FrameMove) -> bool {
        way.flight != Flight::Unseen
            || way.lost.is_some()
            || throwers(self.shared, *p, way.called, None, Thrown::Athrow) != Throwers::Nobody
    }
    /// An exception leaves the frame. Emits the bytecodes that lead to the throwing one.
    fn move_to_throw(&mut self, p: &Position, way: &FrameMove) {
        // There are no such bytecodes if the exception was thrown at exactly the position, or
        // before the first bytecode (by a stack overflow, for example).
        if way.lost.is_none() && (way.flight == Flight::Thrown || p.bci.is_none()) {
            return;
        }
        let cause = match (way.lost, throwers(self.shared, *p, way.called, None, Thrown::Athrow)) {
            (Some(cause), _) => cause,
            (None, Throwers::Nobody) if way.flight == Flight::Perhaps => return,
            (None, Throwers::Only(path)) if way.flight == Flight::Unseen => {
                return path.iter().for_each(|&b| self.emit_bytecode(p.method, b, way.tier));
            }
            (None, Throwers::Hidden) => Cause::HiddenCallee,
            _ => Cause::UnknownThrower,
        };
        self.emit_unresolved(p.method, (p.bci, None), way.tier, cause);
    }
    /// Emits the bytecodes of one frame between two positions. Returns whether an edge or an
    /// exception explains the step.
    pub(crate) fn move_in_frame(&mut self, method: MethodId, ends: Ends, way: FrameMove) -> bool {
        let hop = self.paths.hop(self.shared, method, ends);
        let hides = hop.hides || hop.calls && !way.called;
        if let Some(path) = hop.path.as_deref()
            && !hides
            && !hop.catches(way.lost)
            && way.lost.is_none_or(|cause| way.callers == 0 && is_certain(ends, path, cause))
        {
            self.counters.bytecodes += path.len() as u64;
            if self.runs {
                let (runs, follows) = hop.runs();
                let mut follows = ends.0.filter(|_| follows);
                if self.out.is_empty() && !path.is_empty() {
                    self.follows = follows;
                }
                runs.for_each(|run| push_run(&mut self.out, (method, way.tier), run, follows.take()));
                return true;
            }
            let event = |&bci| EventKind::Bytecode { method, bci, tier: way.tier };
            self.out.extend(path.iter().map(event).map(jportal_flow::Event::decoded));
            return true;
        }
        let (edge, catches) = (hop.path.is_some(), hop.catches(way.lost));
        let (from, to) = ends;
        let cause = match (way.lost, from.zip(to).filter(|_| catches)) {
            (Some(cause), _) => cause,
            (None, Some(ends)) => match self.catch(method, ends, edge, way) {
                None => return true,
                Some(cause) => cause,
            },
            (None, None) if edge => Cause::HiddenCallee,
            (None, None) => Cause::MissingMarker,
        };
        self.emit_unresolved_over(method, ends, way.tier, (cause, way.callers));
        // An exception leads to a handler, even if the thrower is not known.
        let explained = way.lost.is_some() || catches || cause != Cause::MissingMarker;
        let Some(bci) = to else { return explained };
        // Only an exception leads to the handler.
        if catches && !edge && matches!(cause, Cause::UnknownThrower | Cause::HiddenCallee) {
            self.emit(EventKind::Catch { method, bci });
        }
        self.emit_bytecode(method, bci, way.tier);
        explained
    }
    /// The frame may have caught an exception. Emits the path, the catch and the handler if the
    /// catch and the thrower are certain. Otherwise returns the cause of the uncertainty.
    fn catch(
        &mut self,
        method: MethodId,
        (from, handler): (Bci, Bci),
        edge: bool,
        way: FrameMove,
    ) -> Option<Cause> {
        let at = Position { method, bci: Some(from) };
        let path = match way.flight {
            Flight::Thrown => {
                let m = self.shared.maps.method(method);
                let exactly = m.is_some_and(|m| reaches(m, from, Some(handler)));
                exactly.then(Default::default).ok_or(Cause::UnknownThrower)
            }
            Flight::Unseen if !edge => {
                match throwers(self.shared, at, way.called, Some(handler), Thrown::Athrow) {
                    Throwers::Only(path) => Ok(path),
                    Throwers::Several => Err(Cause::UnknownThrower),
                    Throwers::Hidden => Err(Cause::HiddenCallee),
                    Throwers::Nobody => Err(Cause::MissingMarker),
                }
            }
            Flight::Unseen | Flight::Perhaps => Err(Cause::UnknownThrower),
        };
        match path {
            Err(cause) => Some(cause),
            Ok(path) => {
                path.iter().for_each(|&b| self.emit_bytecode(method, b, way.tier));
                self.emit(EventKind::Catch { method, bci: handler });
                self.emit_bytecode(method, handler, way.tier);
                None
            }
        }
    }
    /// The compiled frame with this chain and trail returned: emits what its inlined frames did
    /// after their last position.
    pub(crate) fn return_marked(&mut self, chain: &[Position], trail: &Trail, tier: Tier) {
        if trail.fresh {
            return self.leave_unseen(chain, FrameExit::Return);
        }
        let mut way =
            FrameMove { tier, lost: trail.lost, flight: Flight::Unseen, called: trail.called, callers: 0 };
        let mut left = chain;
        // The inlined frames may have ended in another way.
        if let (Some(Cause::MissingMarker), [outermost, inlined @ ..]) = (trail.lost, chain) {
            self.leave_unknown(inlined, &mut way);
            left = std::slice::from_ref(outermost);
        }
        self.leave_by_return(left, &mut way);
    }
    /// An exception leaves the compiled frame with this chain and trail.
    pub(crate) fn unwind_marked(&mut self, chain: &[Position], trail: &Trail, tier: Tier) {
        if trail.fresh {
            return self.leave_unseen(chain, FrameExit::Unwind);
        }
        let called =
            trail.last.is_some_and(|l| matches!(l.exit, Exit::Call | Exit::IndirectCall | Exit::Cut));
        let flight = if trail.thrown || called { Flight::Thrown } else { Flight::Unseen };
        // It is not known which of the bytecodes that the interpreter would execute again
        // threw.
        let lost = trail.lost.or(trail.restart.map(|restart| restart.cause));
        let mut way = FrameMove { tier, lost, flight, called: trail.called, callers: 0 };
        self.leave_by_exception(chain, None, &mut way);
    }
    /// Ends frames whose positions are not known.
    fn leave_unseen(&mut self, chain: &[Position], exit: FrameExit) {
        for p in chain.iter().rev() {
            self.emit(EventKind::Leave { method: p.method, exit });
        }
    }
}

/// Whether `path` is certain although a compiler lost a path before the next marker: `path` has
/// no branch, and the unknown bytecodes are not those of a callee.
fn is_certain((from, to): Ends, path: &[Bci], lost: Cause) -> bool {
    !matches!(lost, Cause::UnknownMethod | Cause::MissingMarker)
        && (to.is_none() || from.is_none() && path.len() == 1)
}
