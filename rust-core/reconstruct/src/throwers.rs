//! Which bytecode of a block may have thrown, where compiled code throws without a call.
//!
//! C2 branches to a handler of the same compilation unit without leaving its code: after an `athrow`, and for
//! exceptions it has prepared (`GraphKit::builtin_throw`). Every other exception comes out of a call or a fault,
//! whose debug info names the bytecode.

use crate::code_map::{CodeMap, Step};
use crate::frame::Position;
use crate::machine::Shared;
use jportal_bytecode::{Method, Opcode, Transfer};
use jportal_units::Bci;

/// The bytecodes that may have thrown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Throwers {
    /// None of them can.
    Nobody,
    /// One; the bytecodes from behind the position up to it.
    Only(Box<[Bci]>),
    /// More than one.
    Several,
    /// One of them, or a callee that should have shown.
    Hidden,
}

/// Which bytecodes may have thrown what reached the handler `to` (`None`: what left the frame), when control was
/// at `at` and has not left its block. `called`: the call of the bytecode there has come back.
pub(crate) fn throwers(shared: &Shared<'_>, at: Position, called: bool, to: Option<Bci>) -> Throwers {
    let (Some(m), Some(map), Some(from)) = (shared.maps.method(at.method), shared.maps.of(at.method), at.bci)
    else {
        return Throwers::Several;
    };
    let (mut found, mut hidden, mut path) = (Throwers::Nobody, false, Vec::new());
    let mut bci = from;
    while let Some(step) = map.step(bci) {
        if !path.is_empty() || !called {
            hidden |= step.transfer == Transfer::Invoke && !shared.may_be_silent(at.method, bci);
            if may_throw(m, map, bci, step) && reaches(m, bci, to) {
                found = match found {
                    _ if hidden => Throwers::Hidden,
                    Throwers::Nobody => Throwers::Only(path.as_slice().into()),
                    _ => Throwers::Several,
                };
            }
        }
        if !matches!(step.transfer, Transfer::None | Transfer::Invoke) {
            break;
        }
        bci = step.next;
        path.push(bci);
    }
    found
}

/// Whether an exception at `bci` may be caught at `to`, or leave the frame.
pub(crate) fn reaches(m: &Method, bci: Bci, to: Option<Bci>) -> bool {
    let mut covering = m.exceptions.iter().filter(|e| (e.start..e.end).contains(&bci));
    match to {
        Some(to) => covering.any(|e| e.handler == to),
        None => !covering.any(|e| e.catch_type.is_none()),
    }
}

/// Whether compiled code may throw for the bytecode without a call: for `null`, a division by zero, an index, a
/// class.
fn may_throw(m: &Method, map: &CodeMap, bci: Bci, step: &Step) -> bool {
    match step.opcode.0 {
        // Loads from and stores to arrays, integer division.
        46..=53 | 79..=86 | 108 | 109 | 112 | 113 => true,
        _ => match step.opcode {
            Opcode::GETFIELD => !is_this(m, map, bci),
            Opcode::PUTFIELD => before(map, bci).is_none_or(|value| {
                !is_simple_push(map, value)
                    || map.step(bci).is_none_or(|s| s.leader)
                    || !is_this(m, map, value)
            }),
            Opcode::ARRAYLENGTH
            | Opcode::ATHROW
            | Opcode::CHECKCAST
            | Opcode::MONITORENTER
            | Opcode::MONITOREXIT => true,
            _ => step.transfer == Transfer::Invoke,
        },
    }
}

/// The bytecode whose next one is at `bci`.
fn before(map: &CodeMap, bci: Bci) -> Option<Bci> {
    const LONGEST: u16 = 5;
    let candidates = (1..=LONGEST).filter_map(|n| bci.0.checked_sub(n)).map(Bci);
    candidates.into_iter().find(|&b| map.step(b).is_some_and(|s| s.next == bci))
}

/// Whether the object on top of the stack in front of `bci` is the receiver of the method, which is not `null`.
fn is_this(m: &Method, map: &CodeMap, bci: Bci) -> bool {
    const ACC_STATIC: u32 = 0x8;
    let pushes_local_0 = |b: Bci| m.code.get(usize::from(b.0)) == Some(&Opcode::ALOAD_0.0);
    let falls_through = map.step(bci).is_some_and(|s| !s.leader);
    m.access_flags & ACC_STATIC == 0
        && falls_through
        && before(map, bci).is_some_and(pushes_local_0)
        && !map.overwrites_local_0
}

/// Whether the bytecode pushes a constant or a local variable, and control does not jump to it.
fn is_simple_push(map: &CodeMap, bci: Bci) -> bool {
    map.step(bci).is_some_and(|s| matches!(s.opcode.0, 1..=45) && !s.leader)
}
