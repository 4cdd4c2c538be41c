// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small methods for the tests of this crate and of those above it.

use crate::method::{ExceptionRow, InvokeRef, Method};
use jportal_units::Bci;

/// A static method `a/A.<name>()V`.
pub fn method(name: &str, code: &[u8]) -> Method {
    Method {
        class_name: "a/A".into(),
        loader: "app".into(),
        source_file: "A.java".into(),
        name: name.into(),
        signature: "()V".into(),
        access_flags: 8,
        code: code.into(),
        ..Method::default()
    }
}

/// A row of the exception table.
pub fn row(start: u16, end: u16, handler: u16, catch: Option<&str>) -> ExceptionRow {
    let [start, end, handler] = [start, end, handler].map(Bci);
    ExceptionRow { start, end, handler, catch_type: catch.map(Into::into) }
}

/// The target of the invoke at `bci`: the method `name`, `()V`, of `class`.
pub fn calls(bci: u16, class: &str, name: &str) -> InvokeRef {
    InvokeRef { bci: Bci(bci), class_name: class.into(), name: name.into(), signature: "()V".into() }
}

/// `iload_0; ifeq 8; iconst_1; goto 9; iconst_0(8); ireturn(9)`.
pub const BRANCHY: &[u8] = &[26, 153, 0, 7, 4, 167, 0, 4, 3, 172];
