// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which bytecodes can make compiled code do what it did.
//!
//! A block often has several bytecodes, and markers do not say at which of them control is. What
//! control does there says more: a call of `A.f()V` is that of an invoke of `f()V`.

use jportal_bytecode::{InvokeRef, Method, Opcode, Transfer};
use jportal_capture::schema::blob_kinds;
use jportal_vm_image::{CodeBody, CodeVersion};

/// What compiled code did at a state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed<'a> {
    /// Called this method.
    Calls(&'a Method),
    /// Called this stub.
    Enters(&'a str),
    /// Called or left in a way that any bytecode may cause.
    Anything,
    /// Polled.
    Polls,
    /// Threw.
    Throws,
    /// Executed an instruction that may fault.
    MayFault,
}

/// Whether a state is needed where compiled code calls `stub`. Stub routines (array copies,
/// barriers) are leaves: the VM never looks at a frame that calls one.
pub(crate) fn needs_state(stub: &CodeVersion) -> bool {
    match &stub.body {
        CodeBody::Blob { kind, name, .. } => match *kind {
            blob_kinds::RUNTIME_STUB => !is_leaf(name),
            blob_kinds::DEOPTIMIZATION | blob_kinds::UNCOMMON_TRAP | blob_kinds::SAFEPOINT => true,
            _ => false,
        },
        _ => false,
    }
}

/// C1's stubs that look at no frame (`Runtime1::generate_code_for`: no oop map), and those
/// whose state is not that of their return address: C1 records the position of an `athrow`
/// before the call that throws (`LIR_Assembler::throw_op`).
fn is_leaf(stub: &str) -> bool {
    const LEAVES: [&str; 8] = [
        "fpu2long",
        "slow_subtype_check",
        "handle_exception",
        "forward_exception",
        "unwind_exception",
        "dtrace",
        "monitorexit",
        // G1's `g1_pre_barrier_slow` and `g1_post_barrier_slow`.
        "_barrier_slow",
    ];
    LEAVES.iter().any(|name| stub.contains(name))
}

/// Whether the stub throws or passes on the exception of a callee.
pub(crate) fn rethrows(stub: &str) -> bool {
    ["rethrow", "handle_exception", "unwind_exception"].iter().any(|name| stub.contains(name))
}

/// Whether the bytecode of `method` with this opcode can do this. `None` for the opcode: the
/// state before the first bytecode.
pub(crate) fn can_do(
    method: Option<&Method>,
    (bci, opcode): (Option<u16>, Option<Opcode>),
    deed: Deed<'_>,
) -> bool {
    let Some(opcode) = opcode else { return can_do_at_entry(deed) };
    match deed {
        Deed::Anything => true,
        Deed::Calls(callee) => {
            opcode.transfer() == Transfer::Invoke
                && bci.is_some_and(|bci| {
                    let target = method.and_then(|m| m.invoke_at(jportal_units::Bci(bci)));
                    target.is_none_or(|target| may_call(opcode, target, callee))
                })
        }
        // An intrinsic or a concatenation of strings does what other bytecodes do elsewhere.
        Deed::Enters(_) if opcode.transfer() == Transfer::Invoke => true,
        Deed::Enters(stub) => enters(stub, opcode),
        // The poll before a return has no state (`C1SafepointPollStub`, `C2SafepointPollStub`).
        Deed::Polls => matches!(
            opcode.transfer(),
            Transfer::If | Transfer::Goto | Transfer::Switch | Transfer::Jsr | Transfer::Ret
        ),
        Deed::Throws => opcode.transfer() == Transfer::Throw,
        Deed::MayFault => may_fault(opcode),
    }
}

/// Before its first bytecode, a method locks its monitor and counts its invocation.
fn can_do_at_entry(deed: Deed<'_>) -> bool {
    match deed {
        Deed::Enters(stub) => {
            ["monitor", "lock", "counter_overflow", "deoptimize"].iter().any(|name| stub.contains(name))
        }
        Deed::Anything | Deed::MayFault => true,
        Deed::Calls(_) | Deed::Polls | Deed::Throws => false,
    }
}

/// Whether the invoke may call `callee`. The methods of `MethodHandle` and `VarHandle`, and
/// `invokedynamic`, may call any method.
fn may_call(opcode: Opcode, target: &InvokeRef, callee: &Method) -> bool {
    const INVOKEDYNAMIC: u8 = 186;
    let polymorphic =
        matches!(&*target.class_name, "java/lang/invoke/MethodHandle" | "java/lang/invoke/VarHandle");
    opcode.0 == INVOKEDYNAMIC
        || polymorphic
        || target.name == callee.name && target.signature == callee.signature
}

/// Whether a bytecode that is no invoke may enter the stub. A stub without a row may be
/// entered by any.
fn enters(stub: &str, opcode: Opcode) -> bool {
    let known = STUBS.iter().filter(|(name, _)| stub.contains(name));
    let mut rows = known.peekable();
    rows.peek().is_none() || rows.any(|(_, opcodes)| opcodes.contains(&opcode.0))
}

const BRANCHES: &[u8] = &[
    153, 154, 155, 156, 157, 158, 159, 160, 161, 162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 198, 199,
    200, 201,
];
const LDC: [u8; 3] = [18, 19, 20];
const NEW: u8 = 187;
const CHECKCAST: u8 = 192;
const INSTANCEOF: u8 = 193;
const MULTIANEWARRAY: u8 = 197;

/// Stubs, by a part of their names, and the opcodes other than invokes that enter them.
const STUBS: &[(&str, &[u8])] = &[
    ("new_instance", &[NEW]),
    ("new_type_array", &[188]),
    ("new_object_array", &[189]),
    // C2's `_new_array_Java` and `_new_array_nozero_Java`.
    ("new_array", &[188, 189]),
    ("new_multi_array", &[MULTIANEWARRAY]),
    ("multianewarray", &[MULTIANEWARRAY]),
    ("monitorenter", &[194]),
    ("complete_monitor_locking", &[194]),
    ("monitorexit", &[195, 172, 173, 174, 175, 176, 177]),
    ("counter_overflow", BRANCHES),
    ("resolve_", &[]),
    ("ic_miss", &[]),
    ("wrong_method", &[]),
    ("access_field_patching", &[178, 179, 180, 181]),
    ("load_klass_patching", &[NEW, 189, CHECKCAST, INSTANCEOF, MULTIANEWARRAY, LDC[0], LDC[1], LDC[2]]),
    ("load_mirror_patching", &[178, 179, LDC[0], LDC[1], LDC[2]]),
    ("load_appendix_patching", &[]),
    ("throw_range_check_failed", &[46, 47, 48, 49, 50, 51, 52, 53, 79, 80, 81, 82, 83, 84, 85, 86]),
    ("throw_div0", &[108, 109, 112, 113]),
    ("throw_array_store", &[83]),
    ("throw_class_cast", &[CHECKCAST]),
];

/// Whether an access to memory of the bytecode may be the null check of an object, or its
/// division one by zero.
fn may_fault(opcode: Opcode) -> bool {
    match opcode.0 {
        // Array loads and stores, `arraylength`.
        46..=53 | 79..=86 | 190 => true,
        // Fields. C1 patches code of static ones.
        178..=181 => true,
        // Divisions.
        108 | 109 | 112 | 113 => true,
        // Receivers, `athrow`, monitors.
        182..=186 | 191 | 194 | 195 => true,
        // Returns and branches unlock or poll.
        153..=177 | 198..=201 => true,
        CHECKCAST | INSTANCEOF | NEW => true,
        _ => false,
    }
}
