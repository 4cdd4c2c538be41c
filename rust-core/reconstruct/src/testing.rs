//! Shared by the tests of this crate.

use jportal_bytecode::Method;
use jportal_units::MethodId;

/// A method without code.
pub(crate) fn method(name: &str) -> Method {
    Method {
        id: MethodId(0),
        class_name: "T".into(),
        loader: "".into(),
        source_file: "".into(),
        name: name.into(),
        signature: "()V".into(),
        access_flags: 0,
        intrinsic: 0,
        entry_kind: 0,
        code: Box::default(),
        exceptions: Box::default(),
        lines: Box::default(),
        invokes: Box::default(),
    }
}
