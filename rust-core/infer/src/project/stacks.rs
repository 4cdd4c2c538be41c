// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Stacks of frames for the search of paths: tails are shared, and equal stacks have equal
//! numbers.

use hashbrown::HashMap;
use jportal_bytecode::Node;

/// The number of a stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Stack(pub(super) u32);

impl Stack {
    /// The frames below are unknown.
    pub(super) const UNKNOWN: Self = Self(0);
    /// There is no frame below to return to.
    pub(super) const BOTTOM: Self = Self(1);
}

/// All stacks of one search.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// The call site on top of each stack, and the rest of the stack; the first two stacks have
    /// none.
    frames: Vec<(Node, Stack)>,
    numbers: HashMap<(Node, Stack), Stack>,
}

impl Stacks {
    pub(super) fn new() -> Self {
        let none = (Node(u32::MAX), Stack::UNKNOWN);
        Self { frames: vec![none, none], numbers: HashMap::new() }
    }
    /// The number of stacks.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
    /// `rest` with a call from `site` on top.
    pub(super) fn push(&mut self, site: Node, rest: Stack) -> Stack {
        let next = Stack(self.frames.len() as u32);
        let number = *self.numbers.entry((site, rest)).or_insert(next);
        if number == next {
            self.frames.push((site, rest));
        }
        number
    }
    /// The call site on top and the rest; `None` if no frame is known.
    pub(super) fn pop(&self, stack: Stack) -> Option<(Node, Stack)> {
        (stack > Stack::BOTTOM).then(|| self.frames[stack.0 as usize])
    }
}
