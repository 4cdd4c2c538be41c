// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Safepoint polls of C2 whose debug info does not give the position of control.
//!
//! C2 moves the poll of a counted loop to a place after the loop's test. Where it finds the
//! poll after other tests, it moves the blocks in between as well
//! (`PhaseIdealLoop::find_safepoint`). If the poll lets control continue, the markers passed
//! before the poll have happened. If the poll deoptimises, the interpreter resumes at the
//! poll's state and executes their bytecodes first. The marker `PollState` marks the place of
//! the state. Markers passed after it are held until the poll has decided.

use crate::frame::{Frame, Position};
use crate::machine::{Before, Machine};
use crate::marked::{marker_chain, scope_chain};
use crate::tags::CodeClass;
use jportal_machine_flow::Exit;
use jportal_vm_image::{Marker, NMethod, PathMarkers, PcPosition};

impl Machine<'_> {
    /// Whether the instruction at `cut` is a safepoint poll that let control continue at `at`:
    /// its handler returns to the next instruction.
    pub(crate) fn came_from_poll(&self, n: &NMethod, cut: u32, at: u32) -> bool {
        const LONGEST_INSTRUCTION: u32 = 15;
        let returned =
            matches!(self.before, Before::Block { exit: Exit::Return, class: CodeClass::Transparent, .. });
        returned && (cut + 1..=cut + LONGEST_INSTRUCTION).contains(&at) && n.position_at(cut).is_some()
    }
    /// Whether the top frame passes markers that may not have happened.
    pub(crate) fn is_early(&mut self) -> bool {
        self.trail().is_some_and(|t| t.early)
    }
    /// The markers that were passed early have happened.
    pub(crate) fn settle(&mut self, m: &PathMarkers) {
        if let Some(trail) = self.trail()
            && std::mem::take(&mut trail.early)
        {
            self.pass_held(m);
        }
    }
    /// As [`Self::settle`], when the top frame ends or is left.
    pub(crate) fn settle_top(&mut self) {
        let Some(Frame::Compiled(c)) = self.stack.last() else { return };
        if !c.trail.early {
            return;
        }
        let n = self.shared.image.code(c.code).and_then(|v| v.nmethod());
        if let Some(m) = n.and_then(|n| n.markers.as_ref()) {
            self.settle(m);
        }
    }
    /// A poll in `from..to` let control continue.
    pub(crate) fn pass_polls(&mut self, n: &NMethod, m: &PathMarkers, (from, to): (u32, u32)) {
        if self.is_early() && !n.positions_in(from, to).is_empty() {
            self.settle(m);
        }
    }
    /// Control leaves the code with the state at `position`. The markers passed early have
    /// happened if one of them contains the state.
    pub(crate) fn settle_at(&mut self, n: &NMethod, m: &PathMarkers, position: Option<&PcPosition>) {
        let Some(trail) = self.trail().filter(|t| t.early) else { return };
        let held = std::mem::take(&mut trail.held);
        let state = position.map(|p| scope_chain(n, p.scope)).filter(|s| !s.is_empty());
        let happened = state.is_none_or(|s| held.iter().any(|&mark| self.may_contain(m, mark, &s)));
        if let Some(trail) = self.trail().filter(|_| happened) {
            trail.held = held;
        }
        self.settle(m);
    }
    /// Whether `state` may lie in the block of the marker.
    fn may_contain(&mut self, m: &PathMarkers, mark: Marker, state: &[Position]) -> bool {
        match mark {
            Marker::Block { context, bci } => {
                marker_chain(m, context, bci).is_none_or(|chain| self.contains(&chain, state))
            }
            Marker::Ambiguous(_) | Marker::PollState => true,
        }
    }
}
