// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reports to an observer where a thread stood while it executed no code of the code cache.
//!
//! A signal stops a thread before an instruction; the trace names the instruction. A thread that
//! leaves the code cache is in the VM or in native code. Both are *pauses*. Who knows the time at
//! which something looked at the thread, a profiler for example, finds the pause by the time.
//!
//! The trace bounds the times of a pause from outside: it began not before the last time that was
//! known before it, and ended not after the first time that became known afterwards.

use crate::frame::Frame;
use crate::machine::Machine;
use crate::states::Marked;
use crate::tags::CodeClass;
use jportal_flow::Tier;
use jportal_machine_flow::Exit;
use jportal_units::{Address, Bci, CodeId, MethodId, Tsc};

/// A frame of a thread that pauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PausedFrame {
    /// Its method.
    pub method: MethodId,
    /// The bytecode that began last; `None` if it is not known, and in native methods.
    pub bci: Option<Bci>,
    /// What executes it.
    pub tier: Tier,
    /// It is inlined into the frame below.
    pub inlined: bool,
}

/// A frame of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MachineFrame {
    /// The call stub's, through which the VM or native code called Java.
    CallStub,
    /// The interpreter's, of a Java method or of a native one.
    Interpreter,
    /// A native wrapper's.
    Wrapper,
    /// Of compiled code.
    Compiled {
        /// The code.
        code: CodeId,
        /// The number of its frames of [`Pause::frames`].
        depth: usize,
        /// The offset of the byte after the machine block that ran last. In a frame that made a
        /// call this is the return address.
        end: Option<u32>,
    },
}

/// Where control was during a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PausedAt {
    /// Outside of the code cache: in the VM or in native code.
    Outside,
    /// In the interpreter.
    Interpreter,
    /// In the main code of an nmethod.
    Compiled {
        /// The nmethod.
        code: CodeId,
        /// First instruction of the machine block that was interrupted.
        from: u32,
        /// The instruction that was not executed yet.
        offset: u32,
        /// Where markers place control at `from`.
        marked: Marked,
        /// Nothing is left of the activation but its return instruction: the frame has been
        /// removed.
        returns: bool,
    },
    /// In other code: a stub, an adapter, a native wrapper, a handler of an nmethod, or the
    /// entry of an nmethod that has no frame yet.
    Stub {
        /// The code.
        code: CodeId,
        /// The instruction that was not executed yet: its offset.
        offset: u32,
    },
    /// Control continued at another instruction than the one that was interrupted.
    Moved,
}

/// The machine block that a compiled frame executed last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastRun {
    /// The code.
    pub code: CodeId,
    /// The offset of the byte after the block.
    pub end: u32,
    /// The block did not get further, because the instruction there faulted or is a poll.
    pub cut: bool,
}

/// A time during which a thread executed no code of the code cache.
#[derive(Clone, PartialEq, Debug)]
pub struct Pause {
    /// It began at or after this time.
    pub since: Tsc,
    /// It ended at or before this time.
    pub until: Tsc,
    /// The instruction before which a signal or a fault stopped the thread; `None`: control had
    /// left the code cache.
    pub ip: Option<Address>,
    /// Where control was.
    pub at: PausedAt,
    /// The frames, outermost first. The frame of compiled code that has jumped out of it, as to the
    /// handler of the poll at its return, has been removed.
    pub frames: Vec<PausedFrame>,
    /// The same frames and those of the call stub, by frames of the machine, outermost first.
    pub machine: Vec<MachineFrame>,
    /// Where control was in a stub or in a native wrapper: its frame has been removed, and nothing
    /// is left of it but its return, or its jump to the callee that it has resolved.
    pub returns: bool,
    /// The frames before control came to the block at which the thread continued, if that block
    /// changed them, as the interpreter's return does.
    pub before: Option<Vec<PausedFrame>>,
    /// The interpreter is removing this frame, which lay above the others. It may exist still.
    pub removing: Option<PausedFrame>,
    /// What the innermost frame executed last, if it is a compiled one.
    pub last: Option<LastRun>,
    /// The bytecodes that the innermost frame, if it is interpreted, has begun since its last call
    /// ended, the call included. The frame's slot in memory may name any of them.
    pub recent: Vec<Bci>,
    /// The VM looks for the handler of an exception in the innermost frame, an interpreted one.
    pub throwing: bool,
    /// The outermost frame was called by the VM in sight.
    pub whole: bool,
    /// Trace of the thread was lost before, so that the frames may be wrong.
    pub lost: bool,
    /// Number of the next event in the thread's flow of single bytecodes.
    pub event: u64,
}

/// The bytecodes that the top interpreted frame has begun since its last call.
#[derive(Debug, Default)]
struct RecentBytecodes {
    /// The number of frames up to that one; 0 if there is none.
    depth: usize,
    list: Vec<Bci>,
    /// A bit for each bci in the list.
    seen: Vec<u64>,
}

impl RecentBytecodes {
    fn clear(&mut self, depth: usize) {
        self.list.drain(..).for_each(|b| self.seen[usize::from(b.0 / 64)] = 0);
        self.depth = depth;
    }
    fn add(&mut self, bci: Bci) {
        let (word, bit) = (usize::from(bci.0 / 64), 1 << (bci.0 % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.list.push(bci);
        }
    }
}

/// A thread continues where it was interrupted, at a block that has not been seen yet.
#[derive(Clone, Copy, Debug)]
struct Resuming {
    since: Tsc,
    ip: Address,
    /// The interrupted machine block, if it had begun: its start, and where markers placed
    /// control there.
    cut: Option<(u32, Marked)>,
    /// The block from here on is a return instruction.
    returns: bool,
}

/// How a pause began.
#[derive(Clone, Copy, Debug)]
struct Stopped {
    since: Tsc,
    /// The instruction that was interrupted; `None` outside of the code cache.
    ip: Option<Address>,
}

/// What the observation of pauses needs.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// The thread has left the code cache, or was interrupted.
    stopped: Option<Stopped>,
    /// It has returned to this address, and has executed nothing there yet.
    returned: Option<(Stopped, Address)>,
    resuming: Option<Resuming>,
    before: Option<Vec<PausedFrame>>,
    removing: Option<PausedFrame>,
    /// Pauses that have ended at an unknown time after the one that they name.
    ending: Vec<Pause>,
    recent: RecentBytecodes,
    lost: bool,
}

/// The end of a pause is known later than the pause. A pause is looked at if a time that is wanted
/// lies at most this many ticks after the last known time. It is more than the time between two
/// packets with a time; where it is not, a wanted time finds no pause.
const LATE: u64 = 1 << 16;

impl Machine<'_> {
    /// The thread left the code cache, or was interrupted before `ip`. If it had just come there
    /// and executed nothing, its pause continues: a unit may report the return of a thread that
    /// has to wait for its core before the thread runs.
    #[inline]
    pub(crate) fn observe_stop_of_thread(&mut self, ip: Option<Address>) {
        let since = self.now;
        if let Some(states) = self.states.as_mut() {
            let before = states.pauses.returned.take().filter(|(_, at)| ip == Some(*at));
            states.pauses.stopped = Some(before.map_or(Stopped { since, ip }, |(stopped, _)| stopped));
        }
    }
    /// The thread is back at `ip`.
    #[inline]
    pub(crate) fn observe_return_of_thread(&mut self, ip: Address) {
        let now = self.now;
        let Some(states) = self.states.as_mut() else { return };
        states.pauses.resuming = None;
        let Some(stopped) = states.pauses.stopped.take() else { return };
        states.pauses.returned = Some((stopped, ip));
        let Stopped { since, ip: interrupted } = stopped;
        if !states.observer.wants(since, Tsc(now.0.saturating_add(LATE)), interrupted) {
            return;
        }
        match interrupted {
            Some(at) if at == ip => {
                let cut = self.cut_at(ip);
                let resuming = Resuming { since, ip, cut, returns: false };
                if let Some(states) = self.states.as_mut() {
                    states.pauses.resuming = Some(resuming);
                }
            }
            Some(_) => self.pause(since, interrupted, PausedAt::Moved),
            None => self.pause(since, None, PausedAt::Outside),
        }
    }
    /// The machine block of the top frame that was interrupted before `ip`.
    fn cut_at(&self, ip: Address) -> Option<(u32, Marked)> {
        let Some(Frame::Compiled(c)) = self.stack.last() else { return None };
        let base = self.shared.image.code(c.code)?.range.start;
        let last = c.trail.last.filter(|l| l.exit == Exit::Cut && base.plus(l.to.into()) == ip)?;
        Some((last.from, if c.trail.early { c.trail.place() } else { c.trail.cut }))
    }
    /// A block of this code begins, and no step of it has been taken.
    #[inline]
    pub(crate) fn observe_first_block(
        &mut self,
        (start, end): (u32, u32),
        code: CodeId,
        class: CodeClass,
        exit: Exit,
    ) {
        let here = self.address(start);
        let Some(states) = self.states.as_mut() else { return };
        states.pauses.returned = None;
        let Some(resuming) = states.pauses.resuming.as_mut() else { return };
        if resuming.ip != here {
            states.pauses.resuming = None;
            return;
        }
        /// Length of the longest return instruction, and of `pop rbp; jmp rax`, with which a stub
        /// that resolves a call continues in the callee.
        const RETURN: u32 = 3;
        let leaves = exit == Exit::Return || exit == Exit::IndirectJump && class != CodeClass::NMethod;
        resuming.returns = leaves && end - start <= RETURN;
        match class {
            // Of the first two when it is known what the jump to the block means.
            CodeClass::Landmarks => {
                let before = paused_frames(&self.stack);
                if let Some(states) = self.states.as_mut() {
                    states.pauses.before = Some(before);
                }
            }
            CodeClass::NMethod => {}
            _ => self.pause_in_stub(code),
        }
    }
    /// The steps of the block have been taken.
    #[inline]
    pub(crate) fn observe_walked_block(&mut self, code: CodeId, class: CodeClass) {
        if self.states.as_ref().is_none_or(|s| s.pauses.resuming.is_none()) {
            return;
        }
        match class {
            CodeClass::Landmarks => self.pause_where_it_resumed(PausedAt::Interpreter),
            _ => self.pause_in_stub(code),
        }
    }
    fn pause_in_stub(&mut self, code: CodeId) {
        let ip = self.states.as_ref().and_then(|s| s.pauses.resuming).map(|r| r.ip);
        let base = self.shared.image.code(code).map(|v| v.range.start);
        let (Some(ip), Some(base)) = (ip, base) else { return };
        self.pause_where_it_resumed(PausedAt::Stub { code, offset: ip.minus(base) as u32 });
    }
    /// The top frame executes the block at `from` of its code. The markers on the edge to it were
    /// passed.
    #[inline]
    pub(crate) fn observe_resumed_code(&mut self, code: CodeId, from: u32, marked: Marked) {
        self.observe_landmark();
        let Some(resuming) = self.states.as_ref().and_then(|s| s.pauses.resuming) else { return };
        let (begin, marked) = resuming.cut.unwrap_or((from, marked));
        let returns = resuming.returns;
        self.pause_where_it_resumed(PausedAt::Compiled { code, from: begin, offset: from, marked, returns });
    }
    fn pause_where_it_resumed(&mut self, at: PausedAt) {
        let Some(resuming) = self.states.as_mut().and_then(|s| s.pauses.resuming.take()) else { return };
        let Resuming { since, ip, returns, .. } = resuming;
        self.pause_at(since, Some(ip), at, returns);
    }
    fn pause(&mut self, since: Tsc, ip: Option<Address>, at: PausedAt) {
        self.pause_at(since, ip, at, false);
    }
    fn pause_at(&mut self, since: Tsc, ip: Option<Address>, at: PausedAt, returns: bool) {
        let has_left = |f: &Frame| {
            matches!(f, Frame::Compiled(c) if c.trail.left) && !matches!(at, PausedAt::Compiled { .. })
        };
        let existing = &self.stack[..self.stack.len() - usize::from(self.stack.last().is_some_and(has_left))];
        let last = match existing.last() {
            Some(Frame::Compiled(c)) => {
                c.trail.last.map(|l| LastRun { code: c.code, end: l.to, cut: l.exit == Exit::Cut })
            }
            _ => None,
        };
        let whole = matches!(self.stack.first(), None | Some(Frame::Upcall { .. }));
        let (frames, event, depth, until) =
            (paused_frames(existing), self.next_event(), existing.len(), self.now);
        let machine = machine_frames(existing);
        let returns = returns && matches!(at, PausedAt::Stub { .. });
        let throwing = self.throwing;
        let Some(states) = self.states.as_mut() else { return };
        let recent = &states.pauses.recent;
        let recent = if recent.depth == depth { recent.list.clone() } else { Vec::new() };
        let lost = states.pauses.lost;
        let removing = states.pauses.removing;
        let before = states.pauses.before.take().filter(|before| *before != frames);
        let pause = Pause {
            since,
            until,
            ip,
            at,
            frames,
            machine,
            returns,
            before,
            removing,
            last,
            recent,
            throwing,
            whole,
            lost,
            event,
        };
        states.pauses.ending.push(pause);
    }
    /// A later time is known.
    #[inline]
    pub(crate) fn observe_time(&mut self) {
        let now = self.now;
        let Some(states) = self.states.as_mut() else { return };
        if states.pauses.ending.is_empty() {
            return;
        }
        for mut pause in states.pauses.ending.extract_if(.., |p| p.until < now) {
            pause.until = now;
            states.observer.paused(pause);
        }
    }
    /// The trace has ended.
    pub(crate) fn observe_end_of_pauses(&mut self) {
        // The thread did not come back.
        let end = Tsc(u64::MAX);
        if let Some(states) = self.states.as_mut()
            && let Some(Stopped { since, ip: None }) = states.pauses.stopped.take()
            && states.observer.wants(since, end, None)
        {
            self.pause(since, None, PausedAt::Outside);
        }
        let Some(states) = self.states.as_mut() else { return };
        for mut pause in std::mem::take(&mut states.pauses.ending) {
            pause.until = end;
            states.observer.paused(pause);
        }
    }
    /// Trace was lost.
    pub(crate) fn observe_lost_frames(&mut self) {
        if let Some(states) = self.states.as_mut() {
            states.pauses.lost = true;
            (states.pauses.resuming, states.pauses.stopped, states.pauses.returned) = (None, None, None);
        }
    }
    /// The top frame, an interpreted one, begins the bytecode at `bci`.
    #[inline]
    pub(crate) fn observe_bytecode(&mut self, bci: Bci) {
        let depth = self.stack.len();
        let Some(states) = self.states.as_mut() else { return };
        let recent = &mut states.pauses.recent;
        if recent.depth != depth {
            recent.clear(depth);
            if let Some(Frame::Interpreted(f)) = self.stack.last() {
                recent.add(f.at.unwrap_or(Bci(0)));
            }
        }
        recent.add(bci);
    }
    /// The interpreter begins something else than to remove a frame.
    #[inline]
    pub(crate) fn observe_landmark(&mut self) {
        if let Some(states) = self.states.as_mut() {
            states.pauses.removing = None;
        }
    }
    /// The interpreter begins to remove the top frame.
    pub(crate) fn observe_removal(&mut self) {
        let top = self.stack.last().map(std::slice::from_ref).map(paused_frames);
        if let Some(states) = self.states.as_mut() {
            states.pauses.removing = top.and_then(|frames| frames.last().copied());
        }
    }
    /// A frame is pushed.
    #[inline]
    pub(crate) fn observe_new_frame(&mut self) {
        if let Some(states) = self.states.as_mut() {
            states.pauses.recent.clear(0);
        }
    }
}

fn paused_frames(stack: &[Frame]) -> Vec<PausedFrame> {
    let mut all = Vec::new();
    for frame in stack {
        match frame {
            Frame::Interpreted(f) => {
                let bci = f.reached.or(f.at).or(Some(Bci(0)));
                let tier = Tier::Interpreter;
                all.push(PausedFrame { method: f.method, bci, tier, inlined: false });
            }
            Frame::Native { method, .. } => {
                let tier = Tier::Native;
                all.push(PausedFrame { method: *method, bci: None, tier, inlined: false });
            }
            Frame::Compiled(c) => {
                let one = |(i, p): (usize, &crate::frame::Position)| PausedFrame {
                    method: p.method,
                    bci: p.bci,
                    tier: c.tier,
                    inlined: i > 0,
                };
                all.extend(c.chain.iter().enumerate().map(one));
            }
            // No frame of the automaton: it does not run beside an observer.
            Frame::Upcall { .. } | Frame::Interned { .. } => {}
        }
    }
    all
}

fn machine_frames(stack: &[Frame]) -> Vec<MachineFrame> {
    let one = |frame: &Frame| match frame {
        Frame::Interpreted(_) | Frame::Native { code: None, .. } => MachineFrame::Interpreter,
        Frame::Native { code: Some(_), .. } => MachineFrame::Wrapper,
        Frame::Compiled(c) => {
            let end = c.trail.last.map(|l| l.to);
            MachineFrame::Compiled { code: c.code, depth: c.chain.len(), end }
        }
        // No frame of the automaton: it does not run beside an observer.
        Frame::Upcall { .. } | Frame::Interned { .. } => MachineFrame::CallStub,
    };
    stack.iter().map(one).collect()
}
