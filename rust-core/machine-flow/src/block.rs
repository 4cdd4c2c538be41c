// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Basic blocks of machine code.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use jportal_units::CodeId;

/// Longest block in bytes, its last instruction not counted; longer runs are split.
pub(crate) const MAX_BLOCK: u32 = 256;
/// Longest x86 instruction.
pub(crate) const MAX_INSTRUCTION: u32 = 15;
/// `BasicBlock::target` of a branch that leads out of the code cache.
pub(crate) const OUTSIDE: u32 = u32::MAX;

/// What ends a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Terminator {
    /// The code of the block changed: decode it again.
    Stale,
    /// Conditional branch.
    Conditional,
    /// Direct jump.
    Jump,
    /// Direct call.
    Call,
    /// Direct call of the next instruction: pushes no entry on the return stack.
    CallNext,
    /// No branch: the block was split.
    FallThrough,
    /// Indirect jump.
    IndirectJump,
    /// Indirect call.
    IndirectCall,
    /// Near return.
    Return,
    /// `syscall`, `int`, `iret` …
    Far,
}

/// A basic block; offsets count from the start of the code cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
// None lies in two cache lines.
#[repr(align(32))]
pub(crate) struct BasicBlock {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset of the first byte after the block.
    pub end: u32,
    /// Target of a direct branch, `end` for [`Terminator::FallThrough`], [`OUTSIDE`] if outside
    /// the code cache.
    pub target: u32,
    /// The code that the block belongs to.
    pub code: CodeId,
    /// Cache indices of the successors: the target (or the only successor), then the next
    /// instruction.
    pub links: [u32; 2],
    /// The branch that ends the block.
    pub kind: Terminator,
    /// A leap passes it or ends at it.
    pub leapt: bool,
}

impl BasicBlock {
    /// A placeholder that means "decode again".
    pub const STALE: Self = Self {
        start: 0,
        end: 0,
        target: OUTSIDE,
        code: CodeId(u32::MAX),
        links: [0; 2],
        kind: Terminator::Stale,
        leapt: false,
    };

    /// Whether the two blocks cause the same packets and the same items.
    pub fn same_flow(&self, other: &Self) -> bool {
        let key = |b: &Self| (b.start, b.end, b.target, b.code, b.kind);
        key(self) == key(other)
    }
}

/// Bytes that are not an instruction, so that there is no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoInstruction {
    /// Offset of the undecodable bytes.
    pub at: u32,
}

/// The address range of the code cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeBounds {
    /// First address.
    pub low: u64,
    /// Number of bytes.
    pub len: u32,
}

impl CodeBounds {
    /// Offset of `address` from the start, or [`OUTSIDE`].
    pub fn offset(&self, address: u64) -> u32 {
        let offset = address.wrapping_sub(self.low);
        if offset < u64::from(self.len) { offset as u32 } else { OUTSIDE }
    }
}

/// Decodes the block at `start` from `bytes`, which end at the end of the owner's code.
pub(crate) fn decode_block(
    bytes: &[u8],
    start: u32,
    code: CodeId,
    bounds: CodeBounds,
) -> Result<BasicBlock, NoInstruction> {
    let base = bounds.low + u64::from(start);
    let mut decoder = Decoder::with_ip(64, bytes, base, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let block = |end: u64, target, kind| BasicBlock {
        start,
        end: (end - bounds.low) as u32,
        target,
        code,
        links: [0; 2],
        kind,
        leapt: false,
    };
    loop {
        let at = decoder.ip();
        if at - base >= u64::from(MAX_BLOCK) || at - base >= bytes.len() as u64 {
            return Ok(block(at, bounds.offset(at), Terminator::FallThrough));
        }
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Err(NoInstruction { at: (at - bounds.low) as u32 });
        }
        let next = instruction.next_ip();
        let direct = bounds.offset(instruction.near_branch_target());
        return Ok(match instruction.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend => continue,
            FlowControl::ConditionalBranch => block(next, direct, Terminator::Conditional),
            FlowControl::UnconditionalBranch if near(&instruction) => block(next, direct, Terminator::Jump),
            FlowControl::Call if near(&instruction) && instruction.near_branch_target() == next => {
                block(next, direct, Terminator::CallNext)
            }
            FlowControl::Call if near(&instruction) => block(next, direct, Terminator::Call),
            FlowControl::IndirectBranch => block(next, OUTSIDE, Terminator::IndirectJump),
            FlowControl::IndirectCall => block(next, OUTSIDE, Terminator::IndirectCall),
            FlowControl::Return if is_near_return(&instruction) => block(next, OUTSIDE, Terminator::Return),
            _ => block(next, OUTSIDE, Terminator::Far),
        });
    }
}

fn near(instruction: &Instruction) -> bool {
    matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
}

fn is_near_return(instruction: &Instruction) -> bool {
    instruction.mnemonic() == iced_x86::Mnemonic::Ret
}

/// Target address of the direct branch that ends the block; it may be outside the code cache.
pub(crate) fn direct_target(bytes: &[u8], start: u32, bounds: CodeBounds) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, bytes, bounds.low + u64::from(start), DecoderOptions::NONE);
    let mut last = None;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        last = Some(instruction);
    }
    last.filter(near).map(|i| i.near_branch_target())
}

/// Whether an instruction of the block begins at `at`; `bytes` are the block's bytes.
pub(crate) fn begins_instruction(bytes: &[u8], start: u32, at: u32) -> bool {
    let mut decoder = Decoder::with_ip(64, bytes, u64::from(start), DecoderOptions::NONE);
    while decoder.can_decode() && decoder.ip() < u64::from(at) {
        if decoder.decode().is_invalid() {
            return false;
        }
    }
    decoder.ip() == u64::from(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: CodeBounds = CodeBounds { low: 0x10000, len: 0x1000 };

    fn kind(bytes: &[u8]) -> (Terminator, u32, u32) {
        let b = decode_block(bytes, 0x10, CodeId(0), BOUNDS).unwrap();
        (b.kind, b.end - b.start, b.target)
    }

    #[test]
    fn kinds() {
        assert_eq!(kind(&[0x90, 0x74, 0x02]), (Terminator::Conditional, 3, 0x15));
        assert_eq!(kind(&[0xeb, 0xfe]), (Terminator::Jump, 2, 0x10));
        assert_eq!(kind(&[0xe8, 0xfb, 0xff, 0xff, 0xff]), (Terminator::Call, 5, 0x10));
        assert_eq!(kind(&[0xe8, 0, 0, 0, 0]), (Terminator::CallNext, 5, 0x15));
        assert_eq!(kind(&[0xe8, 0, 0, 0, 0x10]), (Terminator::Call, 5, OUTSIDE));
        assert_eq!(kind(&[0xff, 0xe0]), (Terminator::IndirectJump, 2, OUTSIDE));
        assert_eq!(kind(&[0xff, 0xd0]), (Terminator::IndirectCall, 2, OUTSIDE));
        assert_eq!(kind(&[0xc3]), (Terminator::Return, 1, OUTSIDE));
        assert_eq!(kind(&[0xc2, 8, 0]), (Terminator::Return, 3, OUTSIDE));
        assert_eq!(kind(&[0x0f, 0x05]), (Terminator::Far, 2, OUTSIDE));
        assert_eq!(kind(&[0xcb]), (Terminator::Far, 1, OUTSIDE));
        assert_eq!(kind(&[0xe2, 0xfe]), (Terminator::Conditional, 2, 0x10)); // loop
        assert_eq!(kind(&[0x90, 0x90]), (Terminator::FallThrough, 2, 0x12)); // end of the code
        assert_eq!(kind(&[0x90; 400]), (Terminator::FallThrough, MAX_BLOCK, 0x10 + MAX_BLOCK));
        assert_eq!(decode_block(&[0x90, 0x06], 0, CodeId(0), BOUNDS), Err(NoInstruction { at: 1 }));
    }

    #[test]
    fn instruction_starts() {
        let bytes = [0x90, 0x48, 0x89, 0xc0, 0xc3];
        let starts: Vec<u32> = (7..14).filter(|&at| begins_instruction(&bytes, 7, at)).collect();
        assert_eq!(starts, [7, 8, 11, 12]);
        assert_eq!(
            direct_target(&[0x90, 0xe8, 0, 0, 0, 0x10], 0, BOUNDS),
            Some(0x1001_0006 + 0x10000 - 0x10000)
        );
    }
}
