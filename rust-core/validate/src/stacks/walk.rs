// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What AsyncGetCallTrace finds where its walk does not begin at the innermost frame.
//!
//! It follows HotSpot's `find_initial_Java_frame` and `is_decipherable_compiled_frame`
//! (`forte.cpp`), and `frame::sender_raw` (`frame_x86.cpp`).

use jportal_flow::Tier;
use jportal_reconstruct::MachineFrame;
use jportal_units::{Bci, Tsc};
use jportal_vm_image::{NMethod, VmImage};

use super::compare::{Detail, TrueFrame};
use crate::debug_info::{FramePosition, frames_of_scope};

/// What debug info has before the first bytecode of a method. AsyncGetCallTrace gives -1 for it; no
/// bytecode is at this bci.
pub(super) const BEFORE_FIRST: u16 = u16::MAX;

/// The frames of a thread by frames of the machine.
#[derive(Debug)]
pub(super) struct Walks<'a> {
    image: &'a VmImage,
    /// Innermost first.
    frames: &'a [TrueFrame],
    /// Innermost first, each with the index of its innermost frame in `frames`.
    machine: Vec<(MachineFrame, usize)>,
}

impl<'a> Walks<'a> {
    /// `frames`: innermost first. `machine`: outermost first.
    pub(super) fn new(image: &'a VmImage, frames: &'a [TrueFrame], machine: &[MachineFrame]) -> Self {
        let mut next = 0;
        let place = |m: &MachineFrame| {
            let first = next;
            next += match m {
                MachineFrame::CallStub => 0,
                MachineFrame::Interpreter | MachineFrame::Wrapper => 1,
                MachineFrame::Compiled { depth, .. } => *depth,
            };
            (*m, first)
        };
        Self { image, frames, machine: machine.iter().rev().map(place).collect() }
    }

    /// The stack if the first Java frame is found in frame `number` of the machine, which has
    /// called something and waits for its return. `None`: no Java frame is found.
    ///
    /// Below the call stub the walk continues at the frame that called the VM. Compiled code is
    /// found by its return address, so that the debug info is the next one after that: only a frame
    /// whose address is the one in the thread's anchor has the debug info of this address. All
    /// frames below the first one do (`vframeStreamCommon::fill_from_frame`).
    pub(super) fn from(&self, number: usize) -> Option<Vec<TrueFrame>> {
        let number =
            number + self.machine.get(number..)?.iter().position(|m| m.0 != MachineFrame::CallStub)?;
        let (frame, first) = self.machine[number];
        match frame {
            MachineFrame::Compiled { code, depth, end: Some(end) } => {
                let n = self.image.code(code)?.nmethod()?;
                Some(sampled(n, end, self.frames.get(first + depth..)?))
            }
            _ => Some(self.frames.get(first..)?.to_vec()),
        }
    }

    /// The first frame of the machine, from `number` on, to which the frame pointer belongs:
    /// compiled code leaves it alone (`MacroAssembler::verified_entry`, `C1_MacroAssembler::
    /// build_frame`, without `-XX:+PreserveFramePointer`).
    fn with_pointer(&self, number: usize) -> Option<usize> {
        let rest = self.machine.get(number..)?;
        Some(number + rest.iter().position(|m| !matches!(m.0, MachineFrame::Compiled { .. }))?)
    }

    /// The stack if the interpreter executes an instruction at which the frame pointer is still
    /// that of the callers of frame 0: the frame with the pointer is taken for the one that
    /// executes. `None`: it is not one of the interpreter (`frame::is_interpreted_frame_valid`).
    pub(super) fn of_callers_pointer(&self) -> Option<Vec<TrueFrame>> {
        let number = self.with_pointer(1)?;
        (self.machine[number].0 == MachineFrame::Interpreter).then(|| self.from(number))?
    }

    /// The parts of `stack` above the callers at which the walk may end at `time`
    /// (`frame::safe_for_sender`).
    ///
    /// * The VM has invalidated the caller's code, which is not in use any more. The return address
    ///   is that of the handler of deoptimisation (`is_deopt_entry`).
    /// * C1's code called the VM through a stub of C1, and the VM called Java. Such a stub's frame
    ///   is never complete (`frame_never_safe`, `Runtime1::generate_blob`).
    pub(super) fn ends(&self, stack: &[TrueFrame], time: Tsc) -> Vec<(Detail, Vec<TrueFrame>)> {
        let mut all = Vec::new();
        for (number, &(frame, first)) in self.machine.iter().enumerate() {
            let MachineFrame::Compiled { code, .. } = frame else { continue };
            let Some(n) = self.image.code(code).and_then(|v| v.nmethod()) else { continue };
            let above = self.frames.get(first..).and_then(|rest| stack.strip_suffix(rest));
            let Some(above) = above.filter(|a| !a.is_empty()) else { continue };
            let is_upcall = number > 0 && self.machine[number - 1].0 == MachineFrame::CallStub;
            if n.states.iter().any(|s| s.0 <= time) {
                all.push((Detail::Deoptimised, above.to_vec()));
            } else if is_upcall && tier_of(n) == Tier::C1 {
                all.push((Detail::C1Stub, above.to_vec()));
            }
        }
        all
    }

    /// The stacks if code outside of the code cache executes that has not set the frame pointer, as
    /// at the entry of a function, in libc or in a signal handler that has interrupted compiled
    /// code. `sender` of such a frame is found by the frame pointer (`frame::sender_raw`), so it is
    /// the caller of the frame that has the pointer.
    pub(super) fn of_leaf(&self) -> Vec<Vec<TrueFrame>> {
        let Some(number) = self.with_pointer(0) else { return Vec::new() };
        self.from(number + 1).into_iter().chain(self.of_leaf_above_code()).collect()
    }

    /// Of the first of these stacks, the frames of compiled code that called the interpreted method
    /// with the frame pointer.
    ///
    /// `sender_raw` takes the address above the return address for the caller's stack pointer.
    /// Above that of an interpreted method are its locals, and the caller's frame begins further
    /// up. So the walk either cannot leave the caller (`frame::safe_for_sender`), or it leaves it
    /// by a return address that an adapter has left on the stack (`gen_c2i_adapter`).
    pub(super) fn of_leaf_above_code(&self) -> Option<Vec<TrueFrame>> {
        let number = self.with_pointer(0)?;
        let [(MachineFrame::Interpreter, _), (MachineFrame::Compiled { depth, .. }, first), ..] =
            self.machine[number..]
        else {
            return None;
        };
        let stack = self.from(number + 1)?;
        let below = self.frames.len() - (first + depth);
        Some(stack[..stack.len().saturating_sub(below)].to_vec())
    }
}

/// What AsyncGetCallTrace takes for the frames of compiled code at `offset`, above `rest`: the
/// first debug info after it (`pc_desc_near(pc + 1)`). If there is none, that at exactly the
/// offset, or the nmethod's own method at bci 0 (`vframeStreamCommon::fill_from_frame`).
pub(super) fn sampled(n: &NMethod, offset: u32, rest: &[TrueFrame]) -> Vec<TrueFrame> {
    let next = n.position_of_sample(offset).and_then(|p| frames_of_scope(n, p.scope));
    let exact = || n.position_at(offset).and_then(|p| frames_of_scope(n, p.scope));
    let own = || n.method.map(|method| vec![FramePosition { method, bci: Some(0) }]);
    let mut chain = next.or_else(exact).or_else(own).unwrap_or_default();
    if let Some(last) = chain.last_mut() {
        last.bci = last.bci.or(Some(BEFORE_FIRST));
    }
    with_chain(&chain, tier_of(n), rest)
}

/// The frames of a chain, which is outermost first, above `rest`.
pub(super) fn with_chain(chain: &[FramePosition], tier: Tier, rest: &[TrueFrame]) -> Vec<TrueFrame> {
    let frame = |(i, p): (usize, &FramePosition)| TrueFrame {
        method: p.method,
        bci: p.bci.map(Bci),
        tier,
        inlined: i > 0,
        found: false,
    };
    let own: Vec<TrueFrame> = chain.iter().enumerate().map(frame).collect();
    own.into_iter().rev().chain(rest.iter().copied()).collect()
}

pub(super) fn tier_of(n: &NMethod) -> Tier {
    if n.compiler == jportal_capture::schema::compilers::C1 { Tier::C1 } else { Tier::C2 }
}
