// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the frame that QEMU pushed for a signal handler.
//!
//! QEMU reports no signals to a plugin. But a handler's first access to its stack lies at a
//! known distance below the frame, and the frame contains the address of the interrupted
//! instruction. When a handler is installed, the emulator therefore searches every path from
//! its entry for the first `push`, `call` or `ret`, and puts a memory callback on those
//! instructions. (At a `ret`, a handler may already have changed the frame. Only handlers
//! without any push or call are read at a `ret`.)
//!
//! Offsets are those of the x86-64 `rt_sigframe` (`linux-user/i386/signal.c` in QEMU 7.2, equal to
//! the kernel's): return address, `ucontext` (flags, link, stack, `sigcontext` with the 16 general
//! registers in the order r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, then rip), `siginfo`.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

const FRAME_RSP: u64 = 168;
const FRAME_RIP: u64 = 176;
const FRAME_SIGINFO: u64 = 312;
const SIGINFO_CODE: u64 = 8;
/// Maximum number of instructions of a handler that are searched.
const SEARCH_LIMIT: usize = 96;
/// Maximum number of nested frames that are followed.
const NESTED_LIMIT: usize = 64;

/// Read access to guest memory.
pub trait GuestMemory {
    /// Copies the bytes at guest address `at` into `to`; false if they cannot be read.
    fn read(&self, at: u64, to: &mut [u8]) -> bool;

    /// The little-endian word at `at`.
    fn word(&self, at: u64) -> Option<u64> {
        let mut b = [0; 8];
        self.read(at, &mut b).then(|| u64::from_le_bytes(b))
    }
}

/// An instruction of a handler that is the first to use the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackAccess {
    /// Address of the instruction.
    pub instruction: u64,
    /// Distance from the word it accesses up to the signal frame.
    pub distance: u64,
    /// Whether it reads (`ret`); otherwise it writes (`push`, `call`).
    pub reads: bool,
}

/// The first stack accesses of a handler.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prologue {
    /// One per path, without duplicates.
    pub accesses: Vec<StackAccess>,
    /// Whether every path from the entry leads to one of them.
    pub complete: bool,
}

/// Follows every path of direct branches and linkage-table jumps from `entry` to its first
/// stack access.
pub fn prologue(memory: &impl GuestMemory, entry: u64) -> Prologue {
    let mut found = Prologue { accesses: Vec::new(), complete: true };
    let mut open = vec![(entry, 0u64)];
    let mut seen = std::collections::HashSet::new();
    while let Some((at, moved)) = open.pop() {
        if !seen.insert((at, moved)) {
            continue;
        }
        let insn = if seen.len() <= SEARCH_LIMIT { fetch(memory, at) } else { None };
        match insn.map_or(PrologueStep::Unknown, |i| step(memory, &i, moved)) {
            PrologueStep::Access(access) => {
                if !found.accesses.contains(&access) {
                    found.accesses.push(access);
                }
            }
            PrologueStep::Goes(next) => open.extend(next),
            PrologueStep::Unknown => found.complete = false,
        }
    }
    found
}

enum PrologueStep {
    Access(StackAccess),
    /// Execution continues at one of these addresses, each with the distance of the stack
    /// pointer below the frame.
    Goes(Vec<(u64, u64)>),
    Unknown,
}

fn step(memory: &impl GuestMemory, insn: &Instruction, moved: u64) -> PrologueStep {
    let access =
        |distance, reads| PrologueStep::Access(StackAccess { instruction: insn.ip(), distance, reads });
    match insn.mnemonic() {
        Mnemonic::Push | Mnemonic::Call => return access(moved.wrapping_add(8), false),
        Mnemonic::Ret => return access(moved, true),
        Mnemonic::Sub if changes_stack_pointer(insn) && immediate_operand(insn) => {
            return PrologueStep::Goes(vec![(insn.next_ip(), moved.wrapping_add(insn.immediate(1)))]);
        }
        _ if changes_stack_pointer(insn) => return PrologueStep::Unknown,
        _ => {}
    }
    match insn.flow_control() {
        FlowControl::Next => PrologueStep::Goes(vec![(insn.next_ip(), moved)]),
        FlowControl::UnconditionalBranch => PrologueStep::Goes(vec![(insn.near_branch_target(), moved)]),
        FlowControl::ConditionalBranch => {
            PrologueStep::Goes(vec![(insn.next_ip(), moved), (insn.near_branch_target(), moved)])
        }
        // A jump through the procedure linkage table.
        FlowControl::IndirectBranch if insn.is_ip_rel_memory_operand() => {
            match memory.word(insn.ip_rel_memory_address()) {
                Some(target) => PrologueStep::Goes(vec![(target, moved)]),
                None => PrologueStep::Unknown,
            }
        }
        _ => PrologueStep::Unknown,
    }
}

fn fetch(memory: &impl GuestMemory, at: u64) -> Option<Instruction> {
    let mut bytes = [0u8; 15];
    // Near the end of a mapping, fewer bytes than those of the longest instruction may be
    // readable.
    let n = (1..=15).rev().find(|&n| memory.read(at, &mut bytes[..n]))?;
    let insn = Decoder::with_ip(64, &bytes[..n], at, DecoderOptions::NONE).decode();
    (!insn.is_invalid()).then_some(insn)
}

/// Whether the instruction writes RSP. `cmp` and `test` also have a register as their first
/// operand, but do not write it.
fn changes_stack_pointer(insn: &Instruction) -> bool {
    insn.op_count() > 0
        && insn.op0_kind() == OpKind::Register
        && insn.op0_register() == Register::RSP
        && !matches!(insn.mnemonic(), Mnemonic::Cmp | Mnemonic::Test)
}

fn immediate_operand(insn: &Instruction) -> bool {
    !matches!(insn.op1_kind(), OpKind::Register | OpKind::Memory)
}

/// What a signal interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted {
    /// The instruction that was about to execute, or that faulted.
    pub rip: u64,
    /// Whether that instruction raised the signal.
    pub fault: bool,
    /// Number of further handlers that were entered without executing an instruction.
    pub nested: usize,
}

/// Reads the frame at `frame`. If the signal interrupted the entry of another handler (several
/// signals taken at once), the older frame is followed.
pub fn read_frame(
    memory: &impl GuestMemory,
    mut frame: u64,
    is_handler: impl Fn(u64) -> bool,
) -> Option<Interrupted> {
    for nested in 0..NESTED_LIMIT {
        let rip = memory.word(frame.wrapping_add(FRAME_RIP))?;
        if is_handler(rip) {
            frame = memory.word(frame.wrapping_add(FRAME_RSP))?;
            continue;
        }
        let info = frame.wrapping_add(FRAME_SIGINFO);
        let signal = memory.word(info)? as i32;
        let code = memory.word(info.wrapping_add(SIGINFO_CODE))? as i32;
        return Some(Interrupted { rip, fault: raised_by_instruction(signal, code), nested });
    }
    None
}

/// Whether the instruction raised the signal. Codes generated by the kernel are positive
/// (`siginfo_t`, `SI_FROMKERNEL`).
fn raised_by_instruction(signal: i32, code: i32) -> bool {
    code > 0 && matches!(signal, libc::SIGILL | libc::SIGTRAP | libc::SIGBUS | libc::SIGFPE | libc::SIGSEGV)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct FakeMemory(HashMap<u64, u8>);

    impl FakeMemory {
        fn put(&mut self, at: u64, bytes: &[u8]) -> &mut Self {
            for (i, &b) in bytes.iter().enumerate() {
                self.0.insert(at + i as u64, b);
            }
            self
        }
        fn put_word(&mut self, at: u64, v: u64) -> &mut Self {
            self.put(at, &v.to_le_bytes())
        }
        fn frame(&mut self, at: u64, rip: u64, rsp: u64, signal: i32, code: i32) -> &mut Self {
            self.put_word(at + 168, rsp).put_word(at + 176, rip);
            self.put_word(at + 312, signal as u64).put_word(at + 320, code as u32 as u64)
        }
    }

    impl GuestMemory for FakeMemory {
        fn read(&self, at: u64, to: &mut [u8]) -> bool {
            to.iter_mut().enumerate().all(|(i, b)| self.0.get(&(at + i as u64)).map(|v| *b = *v).is_some())
        }
    }

    fn store(instruction: u64, distance: u64) -> StackAccess {
        StackAccess { instruction, distance, reads: false }
    }

    fn complete(accesses: &[StackAccess]) -> Prologue {
        Prologue { accesses: accesses.to_vec(), complete: true }
    }

    #[test]
    fn a_push_at_the_entry() {
        let mut m = FakeMemory::default();
        m.put(0x1000, &[0x55]);
        assert_eq!(prologue(&m, 0x1000), complete(&[store(0x1000, 8)]));
    }

    #[test]
    fn a_push_after_a_tail_jump() {
        // mov ecx, 1; jmp +0x10; ... push r15
        let mut m = FakeMemory::default();
        m.put(0x1000, &[0xb9, 1, 0, 0, 0, 0xeb, 0x10]).put(0x1017, &[0x41, 0x57]);
        assert_eq!(prologue(&m, 0x1000), complete(&[store(0x1017, 8)]));
    }

    #[test]
    fn a_call_below_a_stack_adjustment() {
        // sub rsp, 0x28; call
        let mut m = FakeMemory::default();
        m.put(0x1000, &[0x48, 0x83, 0xec, 0x28, 0xe8, 0, 0, 0, 0]);
        assert_eq!(prologue(&m, 0x1000), complete(&[store(0x1004, 0x30)]));
    }

    #[test]
    fn every_path_of_a_branch() {
        // cmp edi, 33; je +1; ret; push rbx
        let mut m = FakeMemory::default();
        m.put(0x1000, &[0x83, 0xff, 0x21, 0x74, 0x01, 0xc3, 0x53]);
        let at_return = StackAccess { instruction: 0x1005, distance: 0, reads: true };
        assert_eq!(prologue(&m, 0x1000), complete(&[store(0x1006, 8), at_return]));
    }

    #[test]
    fn a_jump_through_the_linkage_table() {
        // jmp [rip + 0x100]
        let mut m = FakeMemory::default();
        m.put(0x1000, &[0xff, 0x25, 0, 1, 0, 0]).put_word(0x1106, 0x5000).put(0x5000, &[0x55]);
        assert_eq!(prologue(&m, 0x1000), complete(&[store(0x5000, 8)]));
    }

    #[test]
    fn what_cannot_be_followed() {
        let mut m = FakeMemory::default();
        m.put(0x1000, &[0x48, 0x83, 0xe4, 0xf0, 0x55]); // and rsp, -16
        m.put(0x2000, &[0xff, 0xe0]); // jmp rax
        for entry in [0x1000, 0x2000, 0x3000] {
            assert_eq!(prologue(&m, entry), Prologue::default(), "{entry:#x}");
        }
    }

    #[test]
    fn an_endless_jump_ends_the_search() {
        let mut m = FakeMemory::default();
        m.put(0x1000, &[0xeb, 0xfe]);
        assert_eq!(prologue(&m, 0x1000), complete(&[]));
    }

    #[test]
    fn fault_and_asynchronous_frames() {
        let mut m = FakeMemory::default();
        m.frame(0x8000, 0x1234, 0x9000, libc::SIGSEGV, 1);
        m.frame(0xa000, 0x1234, 0x9000, libc::SIGSEGV, -6);
        m.frame(0xc000, 0x1234, 0x9000, libc::SIGUSR1, 1);
        let read = |at| read_frame(&m, at, |_| false);
        assert_eq!(read(0x8000), Some(Interrupted { rip: 0x1234, fault: true, nested: 0 }));
        assert_eq!(read(0xa000), Some(Interrupted { rip: 0x1234, fault: false, nested: 0 }), "tgkill");
        assert_eq!(
            read(0xc000),
            Some(Interrupted { rip: 0x1234, fault: false, nested: 0 }),
            "no fault signal"
        );
    }

    #[test]
    fn frames_stacked_without_running_code_are_followed() {
        let mut m = FakeMemory::default();
        m.frame(0x8000, 0x7000, 0x8800, libc::SIGUSR1, 0).frame(0x8800, 0x1234, 0x9000, libc::SIGBUS, 2);
        assert_eq!(
            read_frame(&m, 0x8000, |a| a == 0x7000),
            Some(Interrupted { rip: 0x1234, fault: true, nested: 1 })
        );
    }

    #[test]
    fn a_cycle_of_frames_ends() {
        let mut m = FakeMemory::default();
        m.frame(0x8000, 0x7000, 0x8000, 0, 0);
        assert_eq!(read_frame(&m, 0x8000, |a| a == 0x7000), None);
    }
}
