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
            if may_throw(m, map, bci, step, to) {
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

/// Whether an exception of a class that is not known, thrown at `bci`, may be caught at `to` or leave the frame.
pub(crate) fn reaches(m: &Method, bci: Bci, to: Option<Bci>) -> bool {
    let mut covering = m.exceptions.iter().filter(|e| (e.start..e.end).contains(&bci));
    match to {
        Some(to) => covering.any(|e| e.handler == to),
        None => !covering.any(|e| e.catch_type.is_none()),
    }
}

/// A class of exceptions that compiled code throws for a bytecode without a call, and its superclasses.
type Lineage = &'static [&'static str];

const NULL: Lineage = &["java/lang/NullPointerException", RUNTIME, EXCEPTION, THROWABLE];
const DIVISION: Lineage = &["java/lang/ArithmeticException", RUNTIME, EXCEPTION, THROWABLE];
const STORE: Lineage = &["java/lang/ArrayStoreException", RUNTIME, EXCEPTION, THROWABLE];
const CAST: Lineage = &["java/lang/ClassCastException", RUNTIME, EXCEPTION, THROWABLE];
const MONITOR: Lineage = &["java/lang/IllegalMonitorStateException", RUNTIME, EXCEPTION, THROWABLE];
const INDEX: Lineage = &[
    "java/lang/ArrayIndexOutOfBoundsException",
    "java/lang/IndexOutOfBoundsException",
    RUNTIME,
    EXCEPTION,
    THROWABLE,
];
const RUNTIME: &str = "java/lang/RuntimeException";
const EXCEPTION: &str = "java/lang/Exception";
const THROWABLE: &str = "java/lang/Throwable";

/// As [`reaches`] for an exception of this class.
fn class_reaches(m: &Method, bci: Bci, to: Option<Bci>, class: Lineage) -> bool {
    let mut covering = m.exceptions.iter().filter(|e| (e.start..e.end).contains(&bci));
    let takes = |t: &str| class.contains(&t);
    covering.find(|e| e.catch_type.as_deref().is_none_or(takes)).map(|e| e.handler) == to
}

/// Whether compiled code may throw for the bytecode without a call, so that `to` is reached.
fn may_throw(m: &Method, map: &CodeMap, bci: Bci, step: &Step, to: Option<Bci>) -> bool {
    let classes: &[Lineage] = match step.opcode {
        Opcode::ATHROW => return reaches(m, bci, to),
        // What an intrinsic throws is its own business.
        _ if step.transfer == Transfer::Invoke => return reaches(m, bci, to),
        Opcode::GETFIELD if is_this(m, map, bci) => &[],
        Opcode::PUTFIELD if stores_to_this(m, map, bci) => &[],
        Opcode::GETFIELD | Opcode::PUTFIELD | Opcode::ARRAYLENGTH | Opcode::MONITORENTER => &[NULL],
        Opcode::MONITOREXIT => &[NULL, MONITOR],
        Opcode::CHECKCAST => &[CAST],
        Opcode::AASTORE => &[NULL, INDEX, STORE],
        Opcode::IDIV | Opcode::LDIV | Opcode::IREM | Opcode::LREM => &[DIVISION],
        // The other loads from and stores to arrays.
        _ if matches!(step.opcode.0, 46..=53 | 79..=86) => &[NULL, INDEX],
        _ => &[],
    };
    classes.iter().any(|class| class_reaches(m, bci, to, class))
}

/// Whether the `putfield` at `bci` stores a constant or a local variable to the receiver of the method.
fn stores_to_this(m: &Method, map: &CodeMap, bci: Bci) -> bool {
    let joins = |b: Bci| map.step(b).is_none_or(|s| s.leader);
    !joins(bci) && before(map, bci).is_some_and(|value| is_simple_push(map, value) && is_this(m, map, value))
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
