// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The activations of one thread, each with a state that OSR and deoptimisation keep.

use jportal_flow::{Entry, Exit};
use jportal_units::MethodId;

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activation<T> {
    pub(crate) method: MethodId,
    pub(crate) state: T,
}

/// Maximum number of activations kept, far more than a Java thread's stack can hold.
const MAX_DEPTH: usize = 1 << 20;

/// Follows the activations of a flow.
#[derive(Debug)]
pub(crate) struct Frames<T> {
    frames: Vec<Activation<T>>,
    /// Activations whose frame was popped because they continue in another kind of frame. The
    /// last one continues first: the inlined methods of a compiled frame are popped from the top
    /// down and pushed from the bottom up.
    replaced: Vec<Activation<T>>,
    beyond: u64,
}

impl<T> Default for Frames<T> {
    fn default() -> Self {
        Self { frames: Vec::new(), replaced: Vec::new(), beyond: 0 }
    }
}

impl<T> Frames<T> {
    /// The top activation. `None` if there is none, or if it lies too deep to be kept.
    #[inline]
    pub(crate) fn top(&mut self) -> Option<&mut Activation<T>> {
        if self.beyond > 0 { None } else { self.frames.last_mut() }
    }
    /// The top activation if it is one of `method`. On an empty stack, an activation of `method`
    /// is found.
    #[inline]
    pub(crate) fn at(&mut self, method: MethodId, found: impl FnOnce() -> T) -> Option<&mut Activation<T>> {
        if self.frames.is_empty() && self.beyond == 0 {
            self.frames.push(Activation { method, state: found() });
        }
        self.top().filter(|top| top.method == method)
    }
    /// The `n` activations below the top one.
    pub(crate) fn below(&mut self, n: usize) -> impl Iterator<Item = &mut Activation<T>> {
        self.frames.iter_mut().rev().skip(1).take(n)
    }
    /// An activation begins or continues. `lost` receives activations that should have continued.
    pub(crate) fn enter(
        &mut self,
        (method, entry): (MethodId, Entry),
        new: impl FnOnce() -> T,
        mut lost: impl FnMut(Activation<T>),
    ) {
        let continues = matches!(entry, Entry::Osr | Entry::Deoptimisation);
        let kept = if continues { self.replaced.pop() } else { None };
        let kept = kept.and_then(|kept| {
            if kept.method == method {
                return Some(kept);
            }
            lost(kept);
            None
        });
        if !continues || kept.is_none() {
            self.replaced.drain(..).for_each(&mut lost);
        }
        if self.frames.len() == MAX_DEPTH {
            self.beyond += 1;
            kept.into_iter().for_each(lost);
        } else {
            self.frames.push(kept.unwrap_or_else(|| Activation { method, state: new() }));
        }
    }
    /// The top frame is popped. Returns its activation unless it may continue.
    pub(crate) fn leave(&mut self, exit: Exit, lost: impl FnMut(Activation<T>)) -> Option<Activation<T>> {
        if exit != Exit::Replaced {
            self.replaced.drain(..).for_each(lost);
        }
        if self.beyond > 0 {
            self.beyond -= 1;
            return None;
        }
        let popped = self.frames.pop()?;
        if exit == Exit::Replaced {
            self.replaced.push(popped);
            return None;
        }
        Some(popped)
    }
    /// All activations are given up.
    pub(crate) fn lose(&mut self, lost: impl FnMut(Activation<T>)) {
        self.beyond = 0;
        self.frames.drain(..).chain(self.replaced.drain(..)).for_each(lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(frames: &mut Frames<u32>) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        frames.lose(|f| all.push((f.method.0, f.state)));
        all
    }
    fn none(_: Activation<u32>) {
        panic!("nothing is lost")
    }

    #[test]
    fn inlined_frames_keep_their_states_through_deoptimisation() {
        let mut f = Frames::default();
        for m in 0..3 {
            f.enter((MethodId(m), Entry::Call), || m + 10, none);
        }
        for _ in 0..2 {
            assert_eq!(f.leave(Exit::Replaced, none), None);
        }
        for m in 1..3 {
            f.enter((MethodId(m), Entry::Deoptimisation), || 0, none);
        }
        assert_eq!(f.at(MethodId(2), || 0).unwrap().state, 12);
        assert_eq!(f.at(MethodId(1), || 0), None, "not on top");
        assert_eq!(states(&mut f), [(0, 10), (1, 11), (2, 12)]);
        assert_eq!(f.at(MethodId(7), || 5).unwrap().state, 5, "found");
    }

    #[test]
    fn an_activation_that_does_not_continue_is_lost() {
        let mut f = Frames::default();
        let mut lost = Vec::new();
        f.enter((MethodId(1), Entry::Call), || 1, none);
        f.leave(Exit::Replaced, none);
        f.enter((MethodId(2), Entry::Osr), || 2, |f| lost.push(f.state));
        f.leave(Exit::Replaced, none);
        f.enter((MethodId(3), Entry::Call), || 3, |f| lost.push(f.state));
        f.leave(Exit::Replaced, none);
        assert_eq!(f.leave(Exit::Return, |f| lost.push(f.state)), None);
        assert_eq!((lost, states(&mut f)), (vec![1, 2, 3], vec![]));
    }
}
