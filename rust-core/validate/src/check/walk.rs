// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Follows the flow of one thread. The rules are in `steps` (inside a method), `frames` (calls,
//! returns, changes of frame kind) and `throwing` (exceptions).

use std::sync::Arc;

use hashbrown::HashMap;
use jportal_bytecode::Method;
use jportal_flow::{Entry, Event, EventKind, Exit, Gap, Provenance, ThreadInfo};
use jportal_units::{Bci, MethodId, Tsc};

use crate::check::code::{Code, Op};
use crate::check::finding::{Finding, Names};
use crate::check::report::{CheckFigures, Shared};
use crate::check::rule::{Reset, Rule};
use crate::check::stack::{At, CheckedFrame, CheckedStack, Due};

/// A query to the graph of a method: from, to, and whether an exception was thrown.
pub(crate) type Stretch = (MethodId, Option<Bci>, Option<Bci>, bool);

/// Which component gave up the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GivenUp {
    /// The decoder gave up some or all of them. It loses frames at a gap only.
    Decoded,
    /// Placing or filling gave up all of them. Both leave their frames where the flow
    /// contradicts them.
    Inferred,
}

/// State of one thread.
#[derive(Debug)]
pub(crate) struct Walk {
    shared: Arc<Shared>,
    thread: ThreadInfo,
    figures: CheckFigures,
    findings: Vec<Finding>,
    time: Option<Tsc>,
    pub(crate) stack: CheckedStack,
    /// Frames just left as replaced, in the order of their events.
    pub(crate) replaced: Vec<CheckedFrame>,
    /// A frame was given up as lost. More lost frames, a gap or the end must follow.
    lost: Option<GivenUp>,
    /// The current event is inferred.
    inferred: bool,
    /// Cached results for calls. Bounded by the call sites and targets of the program.
    pub(crate) calls: HashMap<(MethodId, Bci, MethodId), bool>,
    /// Cached results for stretches. Bounded by the pairs of positions.
    pub(crate) stretches: HashMap<Stretch, bool>,
}

impl Walk {
    pub(crate) fn new(shared: Arc<Shared>, thread: ThreadInfo) -> Self {
        Self {
            shared,
            thread,
            figures: CheckFigures::default(),
            findings: Vec::new(),
            time: None,
            stack: CheckedStack::default(),
            replaced: Vec::new(),
            lost: None,
            inferred: false,
            calls: HashMap::new(),
            stretches: HashMap::new(),
        }
    }
    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
    pub(crate) const fn figures(&mut self) -> &mut CheckFigures {
        &mut self.figures
    }
    /// Checks the next event.
    pub(crate) fn event(&mut self, event: &Event) {
        let kind = &event.kind;
        self.inferred = event.provenance != Provenance::Decoded;
        self.in_order(kind);
        match kind {
            EventKind::Bytecode { method, bci, tier } => self.bytecode(*method, *bci, *tier),
            // This consumer does not accept runs, so none arrives.
            EventKind::Run { .. } => {}
            // Nor does it take steps of code.
            EventKind::Code(_) => {}
            EventKind::Enter { method, tier, entry } => self.enter(*method, *tier, *entry),
            EventKind::Leave { method, exit } => self.leave(*method, *exit),
            EventKind::Catch { method, bci } => self.catch(*method, *bci),
            EventKind::Unresolved { method, from, to, cause, callers } => {
                self.unresolved(*method, (*from, *to), *cause, *callers > 0);
            }
            EventKind::Time(tsc) => self.tick(*tsc),
            EventKind::Gap(gap) => self.gap(gap),
            EventKind::Orphan(_) => self.orphan(),
        }
        self.figures.events += 1;
    }
    /// The flow has ended.
    pub(crate) fn end(&mut self) -> (CheckFigures, Vec<Finding>) {
        self.pair_replacements();
        if !self.stack.is_empty() {
            let depth = self.stack.depth();
            self.broken(Rule::Open, |_| format!("the flow ends with {depth} frames on the stack"));
        }
        (std::mem::take(&mut self.figures), std::mem::take(&mut self.findings))
    }
    /// Checks that the events before this one allow an event of this kind.
    #[inline]
    fn in_order(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Leave { exit: Exit::Lost, .. } | EventKind::Gap(_) | EventKind::Time(_) => {}
            // The flow continues with frames of which nothing is known. All lost frames were
            // inferred, so their positions were never certain.
            EventKind::Enter { entry: Entry::Found, .. } | EventKind::Orphan(_)
                if self.lost == Some(GivenUp::Inferred) =>
            {
                self.lost = None;
            }
            _ if self.lost.is_some() => {
                self.lost = None;
                let what = "the flow continues after frames that were given up as lost";
                self.broken(Rule::Lost, |_| what.into());
            }
            _ => {}
        }
        if self.replaced.is_empty() {
            return;
        }
        let pairs = matches!(
            kind,
            EventKind::Leave { exit: Exit::Replaced, .. }
                | EventKind::Enter { entry: Entry::Osr | Entry::Deoptimisation, .. }
                | EventKind::Time(_)
        );
        if !pairs {
            self.pair_replacements();
        }
    }
    /// No further frames replace those that were left as replaced.
    fn pair_replacements(&mut self) {
        let Some(frame) = self.replaced.first().copied() else { return };
        let n = self.replaced.len();
        self.replaced.clear();
        self.broken(Rule::Replacement, |names| {
            format!("{n} replaced frames do not continue, among them {}", names.method(frame.method))
        });
    }
    fn tick(&mut self, tsc: Tsc) {
        if let Some(before) = self.time.filter(|b| *b > tsc) {
            self.broken(Rule::Time, |_| format!("time {tsc} comes after {before}"));
        }
        self.time = Some(tsc);
    }
    fn gap(&mut self, gap: &Gap) {
        self.lost = None;
        if gap.stack_lost {
            self.stack.clear();
            self.reset(Reset::GapStackLost);
        } else {
            if let Some(top) = self.stack.top_mut() {
                (top.at, top.due) = (At::Unknown, Due::Step);
            }
            self.reset(Reset::GapInFrame);
        }
    }
    /// A frame of which nothing is known continues.
    fn orphan(&mut self) {
        if !self.stack.is_empty() {
            let depth = self.stack.depth();
            self.broken(Rule::WrongFrame, |_| format!("an unknown frame continues below {depth} known ones"));
            self.stack.clear();
        }
    }
    /// A frame was given up.
    pub(crate) fn give_up(&mut self) {
        self.lost = match self.lost {
            None | Some(GivenUp::Inferred) if self.inferred => Some(GivenUp::Inferred),
            _ => Some(GivenUp::Decoded),
        };
        self.reset(Reset::FrameLost);
    }
    /// Counts a place where less could be checked.
    pub(crate) fn reset(&mut self, reset: Reset) {
        self.figures.count_reset(reset);
    }
    /// The current event breaks `rule`.
    #[cold]
    pub(crate) fn broken(&mut self, rule: Rule, what: impl FnOnce(Names<'_>) -> String) {
        /// Frames shown with a finding.
        const FRAMES: usize = 4;
        self.figures.count_broken(rule);
        self.figures.count_reset(Reset::AfterFinding);
        if self.findings.len() >= self.shared.options.keep {
            return;
        }
        let names = self.names();
        let finding = Finding {
            rule,
            tid: self.thread.tid.get(),
            thread: self.thread.name.clone(),
            started: self.thread.started.get(),
            event: self.figures.events,
            tsc: self.time.map(Tsc::get),
            what: what(names),
            frames: self.stack.frames().take(FRAMES).map(|f| names.position(f)).collect(),
        };
        self.findings.push(finding);
    }
    fn names(&self) -> Names<'_> {
        Names { methods: &self.shared.methods, codes: &self.shared.codes }
    }
    pub(crate) fn method(&self, id: MethodId) -> Option<&Method> {
        self.shared.methods.get(id)
    }
    #[inline]
    pub(crate) fn code(&self, id: MethodId) -> Option<&Code> {
        self.shared.codes.get(&self.shared.methods, id)
    }
    /// The bytecode of `method` at `bci`.
    #[inline]
    pub(crate) fn op(&self, method: MethodId, bci: Bci) -> Option<Op> {
        self.code(method)?.op(bci).copied()
    }
    /// The top frame, which must be one of `method`. After a finding the checker believes the
    /// flow: it drops the frames above the innermost one of `method`, or pushes such a frame.
    #[inline]
    pub(crate) fn top_of(
        &mut self,
        method: MethodId,
        tier: jportal_flow::Tier,
        what: &str,
    ) -> Option<CheckedFrame> {
        match self.stack.top() {
            _ if self.stack.is_beyond() => {
                self.reset(Reset::TooDeep);
                None
            }
            Some(top) if top.method == method => Some(top),
            Some(_) => {
                self.broken(Rule::WrongFrame, |n| {
                    format!("{what} of {} which is not the top frame", n.method(method))
                });
                if !self.stack.cut_to(method) {
                    self.stack.push(CheckedFrame::new(method, tier, At::Unknown));
                }
                self.forget_position();
                None
            }
            None => {
                self.broken(Rule::NoFrame, |n| {
                    format!("{what} of {} with no frame on the stack", n.method(method))
                });
                self.stack.push(CheckedFrame::new(method, tier, At::Unknown));
                None
            }
        }
    }
    /// The top frame may be at any position.
    pub(crate) fn forget_position(&mut self) {
        if let Some(top) = self.stack.top_mut() {
            (top.at, top.due) = (At::Unknown, Due::Step);
        }
    }
}
