// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Bytecodes of frames of which nothing is known: where trace begins again, the interpreter goes on in a frame that is
//! older. Which bytecode it executes the template tells, and where a branch goes its jumps; whose bytecode it is, nothing.

use crate::machine::Machine;
use crate::outcome::Outcome;
use jportal_bytecode::{Opcode, Transfer};
use jportal_flow::{EventKind, Orphan};
use jportal_vm_image::Template;

impl Machine<'_> {
    /// The interpreter jumped to the template `t`, and no frame is known.
    pub(crate) fn dispatch_orphan(&mut self, t: Template) {
        self.settle_orphan();
        self.throwing = false;
        self.outcome = Outcome::of(t.search);
        // Behind the prefix the bytecode proper is dispatched.
        if t.java == Opcode::WIDE {
            return;
        }
        self.orphan = Some(t.java);
        if let Some((_, second)) = t.second {
            self.settle_orphan();
            self.orphan = Some(second);
        }
    }
    /// All that will be known of the last such bytecode is known.
    pub(crate) fn settle_orphan(&mut self) {
        let Some(opcode) = self.orphan.take() else { return };
        self.counters.orphans += 1;
        let is_branch = opcode.transfer() == Transfer::If;
        let taken = self.outcome.is_branch_taken().filter(|_| is_branch);
        self.emit(EventKind::Orphan(Orphan::Bytecode { opcode: opcode.0, taken }));
        self.tell_time();
    }
    /// An exception is thrown in a frame of which nothing is known, or arrives there.
    pub(crate) fn throw_in_orphan(&mut self) {
        self.settle_orphan();
        self.emit(EventKind::Orphan(Orphan::Throw));
    }
}
