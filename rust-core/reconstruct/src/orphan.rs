// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Bytecodes of frames that are not known. When trace resumes, the interpreter continues in a
//! frame that is older than the gap. The template says which opcode it executes, and the
//! template's jumps say where a branch went. Nothing says to which method the bytecode belongs.

use crate::machine::Machine;
use crate::outcome::BranchOutcomes;
use jportal_bytecode::{Opcode, Transfer};
use jportal_flow::{EventKind, Orphan};
use jportal_vm_image::Template;

impl Machine<'_> {
    /// The interpreter jumped to the template `t`, and no frame is known.
    pub(crate) fn dispatch_orphan(&mut self, t: Template) {
        self.settle_orphan();
        self.throwing = false;
        self.outcome = BranchOutcomes::of(t.search);
        // The bytecode itself is dispatched after the prefix.
        if t.java == Opcode::WIDE {
            return;
        }
        self.orphan = Some(t.java);
        if let Some((_, second)) = t.second {
            self.settle_orphan();
            self.orphan = Some(second);
        }
    }
    /// Emits the last orphan. Nothing more will be known about it.
    pub(crate) fn settle_orphan(&mut self) {
        let Some(opcode) = self.orphan.take() else { return };
        self.counters.orphans += 1;
        let is_branch = opcode.transfer() == Transfer::If;
        let taken = self.outcome.is_branch_taken().filter(|_| is_branch);
        self.emit(EventKind::Orphan(Orphan::Bytecode { opcode: opcode.0, taken }));
        self.tell_time();
    }
    /// An exception is thrown, or arrives, in a frame that is not known.
    pub(crate) fn throw_in_orphan(&mut self) {
        self.settle_orphan();
        self.emit(EventKind::Orphan(Orphan::Throw));
    }
}
