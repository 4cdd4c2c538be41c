//! Shared by the tests of this crate.

use jportal_bytecode::Method;

/// A method without code.
pub(crate) fn method(name: &str) -> Method {
    Method { class_name: "T".into(), name: name.into(), signature: "()V".into(), ..Method::default() }
}
