// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The frames of a thread during the replay of its flow, and the events that lead from one
//! instruction to the next.

use crate::cut::FrameSites;
use jportal_bytecode::{Icfg, Node, Opcode, Transfer};
use jportal_flow::{Entry, EventKind, Exit, Tier};
use jportal_units::{Bci, MethodId};

/// The knowledge about methods beyond the graph.
pub(crate) trait Methods {
    /// The tier that executes a method which a fill enters.
    fn tier(&self, method: MethodId) -> Tier;
    /// The native method that `site` was seen to call.
    fn native_callee(&self, site: Node) -> Option<MethodId>;
    /// A method that `site` names and that the interpreter was seen to execute without its
    /// bytecodes, as it does for some methods of `java.lang.Math`.
    fn silent_callee(&self, site: Node) -> Option<MethodId>;
    /// Whether `site` was seen to call `callee`, although the graph does not name it there.
    fn was_called(&self, site: Node, callee: MethodId) -> bool;
}

/// A frame of the shadow stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShadowFrame {
    pub(crate) method: MethodId,
    pub(crate) tier: Tier,
    /// Its last instruction; `None` if the frame has just been entered or found.
    at: Option<LastInstruction>,
    /// Whether the frame was found: it may be at any instruction until `at` is known.
    found: bool,
    /// Whether the VM or native code called the method: the frame below is not its caller.
    upcall: bool,
    /// Whether a callee has returned or was unwound since the instruction at `at`.
    called: bool,
    /// Whether that callee was unwound: its exception is caught in this frame or unwinds it,
    /// too.
    thrown: bool,
    /// The handler that the frame has entered: it comes next.
    caught: Option<Node>,
}

/// An instruction. For most instructions of a flow, the node is never needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LastInstruction {
    Node(Node),
    Bci(Bci),
}

impl ShadowFrame {
    /// Its last instruction.
    fn at(&self, icfg: &Icfg) -> Option<Node> {
        match self.at? {
            LastInstruction::Node(node) => Some(node),
            LastInstruction::Bci(bci) => icfg.node_at(self.method, bci),
        }
    }
}

/// A stack of frames, outermost first.
#[derive(Clone, Debug)]
pub(crate) struct ShadowStack<'a> {
    icfg: &'a Icfg,
    frames: Vec<ShadowFrame>,
    /// Whether there are no further frames below.
    whole: bool,
    /// Frames that continue in a frame of another tier, innermost first.
    replaced: Vec<ShadowFrame>,
}

/// Whether the specification lets an instruction throw (JVMS 6.5), apart from the exceptions
/// that may occur at any time.
const fn may_throw(opcode: Opcode) -> bool {
    match opcode.0 {
        // Constants of the instruction itself, locals, the operand stack; arithmetic except
        // integer division.
        0..=17 | 21..=45 | 54..=78 | 87..=107 | 110 | 111 | 114..=152 => false,
        // Branches, `jsr`, `ret`, switches; `wide` forms of locals; `ifnull`, `ifnonnull`,
        // `goto_w`, `jsr_w`.
        153..=171 | 196 | 198..=201 => false,
        _ => true,
    }
}

/// The step that leads towards an instruction.
enum StackStep {
    /// The instruction is next, in the top frame.
    Here,
    /// A handler of the top frame is entered.
    Catch,
    /// A frame is entered.
    Enter(MethodId, Entry),
    /// The top frame ends.
    Leave(Exit),
    /// A native method, or one whose bytecodes are not executed, is called and returns.
    Passes(MethodId),
    /// The interpreter executes this method here and would have called something at this
    /// invoke.
    Lacks(MethodId, Node),
    /// No step leads there.
    Nowhere,
}

/// The reason why no events lead to an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoWay {
    /// Only compiled code could have gone to the instruction, and the interpreter executes this
    /// method.
    Interpreted {
        /// The method.
        method: MethodId,
        /// The invoke at which the interpreter would have entered a callee.
        site: Node,
    },
    /// The frames do not allow it.
    Frames,
}

impl<'a> ShadowStack<'a> {
    /// The stack of a thread that has not begun.
    pub(crate) const fn new(icfg: &'a Icfg) -> Self {
        Self { icfg, frames: Vec::new(), whole: true, replaced: Vec::new() }
    }
    /// The graph of the executed methods.
    pub(crate) const fn icfg(&self) -> &'a Icfg {
        self.icfg
    }
    /// The frames, outermost first.
    pub(crate) fn frames(&self) -> &[ShadowFrame] {
        &self.frames
    }
    /// The events that give all frames up.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = EventKind> + '_ {
        self.frames.iter().rev().map(|f| EventKind::Leave { method: f.method, exit: Exit::Lost })
    }
    /// Forgets all frames.
    pub(crate) fn forget(&mut self) {
        self.frames.clear();
        self.replaced.clear();
        self.whole = false;
    }
    /// The call sites below the top frame.
    pub(crate) fn sites(&self) -> FrameSites {
        let below = self.frames.split_last().map_or(&[][..], |(_, below)| below);
        let java = below.iter().rev().filter(|f| self.icfg.entry(f.method).is_some());
        let mut sites: Vec<Node> = java.clone().map_while(|f| f.at(self.icfg)).collect();
        sites.reverse();
        let whole = self.whole && sites.len() == java.count();
        FrameSites { sites, whole }
    }
    /// Follows an event.
    pub(crate) fn follow(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Enter { method, tier, entry } => self.enter(*method, *tier, *entry),
            EventKind::Leave { method, exit } => self.leave(*method, *exit),
            EventKind::Bytecode { method, bci, tier } | EventKind::Run { method, last: bci, tier, .. } => {
                self.executed(*method, *tier, LastInstruction::Bci(*bci));
            }
            EventKind::Catch { method, bci } => {
                let handler = self.icfg.node_at(*method, *bci);
                if let Some(top) = self.frames.last_mut() {
                    top.caught = handler;
                }
            }
            EventKind::Gap(gap) if gap.stack_lost => self.forget(),
            EventKind::Gap(_)
            | EventKind::Time(_)
            | EventKind::Unresolved { .. }
            | EventKind::Orphan(_)
            | EventKind::Code(_) => {}
        }
    }
    /// Notes that the top frame, if it is one of `method`, has executed instructions up to
    /// `last`; else a frame of `method` is found.
    fn executed(&mut self, method: MethodId, tier: Tier, last: LastInstruction) {
        if self.frames.last().is_none_or(|top| top.method != method) {
            self.forget();
            self.enter(method, tier, Entry::Found);
        }
        if let Some(top) = self.frames.last_mut() {
            (top.at, top.tier, top.called, top.thrown, top.caught) = (Some(last), tier, false, false, None);
        }
    }
    fn enter(&mut self, method: MethodId, tier: Tier, entry: Entry) {
        let before = match entry {
            Entry::Osr | Entry::Deoptimisation => self.replaced.pop().filter(|f| f.method == method),
            Entry::Call | Entry::Upcall => None,
            Entry::Found => {
                self.whole &= !self.frames.is_empty();
                None
            }
        };
        let (found, upcall) = (entry == Entry::Found, entry == Entry::Upcall);
        let new =
            ShadowFrame { method, tier, at: None, found, upcall, called: false, thrown: false, caught: None };
        self.frames.push(ShadowFrame { tier, ..before.unwrap_or(new) });
    }
    fn leave(&mut self, method: MethodId, exit: Exit) {
        if exit != Exit::Replaced {
            self.replaced.clear();
        }
        match self.frames.pop() {
            Some(top) if top.method != method => self.forget(),
            Some(top) if exit == Exit::Replaced => self.replaced.push(top),
            Some(top) => {
                if let Some(caller) = self.frames.last_mut().filter(|_| !top.upcall) {
                    // A popped callee is called once more.
                    (caller.called, caller.thrown) = (exit != Exit::PopFrame, exit == Exit::Unwind);
                }
            }
            None => self.whole = false,
        }
    }
    /// Leads to `to`: appends the events that precede it, and follows them.
    ///
    /// # Errors
    /// The reason why `to` cannot be next. After [`NoWay::Interpreted`], `out` has all events
    /// up to the invoke, and they have been followed. Otherwise `out` and the frames are
    /// meaningless.
    pub(crate) fn advance(
        &mut self,
        to: Node,
        methods: &dyn Methods,
        out: &mut Vec<EventKind>,
    ) -> Result<(), NoWay> {
        // Each step except the last two ends a frame.
        for _ in 0..self.frames.len() + 4 {
            let step = self.step(to, methods);
            let event = match step {
                StackStep::Here => return Ok(()),
                StackStep::Nowhere => return Err(NoWay::Frames),
                StackStep::Lacks(method, site) => return Err(NoWay::Interpreted { method, site }),
                StackStep::Catch => {
                    let (method, bci) = (self.icfg.method(to), self.icfg.bci(to));
                    self.take(EventKind::Catch { method, bci }, out);
                    return Ok(());
                }
                StackStep::Enter(method, entry) => {
                    let native = self.icfg.entry(method).is_none();
                    let tier = if native { Tier::Native } else { methods.tier(method) };
                    EventKind::Enter { method, tier, entry }
                }
                StackStep::Leave(exit) => {
                    let Some(top) = self.frames.last() else { return Err(NoWay::Frames) };
                    EventKind::Leave { method: top.method, exit }
                }
                StackStep::Passes(method) => {
                    let native = self.icfg.entry(method).is_none();
                    let tier = if native { Tier::Native } else { Tier::Interpreter };
                    let enter = EventKind::Enter { method, tier, entry: Entry::Call };
                    self.take(enter, out);
                    EventKind::Leave { method, exit: Exit::Return }
                }
            };
            self.take(event, out);
        }
        Err(NoWay::Frames)
    }
    fn take(&mut self, kind: EventKind, out: &mut Vec<EventKind>) {
        self.follow(&kind);
        out.push(kind);
    }
    /// Makes the top frame one of this compiler's code.
    pub(crate) fn compile(&mut self, tier: Tier) {
        if let Some(top) = self.frames.last_mut() {
            top.tier = tier;
        }
    }
    /// Appends the event of `to` itself, after [`Self::advance`] has led there.
    pub(crate) fn execute(&mut self, to: Node, out: &mut Vec<EventKind>) {
        let tier = self.executes(to, to);
        out.push(EventKind::Bytecode { method: self.icfg.method(to), bci: self.icfg.bci(to), tier });
    }
    /// Appends the event of `to` and the instructions that follow it, `len` in all: they are
    /// adjacent, and each leads to the next.
    pub(crate) fn execute_run(&mut self, to: Node, len: u16, out: &mut Vec<EventKind>) {
        let last = Node(to.0 + u32::from(len) - 1);
        let tier = self.executes(to, last);
        let (first, last) = (self.icfg.bci(to), self.icfg.bci(last));
        out.push(EventKind::Run { method: self.icfg.method(to), first, last, len, tier });
    }
    /// Notes that the top frame executes its instructions from `first` to `last`. Returns its
    /// tier.
    fn executes(&mut self, first: Node, last: Node) -> Tier {
        let (method, tier) =
            (self.icfg.method(first), self.frames.last().map_or(Tier::Interpreter, |top| top.tier));
        self.executed(method, tier, LastInstruction::Node(last));
        tier
    }
    fn step(&self, to: Node, methods: &dyn Methods) -> StackStep {
        let g = self.icfg;
        let Some(top) = self.frames.last() else { return self.without_frames(to) };
        match top.at(g) {
            _ if g.entry(top.method).is_none() => self.out_of_native(to),
            None if g.entry(top.method) == Some(to) => StackStep::Here,
            None if top.found && g.method(to) == top.method => StackStep::Here,
            None => StackStep::Nowhere,
            Some(_) if top.caught.is_some() => {
                if top.caught == Some(to) {
                    StackStep::Here
                } else {
                    StackStep::Nowhere
                }
            }
            Some(at) if top.thrown => self.throws(at, to),
            Some(at) => self.goes_on(top, at, to, methods),
        }
    }
    /// The step without frames on the stack: the VM calls, or a frame is found where there may
    /// be one.
    fn without_frames(&self, to: Node) -> StackStep {
        match (self.whole, self.icfg.is_entry(to)) {
            (true, true) => StackStep::Enter(self.icfg.method(to), Entry::Upcall),
            (true, false) => StackStep::Nowhere,
            (false, _) => StackStep::Enter(self.icfg.method(to), Entry::Found),
        }
    }
    /// The step of a native method: it returns, throws, or calls.
    fn out_of_native(&self, to: Node) -> StackStep {
        let g = self.icfg;
        let caller = self.frames.len().checked_sub(2).and_then(|i| self.frames[i].at(g));
        let goes_on = caller.is_some_and(|site| g.edges(site).any(|(_, n)| n == to));
        if goes_on || caller.is_none() && !g.is_entry(to) {
            StackStep::Leave(Exit::Return)
        } else if g.is_entry(to) {
            StackStep::Enter(g.method(to), Entry::Upcall)
        } else if g.rows_into(to).next().is_some() {
            StackStep::Leave(Exit::Unwind)
        } else {
            StackStep::Nowhere
        }
    }
    /// The step of an exception that the instruction at `at` throws and `to` catches, in this
    /// frame or below.
    fn throws(&self, at: Node, to: Node) -> StackStep {
        let g = self.icfg;
        if !may_throw(g.opcode(at)) {
            return StackStep::Nowhere;
        }
        if g.handlers(at).any(|h| h == to) {
            StackStep::Catch
        } else if g.catches_all(at) || g.rows_into(to).next().is_none() {
            StackStep::Nowhere
        } else {
            StackStep::Leave(Exit::Unwind)
        }
    }
    fn goes_on(&self, top: &ShadowFrame, at: Node, to: Node, methods: &dyn Methods) -> StackStep {
        let g = self.icfg;
        match g.opcode(at).transfer() {
            Transfer::Return => return StackStep::Leave(Exit::Return),
            Transfer::Invoke if !top.called => {
                if g.is_entry(to) && (g.names(at, to) || methods.was_called(at, g.method(to))) {
                    return StackStep::Enter(g.method(to), Entry::Call);
                }
                let native = methods.native_callee(at);
                // A native method that was called here before has called a method that cannot
                // be the callee.
                if let Some(native) = native.filter(|_| g.may_call(at, to)) {
                    return StackStep::Enter(native, Entry::Call);
                }
                if g.edges(at).any(|(_, n)| n == to) {
                    return match native {
                        Some(native) => StackStep::Passes(native),
                        // Compiled code has intrinsics; the interpreter calls.
                        None if top.tier == Tier::Interpreter => match methods.silent_callee(at) {
                            Some(silent) => StackStep::Passes(silent),
                            None => StackStep::Lacks(top.method, at),
                        },
                        None => StackStep::Here,
                    };
                }
            }
            _ if g.edges(at).any(|(_, n)| n == to) => return StackStep::Here,
            _ => {}
        }
        if !g.is_entry(to) || g.handlers(at).any(|h| h == to) {
            return self.throws(at, to);
        }
        // The VM calls: a class initialiser, for example. The interpreter lets it do so where
        // an instruction needs it.
        if top.tier == Tier::Interpreter && !may_throw(g.opcode(at)) {
            return StackStep::Nowhere;
        }
        StackStep::Enter(g.method(to), Entry::Upcall)
    }
    /// Whether the innermost frames are those of `methods`, outermost first, with no other
    /// frames above them.
    pub(crate) fn ends_with(&self, methods: &[(MethodId, Tier)]) -> bool {
        let own = self.frames.iter().rev().map(|f| f.method);
        methods.len() <= self.frames.len() && own.zip(methods.iter().rev()).all(|(a, b)| a == b.0)
    }
    /// Gives the innermost frames the tiers of `executors`, outermost first, by on-stack
    /// replacement or deoptimisation. Returns `false` if neither is possible.
    pub(crate) fn replace(&mut self, executors: &[(MethodId, Tier)], out: &mut Vec<EventKind>) -> bool {
        let from = self.frames.len().saturating_sub(executors.len());
        let differs = |(frame, (_, tier)): (&ShadowFrame, &(MethodId, Tier))| frame.tier != *tier;
        let Some(first) = self.frames[from..].iter().zip(executors).position(differs) else { return true };
        let new = &executors[first..];
        let old: Vec<_> = self.frames[from + first..].iter().map(|f| (f.method, f.tier)).collect();
        let are_compiled = |all: &[(MethodId, Tier)]| all.iter().all(|f| matches!(f.1, Tier::C1 | Tier::C2));
        let are_interpreted = |all: &[(MethodId, Tier)]| all.iter().all(|f| f.1 == Tier::Interpreter);
        if !(are_compiled(&old) || are_interpreted(&old)) || !(are_compiled(new) || are_interpreted(new)) {
            return false;
        }
        // Compiled code is replaced by other compiled code by way of the interpreter.
        if are_compiled(&old) {
            let down: Vec<_> = old.iter().map(|f| (f.0, Tier::Interpreter)).collect();
            self.replace_all(&down, Entry::Deoptimisation, out);
        }
        if are_compiled(new) {
            self.replace_all(new, Entry::Osr, out);
        }
        true
    }
    fn replace_all(&mut self, executors: &[(MethodId, Tier)], entry: Entry, out: &mut Vec<EventKind>) {
        for (method, _) in executors.iter().rev() {
            self.take(EventKind::Leave { method: *method, exit: Exit::Replaced }, out);
        }
        for (method, tier) in executors {
            self.take(EventKind::Enter { method: *method, tier: *tier, entry }, out);
        }
    }
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;
