// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! From the events of one thread to its tree: what frames do.

use jportal_flow::{Cause, Entry, Frame, Provenance, Tier};
use jportal_units::{Bci, MethodId};

use super::arena::{Id, Key, LOSSY, LOWER, NO_SITE, Tag};
use super::lengths::Start;
use super::open::Ends;
use super::options::FrameRole;
use super::rules::Rules;
use super::time::NOBODY;
use super::walk::{CAUGHT, COUNTED, Hook, LOOSE, RESUMED, SKIPPED, STARTED, TreeFrame, TreeThread};

/// Method, first and last bytecode, number of bytecodes.
type Run = (MethodId, Bci, Bci, u64);

impl TreeFrame {
    /// Whether `first` is the previous bytecode, which the interpreter executes again.
    fn is_again(&self, first: Bci) -> bool {
        self.is(RESUMED) && self.bci == first.get()
    }
    fn seen(&self) -> Frame {
        Frame { method: self.method, bci: (self.bci != NO_SITE).then_some(Bci(self.bci)), found: false }
    }
    fn start(&self, first: Bci) -> Start {
        match () {
            () if self.is(LOOSE | SKIPPED) || self.bci == NO_SITE => Start::Anywhere,
            () if self.is_again(first) => Start::Again,
            () => Start::Next,
        }
    }
    /// Whether the bytecode is the first one of its activation, or is reached by a backward
    /// edge.
    fn is_check_point(&self, first: Bci) -> bool {
        match () {
            () if self.bci == NO_SITE => first == Bci(0),
            () if self.is(LOOSE | CAUGHT) || self.is_again(first) => false,
            () => first.get() <= self.bci,
        }
    }
}

impl TreeThread {
    /// Bytecodes of the top frame begin.
    #[inline]
    pub(super) fn bytecodes(
        &mut self,
        rules: &Rules,
        run: Run,
        (tier, provenance): (Tier, Provenance),
        hook: &mut impl Hook,
    ) {
        let (method, first, last, len) = run;
        if self.frames.is_empty() {
            self.find(rules, method, (tier, provenance));
        }
        let beyond = self.beyond > 0;
        let Some(top) = self.frames.last_mut() else { return };
        if beyond || top.method != method {
            return self.elsewhere(rules, run, (tier, provenance), hook);
        }
        let (before, hides) = (*top, rules.exclude.hides(provenance));
        top.bci = last.get();
        top.flags = before.flags & !(LOOSE | RESUMED | CAUGHT | SKIPPED) | STARTED;
        if !before.is(COUNTED) {
            return self.shares.add(NOBODY, len);
        }
        if hides {
            top.flags |= SKIPPED;
            return self.arena.flag(before.node, LOWER);
        }
        self.shares.add(before.node, len);
        hook.executes(&mut self.arena, before.node, len, before.is_check_point(first));
        self.arena.executed(before.node, (tier, len), provenance);
        if rules.counts_blocks() {
            let begun = rules.lengths.begun(&rules.methods, run, before.start(first));
            self.arena.nodes[before.node as usize].default += begun;
        }
    }
    /// A frame executes whose beginning was not seen.
    fn find(&mut self, rules: &Rules, method: MethodId, (tier, provenance): (Tier, Provenance)) {
        self.enter(rules, (method, tier, Entry::Found), provenance);
    }
    /// Bytecodes of a frame that is not kept, or of another method than that of the top frame.
    /// They count for the deepest frame, or for a node of that method.
    #[cold]
    fn elsewhere(
        &mut self,
        rules: &Rules,
        (method, .., len): Run,
        (tier, provenance): (Tier, Provenance),
        hook: &mut impl Hook,
    ) {
        let Some(top) = self.frames.last().copied() else { return };
        let (mut node, mut counted) = (top.node, top.is(COUNTED));
        if self.beyond == 0 {
            self.flaws.contradicts = true;
            let place = rules.scope.place(&rules.options, method, tier);
            node = self.node(rules, (top.node, NO_SITE), (place, method));
            counted = place != FrameRole::Transparent;
        }
        if !counted {
            return self.shares.add(NOBODY, len);
        }
        self.arena.flag(node, LOWER);
        if !rules.exclude.hides(provenance) {
            self.shares.add(node, len);
            hook.executes(&mut self.arena, node, len, false);
            self.arena.executed(node, (tier, len), provenance);
            self.arena.nodes[node as usize].default += len;
        }
    }
    /// A frame begins that is not kept. It counts for the deepest one.
    #[cold]
    pub(super) fn enter_beyond(&mut self, rules: &Rules, entry: Entry, provenance: Provenance) {
        self.flaws.inexact.found += u64::from(!matches!(entry, Entry::Call | Entry::Upcall));
        let Some(top) = self.frames.last().copied().filter(|f| f.is(COUNTED)) else { return };
        self.arena.flag(top.node, LOWER);
        match entry {
            _ if rules.exclude.hides(provenance) => {}
            Entry::Call | Entry::Upcall => self.arena.invoked(top.node, provenance),
            Entry::Osr | Entry::Deoptimisation | Entry::Found => self.arena.rare(top.node).found += 1,
        }
    }
    /// A handler of the top frame is entered.
    pub(super) fn catch(&mut self, rules: &Rules, method: MethodId) {
        let beyond = self.beyond > 0;
        let Some(top) = self.frames.last_mut().filter(|f| f.method == method && !beyond) else { return };
        let before = *top;
        top.flags |= CAUGHT;
        self.cut(rules, &before);
    }
    /// An exception leaves a block of the frame.
    pub(super) fn cut(&mut self, rules: &Rules, frame: &TreeFrame) {
        let known = frame.is(COUNTED) && !frame.is(LOOSE) && frame.bci != NO_SITE;
        if known && !rules.may_throw(frame.method, Bci(frame.bci)) {
            self.cuts += 1;
        }
    }
    pub(super) fn unresolved(
        &mut self,
        (method, ends, cause): (MethodId, Ends, Cause),
        callers: usize,
        returned: bool,
    ) {
        let beyond = self.beyond > 0;
        let Some(top) = self.frames.last_mut().filter(|f| f.method == method && !beyond) else {
            self.flaws.contradicts |= !beyond;
            let at = self.at();
            self.arena.flag(at, LOSSY);
            return self.flaws.inexact.add_unresolved(cause, 1);
        };
        top.flags |= LOOSE | STARTED;
        let (node, own) = (top.node, top.is(COUNTED));
        let mut below = self.frames.iter().rev().skip(1).take(callers);
        let frames: Box<[Frame]> = below.clone().map(TreeFrame::seen).collect();
        let shown = own || below.clone().any(|f| f.is(COUNTED));
        for frame in below.clone().filter(|f| f.is(COUNTED)) {
            self.stretches.add_below(frame.node);
        }
        if let Some(lowest) = below.next_back().filter(|_| shown) {
            // Frames above it may have called anything that these methods call.
            self.arena.flag(lowest.node, LOSSY);
        }
        self.stretches.add((node, own, shown), (method, ends, cause), (returned, frames));
    }
    /// Leaves for the silent calls that the last event decided.
    #[cold]
    pub(super) fn silent_calls(&mut self, rules: &Rules, provenance: Provenance) {
        let mut silent = std::mem::take(&mut self.silent);
        for (method, bci) in silent.drain(..) {
            let target = || rules.methods.get(method).and_then(|m| m.invoke_at(bci));
            let shown = *self.shown.entry((method, bci)).or_insert_with(|| rules.shows(target()));
            if !shown || rules.exclude.hides(provenance) {
                continue;
            }
            self.flaws.inexact.silent_calls += 1;
            let key = Key { tag: Tag::Silent, method, site: bci.get() };
            let at = self.at();
            let node = self.arena.child(&rules.room, at, key);
            if node != at {
                self.arena.invoked(node, provenance);
            }
        }
        self.silent = silent;
    }
    /// It is `now`, in ticks on a core.
    pub(super) fn time(&mut self, now: u64) {
        let top = self.frames.last().filter(|f| f.is(COUNTED)).map_or(NOBODY, |f| f.node);
        let nodes = &mut self.arena.nodes;
        self.shares.at(now, top, |node: Id, ticks| {
            if let Some(node) = nodes.get_mut(node as usize) {
                node.ticks += ticks;
            }
        });
    }
}
