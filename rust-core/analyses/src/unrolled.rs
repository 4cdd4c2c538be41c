// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Splits runs into single bytecodes, for consumers that take every bytecode as an event.

use jportal_bytecode::{Instruction, MethodTable};
use jportal_flow::{Event, EventKind, FlowConsumer, FlowSink, Provenance, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId};
use std::sync::Arc;

/// Accepts runs in place of a consumer that [takes no runs](FlowConsumer::takes_runs).
pub struct Unrolled<'c> {
    methods: Arc<MethodTable>,
    to: &'c mut dyn FlowConsumer,
}

impl std::fmt::Debug for Unrolled<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unrolled").finish_non_exhaustive()
    }
}

impl<'c> Unrolled<'c> {
    /// An adapter that passes the flows of `methods` on to `to`.
    pub fn new(methods: Arc<MethodTable>, to: &'c mut dyn FlowConsumer) -> Self {
        Self { methods, to }
    }
}

impl FlowConsumer for Unrolled<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(UnrollingSink {
            methods: Arc::clone(&self.methods),
            to: self.to.thread(info),
            out: Vec::new(),
        })
    }
    fn takes_runs(&self) -> bool {
        true
    }
    fn takes_code(&self) -> bool {
        self.to.takes_code()
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
}

struct UnrollingSink {
    methods: Arc<MethodTable>,
    to: Box<dyn FlowSink + Send>,
    out: Vec<Event>,
}

impl FlowSink for UnrollingSink {
    fn events(&mut self, events: &[Event]) {
        for event in events {
            match event.kind {
                EventKind::Run { method, first, last, tier, .. } => {
                    self.run((method, tier), (first, last), event.provenance);
                }
                _ => self.out.push(event.clone()),
            }
        }
        self.to.take(&mut self.out);
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
    fn end(self: Box<Self>) {
        self.to.end();
    }
}

impl UnrollingSink {
    fn run(&mut self, (method, tier): (MethodId, Tier), (first, last): (Bci, Bci), provenance: Provenance) {
        let code = self.methods.get(method).map_or(&[][..], |m| &m.code);
        let mut bci = first;
        // Code that cannot be parsed has no runs.
        while bci < last {
            self.out.push(Event { kind: EventKind::Bytecode { method, bci, tier }, provenance });
            bci = Instruction::at(code, bci.0.into()).map_or(last, |i| i.next());
        }
        self.out.push(Event { kind: EventKind::Bytecode { method, bci: last, tier }, provenance });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, methods, pass};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Keeps(Arc<Mutex<Vec<Event>>>);
    impl FlowConsumer for Keeps {
        fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
            Box::new(Self(Arc::clone(&self.0)))
        }
    }
    impl FlowSink for Keeps {
        fn events(&mut self, events: &[Event]) {
            self.0.lock().unwrap().extend_from_slice(events);
        }
        fn end(self: Box<Self>) {}
    }

    #[test]
    fn each_bytecode_of_a_run() {
        let mut kept = Keeps::default();
        let (method, tier) = (MethodId(0), Tier::Interpreter);
        let provenance = Provenance::Recovered { confidence: 0.25 };
        let kind = EventKind::Run { method, first: Bci(1), last: Bci(8), len: 4, tier };
        let mut unrolled = Unrolled::new(methods(), &mut kept);
        assert!(unrolled.takes_runs());
        pass(&mut unrolled, 1, &[enter(0), Event { kind, provenance }, bytecode(0, 9)]);
        let recovered = |bci| Event { provenance, ..bytecode(0, bci) };
        // 1 ifeq 8; 4 iconst_1; 5 goto 9; 8 iconst_0
        let expected = [enter(0), recovered(1), recovered(4), recovered(5), recovered(8), bytecode(0, 9)];
        assert_eq!(*kept.0.lock().unwrap(), expected);
    }
}
