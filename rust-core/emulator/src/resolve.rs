// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Determines how the block that began last ended, from the thread's next address.
//!
//! QEMU calls the plugin when a block *begins*. The block may end early: by a fault, or by a
//! restart inside the block, which QEMU makes for reasons of its own. An outcome is therefore
//! decided only when the next address is known. It is a pure function of the block, that
//! address and the way in which the thread arrived at the address.

use crate::block::{Block, End};

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
pub enum Outcome {
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
pub fn resolve(block: &Block, next: u64, arrival: Arrival) -> Outcome {
    match arrival {
        // A loop may branch to the instruction at which QEMU restarted, so the restart is tried
        // before the branch rules. The same holds for a fault: a block that branches to itself
        // may fault.
        Arrival::Block { restart: true } | Arrival::Fault => match block.index_of(next) {
            Some(n) => Outcome::Cut(n),
            None => completed(block, next),
        },
        // QEMU takes asynchronous signals only between blocks. So the block is complete, except
        // that an interrupted string instruction has not retired.
        Arrival::Interrupt if block.kind == End::Repeat && next == block.last => {
            Outcome::Cut(block.len() - 1)
        }
        Arrival::Block { restart: false } | Arrival::Interrupt => match completed(block, next) {
            Outcome::Unexplained => block.index_of(next).map_or(Outcome::Unexplained, Outcome::Cut),
            o => o,
        },
    }
}

/// The outcome if every instruction of `block` retired.
fn completed(block: &Block, next: u64) -> Outcome {
    completed_then(block, next, |o| o)
}

/// Calls `done` with the outcome if every instruction of `block` retired. Each outcome has its
/// own call of `done`, so that the compiler can merge the decision and the encoding into one
/// branch on the path of every executed block.
#[inline(always)]
pub fn completed_then<R>(block: &Block, next: u64, done: impl FnOnce(Outcome) -> R) -> R {
    let falls = next == block.end;
    match block.kind {
        // If the target is the next instruction, the direction cannot be observed. It counts as
        // taken.
        End::Conditional if next == block.target => done(Outcome::Conditional { taken: true }),
        End::Conditional if falls => done(Outcome::Conditional { taken: false }),
        End::Sequential | End::Other | End::Repeat if falls => done(Outcome::Sequential),
        End::Repeat if next == block.last => done(Outcome::RepeatAgain),
        End::Jump | End::CallNext if next == block.target => done(Outcome::Jump),
        End::Call if next == block.target => done(Outcome::Call),
        End::IndirectJump => done(Outcome::IndirectJump),
        End::IndirectCall => done(Outcome::IndirectCall),
        End::Return => done(Outcome::Return),
        End::Syscall => done(Outcome::Syscall),
        _ => done(Outcome::Unexplained),
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
        assert_eq!(resolve(&b, 0x1002, NEXT), Outcome::Sequential);
        assert_eq!(resolve(&b, 0x5000, NEXT), Outcome::Unexplained);
    }

    #[test]
    fn conditional_both_ways() {
        let b = block(0x1000, &[0x90, 0x75, 0x10]);
        assert_eq!(resolve(&b, 0x1013, NEXT), Outcome::Conditional { taken: true });
        assert_eq!(resolve(&b, 0x1003, NEXT), Outcome::Conditional { taken: false });
        assert_eq!(resolve(&b, 0x2000, NEXT), Outcome::Unexplained);
    }

    #[test]
    fn conditional_to_the_next_instruction_counts_as_taken() {
        let b = block(0x1000, &[0x75, 0x00]);
        assert_eq!(resolve(&b, 0x1002, NEXT), Outcome::Conditional { taken: true });
    }

    #[test]
    fn direct_branches_must_reach_their_target() {
        assert_eq!(resolve(&block(0x1000, &[0xeb, 0x10]), 0x1012, NEXT), Outcome::Jump);
        assert_eq!(resolve(&block(0x1000, &[0xeb, 0x10]), 0x1013, NEXT), Outcome::Unexplained);
        assert_eq!(resolve(&block(0x1000, &[0xe8, 0, 1, 0, 0]), 0x1105, NEXT), Outcome::Call);
    }

    #[test]
    fn call_to_the_next_instruction_stays_off_the_return_stack() {
        assert_eq!(resolve(&block(0x1000, &[0xe8, 0, 0, 0, 0]), 0x1005, NEXT), Outcome::Jump);
    }

    #[test]
    fn indirect_branches_go_anywhere() {
        assert_eq!(resolve(&block(0x1000, &[0xff, 0xe0]), 0x77, NEXT), Outcome::IndirectJump);
        assert_eq!(resolve(&block(0x1000, &[0xff, 0xd0]), 0x77, NEXT), Outcome::IndirectCall);
        assert_eq!(resolve(&block(0x1000, &[0xc3]), 0x77, NEXT), Outcome::Return);
        assert_eq!(resolve(&block(0x1000, &[0x0f, 0x05]), 0x1002, NEXT), Outcome::Syscall);
    }

    #[test]
    fn repeated_string_instruction() {
        let b = block(0x1000, &[0x90, 0xf3, 0xa4]);
        assert_eq!(resolve(&b, 0x1001, NEXT), Outcome::RepeatAgain);
        assert_eq!(resolve(&b, 0x1003, NEXT), Outcome::Sequential);
        // An interrupted string instruction has not retired.
        assert_eq!(resolve(&b, 0x1001, Arrival::Interrupt), Outcome::Cut(1));
        assert_eq!(resolve(&b, 0x1003, Arrival::Interrupt), Outcome::Sequential);
    }

    #[test]
    fn restart_is_read_before_the_branch_rules() {
        // lock cmpxchg [rbx], rcx; jne to the cmpxchg itself
        let b = block(0x1000, &[0x90, 0xf0, 0x48, 0x0f, 0xb1, 0x0b, 0x75, 0xf9]);
        assert_eq!(b.target, 0x1001);
        assert_eq!(resolve(&b, 0x1001, RESTART), Outcome::Cut(1));
        assert_eq!(resolve(&b, 0x1001, NEXT), Outcome::Conditional { taken: true });
        assert_eq!(resolve(&b, 0x1000 + 8, RESTART), Outcome::Conditional { taken: false });
    }

    #[test]
    fn cut_short_without_restart_mark() {
        let b = block(0x1000, &[0x90, 0x90, 0xeb, 0x10]);
        assert_eq!(resolve(&b, 0x1001, NEXT), Outcome::Cut(1));
        assert_eq!(resolve(&b, 0x1000, NEXT), Outcome::Cut(0));
    }

    #[test]
    fn a_fault_prefers_the_reading_inside_the_block() {
        // A block that branches to itself and whose first instruction faults: it was not left
        // by its branch before the fault.
        let b = block(0x1000, &[0x8b, 0x03, 0x75, 0xfc]);
        assert_eq!(b.target, 0x1000);
        assert_eq!(resolve(&b, 0x1000, Arrival::Fault), Outcome::Cut(0));
        assert_eq!(resolve(&b, 0x1000, Arrival::Interrupt), Outcome::Conditional { taken: true });
        // The instruction fetch faults at the successor: the block itself is complete.
        assert_eq!(resolve(&b, 0x1004, Arrival::Fault), Outcome::Conditional { taken: false });
    }
}
