// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the bytecode of a block that may have thrown, where compiled code throws without a
//! call.
//!
//! After an `athrow`, compiled code reaches a handler of the same compilation unit, or unwinds,
//! without leaving the code. C2 code does the same for exceptions that C2 has prepared
//! (`GraphKit::builtin_throw`). The VM reports where those are
//! (`ambiguities::PREPARED_EXCEPTION`), or C2 does without them. Every other exception comes
//! from a call (an uncommon trap, a stub of C1) or a fault, whose debug info names the
//! bytecode.

use crate::code_map::DispatchStep;
use crate::frame::Position;
use crate::machine::Shared;
use jportal_bytecode::{Method, Opcode, Transfer};
use jportal_units::Bci;

/// What may throw without a call in the code in question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Thrown {
    /// Only `athrow`.
    Athrow,
    /// Exceptions prepared by C2 as well.
    Prepared,
}

/// The bytecodes that may have thrown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Throwers {
    /// No bytecode can have thrown.
    Nobody,
    /// One bytecode; the bytecodes after the position up to and including it.
    Only(Box<[Bci]>),
    /// More than one bytecode.
    Several,
    /// One bytecode, or a callee that should have been visible.
    Hidden,
}

/// The bytecodes that may have thrown the exception that reached the handler `to` (`None`: that
/// left the frame). Control was at `at` and has not left its block. `called`: the call of the
/// bytecode there has returned.
pub(crate) fn throwers(
    shared: &Shared<'_>,
    at: Position,
    called: bool,
    to: Option<Bci>,
    thrown: Thrown,
) -> Throwers {
    let (Some(m), Some(map), Some(from)) = (shared.maps.method(at.method), shared.maps.of(at.method), at.bci)
    else {
        return Throwers::Several;
    };
    let (mut found, mut hidden, mut path) = (Throwers::Nobody, false, Vec::new());
    let mut bci = from;
    while let Some(step) = map.step(bci) {
        if !path.is_empty() || !called {
            hidden |= step.transfer == Transfer::Invoke && !shared.may_be_silent(at.method, bci);
            if may_throw(m, (bci, step), to, thrown) {
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

/// Whether an exception of unknown class, thrown at `bci`, may be caught at `to` (`None`: may
/// leave the frame).
pub(crate) fn reaches(m: &Method, bci: Bci, to: Option<Bci>) -> bool {
    let mut covering = m.exceptions.iter().filter(|e| (e.start..e.end).contains(&bci));
    match to {
        Some(to) => covering.any(|e| e.handler == to),
        None => !covering.any(|e| e.catch_type.is_none()),
    }
}

/// Whether compiled code may throw for the bytecode, without a call, an exception that reaches
/// `to`.
fn may_throw(m: &Method, (bci, step): (Bci, &DispatchStep), to: Option<Bci>, thrown: Thrown) -> bool {
    let throws = match step.opcode {
        Opcode::ATHROW => true,
        // It is not known what an intrinsic throws, so any invoke may throw.
        _ if step.transfer == Transfer::Invoke => true,
        opcode => thrown == Thrown::Prepared && is_checked(opcode),
    };
    throws && reaches(m, bci, to)
}

/// Whether C2 may prepare an exception for the bytecode's checks (the callers of
/// `GraphKit::builtin_throw`: null, bounds, division by zero, class of an array's element or of
/// a cast).
fn is_checked(opcode: Opcode) -> bool {
    match opcode {
        Opcode::GETFIELD
        | Opcode::PUTFIELD
        | Opcode::ARRAYLENGTH
        | Opcode::MONITORENTER
        | Opcode::CHECKCAST => true,
        Opcode::IDIV | Opcode::LDIV | Opcode::IREM | Opcode::LREM => true,
        // Loads from and stores to arrays.
        Opcode(code) => matches!(code, 46..=53 | 79..=86),
    }
}
