// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The machine of one thread: machine blocks in, bytecode events out.
//!
//! [`Machine::item`] is fed the thread's items in order, whatever core they ran on. Each block
//! is classified by its code version. The idioms live in their own files: `dispatch`
//! (templates), `entry` (stubs, adapters, call stub), `landing` (returns and exceptions),
//! `compiled` (positions in nmethods), `deopt` (changes of frame kind).

use crate::automaton::Automaton;
use crate::code_map::CodeMaps;
use crate::contradiction::{Contradiction, Walk};
use crate::driver::Positions;
use crate::frame::{Compiled, Frame, Position};
use crate::outcome::{BranchOutcomes, Reveals};
use crate::paths::{Ends, Paths};
use crate::silent::SilentCalls;
use crate::states::States;
use crate::tags::{CodeClass, Jump, Tags};
use jportal_bytecode::Opcode;
use jportal_flow::{
    Cause, CodeStep, Entry, Event, EventKind, Exit as FrameExit, FlowFault, Gap, GapReason, MachineFault,
    Tier, UnresolvedCounts,
};
use jportal_machine_flow::{CodeHistory, Exit, Item, MachineGap, MachineGapReason};
use jportal_units::{Address, AddressRange, Bci, CodeId, Core, MethodId, StreamOffset, Tsc};
use jportal_vm_image::interpreter::Reveal;
use jportal_vm_image::{Landmark, VmImage};

/// What all machines of a recording share.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub image: &'a VmImage,
    pub tags: Tags,
    pub maps: CodeMaps<'a>,
    pub cache: AddressRange,
    pub reveals: Reveals,
    pub positions: Positions,
    /// The unit infers the direction of a branch from the address at which control continued.
    pub sees_addresses_only: bool,
    /// Blocks of compiled code are left to the automaton.
    pub automatic: bool,
    /// The recording says where the VM's calls of Java code return. Without this, no stack is
    /// right.
    knows_upcalls: bool,
    silent: SilentCalls,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(
        image: &'a VmImage,
        history: &CodeHistory,
        positions: Positions,
        sees_addresses_only: bool,
    ) -> Self {
        let has = |what| image.interpreter.reveals().iter().any(|r| r.1 == what);
        Self {
            image,
            tags: Tags::new(image, history),
            maps: CodeMaps::new(image.table()),
            cache: history.range(),
            reveals: Reveals { binary_switch: has(Reveal::BinarySwitch) },
            positions,
            sees_addresses_only,
            automatic: true,
            knows_upcalls: image.interpreter.knows_upcalls(),
            silent: SilentCalls::new(image.table()),
        }
    }
    /// Whether the invoke at `bci` of `method` may execute without its callee being visible.
    pub(crate) fn may_be_silent(&self, method: MethodId, bci: Bci) -> bool {
        self.silent.may_be(self.image.table(), method, bci)
    }
}

/// The place in the PT streams from which the machine's input came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamPlace {
    pub core: Core,
    pub offset: StreamOffset,
}

/// Counters of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounters {
    /// Machine blocks walked.
    pub blocks: u64,
    /// Bytecode events emitted.
    pub bytecodes: u64,
    /// Bytecodes executed in interpreted frames that are not known.
    pub orphans: u64,
    /// Contradictions between machine flow and bytecode.
    pub contradictions: u64,
    /// Unresolved stretches of compiled code, by tier and cause.
    pub unresolved: UnresolvedCounts,
    /// Gaps that came from the machine flow.
    pub native_gaps: u64,
}

/// What is known of the block before the current one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// Nothing is known: the trace starts or restarts here.
    Nothing,
    /// Control continued in the ordinary way after this exit of a block of this code.
    Block { exit: Exit, class: CodeClass, code: CodeId },
}

/// Time becomes an event when it has entered the next interval of this many TSC ticks (some 100
/// µs). MTC packets come every few µs. The intervals are the same in each flow of a recording,
/// whatever was lost before.
const TIME_STEP: u64 = 1 << 18;

/// The state of one thread.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) stack: Vec<Frame>,
    pub(crate) outcome: BranchOutcomes,
    /// An exception is on its way through the top interpreted frame.
    pub(crate) throwing: bool,
    pub(crate) before: Before,
    /// The last bytecode in a frame that is not known, until its outcome is known.
    pub(crate) orphan: Option<Opcode>,
    /// Nothing is followed, and a gap in the flow has reported it.
    given_up: bool,
    /// The address at which an interrupt cut the flow, until the thread resumes.
    interrupted: Option<Address>,
    pub(crate) now: Tsc,
    /// The last time that became an event.
    told: Tsc,
    pub(crate) place: StreamPlace,
    pub(crate) out: Vec<Event>,
    /// Consecutive bytecodes are reported as one event, a run.
    pub(crate) runs: bool,
    /// The flow says which compiled code executes its frames.
    pub(crate) codes: bool,
    pub(crate) counters: ThreadCounters,
    pub(crate) paths: Paths,
    /// An unused list, so that a move need not allocate one.
    pub(crate) spare: Vec<Position>,
    /// Blocks of compiled code are left to the automaton.
    pub(crate) automatic: bool,
    pub(crate) automaton: Box<Automaton>,
    /// Number of frames in which the automaton runs.
    pub(crate) interned: usize,
    /// If the first of the events in `out` is a run: the bytecode just before it in the code, if
    /// it may have been executed just before.
    pub(crate) follows: Option<Bci>,
    /// The current code, if its metadata is flawed; the gap that reports this is in the flow.
    flawed: Option<CodeId>,
    /// Observes compiled code.
    pub(crate) states: Option<Box<States>>,
}

/// Appends a run of bytecodes that are adjacent in the code: the first, the last, and their
/// number. `follows` is the bytecode just before them in the code, if it may have been executed
/// just before. A run that ends with it is extended.
#[inline]
pub(crate) fn push_run(
    out: &mut Vec<Event>,
    (method, tier): (MethodId, Tier),
    (first, last, len): (Bci, Bci, u16),
    follows: Option<Bci>,
) {
    if let (Some(follows), Some(event)) = (follows, out.last_mut())
        && let Some(run) = lengthened(&event.kind, (method, tier), follows, (last, len))
    {
        event.kind = run;
        return;
    }
    out.push(Event::decoded(match len {
        1 => EventKind::Bytecode { method, bci: first, tier },
        _ => EventKind::Run { method, first, last, len, tier },
    }));
}

/// `kind` extended by the bytecodes up to `last`, if `kind` is of the same frame and its last
/// bytecode is at `end`; otherwise `None`.
#[inline]
pub(crate) fn lengthened(
    kind: &EventKind,
    frame: (MethodId, Tier),
    end: Bci,
    (last, more): (Bci, u16),
) -> Option<EventKind> {
    let (method, first, len, tier) = match *kind {
        EventKind::Run { method, first, last, len, tier } if last == end => (method, first, len, tier),
        EventKind::Bytecode { method, bci, tier } if bci == end => (method, bci, 1, tier),
        _ => return None,
    };
    let len = len.checked_add(more).filter(|_| (method, tier) == frame)?;
    Some(EventKind::Run { method, first, last, len, tier })
}

/// The kind of a fault of the machine flow.
const fn fault(error: &jportal_machine_flow::Error) -> MachineFault {
    use jportal_machine_flow::Error;
    match error {
        Error::Packet(_) => MachineFault::Packet,
        Error::UnexpectedPacket { .. } | Error::UnexpectedState { .. } => MachineFault::Unexpected,
        Error::NoCode { .. } | Error::NoInstruction { .. } => MachineFault::NoCode,
        Error::WrongAddress { .. } | Error::LeftRange { .. } => MachineFault::WrongAddress,
        Error::ReturnStack { .. } | Error::OtherCall { .. } | Error::OtherCaller { .. } => {
            MachineFault::Return
        }
        Error::Circle { .. } => MachineFault::Circle,
        _ => MachineFault::Other,
    }
}

impl<'a> Machine<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>) -> Self {
        Self {
            shared,
            stack: Vec::new(),
            outcome: BranchOutcomes::default(),
            throwing: false,
            before: Before::Nothing,
            orphan: None,
            given_up: false,
            interrupted: None,
            now: Tsc(0),
            told: Tsc(0),
            place: StreamPlace::default(),
            out: Vec::new(),
            runs: false,
            codes: false,
            counters: ThreadCounters::default(),
            paths: Paths::default(),
            spare: Vec::new(),
            automatic: shared.automatic,
            automaton: Box::default(),
            interned: 0,
            follows: None,
            flawed: None,
            states: None,
        }
    }
    /// Takes the next item of the thread.
    #[inline]
    pub(crate) fn item(&mut self, item: &Item) {
        if !self.shared.knows_upcalls {
            return self.do_not_follow(item);
        }
        match item {
            Item::Block { start, end, code, exit } => self.block(*start, *end, *code, *exit),
            Item::Enter { ip } => self.enter(*ip),
            Item::Leave { .. } => self.observe_stop_of_thread(None),
            Item::Interrupt { ip } => {
                self.observe_stop_of_thread(Some(*ip));
                self.interrupted = Some(*ip);
            }
            Item::Time(tsc) => self.time(*tsc),
            Item::Gap(gap) => self.native_gap(gap),
        }
    }
    /// Follows nothing. Reports this once, as a gap, when Java code runs. (The VM runs stubs of
    /// its own before that.)
    #[cold]
    fn do_not_follow(&mut self, item: &Item) {
        match item {
            Item::Block { start, code, .. } => {
                self.counters.blocks += 1;
                if !self.given_up && self.is_java(*start, *code) {
                    self.given_up = true;
                    self.lose(Gap {
                        reason: GapReason::Reconstruct(
                            FlowFault::NoCallStub,
                            "the recording ends before the VM said where its calls of Java code return"
                                .into(),
                        ),
                        core: self.place.core,
                        offset: self.place.offset,
                        address: Some(self.address(*start).0),
                        since: Some(self.now).filter(|t| t.0 != 0),
                        until: None,
                        bytes: None,
                        stack_lost: true,
                    });
                }
            }
            Item::Time(tsc) => self.now = self.now.max(*tsc),
            Item::Gap(gap) => self.native_gap(gap),
            Item::Enter { .. } | Item::Leave { .. } | Item::Interrupt { .. } => {}
        }
    }
    /// Whether the block at `start` executes Java code.
    fn is_java(&self, start: u32, code: CodeId) -> bool {
        match self.shared.tags.class(code) {
            CodeClass::Landmarks => self.shared.tags.landmark(start).is_some(),
            CodeClass::NMethod | CodeClass::NativeWrapper | CodeClass::MethodStubs => true,
            CodeClass::Deoptimisation | CodeClass::Unwind | CodeClass::Transparent => false,
        }
    }
    fn time(&mut self, tsc: Tsc) {
        self.now = self.now.max(tsc);
        self.observe_time();
        // An event that is still pending began before this time.
        if self.orphan.is_none() {
            self.tell_time();
        }
    }
    /// Emits the time as an event if enough time has passed.
    pub(crate) fn tell_time(&mut self) {
        if self.now.0 / TIME_STEP != self.told.0 / TIME_STEP {
            self.told = self.now;
            self.emit(EventKind::Time(self.now));
        }
    }
    /// The thread is back in the code cache. After an interrupt at the same address, nothing
    /// has happened in between. At any other address, the VM or native code transferred control
    /// there.
    fn enter(&mut self, ip: Address) {
        let stopped = self.interrupted.take();
        self.observe_return_of_thread(ip);
        if stopped != Some(ip) {
            if let Some(at) = stopped {
                self.faulted_at_once(at);
            }
            self.before = Before::Nothing;
        }
    }
    /// Control had reached `at` and did not continue there. If no instruction of the block was
    /// executed, there was no item for the block. Even so, its template was dispatched, or its
    /// path markers were passed.
    fn faulted_at_once(&mut self, at: Address) {
        let Before::Block { exit, class, code } = self.before else { return };
        let start = at.minus(self.shared.cache.start) as u32;
        let walked = match (class, exit) {
            (_, Exit::Cut) => return,
            (CodeClass::Landmarks, Exit::IndirectJump) => self.landmark_block(start, start, Exit::Cut),
            (CodeClass::NMethod, _) if self.is_in(code, at) => {
                self.nmethod_block(start, start, code, Exit::Cut)
            }
            _ => return,
        };
        if let Err(c) = walked {
            self.contradict(start, &c);
        }
    }
    fn is_in(&self, code: CodeId, at: Address) -> bool {
        self.shared.image.code(code).is_some_and(|v| v.range.contains(at))
    }
    fn native_gap(&mut self, gap: &MachineGap) {
        self.counters.native_gaps += 1;
        let reason = match &gap.reason {
            MachineGapReason::Truncated => GapReason::Truncated,
            MachineGapReason::Overflow => GapReason::Overflow,
            MachineGapReason::Sideband => GapReason::Sideband,
            MachineGapReason::Start => GapReason::BeforePsb,
            MachineGapReason::Undecodable(e) => GapReason::MachineFlow(fault(e), e.to_string()),
            other => GapReason::MachineFlow(MachineFault::Other, format!("{other:?}")),
        };
        self.lose(Gap {
            reason,
            core: self.place.core,
            offset: gap.offset,
            address: gap.address.map(|a| a.0),
            since: gap.since,
            until: gap.until,
            bytes: gap.bytes(),
            stack_lost: true,
        });
    }
    /// Part of the flow is missing: the stack is not known any more.
    pub(crate) fn lose(&mut self, gap: Gap) {
        self.unfold();
        self.settle_orphan();
        self.observe_loss();
        self.observe_lost_frames();
        self.pop_all(FrameExit::Lost);
        self.outcome = BranchOutcomes::default();
        self.throwing = false;
        self.before = Before::Nothing;
        self.interrupted = None;
        self.emit(EventKind::Gap(Box::new(gap)));
        // The time at which the flow resumes is always reported, however little time has
        // passed: a gap during which the thread left the core has no end time of its own.
        self.told = Tsc(0);
    }
    #[cold]
    fn contradict(&mut self, at: u32, c: &Contradiction) {
        self.counters.contradictions += 1;
        let now = Some(self.now).filter(|t| t.0 != 0);
        self.lose(Gap {
            reason: GapReason::Reconstruct(c.fault(), c.to_string()),
            core: self.place.core,
            offset: self.place.offset,
            address: Some(self.address(at).0),
            since: now,
            until: now,
            bytes: None,
            stack_lost: true,
        });
    }
    pub(crate) fn address(&self, offset: u32) -> Address {
        self.shared.cache.start.plus(offset.into())
    }
    #[inline]
    fn block(&mut self, start: u32, end: u32, code: CodeId, exit: Exit) {
        if start == end {
            return;
        }
        self.counters.blocks += 1;
        if self.flawed.is_some() {
            if self.flawed == Some(code) {
                return;
            }
            self.flawed = None;
        }
        let class = self.shared.tags.class(code);
        self.observe_code(code, class);
        self.observe_first_block((start, end), code, class, exit);
        let walked = match class {
            CodeClass::Landmarks => self.landmark_block(start, end, exit),
            CodeClass::NMethod if self.automatic_block(start, end, code, exit) => Ok(()),
            CodeClass::NMethod => self.nmethod_block(start, end, code, exit),
            CodeClass::NativeWrapper => self.wrapper_block(start, code, exit),
            CodeClass::MethodStubs => self.method_stub(start),
            CodeClass::Unwind => self.unwind_stub(),
            CodeClass::Deoptimisation => Ok(()),
            CodeClass::Transparent => {
                self.stub_after_jump();
                Ok(())
            }
        };
        self.observe_walked_block(code, class);
        match walked {
            Ok(()) => self.before = Before::Block { exit, class, code },
            Err(c) => {
                self.contradict(start, &c);
                self.flawed = matches!(*c, Contradiction::Flawed { .. }).then_some(code);
            }
        }
    }
    #[inline]
    fn landmark_block(&mut self, start: u32, end: u32, exit: Exit) -> Walk<()> {
        if let Some(landmark) = self.shared.tags.landmark(start) {
            self.landmark(landmark)?;
        }
        let taken = match exit {
            Exit::Taken => true,
            Exit::NotTaken => false,
            _ => return Ok(()),
        };
        match self.shared.tags.jump(end) {
            Some(Jump::Bit(what)) => self.outcome.reveal_bit(what, taken),
            Some(Jump::Aside) => {}
            None => self.outcome.conditional(taken),
        }
        Ok(())
    }
    fn landmark(&mut self, landmark: Landmark) -> Walk<()> {
        self.unfold();
        self.observe_landmark();
        match landmark {
            Landmark::Template(t) => {
                // Templates jump inside themselves (entries per TosState). Only an indirect
                // jump is a dispatch.
                if matches!(self.before, Before::Block { exit: Exit::IndirectJump, .. }) {
                    self.dispatch(t)?;
                }
                Ok(())
            }
            // The stub before it has identified the callee. An intrinsic entry may continue in
            // the ordinary entry.
            Landmark::MethodEntry(_) => Ok(()),
            Landmark::ReturnEntry => self.return_entry(),
            Landmark::DeoptEntry => self.deopt_entry(false),
            Landmark::DeoptReexecute => self.deopt_entry(true),
            Landmark::RethrowException => self.rethrow(),
            Landmark::ThrowException => self.throw(),
            Landmark::StackOverflow => self.stack_overflow(),
            Landmark::RemoveActivation => {
                self.observe_removal();
                self.remove_activation(FrameExit::Unwind)
            }
            Landmark::RemoveActivationPreservingArgs => self.pop_frame(),
            Landmark::EarlyReturn => self.early_return(),
            Landmark::CallStub => self.call_stub(),
            // `catch_exception` jumps here when it is done: that upcall has ended already.
            Landmark::CallStubReturn if self.jumped() => Ok(()),
            Landmark::CallStubReturn => self.upcall_ends(FrameExit::Return),
            Landmark::CatchException => self.upcall_ends(FrameExit::Unwind),
            Landmark::SafepointEntry => {
                self.stop_in_front();
                Ok(())
            }
            Landmark::ForwardException => {
                self.return_before_exception();
                Ok(())
            }
        }
    }
    /// Whether control came to the current block by a direct jump.
    fn jumped(&self) -> bool {
        matches!(self.before, Before::Block { exit: Exit::Jump, .. })
    }
    #[inline]
    pub(crate) fn emit(&mut self, kind: EventKind) {
        self.out.push(Event::decoded(kind));
    }
    #[inline]
    pub(crate) fn emit_bytecode(&mut self, method: MethodId, bci: Bci, tier: Tier) {
        self.counters.bytecodes += 1;
        self.emit(EventKind::Bytecode { method, bci, tier });
    }
    /// The top frame went from one of `ends` to the other on an unknown path.
    pub(crate) fn emit_unresolved(&mut self, method: MethodId, ends: Ends, tier: Tier, cause: Cause) {
        self.emit_unresolved_over(method, ends, tier, (cause, 0));
    }
    /// As [`Machine::emit_unresolved`], for a stretch in which `callers` frames may have ended
    /// and begun again.
    pub(crate) fn emit_unresolved_over(
        &mut self,
        method: MethodId,
        (from, to): Ends,
        tier: Tier,
        (cause, callers): (Cause, u16),
    ) {
        self.counters.unresolved.add(tier, cause);
        self.emit(EventKind::Unresolved { method, from, to, cause, callers });
    }
    pub(crate) fn emit_enter(&mut self, method: MethodId, tier: Tier, entry: Entry) {
        self.settle_orphan();
        self.emit(EventKind::Enter { method, tier, entry });
    }
    /// Reports a step of code, if the consumer takes them.
    pub(crate) fn emit_code(&mut self, step: CodeStep) {
        if self.codes {
            self.emit(EventKind::Code(step));
            if let Some(states) = &mut self.states {
                states.count_code();
            }
        }
    }
    /// Pops the top frame, if there is one, and reports how it ended.
    pub(crate) fn pop(&mut self, exit: FrameExit) {
        self.settle_top();
        if let Some(f) = self.stack.pop() {
            self.leave_frame(f, exit);
        }
    }
    /// Reports that `frame`, already off the stack, ended.
    fn leave_frame(&mut self, frame: Frame, exit: FrameExit) {
        match frame {
            Frame::Interpreted(i) => {
                let returns = matches!(exit, FrameExit::Return | FrameExit::Unknown);
                let exit = if i.forced && returns { FrameExit::EarlyReturn } else { exit };
                self.emit(EventKind::Leave { method: i.method, exit });
            }
            Frame::Native { method, .. } => self.emit(EventKind::Leave { method, exit }),
            Frame::Compiled(c) => self.leave_compiled(c, exit),
            // No frame of the automaton: see [`Machine::unfold`].
            Frame::Interned { .. } | Frame::Upcall { .. } => {}
        }
    }
    fn leave_compiled(&mut self, c: Compiled, exit: FrameExit) {
        match exit {
            FrameExit::Return => return self.walk_to_return(&c),
            FrameExit::Unwind if self.is_marked(&c) => {
                return self.unwind_marked(&c.chain, &c.trail, c.tier);
            }
            _ => {}
        }
        for p in c.chain.iter().rev() {
            if exit == FrameExit::Unknown {
                self.emit_unresolved(p.method, (p.bci, None), c.tier, Cause::UnknownEnd);
            }
            self.emit(EventKind::Leave { method: p.method, exit });
        }
    }
    /// The thread's trace is over.
    pub(crate) fn finish(&mut self) {
        self.unfold();
        self.settle_orphan();
        self.observe_end_of_pauses();
        self.observe_loss();
        self.pop_all(FrameExit::Lost);
    }
    /// Pops every frame.
    pub(crate) fn pop_all(&mut self, exit: FrameExit) {
        while !self.stack.is_empty() {
            self.pop(exit);
        }
    }
    /// Pops all frames above the lowest `floor` frames. The lowest popped frame is known to
    /// have ended by `exit`.
    pub(crate) fn pop_above(&mut self, floor: usize, exit: FrameExit) {
        while self.stack.len() > floor + 1 {
            let exit = self.exit_of_top(FrameExit::Unknown);
            self.pop(exit);
        }
        if self.stack.len() > floor {
            self.pop(exit);
        }
    }
}
