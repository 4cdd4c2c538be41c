// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Collects the places where the flow of a thread leaves something open.

use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{MethodTable, Shapes};
use jportal_flow::{Cause, Entry, Event, EventKind, Exclude, Exit, Frame, Provenance, Stack};
use jportal_units::{Bci, MethodId};

use super::Inexact;
use super::region::{To, Ways};
use crate::sites::{Sites, Uncalled, UncalledOutcome};

/// An unresolved stretch. Many stretches are equal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct UnresolvedStretch {
    pub(crate) method: MethodId,
    pub(crate) ways: Ways,
    /// Whether the bytecode before the stretch, if it is an invoke, has already made its call.
    pub(crate) called: bool,
    /// Frames below that may have ended and begun again during the stretch, from the top down.
    /// The lowest one continued in the same activation.
    pub(crate) callers: Box<[Frame]>,
}

/// What is hidden in the flow of one thread, or of several.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    pub(crate) stretches: HashMap<UnresolvedStretch, u64>,
    /// What the frames that existed where trace was lost may have done. Bounded by the pairs of
    /// positions.
    pub(crate) lost: HashSet<(MethodId, Ways)>,
    /// Silent calls by invoke.
    pub(crate) silent: HashMap<(MethodId, Bci), u64>,
    pub(crate) inexact: Inexact,
}

impl Hidden {
    fn uncalled(&mut self, call: Uncalled<'_>) {
        if call.outcome == UncalledOutcome::Silent {
            *self.silent.entry((call.method, call.bci)).or_default() += 1;
            self.inexact.silent_calls += 1;
        }
    }
    pub(crate) fn merge(&mut self, other: Self) {
        for (stretch, n) in other.stretches {
            *self.stretches.entry(stretch).or_default() += n;
        }
        self.lost.extend(other.lost);
        for (site, n) in other.silent {
            *self.silent.entry(site).or_default() += n;
        }
        self.inexact.merge(&other.inexact);
    }
}

/// Whether whole iterations of a loop may be missing, in addition to the paths that a compiler
/// folded into one. An empty diamond may be the rest of a loop without effect: the test whether
/// it iterates.
pub(crate) const fn has_rounds(cause: Cause) -> bool {
    !matches!(
        cause,
        Cause::ConditionalMove
            | Cause::FoldedCompares
            | Cause::Trichotomy
            | Cause::Clipping
            | Cause::SharedTarget
            | Cause::ConditionalExpression
            | Cause::StringConcatenation
            | Cause::MovedAllocation
            | Cause::PreparedException
            | Cause::HiddenCallee
    )
}

/// Follows one thread.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    stack: Stack,
    hidden: Hidden,
    /// A stretch that leads to the end of a frame. The next event says how the frame ended.
    open: Option<UnresolvedStretch>,
    /// Frames that were given up. If a gap or another event follows, they may have continued
    /// unseen. At the end of the recording they stay at their last position.
    given_up: Vec<Frame>,
    /// The previous event was the end of a callee.
    returned: bool,
    sites: Sites,
}

impl Follower {
    /// The frames before the next event.
    pub(crate) const fn stack(&self) -> &Stack {
        &self.stack
    }
    /// The invoke that was the previous event. If the next event is a bytecode of the same method,
    /// the call is silent.
    pub(crate) const fn invoke(&self) -> Option<(MethodId, Bci)> {
        self.sites.pending()
    }
    /// Why the figures of this thread are not exact so far.
    pub(crate) const fn inexact(&self) -> &Inexact {
        &self.hidden.inexact
    }
    /// Processes the next event.
    pub(crate) fn event(
        &mut self,
        (methods, shapes): (&MethodTable, &Shapes),
        event: &Event,
        exclude: Exclude,
    ) {
        let kind = &event.kind;
        if matches!(kind, EventKind::Time(_) | EventKind::Code(_)) {
            return;
        }
        // Nearly all events are of this kind.
        if let Some((method, first, last)) = kind.executed()
            && event.provenance == Provenance::Decoded
            && !exclude.decoded
            && self.open.is_none()
            && self.given_up.is_empty()
            && self.stack.stands_in(method, last)
        {
            self.returned = false;
            let hidden = &mut self.hidden;
            self.sites.executes((methods, shapes), (method, first, last), |call| hidden.uncalled(call));
            return;
        }
        // A run counts as its bytecodes.
        let events = kind.bytecodes().max(1);
        if exclude.hides(event.provenance) && !matches!(kind, EventKind::Gap(_)) {
            self.hidden.inexact.excluded += events;
        } else {
            self.hidden.inexact.add_events(event.provenance, events);
        }
        let hidden = &mut self.hidden;
        self.sites.event((methods, shapes), kind, |call| hidden.uncalled(call));
        let returned = std::mem::take(&mut self.returned);
        if self.open.is_some() {
            self.close(kind);
        }
        match kind {
            EventKind::Bytecode { method, bci: first, .. } | EventKind::Run { method, first, .. } => {
                self.begin(*method, *first);
            }
            EventKind::Unresolved { method, from, to, cause, callers } => {
                self.hidden.inexact.add_unresolved(*cause, 1);
                let rounds = has_rounds(*cause);
                let below = self.stack.frames().skip(1).take((*callers).into()).collect();
                let to_end = to.map_or(To::Anywhere, To::At);
                let ways = Ways { from: *from, to: to_end, rounds };
                let stretch = UnresolvedStretch { method: *method, ways, called: returned, callers: below };
                match to {
                    Some(_) => self.add(stretch),
                    None => self.open = Some(stretch),
                }
            }
            EventKind::Leave { exit, .. } => {
                self.returned = *exit != Exit::Replaced;
                if *exit == Exit::Lost {
                    self.given_up.extend(self.stack.top());
                }
            }
            EventKind::Enter { entry, .. } => {
                self.hidden.inexact.found += u64::from(*entry == Entry::Found);
            }
            EventKind::Gap(gap) => {
                self.hidden.inexact.gaps += 1;
                let standing = if gap.stack_lost { usize::MAX } else { 1 };
                let frames: Vec<Frame> = self.stack.frames().take(standing).collect();
                self.may_go_on(frames);
            }
            EventKind::Orphan(_) => self.hidden.inexact.orphans += 1,
            EventKind::Catch { .. } | EventKind::Time(_) | EventKind::Code(_) => {}
        }
        if !self.given_up.is_empty() && !matches!(kind, EventKind::Leave { exit: Exit::Lost, .. }) {
            let frames = std::mem::take(&mut self.given_up);
            self.may_go_on(frames);
        }
        self.stack.follow(kind);
    }
    /// The flow has ended.
    pub(crate) fn end(mut self) -> Hidden {
        if let Some(stretch) = self.open.take() {
            self.add(stretch);
        }
        self.hidden
    }
    /// What was hidden since the flow began, or since the previous call.
    pub(crate) fn take(&mut self) -> Hidden {
        std::mem::take(&mut self.hidden)
    }
    fn add(&mut self, stretch: UnresolvedStretch) {
        *self.hidden.stretches.entry(stretch).or_default() += 1;
    }
    /// The open stretch ended with this event.
    fn close(&mut self, kind: &EventKind) {
        let Some(mut stretch) = self.open.take() else { return };
        if matches!(kind, EventKind::Leave { method, exit: Exit::Return } if *method == stretch.method) {
            stretch.ways.to = To::Return;
        }
        self.add(stretch);
    }
    /// The first bytecode of an event.
    fn begin(&mut self, method: MethodId, bci: Bci) {
        let unseen = match self.stack.top() {
            Some(top) => top.method == method && top.bci.is_none() && top.found,
            None => true,
        };
        if unseen && bci != Bci(0) {
            // The frame was found here. The execution that led to this bytecode was not seen.
            self.hidden.lost.insert((method, Ways { from: None, to: To::At(bci), rounds: true }));
        }
    }
    /// Records that nothing is known of what these frames did from their last position.
    fn may_go_on(&mut self, frames: Vec<Frame>) {
        let ways = |f: Frame| (f.method, Ways { from: f.bci, to: To::Anywhere, rounds: true });
        self.hidden.lost.extend(frames.into_iter().map(ways));
    }
}
