// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The verdict on one state.

use jportal_bytecode::{Opcode, Transfer};
use jportal_capture::schema::{HandlerEntry, blob_kinds, compilers, pc_flags};
use jportal_reconstruct::{CallTarget, Marked, MarkedBlock, ReachedState, StateKind, Unmarked};
use jportal_vm_image::{CodeBody, Marker, NMethod, PcPosition, VmImage};
use serde::Serialize;

use super::place::{FramePosition, Layouts, Relation, Whereabouts, frames_of_scope};
use super::reasons::{self, Deed, can_do};

/// What a state turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateVerdict {
    /// It names the only bytecode of the right block that can have done what control did.
    Right,
    /// It names one of several such bytecodes.
    Fits,
    /// It is an earlier position, from which the interpreter would execute again. C2 does this
    /// on purpose where it moved an allocation, or combined bytecodes.
    Earlier,
    /// Not judged.
    NotJudged,
    /// The reexecute bit is wrong.
    WrongReexecute,
    /// Another bytecode of the right block.
    WrongBci,
    /// Another block of the right method in the right inlined frames.
    WrongBlock,
    /// The right callers, but another method.
    WrongMethod,
    /// Other inlined frames.
    WrongChain,
    /// There is no state.
    Missing,
}

impl StateVerdict {
    /// All of them; the order of the columns of a table.
    pub const ALL: [Self; 10] = [
        Self::Right,
        Self::Fits,
        Self::Earlier,
        Self::WrongReexecute,
        Self::WrongBci,
        Self::WrongBlock,
        Self::WrongMethod,
        Self::WrongChain,
        Self::Missing,
        Self::NotJudged,
    ];
    /// A short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Fits => "fits",
            Self::Earlier => "earlier",
            Self::NotJudged => "not-judged",
            Self::WrongReexecute => "wrong-reexecute",
            Self::WrongBci => "wrong-bci",
            Self::WrongBlock => "wrong-block",
            Self::WrongMethod => "wrong-method",
            Self::WrongChain => "wrong-chain",
            Self::Missing => "missing",
        }
    }
    /// Whether something is wrong.
    pub const fn is_wrong(self) -> bool {
        !matches!(self, Self::Right | Self::Fits | Self::Earlier | Self::NotJudged)
    }
}

/// A kind of state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateGroup {
    /// At a call of a method.
    Call,
    /// At a call of a stub of the runtime.
    RuntimeCall,
    /// At a poll.
    Poll,
    /// At an instruction that may throw implicitly.
    ImplicitException,
    /// At the call of an uncommon trap.
    Trap,
    /// Of a frame that the interpreter continued.
    Deoptimisation,
    /// A row of the table of exception handlers.
    Handler,
    /// A row of the table of implicit exceptions, at the instruction that faulted.
    Fault,
}

/// A judged state.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub group: StateGroup,
    pub verdict: StateVerdict,
    /// Why it was not judged, or what is wrong.
    pub why: String,
    /// What debug info says, outermost first.
    pub state: Vec<FramePosition>,
    pub reexecute: bool,
    /// Where markers put control, outermost first.
    pub control: Vec<FramePosition>,
    /// The opcode at the state's innermost position.
    pub opcode: Option<Opcode>,
}

/// Judges states.
pub(crate) struct Judge<'a> {
    pub image: &'a VmImage,
    pub layouts: Layouts<'a>,
}

/// What is wrong, and why.
type Finding = (StateVerdict, String);

impl<'a> Judge<'a> {
    pub(crate) fn new(image: &'a VmImage) -> Self {
        Self { image, layouts: Layouts::new(image.table()) }
    }
    /// Judges a state; `None` where none is needed.
    pub(crate) fn state(&mut self, s: &ReachedState) -> Option<Judged> {
        let n = self.image.code(s.code).and_then(|v| v.nmethod())?;
        match s.kind {
            StateKind::Handler(at) => return Some(self.handler(n, s, at)),
            StateKind::Stopped(Some(at)) => return Some(self.fault(n, s, at)),
            _ => {}
        }
        let position = match s.kind {
            StateKind::Stopped(_) | StateKind::Inside => n.position_of_fault(s.offset),
            StateKind::Resumed { .. } => n.position_of_fault(s.offset).or_else(|| n.position_at(s.offset)),
            _ => n.position_at(s.offset),
        };
        let (group, deed) = self.group(n, s)?;
        let (group, deed) = match position {
            Some(p) if group == StateGroup::Poll && self.throws(n, p) => {
                (StateGroup::RuntimeCall, Deed::Throws)
            }
            _ => (group, deed),
        };
        let Some(position) = position else {
            // A state that is not there was never reached, except at a call.
            let needed = match s.kind {
                StateKind::Call(CallTarget::Java(_)) => true,
                StateKind::Call(CallTarget::Stub(code)) => {
                    self.image.code(code).is_some_and(reasons::needs_state)
                }
                StateKind::Resumed { .. } => true,
                _ => false,
            };
            let judged = Judged {
                group,
                verdict: StateVerdict::Missing,
                why: "no debug info at this place".to_owned(),
                state: Vec::new(),
                reexecute: false,
                control: self.layouts.whereabouts(n, s.marked).map_or_else(Vec::new, |w| w.frames),
                opcode: None,
            };
            return needed.then_some(judged);
        };
        Some(self.position(n, s, position, (group, deed)))
    }
    /// Whether the position is that of an exception that C1's code throws. C1 records it before
    /// the call that throws (`LIR_Assembler::throw_op`), for an `athrow`, and for an exception
    /// that leaves an inlined synchronized method, at its call (`GraphBuilder::fill_sync_handler`).
    fn throws(&mut self, n: &NMethod, p: &PcPosition) -> bool {
        let last = frames_of_scope(n, p.scope).and_then(|state| state.last().copied());
        let opcode = last.and_then(|last| self.layouts.opcode(last));
        n.compiler == compilers::C1
            && opcode.is_some_and(|o| matches!(o.transfer(), Transfer::Throw | Transfer::Invoke))
    }
    fn group(&self, n: &NMethod, s: &ReachedState) -> Option<(StateGroup, Deed<'a>)> {
        Some(match s.kind {
            StateKind::Call(CallTarget::Java(method)) => {
                let callee = self.image.table().get(method);
                (StateGroup::Call, callee.map_or(Deed::Anything, Deed::Calls))
            }
            StateKind::Call(CallTarget::Stub(code)) => match &self.image.code(code)?.body {
                CodeBody::Blob { kind: blob_kinds::UNCOMMON_TRAP, .. } => (StateGroup::Trap, Deed::Anything),
                // C1's trap is a stub of its own.
                CodeBody::Blob { name, .. } if name.contains("deoptimize") => {
                    (StateGroup::Trap, Deed::Anything)
                }
                CodeBody::Blob { name, .. } => (StateGroup::RuntimeCall, Deed::Enters(name)),
                _ => (StateGroup::RuntimeCall, Deed::Anything),
            },
            StateKind::Call(CallTarget::Outside | CallTarget::Unknown) => {
                n.position_at(s.offset)?;
                (StateGroup::RuntimeCall, Deed::Anything)
            }
            StateKind::Inside | StateKind::Stopped(_) => {
                if n.implicit.iter().any(|i| i.pc_offset == s.offset) {
                    (StateGroup::ImplicitException, Deed::MayFault)
                } else {
                    (StateGroup::Poll, Deed::Polls)
                }
            }
            StateKind::Resumed { .. } => (StateGroup::Deoptimisation, Deed::Anything),
            StateKind::Handler(_) => return None,
        })
    }
    /// The blocks in which control may be.
    fn marked(&self, n: &NMethod, s: &ReachedState) -> Vec<Marked> {
        let mut all = vec![s.marked];
        all.extend(s.held.map(Marked::Block));
        let stopped = matches!(s.kind, StateKind::Stopped(_) | StateKind::Resumed { .. });
        // C2 places the markers of a machine block at its start. Those before the instruction
        // may have happened, as far as only markers say.
        if stopped || s.kind == StateKind::Inside && n.compiler == compilers::C2 {
            let passed = n.markers.iter().flat_map(|m| m.passed(s.from, s.offset.saturating_add(1)));
            let marks = passed.flat_map(|(_, list)| list).take_while(|m| **m != Marker::PollState);
            all.extend(marks.filter_map(|m| match *m {
                Marker::Block { context, bci } => Some(Marked::Block(MarkedBlock { context, bci })),
                Marker::Ambiguous(_) | Marker::PollState => None,
            }));
        }
        all
    }
    fn position(
        &mut self,
        n: &NMethod,
        s: &ReachedState,
        position: &PcPosition,
        (group, deed): (StateGroup, Deed<'a>),
    ) -> Judged {
        let state = frames_of_scope(n, position.scope);
        let reexecute = position.flags & pc_flags::REEXECUTE != 0;
        let marked = self.marked(n, s);
        let places: Vec<Whereabouts> =
            marked.iter().filter_map(|m| self.layouts.whereabouts(n, *m)).collect();
        let opcode = state.as_ref().and_then(|s| self.layouts.opcode(*s.last()?));
        let control = places.last().map_or_else(Vec::new, |w| w.frames.clone());
        let (verdict, why) = match (&state, marked.iter().find_map(|m| unknown(*m))) {
            (None, _) => {
                (StateVerdict::NotJudged, "it names a method that the VM never described".to_owned())
            }
            (_, Some(why)) => (StateVerdict::NotJudged, why),
            (_, None) if places.len() < marked.len() => {
                (StateVerdict::NotJudged, "a marker names a method that the VM never described".to_owned())
            }
            (Some(state), None) => {
                let place = (&places[..], &state[..]);
                self.compare(s, place, (position.flags, deed), group)
            }
        };
        Judged { group, verdict, why, state: state.unwrap_or_default(), reexecute, control, opcode }
    }
    fn compare(
        &mut self,
        s: &ReachedState,
        (places, state): (&[Whereabouts], &[FramePosition]),
        (flags, deed): (u8, Deed<'a>),
        group: StateGroup,
    ) -> Finding {
        let relations: Vec<(usize, Relation)> =
            places.iter().map(|w| w.relation(state)).enumerate().collect();
        let inside = relations.iter().find(|r| matches!(r.1, Relation::Inside(_)));
        if let Some(&(at, Relation::Inside(p))) = inside {
            let found = self.inside(&places[at], state, (p.bci, p.opcode), deed, places.len());
            let combined = found.0 == StateVerdict::WrongBci && matches!(deed, Deed::Enters(_));
            if combined && self.is_earlier(state, flags, places) {
                return (StateVerdict::Earlier, "the interpreter executes again from there".to_owned());
            }
            return if found.0.is_wrong() {
                found
            } else {
                self.bit(s, state, flags, group).unwrap_or(found)
            };
        }
        let rethrows = flags & pc_flags::RETHROW_EXCEPTION != 0
            || matches!(deed, Deed::Throws)
            || matches!(deed, Deed::Enters(stub) if reasons::rethrows(stub));
        if rethrows && relations.iter().any(|r| r.1 == Relation::CallSite) {
            return (StateVerdict::Fits, String::new());
        }
        if self.is_earlier(state, flags, places) {
            return (StateVerdict::Earlier, "the interpreter executes again from there".to_owned());
        }
        // The place with the least difference.
        let severity = |r: &Relation| match r {
            Relation::NoInstruction => (0, StateVerdict::WrongBci, "no instruction begins there"),
            Relation::OtherBlock => (1, StateVerdict::WrongBlock, "control is in another block"),
            Relation::OtherMethod => (2, StateVerdict::WrongMethod, "control is in another method"),
            Relation::CallSite => (3, StateVerdict::WrongChain, "the frame of the callee is missing"),
            _ => (4, StateVerdict::WrongChain, "control is in other inlined frames"),
        };
        let least = relations.iter().map(|r| severity(&r.1)).min_by_key(|s| s.0);
        let (_, verdict, why) = least.unwrap_or((4, StateVerdict::WrongChain, "control is elsewhere"));
        (verdict, why.to_owned())
    }
    /// The state names a bytecode of the right block. Can it have done this?
    fn inside(
        &self,
        place: &Whereabouts,
        state: &[FramePosition],
        named: (Option<u16>, Option<Opcode>),
        deed: Deed<'_>,
        places: usize,
    ) -> Finding {
        let methods = self.layouts.methods;
        let can = |depth: usize, what| {
            let method = match place.frames.get(depth) {
                Some(f) => methods.get(f.method),
                None => state.last().and_then(|f| methods.get(f.method)),
            };
            can_do(method, what, deed)
        };
        let able: Vec<_> = place.possible.iter().filter(|p| can(p.depth, (p.bci, p.opcode))).collect();
        if !can(state.len() - 1, named) {
            let others: Vec<String> =
                able.iter().map(|p| p.bci.map_or_else(|| "-1".to_owned(), |bci| bci.to_string())).collect();
            let cannot =
                named.1.map_or_else(|| "the state before the first bytecode".to_owned(), |o| o.to_string());
            let instead = match &others[..] {
                [] => "no bytecode of the block can".to_owned(),
                some => format!("possible bci: {}", some.join(", ")),
            };
            return (StateVerdict::WrongBci, format!("{cannot} cannot do this; {instead}"));
        }
        let proven = able.len() == 1 && places == 1;
        (if proven { StateVerdict::Right } else { StateVerdict::Fits }, String::new())
    }
    /// Judges the reexecute bit; `None` if it is right or says nothing.
    fn bit(
        &mut self,
        s: &ReachedState,
        state: &[FramePosition],
        flags: u8,
        group: StateGroup,
    ) -> Option<Finding> {
        let set = flags & pc_flags::REEXECUTE != 0;
        let wrong = |why: &str| Some((StateVerdict::WrongReexecute, why.to_owned()));
        match (group, s.kind) {
            // An uncommon trap ignores the bit (`vframeArrayElement::unpack_on_stack`).
            (_, StateKind::Resumed { trap: false, again }) if again != set => wrong(if again {
                "the interpreter executed the bytecode again, and the bit is clear"
            } else {
                "the interpreter continued after the bytecode, and the bit is set"
            }),
            (StateGroup::Call, _) if set => wrong("the interpreter would make the call again"),
            (StateGroup::Poll, _) if !set => {
                let opcode = state.last().and_then(|p| self.layouts.opcode(*p))?;
                let branches = matches!(opcode.transfer(), Transfer::If | Transfer::Goto | Transfer::Switch);
                if branches { wrong("the interpreter would not take the branch") } else { None }
            }
            _ => None,
        }
    }
    /// Whether C2 keeps the state of an earlier allocation on purpose: a concatenation of strings
    /// (`PhaseStringOpts::replace_string_concat`), or an allocation that moved after the checks of
    /// an array copy (`LibraryCallKit::arraycopy_move_allocation_here`).
    fn is_earlier(&mut self, state: &[FramePosition], flags: u8, places: &[Whereabouts]) -> bool {
        const ALLOCATIONS: [u8; 4] = [187, 188, 189, 197];
        let Some((last, callers)) = state.split_last() else { return false };
        let allocates = self.layouts.opcode(*last).is_some_and(|o| ALLOCATIONS.contains(&o.0));
        // The bytecodes after the allocation need not lie after it in the code.
        let earlier = |w: &Whereabouts| {
            let at = w.frames.get(callers.len());
            w.frames.starts_with(callers) && at.is_some_and(|f| f.method == last.method)
        };
        flags & pc_flags::REEXECUTE != 0 && allocates && places.iter().any(earlier)
    }
    /// An instruction faulted, and control continued at `at`. C2 has no state there: its state is
    /// that of the uncommon trap to which the fault leads.
    fn fault(&mut self, n: &NMethod, s: &ReachedState, at: u32) -> Judged {
        let position = n.position_of_fault(s.offset);
        let row = n.implicit.iter().find(|i| i.pc_offset == s.offset);
        let judged = position.map(|p| self.position(n, s, p, (StateGroup::Fault, Deed::MayFault)));
        let table = match row {
            Some(row) if row.continuation == at => (StateVerdict::Right, String::new()),
            Some(row) => {
                let says = format!("control continued at +{at}, and the row says +{}", row.continuation);
                (StateVerdict::WrongBlock, says)
            }
            None => (StateVerdict::Missing, "the table has no row for the instruction".to_owned()),
        };
        let control = self.layouts.whereabouts(n, s.marked).map_or_else(Vec::new, |w| w.frames);
        let (verdict, why) = table;
        match judged {
            Some(judged) if !verdict.is_wrong() => judged,
            Some(judged) => Judged { verdict, why, ..judged },
            None => {
                let state = Vec::new();
                Judged {
                    group: StateGroup::Fault,
                    verdict,
                    why,
                    state,
                    reexecute: false,
                    control,
                    opcode: None,
                }
            }
        }
    }
    /// A row of the exception table led to `at`.
    fn handler(&mut self, n: &NMethod, s: &ReachedState, at: u32) -> Judged {
        // C1's rows for what it throws itself are at a position before the call: see `throws`.
        let places = match n.position_at(s.offset) {
            None if n.compiler == compilers::C1 => s.from..=s.offset,
            _ => s.offset..=s.offset,
        };
        let leads_there = |h: &&HandlerEntry| h.handler_offset == at && places.contains(&h.pc_offset);
        let rows: Vec<_> = n.handlers.iter().filter(leads_there).collect();
        let place = self.layouts.whereabouts(n, s.marked);
        let thrown_at = rows.first().map_or(s.offset, |row| row.pc_offset);
        let state = n.position_at(thrown_at).and_then(|p| frames_of_scope(n, p.scope)).unwrap_or_default();
        let control = place.map_or_else(Vec::new, |w| w.frames);
        let named = |row: &HandlerEntry| {
            let mut frames = state.clone();
            frames.truncate(state.len().saturating_sub(row.scope_depth as usize));
            if let Some(last) = frames.last_mut() {
                last.bci = u16::try_from(row.handler_bci).ok();
            }
            frames
        };
        let (mut shown, mut opcode) = (Vec::new(), None);
        let (verdict, why) = match (&rows[..], unknown(s.marked)) {
            ([], _) => (StateVerdict::Missing, "the table has no row that leads there".to_owned()),
            (_, Some(why)) => (StateVerdict::NotJudged, why),
            (rows, None) => {
                shown = named(rows[0]);
                opcode = shown.last().and_then(|p| self.layouts.opcode(*p));
                if rows.iter().all(|r| r.handler_bci < 0) {
                    (StateVerdict::NotJudged, "the row names no handler: it takes every exception".to_owned())
                } else if rows.iter().any(|r| named(r) == control) {
                    (StateVerdict::Right, String::new())
                } else {
                    let same = rows.iter().any(|r| same_frames(&named(r), &control));
                    let verdict = if same { StateVerdict::WrongBlock } else { StateVerdict::WrongChain };
                    (verdict, "the handler that ran is another one".to_owned())
                }
            }
        };
        Judged { group: StateGroup::Handler, verdict, why, state: shown, reexecute: false, control, opcode }
    }
}

/// Whether the positions differ in nothing but the innermost bci.
fn same_frames(a: &[FramePosition], b: &[FramePosition]) -> bool {
    match (a.split_last(), b.split_last()) {
        (Some((a, callers)), Some((b, others))) => callers == others && a.method == b.method,
        _ => false,
    }
}

/// Why markers do not place control.
pub(crate) fn unknown(marked: Marked) -> Option<String> {
    let Marked::Unknown(why) = marked else { return None };
    Some(match why {
        Unmarked::NoMarkers => "position came from debug info: the code has no path markers".to_owned(),
        Unmarked::Found => "the trace begins, or resumes, inside the activation".to_owned(),
        Unmarked::Lost(cause) => format!("the compiler lost the path: {}", cause.name()),
        Unmarked::Astray => "path markers contradict each other".to_owned(),
        Unmarked::MovedPoll => {
            "position came from debug info: only the state of a moved poll says which markers happened"
                .to_owned()
        }
    })
}
