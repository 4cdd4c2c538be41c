// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reports to an observer where control is in compiled code, by path markers alone.
//!
//! The observer compares this with debug info. So nothing here may come from debug info. A
//! frame's position in the flow (`Compiled::chain`) does at calls, polls and faults; the
//! position here, [`Marked`], is the block of the last path marker that the activation passed.
//! Debug info has a part in two things only:
//!
//! * whether an instruction is one that needs a state (a position exists at its offset);
//! * which markers happened where C2 moved a poll ([`Unmarked::MovedPoll`]).

use crate::frame::{Compiled, Frame, Run, Trail};
use crate::machine::Machine;
use crate::pauses::{Pause, Pauses};
use crate::tags::CodeClass;
use jportal_flow::{Cause, ThreadInfo};
use jportal_machine_flow::Exit;
use jportal_units::{Address, CodeId, MethodId, Tsc};
use jportal_vm_image::{Marker, NMethod};

/// A bytecode block in a frame of an nmethod's inline contexts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MarkedBlock {
    /// Index of the frame: [`jportal_vm_image::PathMarkers::context`].
    pub context: u32,
    /// First bci of the block.
    pub bci: u16,
}

/// Where path markers place control in an activation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Marked {
    /// The activation has begun, perhaps by OSR, and passed no marker yet.
    #[default]
    Entry,
    /// This is the last block that began. Control is in it, or in what follows it without a
    /// branch: the rest of a caller's block after an inlined callee has returned.
    Block(MarkedBlock),
    /// Not known.
    Unknown(Unmarked),
}

/// Why path markers do not place control.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Unmarked {
    /// The code has no path markers, or the decoder does not use them.
    NoMarkers,
    /// The trace began, or began again, inside the activation.
    Found,
    /// The compiler lost the path after the last marker, or the decoder does not know it.
    Lost(Cause),
    /// A marker contradicted the ones before it.
    Astray,
    /// Markers were passed that did not happen if a moved poll deoptimises. Only the state of
    /// the poll says where control is.
    MovedPoll,
}

/// Where a call led.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum CallTarget {
    /// This method began.
    Java(MethodId),
    /// This stub ran, and no method began as its callee.
    Stub(CodeId),
    /// Out of the code cache.
    Outside,
    /// Not known: trace is missing, or ends here.
    Unknown,
}

/// Why control reached a state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum StateKind {
    /// A call. The place is its return address.
    Call(CallTarget),
    /// A position inside a block: an instruction that polls or may fault was executed.
    Inside,
    /// The instruction faulted, or it is a poll that stopped the thread, and control did not
    /// continue there. It continued at this offset of the same code, if it did.
    Stopped(Option<u32>),
    /// The frame was replaced by interpreted ones. `again`: the interpreter executes the bytecode
    /// of the state again.
    Resumed {
        /// By an uncommon trap, which always executes the bytecode again.
        trap: bool,
        /// What the interpreter did.
        again: bool,
    },
    /// A call at the place ended with an exception, and the handler at this offset caught it.
    /// The position is that of the handler.
    Handler(u32),
}

/// A place of an nmethod that control reached and at which the VM may need debug info.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ReachedState {
    /// The nmethod.
    pub code: CodeId,
    /// The place: an offset in the nmethod.
    pub offset: u32,
    /// The first instruction of the machine block. It differs from the place by the
    /// instructions whose markers may have been passed.
    pub from: u32,
    /// Why control is there.
    pub kind: StateKind,
    /// Where control is. For [`StateKind::Stopped`], where control was when the machine block
    /// began.
    pub marked: Marked,
    /// The last block that began after `marked`, if `marked` is the position of a moved poll.
    /// Control may be there instead: it has passed that poll, or this is another one.
    pub held: Option<MarkedBlock>,
}

/// A machine block of an nmethod that ran, or began to run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RanBlock {
    /// The nmethod.
    pub code: CodeId,
    /// Offset of the first instruction.
    pub from: u32,
    /// Offset of the byte after the last instruction that was executed.
    pub to: u32,
    /// Where control was, before the markers in the block.
    pub marked: Marked,
}

/// Observes the compiled code of one thread.
pub trait StateObserver: std::fmt::Debug + Send {
    /// Control reached a state. `event`: the number, in the thread's flow of single bytecodes,
    /// of the first event after it.
    fn reached(&mut self, state: &ReachedState, event: u64);
    /// A machine block ran.
    fn ran(&mut self, block: &RanBlock, event: u64);
    /// Whether the observer wants to know of a pause from `since` to `until`, before the
    /// instruction `ip` or outside of the code cache. `since` never decreases.
    fn wants(&mut self, _since: Tsc, _until: Tsc, _ip: Option<Address>) -> bool {
        false
    }
    /// The thread paused.
    fn paused(&mut self, _pause: Pause) {}
    /// The thread's flow has ended.
    fn end(self: Box<Self>);
}

/// Makes the observers of threads.
pub trait StateObservers: std::fmt::Debug + Send + Sync {
    /// An observer of this thread.
    fn thread(&self, info: &ThreadInfo) -> Box<dyn StateObserver>;
}

/// A call that has not led to a method yet.
#[derive(Clone, Copy, Debug)]
struct OpenCall {
    state: ReachedState,
    event: u64,
    /// The number of frames, the caller's included.
    frames: usize,
    /// The first stub that ran.
    stub: Option<CodeId>,
    /// The stub is that of an uncommon trap.
    trap: bool,
}

/// An observer with what it needs in addition.
#[derive(Debug)]
pub(crate) struct States {
    pub(crate) observer: Box<dyn StateObserver>,
    /// Events that were passed on.
    passed_on: u64,
    /// Steps of code among all events so far. A flow without them numbers the others alike.
    codes: u64,
    pub(crate) pauses: Pauses,
    call: Option<OpenCall>,
    /// A compiled frame was replaced: it stood here.
    replaced: Option<(ReachedState, u64)>,
    /// An exception led to a handler of the frame, whose first marker follows. The last one is
    /// the number of frames.
    caught: Option<(ReachedState, u64, usize)>,
}

impl States {
    pub(crate) fn new(observer: Box<dyn StateObserver>) -> Self {
        Self {
            observer,
            passed_on: 0,
            codes: 0,
            pauses: Pauses::default(),
            call: None,
            replaced: None,
            caught: None,
        }
    }
    /// The next events in the machine's list have these numbers.
    pub(crate) fn pass_on(&mut self, events: usize) {
        self.passed_on += events as u64;
    }
    /// A step of code was emitted.
    pub(crate) fn count_code(&mut self) {
        self.codes += 1;
    }
    pub(crate) fn end(mut self) {
        self.close_call(None);
        self.observer.end();
    }
    /// The open call has led to `callee`, or to no method.
    fn close_call(&mut self, callee: Option<MethodId>) {
        let Some(call) = self.call.take() else { return };
        let target = match (callee, call.stub) {
            (Some(method), _) => CallTarget::Java(method),
            (None, Some(stub)) => CallTarget::Stub(stub),
            (None, None) => CallTarget::Outside,
        };
        self.observer.reached(&ReachedState { kind: StateKind::Call(target), ..call.state }, call.event);
    }
}

impl Trail {
    /// A trail of an activation of which the beginning is not known.
    pub(crate) fn found() -> Self {
        Self { fresh: true, marked: Marked::Unknown(Unmarked::Found), ..Self::default() }
    }
    /// The last block that began early.
    fn held(&self) -> Option<MarkedBlock> {
        let block = |m: &Marker| match *m {
            Marker::Block { context, bci } => Some(MarkedBlock { context, bci }),
            Marker::Ambiguous(_) | Marker::PollState => None,
        };
        self.held.iter().rev().find_map(block).filter(|_| self.early)
    }
    /// Where markers place control. Those passed early do not count.
    pub(crate) fn place(&self) -> Marked {
        match self.marked {
            _ if self.early => Marked::Unknown(Unmarked::MovedPoll),
            marked => marked,
        }
    }
}

impl Machine<'_> {
    /// A block of this code begins.
    #[inline]
    pub(crate) fn observe_code(&mut self, code: CodeId, class: CodeClass) {
        let Some(call) = self.states.as_mut().and_then(|s| s.call.as_mut()) else { return };
        let is_stub =
            !matches!(class, CodeClass::NMethod | CodeClass::NativeWrapper | CodeClass::MethodStubs);
        if is_stub && call.stub.is_none() {
            call.stub = Some(code);
            call.trap = class == CodeClass::Deoptimisation;
        }
    }
    /// A method is about to begin.
    #[inline]
    pub(crate) fn observe_callee(&mut self, method: MethodId) {
        let frames = self.stack.len();
        if let Some(states) = self.states.as_mut() {
            let direct = states.call.is_some_and(|c| c.frames == frames);
            states.close_call(direct.then_some(method));
        }
    }
    /// The last call has led to no method.
    #[inline]
    pub(crate) fn observe_no_callee(&mut self) {
        if let Some(states) = self.states.as_mut() {
            states.close_call(None);
        }
    }
    /// What follows has no relation to what was reached before.
    pub(crate) fn observe_loss(&mut self) {
        if let Some(states) = self.states.as_mut() {
            if let Some(call) = states.call.take() {
                let state = ReachedState { kind: StateKind::Call(CallTarget::Unknown), ..call.state };
                states.observer.reached(&state, call.event);
            }
            (states.replaced, states.caught) = (None, None);
        }
    }
    /// The top frame, if it is observed: its code and its trail.
    fn observed(&self) -> Option<(CodeId, &Trail)> {
        match (&self.states, self.stack.last()) {
            (Some(_), Some(Frame::Compiled(c))) => Some((c.code, &c.trail)),
            _ => None,
        }
    }
    pub(crate) fn next_event(&self) -> u64 {
        let (passed_on, codes) = self.states.as_ref().map_or((0, 0), |s| (s.passed_on, s.codes));
        passed_on + self.out.len() as u64 - codes
    }
    fn report(&mut self, state: &ReachedState) {
        let event = self.next_event();
        if let Some(states) = self.states.as_mut() {
            states.observer.reached(state, event);
        }
    }
    /// The top frame executes the block `from..to`; the markers on the edge to it were passed.
    #[inline]
    pub(crate) fn observe_block(&mut self, from: u32, to: u32) {
        let Some((code, trail)) = self.observed() else { return };
        let block = RanBlock { code, from, to, marked: trail.place() };
        self.observe_resumed_code(code, from, block.marked);
        let event = self.next_event();
        if let Some(states) = self.states.as_mut() {
            states.observer.ran(&block, event);
        }
    }
    /// The top frame executed the instructions in `(begin, end)` of the block that began at
    /// `from`.
    #[inline]
    pub(crate) fn observe_inside(&mut self, n: &NMethod, from: u32, (begin, end): (u32, u32)) {
        let Some((code, trail)) = self.observed() else { return };
        // If it is a moved poll, its state is the position at the marker `PollState`.
        let (marked, held) = (trail.marked, trail.held());
        for p in n.positions_in(begin, end) {
            self.report(&ReachedState {
                code,
                offset: p.offset,
                from,
                kind: StateKind::Inside,
                marked,
                held,
            });
        }
    }
    /// The block `from..to` of the top frame ends with a call.
    pub(crate) fn observe_call(&mut self, from: u32, to: u32) {
        let Some((code, trail)) = self.observed() else { return };
        let kind = StateKind::Call(CallTarget::Unknown);
        // If markers were passed early, the call may be before or after them.
        let (marked, held) = (trail.marked, trail.held());
        let state = ReachedState { code, offset: to, from, kind, marked, held };
        let (event, frames) = (self.next_event(), self.stack.len());
        if let Some(states) = self.states.as_mut() {
            states.close_call(None);
            states.call = Some(OpenCall { state, event, frames, stub: None, trap: false });
        }
    }
    /// The block of the top frame that begins now is interrupted. The thread may continue there.
    pub(crate) fn observe_cut(&mut self) {
        if let Some(trail) = self.trail() {
            // If it is a moved poll, its state is the position at the marker `PollState`.
            trail.cut = trail.marked;
        }
    }
    /// The instruction at `cut` of the top frame was not executed, and control is elsewhere: in
    /// the same code at `at`, or outside.
    pub(crate) fn observe_stop(&mut self, cut: u32, at: Option<u32>) {
        let Some((code, trail)) = self.observed() else { return };
        let from = trail.last.map_or(cut, |l| l.from);
        let (marked, held) = (trail.cut, trail.held());
        self.report(&ReachedState { code, offset: cut, from, kind: StateKind::Stopped(at), marked, held });
    }
    /// An exception leads from the call at the end of `last` to the handler at `at`.
    pub(crate) fn observe_handler(&mut self, n: &NMethod, last: Run, at: u32) {
        // No table names the code that unwinds the frame, nor those common to all exceptions and
        // deoptimisations.
        let common = [n.unwind_handler, n.exception_handler, n.deopt_handler, n.deopt_mh_handler];
        let Some((code, trail)) = self.observed().filter(|_| !common.contains(&Some(at))) else { return };
        let kind = StateKind::Handler(at);
        let Run { from, to, .. } = last;
        let state = ReachedState { code, offset: to, from, kind, marked: trail.place(), held: None };
        let (event, frames) = (self.next_event(), self.stack.len());
        if let Some(states) = self.states.as_mut() {
            states.caught = Some((state, event, frames));
        }
    }
    /// The top frame passes a marker.
    #[inline]
    pub(crate) fn observe_marker(&mut self, mark: Marker) {
        let Some(trail) = self.trail() else { return };
        trail.marked = match mark {
            Marker::Block { context, bci } => Marked::Block(MarkedBlock { context, bci }),
            Marker::Ambiguous(_) | Marker::PollState => return,
        };
        let (marked, here) = (trail.marked, self.stack.len());
        let Some(states) = self.states.as_mut() else { return };
        // A callee of the handler may run first.
        let Some((state, event, _)) = states.caught.take_if(|(.., frames)| *frames >= here) else { return };
        let same = matches!(self.stack.last(), Some(Frame::Compiled(c)) if c.code == state.code);
        if same {
            states.observer.reached(&ReachedState { marked, ..state }, event);
        }
    }
    /// The top frame, whose code has no markers in use, executes the block `from..to`.
    pub(crate) fn observe_unmarked(&mut self, n: &NMethod, (from, to): (u32, u32), exit: Exit) {
        if self.states.is_none() || from >= n.stub {
            return;
        }
        if let Some(trail) = self.trail() {
            trail.marked = Marked::Unknown(Unmarked::NoMarkers);
        }
        self.observe_block(from, to);
        self.observe_inside(n, from, (from + 1, to));
        if matches!(exit, Exit::Call | Exit::IndirectCall) {
            self.observe_call(from, to);
        }
    }
    /// The compiled frame `c`, the top one, is replaced by interpreted ones.
    pub(crate) fn observe_replacement(&mut self, c: &Compiled) {
        let Some(states) = self.states.as_mut() else { return };
        let trap = states.call.is_some_and(|call| call.trap);
        states.close_call(None);
        let event = states.passed_on + self.out.len() as u64 - states.codes;
        let Some(last) = c.trail.last else { return };
        let kind = StateKind::Resumed { trap, again: false };
        let marked = if last.exit == Exit::Cut { c.trail.cut } else { c.trail.place() };
        let held = c.trail.held();
        let state = ReachedState { code: c.code, offset: last.to, from: last.from, kind, marked, held };
        states.replaced = Some((state, event));
    }
    /// The interpreter continues a frame that was compiled.
    pub(crate) fn observe_resumption(&mut self, again: bool) {
        let Some(states) = self.states.as_mut() else { return };
        let Some((state, event)) = states.replaced.take() else { return };
        let StateKind::Resumed { trap, .. } = state.kind else { return };
        states.observer.reached(&ReachedState { kind: StateKind::Resumed { trap, again }, ..state }, event);
    }
}
