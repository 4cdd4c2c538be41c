// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Entries into a method: entry stubs, interpreter entries, native wrappers, the call stub.

use crate::contradiction::{Contradiction, Walk};
use crate::frame::{Compiled, Frame, Interpreted};
use crate::machine::Machine;
use jportal_bytecode::Method;
use jportal_flow::{CodeStep, Entry, Exit as FrameExit, Tier};
use jportal_machine_flow::Exit;
use jportal_units::{CodeId, MethodId};

/// `AbstractInterpreter::MethodKind` of JDK 17, reduced to what matters for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MethodKind {
    /// Executes bytecodes, perhaps after an intrinsic that returns at once.
    Java,
    /// The interpreter entry of a native method.
    Native,
    /// Throws `AbstractMethodError` in the caller: no frame.
    Abstract,
    /// A signature-polymorphic linker: jumps to its target, no frame.
    MethodHandle,
}

impl MethodKind {
    /// `abstractInterpreter.hpp`, JDK 17: native = 2, 3; abstract = 7; the method handle
    /// kinds, one per signature-polymorphic intrinsic, follow. Then come the intrinsics with an
    /// entry of their own. Some of these are native methods (`CRC32.updateBytes0`,
    /// `Float.intBitsToFloat`).
    pub(crate) fn of(method: &Method) -> Self {
        match method.entry_kind {
            2 | 3 => Self::Native,
            7 => Self::Abstract,
            8.. if is_method_handle_linker(method) => Self::MethodHandle,
            8.. if method.is_native() => Self::Native,
            _ => Self::Java,
        }
    }
}

/// `vmIntrinsics::FIRST_MH_SIG_POLY..=LAST_MH_SIG_POLY` by name.
fn is_method_handle_linker(m: &Method) -> bool {
    &*m.class_name == "java/lang/invoke/MethodHandle"
        && (m.name.starts_with("linkTo") || matches!(&*m.name, "invoke" | "invokeExact" | "invokeBasic"))
}

impl Machine<'_> {
    /// A block of method entry stubs: the stub's address identifies the callee.
    pub(crate) fn method_stub(&mut self, start: u32) -> Walk<()> {
        self.unfold();
        let address = self.address(start);
        let method =
            self.shared.image.stub_at(address, self.now).ok_or(Contradiction::UnknownStub(address.0))?;
        self.call(method)
    }
    /// The interpreter's entry of `method` is called.
    fn call(&mut self, method: MethodId) -> Walk<()> {
        let kind = self.shared.maps.kind(method).ok_or(Contradiction::UnknownMethod(method.0.into()))?;
        let entry = self.entry_cause();
        match kind {
            MethodKind::Abstract | MethodKind::MethodHandle => {}
            MethodKind::Native => {
                self.push(Frame::Native { method, code: None }, method, Tier::Native, entry)
            }
            MethodKind::Java => {
                let frame = Interpreted::new(method, None);
                self.push(Frame::Interpreted(frame), method, Tier::Interpreter, entry);
            }
        }
        Ok(())
    }
    /// The kind of caller: Java code, the VM, or unknown.
    pub(crate) fn entry_cause(&self) -> Entry {
        match self.stack.last() {
            Some(Frame::Upcall { .. }) => Entry::Upcall,
            Some(_) => Entry::Call,
            None => Entry::Found,
        }
    }
    pub(crate) fn push(&mut self, frame: Frame, method: MethodId, tier: Tier, entry: Entry) {
        let code = match &frame {
            Frame::Compiled(Compiled { code, .. }) | Frame::Native { code: Some(code), .. } => Some(*code),
            _ => None,
        };
        self.observe_callee(method);
        self.observe_new_frame();
        self.stack.push(frame);
        // An exception or outcome that was pending in the caller is settled: the caller makes a
        // call.
        self.throwing = false;
        self.outcome = Default::default();
        self.emit_enter(method, tier, entry);
        code.into_iter().for_each(|code| self.emit_code(CodeStep::Entered(code)));
    }
    /// A block of a native wrapper. A block at the wrapper's start is a call.
    pub(crate) fn wrapper_block(&mut self, start: u32, code: CodeId, exit: Exit) -> Walk<()> {
        self.unfold();
        self.enter_wrapper(start, code)?;
        if exit == Exit::Return && matches!(self.stack.last(), Some(Frame::Native { code: Some(_), .. })) {
            self.return_to_compiled();
        }
        Ok(())
    }
    fn enter_wrapper(&mut self, start: u32, code: CodeId) -> Walk<()> {
        let Some(version) = self.shared.image.code(code) else { return Ok(()) };
        let Some(n) = version.nmethod() else { return Ok(()) };
        let offset = self.address(start).minus(version.range.start);
        // Control may come from the inline-cache check before the verified entry.
        let is_inside = matches!(self.stack.last(), Some(Frame::Native { code: Some(c), .. }) if *c == code);
        if offset != u64::from(n.verified_entry) || is_inside && self.resumes_in(code) {
            return Ok(());
        }
        let method = n.method.ok_or(Contradiction::UnknownMethod(version.range.start.0))?;
        let kind = self.shared.maps.kind(method).ok_or(Contradiction::UnknownMethod(method.0.into()))?;
        if kind == MethodKind::MethodHandle {
            return Ok(());
        }
        let entry = self.entry_cause();
        self.push(Frame::Native { method, code: Some(code) }, method, Tier::Native, entry);
        Ok(())
    }
    /// The VM calls Java code.
    pub(crate) fn call_stub(&mut self) -> Walk<()> {
        self.settle_orphan();
        self.observe_no_callee();
        // When the call returns, the frame below continues with the state saved here.
        let outcome = std::mem::take(&mut self.outcome);
        let throwing = std::mem::take(&mut self.throwing);
        self.stack.push(Frame::Upcall { outcome, throwing });
        Ok(())
    }
    /// The Java method that the VM called has ended: all frames above the call stub are gone.
    pub(crate) fn upcall_ends(&mut self, exit: FrameExit) -> Walk<()> {
        let Some(base) = self.stack.iter().rposition(|f| matches!(f, Frame::Upcall { .. })) else {
            // The upcall began before the trace.
            self.pop_above(0, exit);
            return Ok(());
        };
        self.pop_above(base + 1, exit);
        if let Some(Frame::Upcall { outcome, throwing }) = self.stack.pop() {
            self.outcome = outcome;
            self.throwing = throwing;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intrinsic_entry_of_a_native_method_is_native() {
        let of = |entry_kind, access_flags, class: &str, name: &str| {
            let (class_name, name) = (class.into(), name.into());
            MethodKind::of(&Method { entry_kind, access_flags, class_name, name, ..Method::default() })
        };
        // `java_util_zip_CRC32_updateBytes` and `java_lang_math_sin` of JDK 17.
        assert_eq!(of(27, 0x108, "java/util/zip/CRC32", "updateBytes0"), MethodKind::Native);
        assert_eq!(of(14, 0x8, "java/lang/Math", "sin"), MethodKind::Java);
        assert_eq!(of(0, 0x8, "a/A", "f"), MethodKind::Java);
        assert_eq!(of(2, 0x108, "a/A", "n"), MethodKind::Native);
        assert_eq!(of(7, 0x400, "a/A", "a"), MethodKind::Abstract);
        // A linker is native, too.
        assert_eq!(of(9, 0x108, "java/lang/invoke/MethodHandle", "linkToStatic"), MethodKind::MethodHandle);
    }
}
