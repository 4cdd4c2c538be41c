// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which methods may have been called without a call in the machine code.

use hashbrown::HashMap;
use jportal_bytecode::MethodTable;
use jportal_units::{Bci, MethodId};

type Named = HashMap<(Box<str>, Box<str>), Vec<MethodId>>;

/// Which methods the compilers inlined into which callers.
///
/// A call that the flow does not show lies in a stretch of compiled code without calls, so its
/// callee was inlined into the caller's code. The compilers report all inlining, including
/// inlined methods of which no instruction remained.
#[derive(Debug, Default)]
pub struct Inlined {
    sites: HashMap<(MethodId, Bci), Vec<MethodId>>,
    /// The possible callees by name and descriptor, used if the compilers did not report all
    /// inlining.
    named: Option<Named>,
}

impl Inlined {
    /// `calls`: caller, bci of the call, callee. `complete`: whether these are all methods that
    /// any compiler inlined anywhere. If not, a call at an unlisted site may be one of any
    /// method of that name and descriptor.
    pub fn new(
        methods: &MethodTable,
        calls: impl IntoIterator<Item = (MethodId, Bci, MethodId)>,
        complete: bool,
    ) -> Self {
        let mut sites: HashMap<_, Vec<MethodId>> = HashMap::new();
        for (caller, bci, callee) in calls {
            sites.entry((caller, bci)).or_default().push(callee);
        }
        for callees in sites.values_mut() {
            callees.sort_unstable();
            callees.dedup();
        }
        let named = (!complete).then(|| {
            let mut named = Named::new();
            for m in methods.iter().filter(|m| !m.code.is_empty()) {
                named.entry((m.name.clone(), m.signature.clone())).or_default().push(m.id);
            }
            named
        });
        Self { sites, named }
    }
    /// The methods that may have been called at `bci` of `caller`.
    pub(crate) fn at(&self, methods: &MethodTable, caller: MethodId, bci: Bci) -> &[MethodId] {
        if let Some(callees) = self.sites.get(&(caller, bci)) {
            return callees;
        }
        let Some(named) = &self.named else { return &[] };
        let invoke = methods.get(caller).and_then(|m| m.invoke_at(bci));
        let callees = invoke.and_then(|i| named.get(&(i.name.clone(), i.signature.clone())));
        callees.map_or(&[], Vec::as_slice)
    }
}
