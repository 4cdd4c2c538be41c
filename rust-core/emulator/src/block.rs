// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Translation blocks as the emulator sees them, and the kind of their last instruction.
//!
//! QEMU reports a block when it translates it (the instructions and their bytes) and again each
//! time it begins to execute the block. QEMU does not report how an execution *ended*;
//! [`crate::resolve`] infers that from the thread's next event. This module holds the
//! properties of a block that do not depend on how it ended.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use crate::error::Error;

const PAGE: u64 = 4096;
/// The longest x86-64 instruction (SDM vol. 2, 2.3.11).
const MAX_INSN: u64 = 15;

/// How the last instruction of a block transfers control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferKind {
    /// No branch: page end, instruction limit, or an instruction that ends QEMU's block only.
    Sequential,
    /// `jcc`, `loop`, `jrcxz`.
    Conditional,
    /// Direct `jmp`.
    Jump,
    /// Direct `call`.
    Call,
    /// Direct `call` to the next instruction; it does not enter the return stack.
    CallNext,
    /// Indirect `jmp`.
    IndirectJump,
    /// Indirect `call`.
    IndirectCall,
    /// Near `ret`.
    Return,
    /// A string instruction with a repeat prefix: QEMU runs one iteration per block.
    Repeat,
    /// `syscall`.
    Syscall,
    /// An instruction that traps or that no rule covers (`int3`, `ud2`, `xbegin`).
    Other,
}

impl TransferKind {
    /// Whether the instruction takes its target from a register or from memory. Other threads may
    /// write there; a return address lies on the thread's own stack.
    pub const fn reads_target(self) -> bool {
        matches!(self, Self::IndirectJump | Self::IndirectCall)
    }
}

/// One instruction as QEMU lists it.
#[derive(Clone, Copy, Debug)]
pub struct InsnBytes<'a> {
    /// Guest address.
    pub address: u64,
    /// The instruction's bytes.
    pub bytes: &'a [u8],
}

/// A translated block.
#[derive(Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub start: u64,
    /// Address after the last instruction.
    pub end: u64,
    /// Address of the last instruction.
    pub last: u64,
    /// Target of the direct branch at the end; 0 if the block ends otherwise.
    pub target: u64,
    /// Number of this translation in the record of translated blocks
    /// ([`crate::truth::CodeLog`]); 0 when no record is kept.
    pub id: u32,
    /// How the block ends.
    pub kind: TransferKind,
    /// Whether the block is a single instruction that is no branch and not near a page end.
    /// QEMU creates such blocks when it restarts inside a block (misaligned atomics, precise
    /// self-modifying code).
    pub restart: bool,
    /// Instruction starts relative to `start`.
    offsets: Box<[u16]>,
    /// The bytes that were translated.
    bytes: Box<[u8]>,
}

impl Block {
    /// Builds a block from its instructions, which must follow one another.
    ///
    /// The translator of QEMU 7.2 retracts an instruction that would cross the page end, but
    /// leaves it at the end of the plugin's list with its bytes cut short. Such an instruction
    /// is dropped. Undecodable bytes anywhere else are an error.
    pub fn decode(insns: &[InsnBytes<'_>]) -> Result<Block, Error> {
        let first = insns.first().ok_or(Error::EmptyBlock)?;
        let start = first.address;
        let mut offsets = Vec::with_capacity(insns.len());
        let mut bytes = Vec::with_capacity(insns.iter().map(|i| i.bytes.len()).sum());
        let mut last: Option<Instruction> = None;
        let mut end = start;
        let mut retracted = false;
        for (i, insn) in insns.iter().enumerate() {
            let decoded = Decoder::with_ip(64, insn.bytes, insn.address, DecoderOptions::NONE).decode();
            if decoded.is_invalid() || decoded.len() != insn.bytes.len() || insn.address != end {
                if i > 0 && i + 1 == insns.len() {
                    retracted = true;
                    break;
                }
                return Err(Error::Undecodable { address: insn.address });
            }
            offsets.push((insn.address - start) as u16);
            bytes.extend_from_slice(insn.bytes);
            end = insn.address.wrapping_add(insn.bytes.len() as u64);
            last = Some(decoded);
        }
        let last = last.ok_or(Error::EmptyBlock)?;
        let (kind, target) = classify(&last, end);
        let near_page_end = retracted
            || end & !(PAGE - 1) != end.wrapping_add(MAX_INSN) & !(PAGE - 1)
            || start & !(PAGE - 1) != (end - 1) & !(PAGE - 1);
        Ok(Block {
            start,
            end,
            last: last.ip(),
            target,
            id: 0,
            kind,
            restart: offsets.len() == 1 && kind == TransferKind::Sequential && !near_page_end,
            offsets: offsets.into_boxed_slice(),
            bytes: bytes.into_boxed_slice(),
        })
    }

    /// The bytes that were translated. These are the bytes that execute, even if memory has
    /// changed since.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of instructions.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether the block has no instruction (never true for a decoded block).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Address of instruction `i`; the block's end if `i` is past the last instruction.
    #[inline]
    pub fn address(&self, i: usize) -> u64 {
        self.offsets.get(i).map_or(self.end, |&o| self.start + u64::from(o))
    }

    /// Index of the instruction that starts at `address`.
    #[inline]
    pub fn index_of(&self, address: u64) -> Option<usize> {
        let d = address.wrapping_sub(self.start);
        if d >= self.end.wrapping_sub(self.start) {
            return None;
        }
        self.offsets.iter().position(|&o| u64::from(o) == d)
    }
}

fn classify(last: &Instruction, end: u64) -> (TransferKind, u64) {
    match last.flow_control() {
        FlowControl::Next if repeats(last) => (TransferKind::Repeat, 0),
        FlowControl::Next => (TransferKind::Sequential, 0),
        FlowControl::ConditionalBranch => (TransferKind::Conditional, last.near_branch_target()),
        FlowControl::UnconditionalBranch => (TransferKind::Jump, last.near_branch_target()),
        FlowControl::Call if last.mnemonic() == Mnemonic::Syscall => (TransferKind::Syscall, 0),
        FlowControl::Call if last.near_branch_target() == end => (TransferKind::CallNext, end),
        FlowControl::Call => (TransferKind::Call, last.near_branch_target()),
        FlowControl::IndirectBranch => (TransferKind::IndirectJump, 0),
        FlowControl::IndirectCall => (TransferKind::IndirectCall, 0),
        FlowControl::Return => (TransferKind::Return, 0),
        FlowControl::Interrupt | FlowControl::XbeginXabortXend | FlowControl::Exception => {
            (TransferKind::Other, 0)
        }
    }
}

fn repeats(insn: &Instruction) -> bool {
    (insn.has_rep_prefix() || insn.has_repne_prefix()) && insn.is_string_instruction()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Cuts `code` into instructions at `at`, as QEMU would list them.
    pub(crate) fn block(at: u64, code: &[u8]) -> Block {
        let mut list = Vec::new();
        let mut pos = 0;
        while pos < code.len() {
            let n = Decoder::with_ip(64, &code[pos..], at + pos as u64, DecoderOptions::NONE).decode().len();
            list.push(InsnBytes { address: at + pos as u64, bytes: &code[pos..pos + n] });
            pos += n;
        }
        Block::decode(&list).unwrap()
    }

    #[test]
    fn kinds() {
        let cases: &[(&[u8], TransferKind, u64)] = &[
            (&[0x90], TransferKind::Sequential, 0),
            (&[0x75, 0x10], TransferKind::Conditional, 0x1012),
            (&[0xe2, 0xfe], TransferKind::Conditional, 0x1000),
            (&[0xeb, 0xfe], TransferKind::Jump, 0x1000),
            (&[0xe8, 0, 1, 0, 0], TransferKind::Call, 0x1105),
            (&[0xe8, 0, 0, 0, 0], TransferKind::CallNext, 0x1005),
            (&[0xff, 0xe0], TransferKind::IndirectJump, 0),
            (&[0xff, 0xd0], TransferKind::IndirectCall, 0),
            (&[0xc3], TransferKind::Return, 0),
            (&[0xc2, 8, 0], TransferKind::Return, 0),
            (&[0xf3, 0xa4], TransferKind::Repeat, 0),
            (&[0xf2, 0xae], TransferKind::Repeat, 0),
            (&[0xf3, 0x90], TransferKind::Sequential, 0),
            (&[0x0f, 0x05], TransferKind::Syscall, 0),
            (&[0xcc], TransferKind::Other, 0),
            (&[0x0f, 0x0b], TransferKind::Other, 0),
        ];
        for &(code, kind, target) in cases {
            let b = block(0x1000, code);
            assert_eq!((b.kind, b.target), (kind, target), "{code:x?}");
        }
    }

    #[test]
    fn addresses_and_indices() {
        let b = block(0x1000, &[0x90, 0x48, 0x89, 0xc3, 0xc3]);
        assert_eq!((b.start, b.last, b.end, b.len()), (0x1000, 0x1004, 0x1005, 3));
        assert_eq!(b.index_of(0x1001), Some(1));
        assert_eq!(b.index_of(0x1002), None);
        assert_eq!(b.index_of(0x1005), None);
        assert_eq!(b.index_of(0xfff), None);
        assert_eq!((b.address(2), b.address(3)), (0x1004, 0x1005));
    }

    #[test]
    fn retracted_instruction_is_dropped() {
        // A 10-byte `mov rax, imm64` of which only the bytes before the page end are listed.
        let insns = [
            InsnBytes { address: 0x1ffc, bytes: &[0x90] },
            InsnBytes { address: 0x1ffd, bytes: &[0x48, 0xb8, 0x01] },
        ];
        let b = Block::decode(&insns).unwrap();
        assert_eq!((b.end, b.len(), b.kind), (0x1ffd, 1, TransferKind::Sequential));
        assert!(!b.restart, "a block cut at a page end is not a restart");
    }

    #[test]
    fn undecodable_elsewhere_is_an_error() {
        let insns = [
            InsnBytes { address: 0x1000, bytes: &[0x48, 0xb8, 0x01] },
            InsnBytes { address: 0x1003, bytes: &[0x90] },
        ];
        assert!(matches!(Block::decode(&insns), Err(Error::Undecodable { address: 0x1000 })));
        assert!(matches!(Block::decode(&[]), Err(Error::EmptyBlock)));
    }

    #[test]
    fn restart_candidates() {
        assert!(block(0x1000, &[0xf0, 0x48, 0x0f, 0xb1, 0x0b]).restart);
        assert!(!block(0x1000, &[0x90, 0x90]).restart, "two instructions");
        assert!(!block(0x1000, &[0xc3]).restart, "a branch");
        assert!(!block(0x1000, &[0xf3, 0xa4]).restart, "a repeated string instruction");
        assert!(!block(0x1ffa, &[0x90]).restart, "the next one may cross the page end");
    }
}
