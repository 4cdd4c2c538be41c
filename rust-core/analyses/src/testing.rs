// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small methods and flows for unit tests.

use std::sync::Arc;

pub(crate) use jportal_bytecode::testing::BRANCHY;
use jportal_bytecode::{LineRow, Method, MethodTable, testing};
pub(crate) use jportal_flow::testing::*;
use jportal_units::Bci;

/// A static method `(I)I`.
pub(crate) fn method(class: &str, name: &str, code: &[u8]) -> Method {
    let loader = if class.starts_with("java/") { "" } else { "app" };
    let (class_name, loader, signature) = (class.into(), loader.into(), "(I)I".into());
    Method { class_name, loader, signature, ..testing::method(name, code) }
}

/// m0 and m1 are [`BRANCHY`], with lines 10, 11 and 12; m2 is a method of `java/lang/Math`.
pub(crate) fn methods() -> Arc<MethodTable> {
    let line = |bci, line| LineRow { bci: Bci(bci), line };
    let lines = [line(0, 10), line(4, 11), line(8, 12)];
    let mut t = MethodTable::default();
    t.push(Method { lines: lines.into(), ..method("a/B", "f", BRANCHY) });
    t.push(Method { lines: lines.into(), ..method("a/B", "g", BRANCHY) });
    t.push(method("java/lang/Math", "abs", BRANCHY));
    Arc::new(t)
}
