// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! From the events of one thread to its tree: frames.
//!
//! The module `count` has what a frame does between its beginning and its end.

use hashbrown::HashMap;
use jportal_flow::{Entry, Event, EventKind, Exit, Gap, Orphan, Provenance, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId};

use super::arena::{Arena, FROM_JAVA, FROM_VM, Id, Key, LOSSY, LOWER, NO_SITE, ROOT, Tag};
use super::open::Stretches;
use super::options::{FrameRole, Upcalls};
use super::rules::Rules;
use super::split::{Flaws, ThreadSplit};
use super::time::{NOBODY, TimeShares};
use crate::sites::{Sites, UncalledOutcome};

/// Bytecodes of the frame count for its node. Otherwise the node is that of a frame below.
pub(super) const COUNTED: u16 = 1;
/// A bytecode of the frame was executed, or may have been.
pub(super) const STARTED: u16 = 2;
/// What the frame did since its last known bytecode is not known.
pub(super) const LOOSE: u16 = 4;
/// The interpreter resumes the frame, perhaps with the same bytecode.
pub(super) const RESUMED: u16 = 8;
/// The next bytecode is that of a handler.
pub(super) const CAUGHT: u16 = 16;
/// The last bytecodes of the frame were not counted.
pub(super) const SKIPPED: u16 = 32;
/// The invocation was counted, as projected or recovered if the flags below say it.
const INVOKED: u16 = 64;
const PROJECTED: u16 = 128;
const RECOVERED: u16 = 256;
const NATIVE: u16 = 512;

/// A frame: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeFrame {
    pub(super) node: Id,
    pub(super) method: MethodId,
    /// Last bytecode, `NO_SITE` if none is known.
    pub(super) bci: u16,
    /// For frames that do not count: where the nearest one that counts is.
    site: u16,
    pub(super) flags: u16,
}

impl TreeFrame {
    pub(super) const fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
    /// The call site of what the frame calls next.
    const fn calls_from(&self) -> u16 {
        match self.is(COUNTED) {
            false => self.site,
            true if self.is(LOOSE) => NO_SITE,
            true => self.bci,
        }
    }
    const fn provenance(&self) -> Provenance {
        match (self.is(PROJECTED), self.is(RECOVERED)) {
            (true, _) => Provenance::Projected { paths: 0 },
            (_, true) => Provenance::Recovered { confidence: 0.0 },
            _ => Provenance::Decoded,
        }
    }
}

/// Is called before bytecodes count.
pub(super) trait Hook {
    /// `len` bytecodes of a frame of `at` begin. `check`: the first of them is the first one of
    /// its activation, or is reached by a backward edge.
    fn executes(&mut self, arena: &mut Arena, at: Id, len: u64, check: bool);
}

impl Hook for () {
    #[inline]
    fn executes(&mut self, _: &mut Arena, _: Id, _: u64, _: bool) {}
}

/// The growing tree of one thread.
#[derive(Debug)]
pub struct TreeThread {
    pub(super) info: ThreadInfo,
    pub(super) arena: Arena,
    pub(super) frames: Vec<TreeFrame>,
    /// Number of frames that are not kept.
    pub(super) beyond: u64,
    /// The caller of frames without a known caller.
    pub(super) base: Id,
    /// Frames that continue as another kind of frame; `None` for those that are not kept.
    replaced: Vec<Option<TreeFrame>>,
    /// Nodes of frames that were given up. If another event follows, they may have continued
    /// unseen. At the end of the recording they stay at their last position.
    given_up: Vec<Id>,
    sites: Sites,
    /// Silent calls that the current event decided.
    pub(super) silent: Vec<(MethodId, Bci)>,
    /// By invoke: whether its silent calls are shown.
    pub(super) shown: HashMap<(MethodId, Bci), bool>,
    pub(super) stretches: Stretches,
    /// The previous event was the end of a callee.
    returned: bool,
    pub(super) shares: TimeShares,
    /// Those of the tree that grows.
    pub(super) flaws: Flaws,
    pub(super) split: ThreadSplit,
    /// Blocks that an exception left after a bytecode that does not throw.
    pub(super) cuts: u64,
}

impl TreeThread {
    pub(super) fn new(info: ThreadInfo, watched: bool) -> Self {
        Self {
            info,
            arena: Arena::new(watched),
            frames: Vec::new(),
            beyond: 0,
            base: ROOT,
            replaced: Vec::new(),
            given_up: Vec::new(),
            sites: Sites::default(),
            silent: Vec::new(),
            shown: HashMap::new(),
            stretches: Stretches::default(),
            returned: false,
            shares: TimeShares::default(),
            flaws: Flaws::default(),
            split: ThreadSplit::default(),
            cuts: 0,
        }
    }
    /// The node on top.
    pub(super) fn at(&self) -> Id {
        self.frames.last().map_or(self.base, |f| f.node)
    }
    /// Processes the next event.
    #[inline]
    pub(super) fn event(&mut self, rules: &Rules, event: &Event, hook: &mut impl Hook) {
        let Event { kind, provenance } = event;
        let provenance = *provenance;
        if let EventKind::Time(time) = kind {
            return self.time(rules.now(&self.info, *time));
        }
        if matches!(kind, EventKind::Code(_)) {
            return;
        }
        if rules.split.is_some() {
            self.before_buckets(rules, kind);
        }
        self.before(rules, event);
        let returned = std::mem::take(&mut self.returned);
        match *kind {
            EventKind::Bytecode { method, bci, tier } => {
                self.bytecodes(rules, (method, bci, bci, 1), (tier, provenance), hook);
            }
            EventKind::Run { method, first, last, len, tier } => {
                self.bytecodes(rules, (method, first, last, len.into()), (tier, provenance), hook);
            }
            EventKind::Enter { method, tier, entry } => self.enter(rules, (method, tier, entry), provenance),
            EventKind::Leave { method, exit } => self.leave(rules, method, exit),
            EventKind::Catch { method, .. } => self.catch(rules, method),
            EventKind::Unresolved { method, from, to, cause, callers } => {
                self.unresolved((method, (from, to), cause), callers.into(), returned);
            }
            EventKind::Orphan(orphan) => self.orphan(rules, orphan, provenance, hook),
            EventKind::Gap(ref gap) => self.gap(rules, gap),
            EventKind::Time(_) | EventKind::Code(_) => {}
        }
        if !self.silent.is_empty() {
            self.silent_calls(rules, provenance);
        }
        if rules.split.is_some() {
            self.after_buckets(rules, kind);
        }
    }
    /// What every event means for the state.
    #[inline]
    fn before(&mut self, rules: &Rules, Event { kind, provenance }: &Event) {
        let events = kind.bytecodes().max(1);
        if rules.exclude.hides(*provenance) && !matches!(kind, EventKind::Gap(_)) {
            self.flaws.inexact.excluded += events;
        } else {
            self.flaws.inexact.add_events(*provenance, events);
        }
        if self.stretches.is_open() {
            self.stretches.close(kind);
        }
        if !self.given_up.is_empty() && !matches!(kind, EventKind::Leave { exit: Exit::Lost, .. }) {
            self.given_up.drain(..).for_each(|node| self.arena.flag(node, LOSSY));
        }
        if !self.replaced.is_empty() {
            let moves = |entry| matches!(entry, Entry::Osr | Entry::Deoptimisation);
            match kind {
                EventKind::Leave { exit: Exit::Replaced, .. } => {}
                EventKind::Enter { entry, .. } if moves(*entry) => {}
                _ => self.give_up_replaced(),
            }
        }
        let silent = &mut self.silent;
        self.sites.event((&rules.methods, &rules.shapes), kind, |u| {
            if u.outcome == UncalledOutcome::Silent {
                silent.push((u.method, u.bci));
            }
        });
    }
    /// Frames were replaced, and no frames took their place.
    fn give_up_replaced(&mut self) {
        let nodes = self.replaced.drain(..).flatten();
        nodes.for_each(|frame| self.arena.flag(frame.node, LOSSY));
        self.flaws.contradicts = true;
    }
    /// The node of frames whose callers are not known.
    pub(super) fn unknown(&mut self, rules: &Rules) -> Id {
        let node = self.arena.child(&rules.room, ROOT, Key::only(Tag::Unknown));
        self.arena.flag(node, LOSSY);
        node
    }
    pub(super) fn enter(&mut self, rules: &Rules, frame: (MethodId, Tier, Entry), provenance: Provenance) {
        let (method, tier, entry) = frame;
        if matches!(entry, Entry::Osr | Entry::Deoptimisation) && self.resume(method, entry) {
            return;
        }
        if self.frames.len() >= rules.deepest {
            self.beyond += 1;
            return self.enter_beyond(rules, entry, provenance);
        }
        let from_vm = entry == Entry::Upcall;
        let parent = match (self.split.caller(self.frames.len()), self.frames.last()) {
            (Some(root), _) => root,
            _ if from_vm && rules.options.upcalls == Upcalls::Root => self.split.root(),
            (None, Some(below)) => below.node,
            (None, None) if from_vm => self.base,
            (None, None) => self.unknown(rules),
        };
        let site = match self.frames.last() {
            Some(below) if entry == Entry::Call => below.calls_from(),
            _ => NO_SITE,
        };
        let native = if tier == Tier::Native { NATIVE } else { 0 };
        let place = rules.scope.place(&rules.options, method, tier);
        let counted = if place == FrameRole::Transparent { 0 } else { COUNTED };
        let node = self.node(rules, (parent, site), (place, method));
        let mut frame = TreeFrame { node, method, bci: NO_SITE, site, flags: native | counted };
        self.begin(rules, &mut frame, entry, provenance);
        self.shares.add(if frame.is(COUNTED) { node } else { NOBODY }, 1);
        self.frames.push(frame);
    }
    /// Counts that a frame began.
    fn begin(&mut self, rules: &Rules, frame: &mut TreeFrame, entry: Entry, provenance: Provenance) {
        let found = !matches!(entry, Entry::Call | Entry::Upcall);
        if found {
            self.flaws.inexact.found += 1;
            self.arena.flag(frame.node, LOSSY);
        }
        if !frame.is(COUNTED) {
            return;
        }
        if rules.exclude.hides(provenance) {
            return self.arena.flag(frame.node, LOWER);
        }
        if found {
            self.arena.rare(frame.node).found += 1;
            return;
        }
        self.arena.invoked(frame.node, provenance);
        self.arena.flag(frame.node, if entry == Entry::Upcall { FROM_VM } else { FROM_JAVA });
        frame.flags |= INVOKED
            | match provenance {
                Provenance::Decoded => 0,
                Provenance::Projected { .. } => PROJECTED,
                Provenance::Recovered { .. } => RECOVERED,
            };
    }
    /// A replaced frame continues; whether there is one.
    fn resume(&mut self, method: MethodId, entry: Entry) -> bool {
        match self.replaced.pop() {
            Some(None) => {
                self.beyond += 1;
                true
            }
            Some(Some(mut frame)) if frame.method == method => {
                frame.flags |= if entry == Entry::Deoptimisation { RESUMED } else { 0 };
                self.frames.push(frame);
                true
            }
            Some(Some(frame)) => {
                self.arena.flag(frame.node, LOSSY);
                self.give_up_replaced();
                false
            }
            None => false,
        }
    }
    /// The node of a frame whose caller's node is `parent`.
    pub(super) fn node(
        &mut self,
        rules: &Rules,
        (parent, site): (Id, u16),
        (place, method): (FrameRole, MethodId),
    ) -> Id {
        match place {
            FrameRole::Transparent => parent,
            FrameRole::Library if self.arena.node(parent).tag == Tag::Library => parent,
            FrameRole::Library => self.arena.child(&rules.room, parent, Key::only(Tag::Library)),
            FrameRole::Node => {
                let folded = rules.options.fold_recursion.then(|| self.arena.ancestor(parent, method));
                let has_site = rules.options.sites && self.arena.node(parent).tag == Tag::Method;
                let site = if has_site { site } else { NO_SITE };
                let key = Key { tag: Tag::Method, method, site };
                folded.flatten().unwrap_or_else(|| self.arena.child(&rules.room, parent, key))
            }
        }
    }
    fn leave(&mut self, rules: &Rules, method: MethodId, exit: Exit) {
        self.returned = exit != Exit::Replaced;
        if self.beyond > 0 {
            self.beyond -= 1;
            self.replaced.extend((exit == Exit::Replaced).then_some(None));
            return;
        }
        let Some(frame) = self.frames.pop() else {
            self.flaws.contradicts = true;
            return;
        };
        self.flaws.contradicts |= frame.method != method;
        match exit {
            Exit::Replaced => self.replaced.push(Some(frame)),
            Exit::Lost => self.given_up.push(frame.node),
            Exit::Unwind => self.unwind(rules, frame),
            Exit::PopFrame => {
                if let Some(caller) = self.frames.last_mut() {
                    caller.flags |= RESUMED;
                }
            }
            Exit::Return | Exit::EarlyReturn | Exit::Unknown => {}
        }
    }
    fn unwind(&mut self, rules: &Rules, frame: TreeFrame) {
        if frame.is(INVOKED) && !frame.is(STARTED | NATIVE) {
            self.arena.unstarted(frame.node, frame.provenance());
        }
        self.cut(rules, &frame);
    }
    fn gap(&mut self, rules: &Rules, gap: &Gap) {
        self.flaws.inexact.gaps += 1;
        if let Some(since) = gap.since {
            self.time(rules.now(&self.info, since));
        }
        self.shares.forget();
        if gap.stack_lost {
            self.arena.flag(self.split.root(), LOSSY);
            self.arena.flag(ROOT, LOSSY);
            self.frames.clear();
            self.beyond = 0;
            self.base = self.unknown(rules);
            return;
        }
        let at = self.at();
        self.arena.flag(at, LOSSY);
        if let Some(top) = self.frames.last_mut() {
            top.flags |= LOOSE | STARTED;
        }
    }
    fn orphan(&mut self, rules: &Rules, orphan: Orphan, provenance: Provenance, hook: &mut impl Hook) {
        self.flaws.inexact.orphans += 1;
        let root = self.split.root();
        self.arena.flag(root, LOSSY);
        if matches!(orphan, Orphan::Bytecode { .. }) && !rules.exclude.hides(provenance) {
            let node = self.arena.child(&rules.room, root, Key::only(Tag::Orphans));
            hook.executes(&mut self.arena, node, 1, false);
            self.arena.executed(node, (Tier::Interpreter, 1), provenance);
            self.arena.nodes[node as usize].default += 1;
        }
    }
}
