// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Methods with probes, and flows for unit tests.

use std::sync::Arc;

use jportal_bytecode::testing::BRANCHY;
use jportal_bytecode::{InvokeRef, Method, MethodTable, testing};
pub(crate) use jportal_flow::testing::*;
use jportal_flow::{Entry, Event, EventKind, Tier};
use jportal_units::{Address, Bci, CodeId, MethodId, Tid, Tsc};
use jportal_vm_image::CodeSink;

/// A static method `(I)I`.
fn method(class: &str, name: &str, code: &[u8]) -> Method {
    Method { class_name: class.into(), signature: "(I)I".into(), ..testing::method(name, code) }
}

/// m0, m1 and m2 are [`BRANCHY`], m3 has the probes 1 and 0x12345, m4 is the native method that
/// probes call.
pub(crate) fn methods() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    t.push(method("a/B", "f", BRANCHY));
    t.push(method("a/B", "g", BRANCHY));
    t.push(method("java/lang/Math", "abs", BRANCHY));
    t.push(probed());
    let native = Method { access_flags: 0x108, ..method("jportal/oracle/Probe", "hit", &[]) };
    t.push(Method { signature: "(II)V".into(), ..native });
    Arc::new(t)
}

/// Probe 1 at bci 6, a `nop`, probe 0x12345 at bci 16, `return`.
fn probed() -> Method {
    let mut code = vec![17, 0, 0, 17, 0, 1, 184, 0, 1, 0];
    code.extend([17, 0, 1, 17, 0x23, 0x45, 184, 0, 1, 177]);
    let call = |bci| InvokeRef {
        bci: Bci(bci),
        class_name: "jportal/oracle/Probe".into(),
        name: "hit".into(),
        signature: "(II)V".into(),
    };
    Method { invokes: Box::new([call(6), call(16)]), ..method("a/C", "h", &code) }
}

/// A probe call of method 3, the native method, and the return from it.
pub(crate) fn probe_call(bci: u16) -> [Event; 3] {
    let native = EventKind::Enter { method: MethodId(4), tier: Tier::Native, entry: Entry::Call };
    [bytecode(3, bci), Event::decoded(native), leave(4)]
}

/// Keeps no code.
pub(crate) struct NoCode;

impl CodeSink for NoCode {
    fn install(&mut self, _: Tsc, _: Address, _: &[u8], _: CodeId) {}
    fn patch(&mut self, _: Tsc, _: Option<Tsc>, _: Address, _: &[u8], _: Option<Tid>, _: u8) {}
    fn free(&mut self, _: Tsc, _: Address, _: u64) {}
}
