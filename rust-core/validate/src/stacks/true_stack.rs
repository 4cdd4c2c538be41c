// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The frames of a flow with what executes each.

use jportal_flow::{CodeStep, EventKind, Frame, Stack, Tier};

use super::compare::TrueFrame;

/// Follows the frames of one thread. The flow must have [steps of code](EventKind::Code): they say
/// which frames are not inlined.
#[derive(Debug, Default)]
pub(super) struct TrueStack {
    stack: Stack,
    /// Of the frames of `stack`, outermost first: the tier, and whether the frame is inlined.
    kinds: Vec<(Tier, bool)>,
}

impl TrueStack {
    /// The top frame and what executes it.
    pub(super) fn top(&self) -> Option<(Frame, Tier)> {
        Some((self.stack.top()?, self.kinds.last()?.0))
    }
    /// Number of frames.
    pub(super) fn depth(&self) -> usize {
        self.stack.depth()
    }
    /// The frames, innermost first.
    pub(super) fn frames(&self) -> Vec<TrueFrame> {
        let frame = |(f, &(tier, inlined)): (Frame, &(Tier, bool))| TrueFrame {
            method: f.method,
            bci: f.bci.filter(|_| tier != Tier::Native),
            tier,
            inlined,
            found: f.found,
        };
        self.stack.frames().zip(self.kinds.iter().rev()).map(frame).collect()
    }
    /// Applies one event.
    pub(super) fn follow(&mut self, kind: &EventKind) {
        self.stack.follow(kind);
        match kind {
            EventKind::Enter { tier, .. } => {
                self.kinds.push((*tier, matches!(tier, Tier::C1 | Tier::C2)));
            }
            EventKind::Code(CodeStep::Entered(_)) => {
                if let Some(top) = self.kinds.last_mut() {
                    top.1 = false;
                }
            }
            EventKind::Bytecode { tier, .. } | EventKind::Run { tier, .. } if self.kinds.is_empty() => {
                // A frame whose entry was not seen.
                self.kinds.push((*tier, false));
            }
            _ => {}
        }
        self.kinds.truncate(self.stack.depth());
    }
}
