// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Invokes that execute without an event of a callee.
//!
//! Both compilers replace calls of intrinsics by instructions and leave out the calls that link
//! method handles. Any other inlined callee has path markers of its own. If these do not
//! appear, the compiler has lost them.

use hashbrown::HashSet;
use jportal_bytecode::MethodTable;
use jportal_units::{Bci, MethodId};

type Target = (Box<str>, Box<str>);

/// The invokes that may execute without a visible callee.
#[derive(Debug)]
pub(crate) struct SilentCalls {
    /// Name and descriptor of every intrinsic, without its class: an invoke may name another
    /// class symbolically and select an override that is an intrinsic.
    intrinsics: HashSet<Target>,
}

impl SilentCalls {
    pub(crate) fn new(methods: &MethodTable) -> Self {
        let intrinsics = methods.iter().filter(|m| m.intrinsic != 0);
        Self { intrinsics: intrinsics.map(|m| (m.name.clone(), m.signature.clone())).collect() }
    }
    /// Whether the invoke at `bci` of `method` may execute without its callee being visible.
    pub(crate) fn may_be(&self, methods: &MethodTable, method: MethodId, bci: Bci) -> bool {
        let Some(target) = methods.get(method).and_then(|m| m.invoke_at(bci)) else { return true };
        target.class_name.starts_with("java/lang/invoke/")
            || self.intrinsics.contains(&(target.name.clone(), target.signature.clone()))
    }
}
