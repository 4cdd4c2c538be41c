// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Determines how the block that began last ended, from the thread's next address.
//!
//! QEMU calls the plugin when a block *begins*. The block may end early: by a fault, or by a
//! restart inside the block, which QEMU makes for reasons of its own. An outcome is therefore
//! decided only when the next address is known. It is a pure function of the block, that
//! address and the way in which the thread arrived at the address.

use crate::block::{Block, TransferKind};

/// How the thread arrived at the next address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// A block begins at the next address. `restart` is [`Block::restart`] of that block.
    Block {
        /// The new block may be QEMU's restart inside the block before it.
        restart: bool,
    },
    /// The instruction at the next address raised a synchronous fault and did not retire.
    Fault,
    /// An asynchronous signal was taken before the instruction at the next address.
    Interrupt,
}

/// How a block ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockOutcome {
    /// Every instruction retired, and control passed to the next instruction.
    Sequential,
    /// A repeated string instruction begins another iteration.
    RepeatAgain,
    /// Only the first `n` instructions retired.
    Cut(usize),
    /// A conditional branch.
    Conditional {
        /// Whether the branch was taken.
        taken: bool,
    },
    /// A direct jump, or a direct call that does not use the return stack.
    Jump,
    /// A direct call.
    Call,
    /// An indirect jump.
    IndirectJump,
    /// An indirect call.
    IndirectCall,
    /// A near return.
    Return,
    /// A system call; the thread returned at the next address.
    Syscall,
    /// No other outcome explains this transition.
    Unexplained,
}

/// Decides how `block` ended when the thread's next address is `next`.
pub fn resolve(block: &Block, next: u64, arrival: Arrival) -> BlockOutcome {
    match arrival {
        // A loop may branch to the instruction at which QEMU restarted, so the restart is tried
        // before the branch rules. The same holds for a fault: a block that branches to itself
        // may fault.
        Arrival::Block { restart: true } | Arrival::Fault => match block.index_of(next) {
            Some(n) => BlockOutcome::Cut(n),
            None => completed(block, next),
        },
        // QEMU takes asynchronous signals only between blocks. So the block is complete, except
        // that an interrupted string instruction has not retired.
        Arrival::Interrupt if block.kind == TransferKind::Repeat && next == block.last => {
            BlockOutcome::Cut(block.len() - 1)
        }
        Arrival::Block { restart: false } | Arrival::Interrupt => match completed(block, next) {
            BlockOutcome::Unexplained => {
                block.index_of(next).map_or(BlockOutcome::Unexplained, BlockOutcome::Cut)
            }
            o => o,
        },
    }
}

/// The outcome if every instruction of `block` retired.
fn completed(block: &Block, next: u64) -> BlockOutcome {
    completed_then(block, next, |o| o)
}

/// Calls `done` with the outcome if every instruction of `block` retired. Each outcome has its
/// own call of `done`, so that the compiler can merge the decision and the encoding into one
/// branch on the path of every executed block.
#[inline(always)]
pub fn completed_then<R>(block: &Block, next: u64, done: impl FnOnce(BlockOutcome) -> R) -> R {
    let falls = next == block.end;
    match block.kind {
        // If the target is the next instruction, the direction cannot be observed. It counts as
        // taken.
        TransferKind::Conditional if next == block.target => done(BlockOutcome::Conditional { taken: true }),
        TransferKind::Conditional if falls => done(BlockOutcome::Conditional { taken: false }),
        TransferKind::Sequential | TransferKind::Other | TransferKind::Repeat if falls => {
            done(BlockOutcome::Sequential)
        }
        TransferKind::Repeat if next == block.last => done(BlockOutcome::RepeatAgain),
        TransferKind::Jump | TransferKind::CallNext if next == block.target => done(BlockOutcome::Jump),
        TransferKind::Call if next == block.target => done(BlockOutcome::Call),
        TransferKind::IndirectJump => done(BlockOutcome::IndirectJump),
        TransferKind::IndirectCall => done(BlockOutcome::IndirectCall),
        TransferKind::Return => done(BlockOutcome::Return),
        TransferKind::Syscall => done(BlockOutcome::Syscall),
        _ => done(BlockOutcome::Unexplained),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::tests::block;

    const NEXT: Arrival = Arrival::Block { restart: false };
    const RESTART: Arrival = Arrival::Block { restart: true };

    #[test]
    fn sequential_end_is_no_branch() {
        let b = block(0x1000, &[0x90, 0x90]);
        assert_eq!(resolve(&b, 0x1002, NEXT), BlockOutcome::Sequential);
        assert_eq!(resolve(&b, 0x5000, NEXT), BlockOutcome::Unexplained);
    }

    #[test]
    fn conditional_both_ways() {
        let b = block(0x1000, &[0x90, 0x75, 0x10]);
        assert_eq!(resolve(&b, 0x1013, NEXT), BlockOutcome::Conditional { taken: true });
        assert_eq!(resolve(&b, 0x1003, NEXT), BlockOutcome::Conditional { taken: false });
        assert_eq!(resolve(&b, 0x2000, NEXT), BlockOutcome::Unexplained);
    }

    #[test]
    fn conditional_to_the_next_instruction_counts_as_taken() {
        let b = block(0x1000, &[0x75, 0x00]);
        assert_eq!(resolve(&b, 0x1002, NEXT), BlockOutcome::Conditional { taken: true });
    }

    #[test]
    fn direct_branches_must_reach_their_target() {
        assert_eq!(resolve(&block(0x1000, &[0xeb, 0x10]), 0x1012, NEXT), BlockOutcome::Jump);
        assert_eq!(resolve(&block(0x1000, &[0xeb, 0x10]), 0x1013, NEXT), BlockOutcome::Unexplained);
        assert_eq!(resolve(&block(0x1000, &[0xe8, 0, 1, 0, 0]), 0x1105, NEXT), BlockOutcome::Call);
    }

    #[test]
    fn call_to_the_next_instruction_stays_off_the_return_stack() {
        assert_eq!(resolve(&block(0x1000, &[0xe8, 0, 0, 0, 0]), 0x1005, NEXT), BlockOutcome::Jump);
    }

    #[test]
    fn indirect_branches_go_anywhere() {
        assert_eq!(resolve(&block(0x1000, &[0xff, 0xe0]), 0x77, NEXT), BlockOutcome::IndirectJump);
        assert_eq!(resolve(&block(0x1000, &[0xff, 0xd0]), 0x77, NEXT), BlockOutcome::IndirectCall);
        assert_eq!(resolve(&block(0x1000, &[0xc3]), 0x77, NEXT), BlockOutcome::Return);
        assert_eq!(resolve(&block(0x1000, &[0x0f, 0x05]), 0x1002, NEXT), BlockOutcome::Syscall);
    }

    #[test]
    fn repeated_string_instruction() {
        let b = block(0x1000, &[0x90, 0xf3, 0xa4]);
        assert_eq!(resolve(&b, 0x1001, NEXT), BlockOutcome::RepeatAgain);
        assert_eq!(resolve(&b, 0x1003, NEXT), BlockOutcome::Sequential);
        // An interrupted string instruction has not retired.
        assert_eq!(resolve(&b, 0x1001, Arrival::Interrupt), BlockOutcome::Cut(1));
        assert_eq!(resolve(&b, 0x1003, Arrival::Interrupt), BlockOutcome::Sequential);
    }

    #[test]
    fn restart_is_read_before_the_branch_rules() {
        // lock cmpxchg [rbx], rcx; jne to the cmpxchg itself
        let b = block(0x1000, &[0x90, 0xf0, 0x48, 0x0f, 0xb1, 0x0b, 0x75, 0xf9]);
        assert_eq!(b.target, 0x1001);
        assert_eq!(resolve(&b, 0x1001, RESTART), BlockOutcome::Cut(1));
        assert_eq!(resolve(&b, 0x1001, NEXT), BlockOutcome::Conditional { taken: true });
        assert_eq!(resolve(&b, 0x1000 + 8, RESTART), BlockOutcome::Conditional { taken: false });
    }

    #[test]
    fn cut_short_without_restart_mark() {
        let b = block(0x1000, &[0x90, 0x90, 0xeb, 0x10]);
        assert_eq!(resolve(&b, 0x1001, NEXT), BlockOutcome::Cut(1));
        assert_eq!(resolve(&b, 0x1000, NEXT), BlockOutcome::Cut(0));
    }

    #[test]
    fn a_fault_prefers_the_reading_inside_the_block() {
        // A block that branches to itself and whose first instruction faults: it was not left
        // by its branch before the fault.
        let b = block(0x1000, &[0x8b, 0x03, 0x75, 0xfc]);
        assert_eq!(b.target, 0x1000);
        assert_eq!(resolve(&b, 0x1000, Arrival::Fault), BlockOutcome::Cut(0));
        assert_eq!(resolve(&b, 0x1000, Arrival::Interrupt), BlockOutcome::Conditional { taken: true });
        // The instruction fetch faults at the successor: the block itself is complete.
        assert_eq!(resolve(&b, 0x1004, Arrival::Fault), BlockOutcome::Conditional { taken: false });
    }
}
