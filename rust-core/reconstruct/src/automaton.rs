// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a block of compiled code does to the frame that executes it, worked out once.
//!
//! A compiled frame with its inline chain and trail is a *state*. What the machine does with a
//! block depends on the state, the block, and how control arrived; it reads nothing else. So the
//! automaton keeps the events and the next state of each such *step*. The machine itself works
//! out a step when it occurs for the first time.
//!
//! A frame in which the automaton runs is [`Frame::Interned`]. Only this file knows that kind of
//! frame: before any other part of the machine looks at frames, [`Machine::unfold`] turns all of
//! them into [`Frame::Compiled`].

use crate::frame::{Compiled, Frame, Position, Trail};
use crate::machine::{Before, Machine, lengthened};
use crate::tags::CodeClass;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use jportal_flow::{Event, EventKind, Exit as FrameExit, Tier};
use jportal_machine_flow::Exit;
use jportal_units::{Bci, CodeId, MethodId};
use jportal_vm_image::NMethod;
use std::hash::BuildHasher;

/// States and events kept. An automaton that has more of either begins anew.
const MOST_STATES: usize = 1 << 16;
const MOST_EVENTS: usize = 1 << 20;

/// [`FrameStep::to`]: the frame does not exist yet, and does not begin.
const NO_FRAME: u32 = u32::MAX;
/// [`FrameState::returned`]: not worked out yet.
const UNKNOWN: u32 = u32::MAX;
/// The effect without events.
const NOTHING: u32 = 0;

/// A block, and how control arrived at it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct BlockArrival {
    start: u32,
    end: u32,
    /// How the block ends, and what was executed before it.
    how: u32,
}

impl BlockArrival {
    fn new((start, end): (u32, u32), code: CodeId, exit: Exit, before: Before) -> Self {
        let before = match before {
            Before::Nothing => 1,
            Before::Block { exit, code: c, .. }
                if c == code && !matches!(exit, Exit::Call | Exit::IndirectCall | Exit::Return) =>
            {
                0
            }
            Before::Block { exit, class, .. } => 2 + ((class as u32) << 4 | exit as u32),
        };
        Self { start, end, how: before << 8 | exit as u32 }
    }
    /// Whether the block before belongs to the same code and did not leave it
    /// ([`Machine::resumes_in`]).
    const fn resumes(self) -> bool {
        self.how < 1 << 8
    }
}

#[derive(Clone, Copy, Debug)]
struct FrameStep {
    on: BlockArrival,
    /// The next state, or [`NO_FRAME`].
    to: u32,
    effect: u32,
}

impl FrameStep {
    /// No block is empty.
    const NONE: Self = Self { on: BlockArrival { start: 0, end: 0, how: 0 }, to: NO_FRAME, effect: NOTHING };
}

#[derive(Clone, Debug)]
struct FrameState {
    tier: Tier,
    /// The last block ended with a jump.
    jumped: bool,
    /// The effect of a return to compiled code, or [`UNKNOWN`].
    returned: u32,
    /// The steps that were worked out first. The others are in [`Automaton::more`].
    steps: [FrameStep; 2],
}

/// What a step emits.
#[derive(Clone, Debug, Default)]
struct StepEffect {
    first: u32,
    len: u32,
    bytecodes: u64,
    /// The bytecode just before the first event in the code: the run that ends with it is
    /// extended.
    follows: Option<Bci>,
    /// Some events are [`EventKind::Unresolved`].
    unresolved: bool,
}

/// An entry of a code version.
#[derive(Clone, Copy, Debug)]
struct EntryState {
    state: u32,
    method: MethodId,
}

/// States and steps that were worked out so far.
#[derive(Debug)]
pub(crate) struct Automaton {
    states: Vec<FrameState>,
    /// The frame of each state.
    frames: Vec<Compiled>,
    /// The states by the hash of their frames.
    known: HashTable<u32>,
    hasher: DefaultHashBuilder,
    more: HashMap<(u32, BlockArrival), FrameStep>,
    /// By code version, the state before the first block.
    entries: Vec<Option<EntryState>>,
    effects: Vec<StepEffect>,
    events: Vec<Event>,
}

impl Default for Automaton {
    fn default() -> Self {
        let (states, frames, known, hasher, more, entries, events) = Default::default();
        Self { states, frames, known, hasher, more, entries, effects: vec![StepEffect::default()], events }
    }
}

impl Automaton {
    /// The state of `frame`.
    fn intern(&mut self, frame: Compiled) -> u32 {
        let hash = self.hasher.hash_one(&frame);
        if let Some(&state) = self.known.find(hash, |&s| self.frames[s as usize] == frame) {
            return state;
        }
        let state = self.states.len() as u32;
        self.states.push(FrameState {
            tier: frame.tier,
            jumped: frame.trail.jumped(),
            returned: UNKNOWN,
            steps: [FrameStep::NONE; 2],
        });
        self.frames.push(frame);
        let Self { known, frames, hasher, .. } = self;
        known.insert_unique(hash, state, |&s| hasher.hash_one(&frames[s as usize]));
        state
    }
    #[inline]
    fn step(&self, state: u32, on: BlockArrival) -> Option<FrameStep> {
        let [first, second] = &self.states[state as usize].steps;
        if first.on == on {
            Some(*first)
        } else if second.on == on {
            Some(*second)
        } else {
            self.more.get(&(state, on)).copied()
        }
    }
    fn add(&mut self, state: u32, step: FrameStep) {
        let steps = &mut self.states[state as usize].steps;
        match steps.iter_mut().find(|s| s.on == FrameStep::NONE.on) {
            Some(free) => *free = step,
            None => _ = self.more.insert((state, step.on), step),
        }
    }
    #[inline]
    fn entry(&self, code: CodeId) -> Option<EntryState> {
        *self.entries.get(code.0 as usize)?
    }
    /// The state in which an activation of `code` begins.
    fn add_entry(&mut self, code: CodeId, method: MethodId, tier: Tier) -> EntryState {
        if let Some(entry) = self.entry(code) {
            return entry;
        }
        let chain = vec![Position { method, bci: None }];
        let state = self.intern(Compiled { code, tier, chain, trail: Trail::default() });
        let n = code.0 as usize;
        if self.entries.len() <= n {
            self.entries.resize(n + 1, None);
        }
        *self.entries[n].insert(EntryState { state, method })
    }
    fn add_effect(&mut self, events: Vec<Event>, bytecodes: u64, follows: Option<Bci>) -> u32 {
        if events.is_empty() && bytecodes == 0 {
            return NOTHING;
        }
        let unresolved = events.iter().any(|e| matches!(e.kind, EventKind::Unresolved { .. }));
        let (first, len) = (self.events.len() as u32, events.len() as u32);
        self.effects.push(StepEffect { first, len, bytecodes, follows, unresolved });
        self.events.extend(events);
        self.effects.len() as u32 - 1
    }
    fn is_full(&self) -> bool {
        self.states.len() >= MOST_STATES || self.events.len() >= MOST_EVENTS
    }
}

impl<'a> Machine<'a> {
    /// Turns all frames into those that the other parts of the machine know.
    #[inline]
    pub(crate) fn unfold(&mut self) {
        if self.interned > 0 {
            self.unfold_all();
        }
    }
    #[inline(never)]
    fn unfold_all(&mut self) {
        for frame in self.stack.iter_mut().rev() {
            if self.interned == 0 {
                return;
            }
            if let Frame::Interned { state, .. } = *frame {
                *frame = Frame::Compiled(self.automaton.frames[state as usize].clone());
                self.interned -= 1;
            }
        }
    }
    /// The automaton executes a block of compiled code. `false`: the machine has to do it.
    #[inline]
    pub(crate) fn automatic_block(&mut self, start: u32, end: u32, code: CodeId, exit: Exit) -> bool {
        // A bytecode in a frame that is not known has a call as its outcome, which is not the
        // automaton's.
        if !self.automatic || self.orphan.is_some() {
            return false;
        }
        let on = BlockArrival::new((start, end), code, exit, self.before);
        if let Some(state) = self.state_in(code)
            && let Some(step) = self.automaton.step(state, on)
            && (on.resumes() || self.stack.len() > 1)
        {
            self.take_step(step, code, exit);
            return true;
        }
        if let Some(entry) = self.automaton.entry(code)
            && let Some(step) = self.automaton.step(entry.state, on)
        {
            self.begin_activation(step, code, entry, exit);
            return true;
        }
        self.learn((start, end), code, exit, on)
    }
    /// The state of the top frame, if it executes `code`.
    #[inline]
    fn state_in(&mut self, code: CodeId) -> Option<u32> {
        match self.stack.last_mut() {
            Some(Frame::Interned { code: c, state }) if *c == code => Some(*state),
            Some(Frame::Compiled(c)) if c.code == code => self.fold(),
            _ => None,
        }
    }
    /// Lets the automaton run in the top frame, which is compiled.
    #[inline(never)]
    fn fold(&mut self) -> Option<u32> {
        if self.automaton.is_full() {
            return None;
        }
        let Some(Frame::Compiled(c)) = self.stack.pop() else { return None };
        let code = c.code;
        let state = self.automaton.intern(c);
        self.stack.push(Frame::Interned { code, state });
        self.interned += 1;
        Some(state)
    }
    #[inline]
    fn take_step(&mut self, step: FrameStep, code: CodeId, exit: Exit) {
        if let Some(top) = self.stack.last_mut() {
            *top = Frame::Interned { code, state: step.to };
        }
        if step.effect != NOTHING {
            self.apply(step.effect, step.to);
        }
        if exit == Exit::Return {
            self.return_automatically(step.to);
        }
    }
    /// A block at the entry of `code`.
    #[inline]
    fn begin_activation(&mut self, step: FrameStep, code: CodeId, entry: EntryState, exit: Exit) {
        if step.to == NO_FRAME {
            return;
        }
        let tier = self.automaton.states[entry.state as usize].tier;
        let cause = self.entry_cause();
        self.interned += 1;
        self.push(Frame::Interned { code, state: step.to }, entry.method, tier, cause);
        if step.effect != NOTHING {
            self.apply(step.effect, step.to);
        }
        if exit == Exit::Return {
            self.return_automatically(step.to);
        }
    }
    /// As [`Machine::return_to_compiled`].
    fn return_automatically(&mut self, state: u32) {
        let caller = self.stack.iter().nth_back(1);
        if !matches!(caller, Some(Frame::Compiled(_) | Frame::Interned { .. })) {
            return;
        }
        let mut effect = self.automaton.states[state as usize].returned;
        if effect == UNKNOWN {
            let frame = self.automaton.frames[state as usize].clone();
            if let Some(top) = self.stack.last_mut() {
                *top = Frame::Compiled(frame);
            }
            effect = self.effect_of(|machine| machine.pop(FrameExit::Return));
            self.automaton.states[state as usize].returned = effect;
        } else {
            self.stack.pop();
        }
        self.interned -= 1;
        self.apply(effect, state);
    }
    /// Emits the events of a step to `state`.
    #[inline]
    fn apply(&mut self, effect: u32, state: u32) {
        let effect = &self.automaton.effects[effect as usize];
        self.counters.bytecodes += effect.bytecodes;
        let mut events = &self.automaton.events[effect.first as usize..][..effect.len as usize];
        if let Some(follows) = effect.follows
            && let Some((first, rest)) = events.split_first()
            && let (EventKind::Run { .. } | EventKind::Bytecode { .. }, Some(last)) =
                (&first.kind, self.out.last_mut())
            && let Some(run) = joined(&last.kind, follows, &first.kind)
        {
            last.kind = run;
            events = rest;
        }
        self.out.extend_from_slice(events);
        if effect.unresolved {
            let tier = self.automaton.states[state as usize].tier;
            for event in events {
                if let EventKind::Unresolved { cause, .. } = event.kind {
                    self.counters.unresolved.add(tier, cause);
                }
            }
        }
    }
    /// What `work` emits and counts. Nothing is emitted or counted.
    fn effect_of(&mut self, work: impl FnOnce(&mut Self)) -> u32 {
        let out = std::mem::take(&mut self.out);
        let counters = self.counters.clone();
        self.follows = None;
        work(self);
        let events = std::mem::replace(&mut self.out, out);
        let bytecodes = self.counters.bytecodes - counters.bytecodes;
        self.counters = counters;
        self.automaton.add_effect(events, bytecodes, self.follows.take())
    }
    /// Works out a step, and takes it. `false` if the automaton has no such steps.
    #[inline(never)]
    fn learn(&mut self, (start, end): (u32, u32), code: CodeId, exit: Exit, on: BlockArrival) -> bool {
        let Some(version) = self.shared.image.code(code) else { return false };
        let Some(n) = version.nmethod().filter(|n| n.flaw.is_none()) else { return false };
        if self.automaton.is_full() {
            self.unfold();
            *self.automaton = Automaton::default();
            return false;
        }
        let base = version.range.start.minus(self.shared.cache.start) as u32;
        let (from, to) = (start.wrapping_sub(base), end.wrapping_sub(base));
        if from <= n.verified_entry {
            let Some(method) = n.method else { return false };
            let entry = self.automaton.add_entry(code, method, Self::tier(n));
            let step = if Self::has_no_frame(n, (from, to), exit) {
                FrameStep { on, to: NO_FRAME, effect: NOTHING }
            } else {
                self.interned += 1;
                self.stack.push(Frame::Interned { code, state: entry.state });
                let step = self.work_out(n, (from, to), exit, (entry.state, on));
                self.stack.pop();
                self.interned -= 1;
                step
            };
            self.automaton.add(entry.state, step);
            self.begin_activation(step, code, entry, exit);
            return true;
        }
        let Some(state) = self.state_in(code) else { return false };
        let lands = !on.resumes();
        // Other frames may have to be looked at.
        let is_special =
            n.osr_entry == Some(from) || self.automaton.states[state as usize].jumped || self.stack.len() < 2;
        if lands && is_special {
            return false;
        }
        let step = self.work_out(n, (from, to), exit, (state, on));
        self.automaton.add(state, step);
        self.take_step(step, code, exit);
        true
    }
    /// What the top frame, which is in `state`, does with a block.
    fn work_out(
        &mut self,
        n: &'a NMethod,
        run: (u32, u32),
        exit: Exit,
        (state, on): (u32, BlockArrival),
    ) -> FrameStep {
        let frame = self.automaton.frames[state as usize].clone();
        let code = frame.code;
        if let Some(top) = self.stack.last_mut() {
            *top = Frame::Compiled(frame);
        }
        let effect = self.effect_of(|machine| machine.follow(n, run, exit));
        let next =
            match self.stack.last_mut().map(|top| std::mem::replace(top, Frame::Interned { code, state })) {
                Some(Frame::Compiled(next)) => self.automaton.intern(next),
                _ => state,
            };
        FrameStep { on, to: next, effect }
    }
}

/// `last` extended by the executed bytecodes of `next`, the first of which directly follows
/// `follows` in the code.
#[inline]
fn joined(last: &EventKind, follows: Bci, next: &EventKind) -> Option<EventKind> {
    let (frame, more) = match *next {
        EventKind::Run { method, last, len, tier, .. } => ((method, tier), (last, len)),
        EventKind::Bytecode { method, bci, tier } => ((method, tier), (bci, 1)),
        _ => return None,
    };
    lengthened(last, frame, follows, more)
}

/// Classes and exits fit into the bits that [`BlockArrival::new`] has for them.
const _: () = assert!((Exit::Far as u32) < 1 << 4 && (CodeClass::Transparent as u32) < 1 << 4);
