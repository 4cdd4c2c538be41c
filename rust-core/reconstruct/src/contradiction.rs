// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Why the machine flow and the bytecode do not agree.

use jportal_bytecode::Opcode;
use jportal_units::Bci;
use jportal_vm_image::Flaw;

/// A step of the machine flow that the shadow stack cannot follow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// A dispatch while the top frame is not interpreted.
    #[error("{found} is dispatched but the top frame is {top}")]
    DispatchWithoutFrame {
        /// What was dispatched.
        found: Opcode,
        /// What the stack has on top.
        top: &'static str,
    },
    /// Another bytecode stands where the interpreter went.
    #[error("{found} is dispatched but {method} has {expected} at bci {bci}")]
    WrongBytecode {
        /// What was dispatched.
        found: Opcode,
        /// What stands there.
        expected: Opcode,
        /// Where.
        bci: Bci,
        /// In which method.
        method: String,
    },
    /// The method has no bytecode at the position reached.
    #[error("{method} has no bytecode at bci {bci}")]
    NoBytecode {
        /// Where.
        bci: Bci,
        /// In which method.
        method: String,
    },
    /// The outcome of a branch, switch, `ret` or exception was not seen.
    #[error("the outcome of {opcode} at bci {bci} of {method} is not in the trace")]
    NoOutcome {
        /// What.
        opcode: Opcode,
        /// Where.
        bci: Bci,
        /// In which method.
        method: String,
    },
    /// A revealed value names no target.
    #[error("{opcode} at bci {bci} of {method} cannot go to value {value}")]
    BadOutcome {
        /// What.
        opcode: Opcode,
        /// Where.
        bci: Bci,
        /// The value.
        value: u64,
        /// In which method.
        method: String,
    },
    /// Control returned to a frame that is not on the stack.
    #[error("control returns to {to} but no such frame is on the stack")]
    NoSuchFrame {
        /// The kind of frame.
        to: &'static str,
    },
    /// Control is in the middle of compiled code of which no activation is on the stack.
    #[error("control returns to {code} but the top frame is {top}")]
    NotOnStack {
        /// The code.
        code: String,
        /// What the stack has on top.
        top: String,
    },
    /// An entry stub that the VM never described.
    #[error("method entry stub {0:#x} was never described")]
    UnknownStub(u64),
    /// A frame of a method that the VM never described.
    #[error("code at {0:#x} belongs to a method that was never described")]
    UnknownMethod(u64),
    /// Compiled code whose debug info or path markers are damaged.
    #[error("nothing can be said of {code}: {flaw}")]
    Flawed {
        /// The code.
        code: String,
        /// What cannot be.
        flaw: Flaw,
    },
}

/// Result of one step of a machine; the error is rare and large, hence boxed.
pub(crate) type Walk<T> = Result<T, Box<Contradiction>>;
