// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The ways in which machine flow and bytecode exclude each other.

use jportal_bytecode::Opcode;
use jportal_flow::FlowFault;
use jportal_units::Bci;
use jportal_vm_image::Flaw;

/// A step of the machine flow that the shadow stack cannot follow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// A dispatch while the top frame is not interpreted.
    #[error("{found} is dispatched but the top frame is {top}")]
    DispatchWithoutFrame {
        /// The opcode that was dispatched.
        found: Opcode,
        /// The kind of the top frame.
        top: &'static str,
    },
    /// The interpreter dispatched another bytecode than the method has at that bci.
    #[error("{found} is dispatched but {method} has {expected} at bci {bci}")]
    WrongBytecode {
        /// The opcode that was dispatched.
        found: Opcode,
        /// The opcode that the method has there.
        expected: Opcode,
        /// The bci.
        bci: Bci,
        /// The method.
        method: String,
    },
    /// The method has no bytecode at the position reached.
    #[error("{method} has no bytecode at bci {bci}")]
    NoBytecode {
        /// The bci.
        bci: Bci,
        /// The method.
        method: String,
    },
    /// The outcome of a branch, switch, `ret` or exception was not seen.
    #[error("the outcome of {opcode} at bci {bci} of {method} is not in the trace")]
    NoOutcome {
        /// The opcode.
        opcode: Opcode,
        /// Its bci.
        bci: Bci,
        /// The method.
        method: String,
    },
    /// A revealed value names no target.
    #[error("{opcode} at bci {bci} of {method} cannot go to value {value}")]
    BadOutcome {
        /// The opcode.
        opcode: Opcode,
        /// Its bci.
        bci: Bci,
        /// The revealed value.
        value: u64,
        /// The method.
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
        /// The top frame.
        top: String,
    },
    /// An entry stub that the VM did not describe.
    #[error("method entry stub {0:#x} was never described")]
    UnknownStub(u64),
    /// A frame of a method that the VM did not describe.
    #[error("code at {0:#x} belongs to a method that was never described")]
    UnknownMethod(u64),
    /// Compiled code whose debug info or path markers are damaged.
    #[error("nothing can be said of {code}: {flaw}")]
    Flawed {
        /// The code.
        code: String,
        /// What is wrong with it.
        flaw: Flaw,
    },
}

impl Contradiction {
    /// Its kind.
    pub const fn fault(&self) -> FlowFault {
        match self {
            Self::DispatchWithoutFrame { .. } => FlowFault::DispatchWithoutFrame,
            Self::WrongBytecode { .. } => FlowFault::WrongBytecode,
            Self::NoBytecode { .. } => FlowFault::NoBytecode,
            Self::NoOutcome { .. } => FlowFault::NoOutcome,
            Self::BadOutcome { .. } => FlowFault::BadOutcome,
            Self::NoSuchFrame { .. } => FlowFault::NoSuchFrame,
            Self::NotOnStack { .. } => FlowFault::NotOnStack,
            Self::UnknownStub(_) => FlowFault::UnknownStub,
            Self::UnknownMethod(_) => FlowFault::UnknownMethod,
            Self::Flawed { .. } => FlowFault::Flawed,
        }
    }
}

/// The result of one step of a machine. The error is rare and large, hence boxed.
pub(crate) type Walk<T> = Result<T, Box<Contradiction>>;
