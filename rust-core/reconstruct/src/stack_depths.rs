// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Where compiled code has more or less on the stack than its frame.
//!
//! HotSpot finds the caller of compiled code by the size of its frame, wherever in the code control
//! is. That is wrong inside intrinsics that push registers or take space
//! (`C2_MacroAssembler::string_indexof`), and where the frame has been removed and only the poll
//! and the return are left (`C1_MacroAssembler::remove_frame`, `MachEpilogNode::emit`).

use std::ops::Range;

use hashbrown::HashMap;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use jportal_units::CodeId;

use crate::recording::{MainCode, Recording, main_code};

/// Instructions among which the frame is built (`MacroAssembler::verified_entry`,
/// `C1_MacroAssembler::build_frame`).
const PROLOGUE: usize = 6;

/// More bytes than intrinsics push. Bytes that a loop pushes would have no end.
const MOST: i64 = 1 << 10;

/// Ranges of offsets before whose instructions the stack is not at the frame. Ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DepthRanges {
    /// More than the frame is on the stack.
    pub pushed: Vec<Range<u32>>,
    /// The frame has been removed, or a part of it.
    pub removed: Vec<Range<u32>>,
}

/// By nmethod. Code that has no such range is left out.
pub type StackDepths = HashMap<CodeId, DepthRanges>;

impl Recording {
    /// Where compiled code has more or less on the stack than its frame, as the code was when it
    /// was installed.
    pub fn stack_depths(&self) -> StackDepths {
        let of = |code: MainCode<'_>| {
            let entry = code.nmethod.osr_entry.unwrap_or(code.nmethod.verified_entry);
            let ranges = ranges_of(code.bytes, entry);
            (ranges != DepthRanges::default()).then_some((code.version.id, ranges))
        };
        main_code(self.image(), self.history()).filter_map(of).collect()
    }
}

/// How an instruction moves the stack pointer.
enum Moves {
    /// Down by this many bytes.
    By(i64),
    /// To where it was saved.
    Back,
}

fn moves(instruction: &Instruction) -> Moves {
    let to_rsp = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == Register::RSP;
    let constant = || instruction.try_immediate(1).ok().map(|n| n as i64);
    match (instruction.mnemonic(), to_rsp) {
        (Mnemonic::Push, _) => Moves::By(8),
        (Mnemonic::Pop, false) => Moves::By(-8),
        (Mnemonic::Pushfq, _) => Moves::By(8),
        (Mnemonic::Popfq, _) => Moves::By(-8),
        (Mnemonic::Sub, true) if constant().is_some() => Moves::By(constant().unwrap_or(0)),
        (Mnemonic::Add, true) if constant().is_some() => Moves::By(-constant().unwrap_or(0)),
        (Mnemonic::Lea, true) if instruction.memory_base() == Register::RSP => {
            Moves::By((instruction.memory_displacement64() as i64).wrapping_neg())
        }
        (Mnemonic::Pop | Mnemonic::Mov | Mnemonic::Lea | Mnemonic::And, true) => Moves::Back,
        _ => Moves::By(0),
    }
}

/// The size of the frame that the code at `entry` builds.
fn frame_size(code: &[u8], entry: u32) -> i64 {
    let mut size = 0;
    let rest = code.get(entry as usize..).unwrap_or_default();
    for instruction in Decoder::with_ip(64, rest, entry.into(), DecoderOptions::NONE).iter().take(PROLOGUE) {
        match (instruction.mnemonic(), moves(&instruction)) {
            (Mnemonic::Push, _) if size == 0 && instruction.op0_register() == Register::RBP => size = 8,
            (Mnemonic::Sub, Moves::By(n)) if n > 0 => return size + n,
            _ if instruction.flow_control() != FlowControl::Next => break,
            _ => {}
        }
    }
    size
}

/// The stack before an instruction.
#[derive(Clone, Copy)]
struct DepthBefore {
    /// Of the instruction.
    length: u32,
    /// The most bytes that may be on the stack.
    depth: i64,
    /// The frame was built on the way there.
    built: bool,
}

/// The ranges of `code`, which is entered at `entry`.
fn ranges_of(code: &[u8], entry: u32) -> DepthRanges {
    let frame = frame_size(code, entry);
    let mut all: HashMap<u32, DepthBefore> = HashMap::new();
    let mut open = vec![(entry, 0, false)];
    while let Some((at, depth, built)) = open.pop() {
        let Some(rest) = code.get(at as usize..).filter(|rest| !rest.is_empty()) else { continue };
        let depth = depth.min(frame + MOST);
        let built = built || depth >= frame;
        if all.get(&at).is_some_and(|known| known.depth >= depth) {
            continue;
        }
        let instruction = Decoder::with_ip(64, rest, at.into(), DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            continue;
        }
        all.insert(at, DepthBefore { length: instruction.len() as u32, depth, built });
        let after = match moves(&instruction) {
            Moves::By(n) => depth + n,
            Moves::Back => frame,
        };
        let next = at + instruction.len() as u32;
        let target = || u32::try_from(instruction.near_branch_target()).ok();
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => open.extend(target().map(|to| (to, after, built))),
            FlowControl::ConditionalBranch => {
                open.extend(target().map(|to| (to, after, built)));
                open.push((next, after, built));
            }
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => {}
            _ => open.push((next, after, built)),
        }
    }
    DepthRanges {
        pushed: joined(&all, |b| b.depth > frame),
        removed: joined(&all, |b| b.built && b.depth < frame),
    }
}

/// The instructions for which `fits` holds, as ranges.
fn joined(all: &HashMap<u32, DepthBefore>, fits: impl Fn(&DepthBefore) -> bool) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> =
        all.iter().filter(|(_, before)| fits(before)).map(|(&at, before)| at..at + before.length).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let joined = last.end == next.start;
        if joined {
            last.end = next.end;
        }
        joined
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `push rbp; sub rsp, 16`.
    const BUILD: [u8; 5] = [0x55, 0x48, 0x83, 0xec, 0x10];
    /// `add rsp, 16; pop rbp; ret`.
    const REMOVE: [u8; 6] = [0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3];

    fn one(range: Range<u32>) -> Vec<Range<u32>> {
        std::iter::once(range).collect()
    }

    fn of(body: &[u8]) -> Vec<Range<u32>> {
        ranges_of(&[&BUILD, body, &REMOVE].concat(), 0).pushed
    }

    #[test]
    fn a_frame_alone_is_no_more_than_itself() {
        assert_eq!(of(&[0x90]), []);
        // A call, whose return address the callee takes away.
        assert_eq!(of(&[0xe8, 0, 1, 0, 0]), []);
        // `sub rsp, 24; mov [rsp+16], rbp; add rsp, 24; ret`, as C2 builds it.
        let c2 = [0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x48, 0x83, 0xc4, 0x18, 0xc3];
        assert_eq!(ranges_of(&c2, 0), DepthRanges { pushed: vec![], removed: one(13..14) });
    }

    #[test]
    fn a_frame_that_is_removed_is_less_than_itself() {
        let removed = |code: &[u8]| ranges_of(code, 0).removed;
        // 5 nop; 6 add rsp, 16; 10 pop rbp; 11 ret.
        assert_eq!(removed(&[&BUILD[..], &[0x90], &REMOVE].concat()), one(10..12));
        // 5 jz 13; 7 add rsp, 16; 11 pop rbp; 12 ret; 13 as from 7. The poll at a return:
        // 18 cmp rsp, [r15+64]; 22 ja 25; 24 ret; 25 nop; 26 ret.
        let poll = [0x49, 0x3b, 0x67, 0x40, 0x77, 1, 0xc3, 0x90, 0xc3];
        let code = [&BUILD[..], &[0x74, 6], &REMOVE, &REMOVE[..5], &poll].concat();
        assert_eq!(removed(&code), [11..13, 17..27]);
        // Code that has no frame removes none.
        assert_eq!(removed(&[0x90, 0xc3]), []);
    }

    #[test]
    fn pushes_count_until_they_are_popped() {
        // 5 push rax; 6 push rsi; 7 nop; 8 pop rsi; 9 pop rax.
        assert_eq!(of(&[0x50, 0x56, 0x90, 0x5e, 0x58]), one(6..10));
        // 5 sub rsp, 16; 9 nop; 10 add rsp, 16.
        assert_eq!(of(&[0x48, 0x83, 0xec, 0x10, 0x90, 0x48, 0x83, 0xc4, 0x10]), one(9..14));
    }

    #[test]
    fn all_ways_count_and_a_saved_pointer_comes_back() {
        // 5 jz 9; 7 push rax; 8 push rcx; 9 nop; 10 pop rsp (`string_indexof` saves it before).
        assert_eq!(of(&[0x74, 2, 0x50, 0x51, 0x90, 0x5c]), one(8..11));
        // A loop that pushes: 5 push rax; 6 jmp 5.
        assert_eq!(of(&[0x50, 0xeb, 0xfd]), one(5..8));
    }
}
