// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The frames of one thread, as its flow pushes and pops them.

use jportal_units::{Bci, MethodId};

use crate::{Entry, EventKind, Exit};

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its method.
    pub method: MethodId,
    /// Last bytecode executed in it.
    pub bci: Option<Bci>,
    /// The beginning of the frame was not seen.
    pub found: bool,
}

/// Follows the frames of a flow. Depth is bounded: frames pushed beyond 1,048,576 are
/// counted but not kept.
#[derive(Debug, Default)]
pub struct Stack {
    frames: Vec<Frame>,
    beyond: u64,
    /// The popped frames, with their last bytecodes, that continue as another kind of frame. A
    /// compiled frame is popped from its innermost inlined method outwards, and pushed again from
    /// the outermost inwards.
    replaced: Vec<Frame>,
}

/// Maximum number of frames kept, far more than a Java thread's stack can hold.
const MAX_DEPTH: usize = 1 << 20;

impl Stack {
    /// The top frame.
    pub fn top(&self) -> Option<Frame> {
        if self.beyond > 0 { None } else { self.frames.last().copied() }
    }
    /// The methods of the top frame and of the `below` frames under it.
    pub fn methods(&self, below: usize) -> impl Iterator<Item = MethodId> {
        self.frames.iter().rev().take(below + 1).map(|f| f.method)
    }
    /// The frames, from the top down.
    pub fn frames(&self) -> impl Iterator<Item = Frame> + '_ {
        self.frames.iter().rev().copied()
    }
    /// Number of frames.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }
    /// Applies the execution of bytecodes up to `last` in a frame of `method` that is on top and
    /// has executed bytecodes before, or was entered in sight. `false`: the top frame is another
    /// one, and nothing was done.
    #[inline]
    pub fn stands_in(&mut self, method: MethodId, last: Bci) -> bool {
        match self.frames.last_mut() {
            Some(top) if self.beyond == 0 && top.method == method && (top.bci.is_some() || !top.found) => {
                top.bci = Some(last);
                true
            }
            _ => false,
        }
    }
    /// Applies one event. Call it after reading the state before the event.
    pub fn follow(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Enter { method, entry, .. } => self.push(*method, *entry),
            EventKind::Leave { exit, .. } => self.pop(*exit),
            EventKind::Bytecode { method, bci, .. } | EventKind::Catch { method, bci } => {
                self.at(*method, *bci);
            }
            EventKind::Run { method, last, .. } => self.at(*method, *last),
            EventKind::Gap(gap) if gap.stack_lost => *self = Self::default(),
            EventKind::Gap(_)
            | EventKind::Time(_)
            | EventKind::Unresolved { .. }
            | EventKind::Orphan(_)
            | EventKind::Code(_) => {}
        }
    }
    fn push(&mut self, method: MethodId, entry: Entry) {
        let kept = match entry {
            Entry::Osr | Entry::Deoptimisation => self.replaced.pop().filter(|f| f.method == method),
            Entry::Call | Entry::Upcall | Entry::Found => None,
        };
        if kept.is_none() {
            self.replaced.clear();
        }
        if self.frames.len() == MAX_DEPTH {
            self.beyond += 1;
        } else {
            let found = entry == Entry::Found;
            self.frames.push(kept.unwrap_or(Frame { method, bci: None, found }));
        }
    }
    fn pop(&mut self, exit: Exit) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        let frame = self.frames.pop();
        match exit {
            Exit::Replaced => self.replaced.extend(frame),
            _ => self.replaced.clear(),
        }
    }
    fn at(&mut self, method: MethodId, bci: Bci) {
        if self.beyond > 0 {
            return;
        }
        match self.frames.last_mut() {
            Some(top) if top.method == method => top.bci = Some(bci),
            Some(_) => {}
            // A frame whose entry was not seen.
            None => self.frames.push(Frame { method, bci: Some(bci), found: true }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, enter_as, leave, leave_as};

    #[test]
    fn an_activation_keeps_its_position_through_osr() {
        let mut s = Stack::default();
        for e in [enter(1), bytecode(1, 7), leave_as(1, Exit::Replaced), enter_as(1, Entry::Osr)] {
            s.follow(&e.kind);
        }
        assert_eq!(s.top(), Some(Frame { method: MethodId(1), bci: Some(Bci(7)), found: false }));
        s.follow(&leave(1).kind);
        assert_eq!((s.top(), s.depth()), (None, 0));
    }

    #[test]
    fn inlined_frames_keep_their_positions_through_deoptimisation() {
        let mut s = Stack::default();
        let before = [enter(1), bytecode(1, 7), enter(2), bytecode(2, 9), enter(3), bytecode(3, 4)];
        let leaves = [3, 2, 1].map(|m| leave_as(m, Exit::Replaced));
        let enters = [1, 2, 3].map(|m| enter_as(m, Entry::Deoptimisation));
        before.iter().for_each(|e| s.follow(&e.kind));
        let frames: Vec<Frame> = s.frames().collect();
        leaves.iter().chain(&enters).for_each(|e| s.follow(&e.kind));
        assert_eq!(s.frames().collect::<Vec<_>>(), frames);
        // A frame that is called anew has no position.
        for e in [leave_as(3, Exit::Replaced), leave_as(2, Exit::Replaced), enter(2)] {
            s.follow(&e.kind);
        }
        assert_eq!(s.top().map(|f| f.bci), Some(None));
        s.follow(&enter_as(3, Entry::Deoptimisation).kind);
        assert_eq!(s.top().map(|f| f.bci), Some(None));
    }

    #[test]
    fn more_leaves_than_enters_are_harmless() {
        let mut s = Stack::default();
        s.follow(&leave(1).kind);
        s.follow(&bytecode(4, 2).kind);
        assert_eq!(s.top(), Some(Frame { method: MethodId(4), bci: Some(Bci(2)), found: true }));
    }
}
