// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Calls by which compiled code has itself deoptimised, with the reason that the compiler gave.
//!
//! C2 calls the uncommon-trap blob with the trap request in `esi`
//! (`GraphKit::uncommon_trap`). C1 stores it at `[rsp]` before it calls the `deoptimize` stub
//! (`DeoptimizeStub::emit_code`). The request is a constant, so the code itself says the reason.

use hashbrown::HashMap;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register,
};
use jportal_capture::schema::blob_kinds;
use jportal_machine_flow::CodeHistory;
use jportal_units::CodeId;
use jportal_vm_image::{CodeBody, CodeVersion, VmImage};

use crate::recording::{MainCode, Recording, main_code};

/// A call with which compiled code deoptimises its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrapCall {
    /// Offset of the call's return address.
    pub returns: u32,
    /// HotSpot's trap request (`Deoptimization::make_trap_request`); `None` if it is no constant
    /// in the instructions before the call.
    pub request: Option<i32>,
}

/// The name of C1's stub for `Runtime1::deoptimize`.
const C1_STUB: &str = "deoptimize Runtime1 stub";

impl Recording {
    /// By code, the calls with which it deoptimises its frames, in ascending order of offsets.
    pub fn trap_calls(&self) -> HashMap<CodeId, Vec<TrapCall>> {
        trap_calls(self.image(), self.history())
    }
}

fn trap_calls(image: &VmImage, history: &CodeHistory) -> HashMap<CodeId, Vec<TrapCall>> {
    let trap = |version: &&CodeVersion| match &version.body {
        CodeBody::Blob { kind, name, .. } => *kind == blob_kinds::UNCOMMON_TRAP || &**name == C1_STUB,
        _ => false,
    };
    let stubs: Vec<u64> = image.codes().iter().filter(trap).map(|v| v.range.start.0).collect();
    let of = |code: MainCode<'_>| (code.version.id, calls_in(code.bytes, code.version.range.start.0, &stubs));
    main_code(image, history).map(of).collect()
}

/// The calls of `stubs` in code that is at `start`.
fn calls_in(bytes: &[u8], start: u64, stubs: &[u64]) -> Vec<TrapCall> {
    let mut info = InstructionInfoFactory::new();
    let mut calls = Vec::new();
    // The constants in `esi` and at `[rsp]`, while control has come from where they were set.
    let (mut register, mut stack) = (None, None);
    for i in &mut Decoder::with_ip(64, bytes, start, DecoderOptions::NONE) {
        if i.is_call_near() && stubs.contains(&i.near_branch_target()) {
            let returns = i.next_ip().wrapping_sub(start) as u32;
            calls.push(TrapCall { returns, request: register.or(stack) });
        }
        if i.flow_control() != FlowControl::Next {
            (register, stack) = (None, None);
        } else if let Some(request) = stored(&i) {
            stack = Some(request);
        } else if i.code() == Code::Mov_r32_imm32 && i.op0_register() == Register::ESI {
            register = Some(i.immediate32() as i32);
        } else if register.is_some() && writes_rsi(info.info(&i)) {
            register = None;
        }
    }
    calls
}

/// The constant that the instruction stores at `[rsp]`.
fn stored(i: &Instruction) -> Option<i32> {
    let at_top = i.memory_base() == Register::RSP
        && i.memory_index() == Register::None
        && i.memory_displacement64() == 0;
    let stores = matches!(i.code(), Code::Mov_rm64_imm32 | Code::Mov_rm32_imm32);
    (stores && at_top).then(|| i.immediate32to64() as i32)
}

fn writes_rsi(info: &iced_x86::InstructionInfo) -> bool {
    info.used_registers().iter().any(|used| {
        used.register().full_register() == Register::RSI
            && !matches!(used.access(), OpAccess::None | OpAccess::Read | OpAccess::CondRead)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000;
    const STUB: u64 = 0x2000;

    fn calls(code: &[&[u8]]) -> Vec<(u32, Option<i32>)> {
        let mut bytes = Vec::new();
        for part in code {
            bytes.extend(*part);
            // A call, the destination of which is set here.
            if part == &CALL {
                let at = bytes.len();
                let distance = (STUB as i64 - (START as i64 + at as i64)) as i32;
                bytes[at - 4..].copy_from_slice(&distance.to_le_bytes());
            }
        }
        calls_in(&bytes, START, &[STUB]).into_iter().map(|c| (c.returns, c.request)).collect()
    }

    const CALL: &[u8] = &[0xe8, 0, 0, 0, 0];
    /// `mov esi, -206`
    const REQUEST: &[u8] = &[0xbe, 0x32, 0xff, 0xff, 0xff];
    /// `mov qword [rsp], -12`
    const STORE: &[u8] = &[0x48, 0xc7, 0x04, 0x24, 0xf4, 0xff, 0xff, 0xff];

    #[test]
    fn the_request_is_the_constant_before_the_call() {
        let nop: &[u8] = &[0x90];
        let save: &[u8] = &[0x48, 0x89, 0x6c, 0x24, 0x08];
        assert_eq!(calls(&[REQUEST, nop, save, CALL]), [(16, Some(-206))]);
        assert_eq!(calls(&[STORE, CALL]), [(13, Some(-12))]);
    }

    #[test]
    fn a_request_that_is_not_certain_is_unknown() {
        // `mov rsi, rax`; a jump, after which control may come from elsewhere; another call.
        let (move_, jump): (&[u8], &[u8]) = (&[0x48, 0x89, 0xc6], &[0xeb, 0x00]);
        for between in [move_, jump] {
            assert_eq!(calls(&[REQUEST, between, CALL])[0].1, None);
        }
        let all = calls(&[REQUEST, CALL, CALL]);
        assert_eq!(all, [(10, Some(-206)), (15, None)]);
        assert_eq!(calls(&[REQUEST, &[0xe8, 1, 0, 0, 0]]), []);
    }
}
