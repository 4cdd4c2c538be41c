//! Finding the frame that QEMU pushed for a signal handler.
//!
//! QEMU tells a plugin nothing about signals. But a handler's first store to its stack lies at a
//! known distance below the frame, and the frame names the interrupted instruction. The emulator
//! therefore looks, when a handler is installed, for the handler's first `push` or `call`, and
//! puts a memory callback on that one instruction.
//!
//! Offsets are those of the x86-64 `rt_sigframe` (`linux-user/i386/signal.c` in QEMU 7.2, equal to
//! the kernel's): return address, `ucontext` (flags, link, stack, `sigcontext` with the 16 general
//! registers in the order r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, then rip), `siginfo`.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

const FRAME_RSP: u64 = 168;
const FRAME_RIP: u64 = 176;
const FRAME_SIGINFO: u64 = 312;
const SIGINFO_CODE: u64 = 8;
/// How many instructions of a handler are searched for its first stack store.
const SEARCH_LIMIT: usize = 32;
/// How many frames on top of one another are followed.
const NESTED_LIMIT: usize = 64;

/// Read access to guest memory.
pub trait GuestMemory {
    /// Copies the bytes at guest address `at`; false when they cannot be read.
    fn read(&self, at: u64, to: &mut [u8]) -> bool;

    /// The little-endian word at `at`.
    fn word(&self, at: u64) -> Option<u64> {
        let mut b = [0; 8];
        self.read(at, &mut b).then(|| u64::from_le_bytes(b))
    }
}

/// The instruction of a handler that first stores to the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackStore {
    /// Address of the `push` or `call`.
    pub instruction: u64,
    /// Distance from the stored word up to the signal frame.
    pub distance: u64,
}

/// Searches straight-line code and jumps with a known target from `entry` for the first stack
/// store. A jump through the procedure linkage table has one: `jmp [rip+n]` to the address that
/// the loader has bound (a library linked with `-z now`, as libjvm is).
///
/// `None` when there is another branch before it or when the search runs too long.
pub fn first_stack_store(memory: &impl GuestMemory, entry: u64) -> Option<StackStore> {
    let mut at = entry;
    let mut moved = 0u64;
    for _ in 0..SEARCH_LIMIT {
        let insn = fetch(memory, at)?;
        match insn.mnemonic() {
            Mnemonic::Push | Mnemonic::Call => {
                return Some(StackStore { instruction: at, distance: moved.wrapping_add(8) });
            }
            Mnemonic::Sub if moves_stack_pointer(&insn) => moved = moved.wrapping_add(insn.immediate(1)),
            _ => {}
        }
        at = match insn.flow_control() {
            FlowControl::Next => insn.next_ip(),
            FlowControl::UnconditionalBranch => insn.near_branch_target(),
            FlowControl::IndirectBranch if insn.is_ip_rel_memory_operand() => {
                memory.word(insn.ip_rel_memory_address())?
            }
            _ => return None,
        };
    }
    None
}

fn fetch(memory: &impl GuestMemory, at: u64) -> Option<Instruction> {
    let mut bytes = [0u8; 15];
    // Near the end of a mapping fewer bytes than the longest instruction can be read.
    let n = (1..=15).rev().find(|&n| memory.read(at, &mut bytes[..n]))?;
    let insn = Decoder::with_ip(64, &bytes[..n], at, DecoderOptions::NONE).decode();
    (!insn.is_invalid()).then_some(insn)
}

fn moves_stack_pointer(insn: &Instruction) -> bool {
    insn.op0_kind() == OpKind::Register
        && insn.op0_register() == Register::RSP
        && !matches!(insn.op1_kind(), OpKind::Register | OpKind::Memory)
}

/// What a signal interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted {
    /// The instruction that was about to execute, or that faulted.
    pub rip: u64,
    /// The signal was raised by that very instruction.
    pub fault: bool,
    /// How many further handlers were entered without executing an instruction.
    pub nested: usize,
}

/// Reads the frame at `frame`. Where it interrupted the entry of another handler (several signals
/// taken at once), the older frame is followed.
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

/// Kernel-generated codes are positive (`siginfo_t`, `SI_FROMKERNEL`).
fn raised_by_instruction(signal: i32, code: i32) -> bool {
    code > 0 && matches!(signal, libc::SIGILL | libc::SIGTRAP | libc::SIGBUS | libc::SIGFPE | libc::SIGSEGV)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct Bytes(HashMap<u64, u8>);

    impl Bytes {
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

    impl GuestMemory for Bytes {
        fn read(&self, at: u64, to: &mut [u8]) -> bool {
            to.iter_mut().enumerate().all(|(i, b)| self.0.get(&(at + i as u64)).map(|v| *b = *v).is_some())
        }
    }

    #[test]
    fn a_push_at_the_entry() {
        let mut m = Bytes::default();
        m.put(0x1000, &[0x55]);
        assert_eq!(first_stack_store(&m, 0x1000), Some(StackStore { instruction: 0x1000, distance: 8 }));
    }

    #[test]
    fn a_push_behind_the_linkage_table() {
        // mov ecx, 1; jmp to the slot; jmp [rip + 0x100]; push rbp at the bound address
        let mut m = Bytes::default();
        m.put(0x1000, &[0xb9, 1, 0, 0, 0, 0xeb, 0x10]).put(0x1017, &[0xff, 0x25, 0x00, 0x01, 0, 0]);
        m.put_word(0x111d, 0x5000).put(0x5000, &[0x55]);
        assert_eq!(first_stack_store(&m, 0x1000), Some(StackStore { instruction: 0x5000, distance: 8 }));
    }

    #[test]
    fn a_push_behind_a_tail_jump() {
        // mov ecx, 1; jmp +0x10; ... push r15
        let mut m = Bytes::default();
        m.put(0x1000, &[0xb9, 1, 0, 0, 0, 0xeb, 0x10]).put(0x1017, &[0x41, 0x57]);
        assert_eq!(first_stack_store(&m, 0x1000), Some(StackStore { instruction: 0x1017, distance: 8 }));
    }

    #[test]
    fn a_call_below_a_stack_adjustment() {
        // sub rsp, 0x28; call
        let mut m = Bytes::default();
        m.put(0x1000, &[0x48, 0x83, 0xec, 0x28, 0xe8, 0, 0, 0, 0]);
        assert_eq!(first_stack_store(&m, 0x1000), Some(StackStore { instruction: 0x1004, distance: 0x30 }));
    }

    #[test]
    fn nothing_behind_a_branch() {
        let mut m = Bytes::default();
        m.put(0x1000, &[0x75, 0x10, 0x55]).put(0x2000, &[0xc3]);
        assert_eq!(first_stack_store(&m, 0x1000), None);
        assert_eq!(first_stack_store(&m, 0x2000), None);
        assert_eq!(first_stack_store(&m, 0x3000), None, "unmapped");
    }

    #[test]
    fn an_endless_jump_ends_the_search() {
        let mut m = Bytes::default();
        m.put(0x1000, &[0xeb, 0xfe]);
        assert_eq!(first_stack_store(&m, 0x1000), None);
    }

    #[test]
    fn fault_and_asynchronous_frames() {
        let mut m = Bytes::default();
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
        let mut m = Bytes::default();
        m.frame(0x8000, 0x7000, 0x8800, libc::SIGUSR1, 0).frame(0x8800, 0x1234, 0x9000, libc::SIGBUS, 2);
        assert_eq!(
            read_frame(&m, 0x8000, |a| a == 0x7000),
            Some(Interrupted { rip: 0x1234, fault: true, nested: 1 })
        );
    }

    #[test]
    fn a_cycle_of_frames_ends() {
        let mut m = Bytes::default();
        m.frame(0x8000, 0x7000, 0x8000, 0, 0);
        assert_eq!(read_frame(&m, 0x8000, |a| a == 0x7000), None);
    }
}
