// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The checker's own shadow stack.

use jportal_flow::Tier;
use jportal_units::{Bci, MethodId};

/// The position of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// No bytecode has begun.
    Entry,
    /// This bytecode began last.
    Bytecode(Bci),
    /// This bytecode began last in a compiled frame. The interpreter may begin it again.
    Resumed(Bci),
    /// This branch began last in an interpreted frame. Compiled code resumes at one of its
    /// targets.
    Osr(Bci),
    /// The position is not known.
    Unknown,
}

impl At {
    /// The bytecode that began last.
    pub(crate) const fn bci(self) -> Option<Bci> {
        match self {
            Self::Bytecode(b) | Self::Resumed(b) | Self::Osr(b) => Some(b),
            Self::Entry | Self::Unknown => None,
        }
    }
}

/// What must happen next in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// Any step that the position allows.
    Step,
    /// The exception of an unwound callee is caught or leaves the frame.
    Exception,
    /// The invoke of a popped callee begins again.
    Again,
    /// The handler that was announced begins.
    Handler(Bci),
    /// An unresolved stretch ends here.
    Stretch(Bci),
    /// An unresolved stretch ends with the frame. `returns`: whether a return can be reached.
    End { returns: bool },
}

/// A frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CheckedFrame {
    pub(crate) method: MethodId,
    pub(crate) tier: Tier,
    pub(crate) at: At,
    pub(crate) due: Due,
    /// A callee has returned since the bytecode at `at` began.
    pub(crate) called: bool,
    /// The VM or native code made the call, so the frame below is not a caller.
    pub(crate) upcall: bool,
}

impl CheckedFrame {
    pub(crate) const fn new(method: MethodId, tier: Tier, at: At) -> Self {
        Self { method, tier, at, due: Due::Step, called: false, upcall: false }
    }
    pub(crate) const fn is_compiled(&self) -> bool {
        matches!(self.tier, Tier::C1 | Tier::C2)
    }
}

/// Maximum number of frames kept, far more than a Java thread's stack can hold. Tests use
/// fewer.
pub(crate) const MAX_DEPTH: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// Frames of a thread, oldest first. Those beyond [`MAX_DEPTH`] are counted but not kept.
#[derive(Debug, Default)]
pub(crate) struct CheckedStack {
    frames: Vec<CheckedFrame>,
    beyond: u64,
}

impl CheckedStack {
    #[inline]
    pub(crate) fn top(&self) -> Option<CheckedFrame> {
        self.frames.last().copied()
    }
    /// The top frame. `None` also while the thread is in a frame that is not kept.
    #[inline]
    pub(crate) fn top_mut(&mut self) -> Option<&mut CheckedFrame> {
        self.frames.last_mut().filter(|_| self.beyond == 0)
    }
    /// Whether the thread is in a frame that is not kept.
    #[inline]
    pub(crate) fn is_beyond(&self) -> bool {
        self.beyond > 0
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
    pub(crate) fn depth(&self) -> usize {
        self.frames.len()
    }
    /// The kept frames, innermost first.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &CheckedFrame> {
        self.frames.iter().rev()
    }
    /// Pushes a frame. Returns whether there was room to keep it.
    pub(crate) fn push(&mut self, frame: CheckedFrame) -> bool {
        if self.beyond > 0 || self.frames.len() == MAX_DEPTH {
            self.beyond += 1;
            return false;
        }
        self.frames.push(frame);
        true
    }
    /// Pops the top frame. `None` when the stack is empty or the frame was not kept.
    pub(crate) fn pop(&mut self) -> Option<CheckedFrame> {
        if self.beyond > 0 {
            self.beyond -= 1;
            return None;
        }
        self.frames.pop()
    }
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.beyond = 0;
    }
    /// Drops the frames above the innermost one of `method`. Returns whether there is such a
    /// frame.
    pub(crate) fn cut_to(&mut self, method: MethodId) -> bool {
        let found = self.frames.iter().rposition(|f| f.method == method);
        if let Some(i) = found {
            self.frames.truncate(i + 1);
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_beyond_the_bound_are_counted() {
        let mut s = CheckedStack::default();
        let frame = CheckedFrame::new(MethodId(1), Tier::Interpreter, At::Entry);
        (0..MAX_DEPTH).for_each(|_| assert!(s.push(frame)));
        assert!(!s.push(frame) && s.is_beyond());
        assert!(s.pop().is_none() && !s.is_beyond() && s.pop().is_some());
        assert_eq!(s.depth(), MAX_DEPTH - 1);
    }

    #[test]
    fn cutting_back_to_a_method() {
        let mut s = CheckedStack::default();
        (1..4).for_each(|m| assert!(s.push(CheckedFrame::new(MethodId(m), Tier::C1, At::Entry))));
        assert!(s.cut_to(MethodId(2)) && !s.cut_to(MethodId(3)));
        assert_eq!(s.depth(), 2);
    }
}
