// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small methods and flows for unit tests.

use std::sync::Arc;

pub(crate) use jportal_bytecode::testing::{method, row};
use jportal_bytecode::{InvokeRef, Method, MethodTable, testing};
use jportal_flow::{Cause, Entry, Event, EventKind, Exit, Gap, GapReason, Provenance, ThreadInfo, Tier, run};
use jportal_units::{Bci, Core, MethodId, StreamOffset, Tid, Tsc};

use crate::check::report::{CheckOptions, Checker, Report};

/// The target of the invoke at `bci`: a method of the same class.
pub(crate) fn calls(bci: u16, name: &str) -> InvokeRef {
    testing::calls(bci, "a/A", name)
}

/// See [`methods`].
pub(crate) const BRANCHY: u32 = 0;
pub(crate) const CALLER: u32 = 1;
pub(crate) const LEAF: u32 = 2;
pub(crate) const NATIVE: u32 = 3;
pub(crate) const THROWER: u32 = 4;
pub(crate) const FINALLY: u32 = 5;
pub(crate) const INTRINSIC: u32 = 6;
pub(crate) const LOOP: u32 = 7;
pub(crate) const NESTED: u32 = 8;
pub(crate) const POLLED: u32 = 9;
pub(crate) const COVERED: u32 = 10;
pub(crate) const AROUND: u32 = 11;
pub(crate) const COPIER: u32 = 12;
pub(crate) const CLONE: u32 = 13;

/// The methods of the tests, in the order of the constants above.
pub(crate) fn methods() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    // 0 iload_0; 1 ifeq 8; 4 iconst_1; 5 goto 9; 8 iconst_0; 9 ireturn
    t.push(method("branchy", &[26, 153, 0, 7, 4, 167, 0, 4, 3, 172]));
    // 0 invokestatic leaf; 3 invokestatic branchy; 6 return; 7 astore_0; 8 nop; 9 return
    let code = [184, 0, 1, 184, 0, 2, 177, 75, 0, 177];
    let exceptions = Box::new([row(0, 3, 7, Some("a/E")), row(3, 6, 8, Some("a/F"))]);
    let invokes = Box::new([calls(0, "leaf"), calls(3, "branchy")]);
    t.push(Method { exceptions, invokes, ..method("caller", &code) });
    t.push(method("leaf", &[0, 177]));
    t.push(Method { access_flags: 0x108, ..method("nat", &[]) });
    // 0 aconst_null; 1 athrow
    t.push(method("thrower", &[1, 191]));
    // 0 nop; 1 invokestatic thrower; 4 return; 5 pop; 6 return, handler 5 takes all of 1..4
    let invokes = Box::new([calls(1, "thrower")]);
    let code = [0, 184, 0, 1, 177, 87, 177];
    t.push(Method { exceptions: Box::new([row(1, 4, 5, None)]), invokes, ..method("fin", &code) });
    t.push(Method { entry_kind: 20, ..method("intrinsic", &[0, 177]) });
    // 0 nop; 1 iload_0; 2 ifne 0; 5 return
    t.push(method("loop", &[0, 26, 154, 0xff, 0xfe, 177]));
    // 0 invokestatic leaf; 3 return; 4 pop; 5 return; 6 pop; 7 return; 8 pop; 9 return
    let code = [184, 0, 1, 177, 87, 177, 87, 177, 87, 177];
    let exceptions =
        Box::new([row(0, 3, 4, Some("a/E")), row(4, 5, 6, Some("a/F")), row(3, 4, 8, Some("a/G"))]);
    t.push(Method { exceptions, invokes: Box::new([calls(0, "leaf")]), ..method("nested", &code) });
    // 0 goto 4; 3 return; 4 nop; 5 goto 4; 8 pop; 9 return
    let code = [167, 0, 4, 177, 0, 167, 0xff, 0xff, 87, 177];
    t.push(Method { exceptions: Box::new([row(4, 5, 8, None)]), ..method("polled", &code) });
    // 0 nop; 1 goto 4; 4 return; 5 pop; 6 return
    let code = [0, 167, 0, 3, 177, 87, 177];
    t.push(Method { exceptions: Box::new([row(1, 4, 5, None)]), ..method("covered", &code) });
    // 0 invokestatic leaf; 3 return; 4 pop; 5 return; 6 pop; 7 return
    let code = [184, 0, 1, 177, 87, 177, 87, 177];
    let exceptions = Box::new([row(0, 3, 4, Some("a/E")), row(0, 3, 6, None)]);
    t.push(Method { exceptions, invokes: Box::new([calls(0, "leaf")]), ..method("around", &code) });
    // 0 invokestatic clone; 3 areturn
    let signature: Box<str> = "()Ljava/lang/Object;".into();
    let clone = InvokeRef { signature: signature.clone(), ..calls(0, "clone") };
    t.push(Method { invokes: Box::new([clone]), ..method("copier", &[184, 0, 1, 176]) });
    // 0 aconst_null; 1 areturn
    t.push(Method { signature, ..method("clone", &[1, 176]) });
    Arc::new(t)
}

/// A flow under construction.
#[derive(Clone, Default)]
pub(crate) struct FlowBuilder(pub(crate) Vec<Event>);

impl FlowBuilder {
    pub(crate) fn event(mut self, kind: EventKind) -> Self {
        self.0.push(Event::decoded(kind));
        self
    }
    /// Marks the last event as inferred.
    pub(crate) fn inferred(mut self) -> Self {
        if let Some(last) = self.0.last_mut() {
            last.provenance = Provenance::Recovered { confidence: 0.5 };
        }
        self
    }
    pub(crate) fn enter(self, m: u32, tier: Tier, entry: Entry) -> Self {
        self.event(EventKind::Enter { method: MethodId(m), tier, entry })
    }
    /// The VM calls `m`, interpreted.
    pub(crate) fn start(self, m: u32) -> Self {
        self.enter(m, Tier::Interpreter, Entry::Upcall)
    }
    /// The top frame calls `m`, interpreted.
    pub(crate) fn call(self, m: u32) -> Self {
        self.enter(m, Tier::Interpreter, Entry::Call)
    }
    pub(crate) fn leave(self, m: u32, exit: Exit) -> Self {
        self.event(EventKind::Leave { method: MethodId(m), exit })
    }
    pub(crate) fn ret(self, m: u32) -> Self {
        self.leave(m, Exit::Return)
    }
    pub(crate) fn in_tier(self, tier: Tier, m: u32, bcis: &[u16]) -> Self {
        bcis.iter()
            .fold(self, |flow, b| flow.event(EventKind::Bytecode { method: MethodId(m), bci: Bci(*b), tier }))
    }
    /// Bytecodes of the interpreter.
    pub(crate) fn at(self, m: u32, bcis: &[u16]) -> Self {
        self.in_tier(Tier::Interpreter, m, bcis)
    }
    pub(crate) fn catch(self, m: u32, bci: u16) -> Self {
        self.event(EventKind::Catch { method: MethodId(m), bci: Bci(bci) })
    }
    pub(crate) fn unresolved(self, m: u32, from: Option<u16>, to: Option<u16>) -> Self {
        self.unresolved_over(m, (from, to), 0)
    }
    pub(crate) fn unresolved_over(
        self,
        m: u32,
        (from, to): (Option<u16>, Option<u16>),
        callers: u16,
    ) -> Self {
        let (from, to, cause) = (from.map(Bci), to.map(Bci), Cause::EmptyDiamond);
        self.event(EventKind::Unresolved { method: MethodId(m), from, to, cause, callers })
    }
    /// The interpreter restarts at an earlier state.
    pub(crate) fn restarts(self, m: u32, from: u16, to: u16) -> Self {
        let (from, to, cause) = (Some(Bci(from)), Some(Bci(to)), Cause::MovedAllocation);
        self.event(EventKind::Unresolved { method: MethodId(m), from, to, cause, callers: 0 })
    }
    pub(crate) fn gap(self, stack_lost: bool) -> Self {
        self.event(EventKind::Gap(Box::new(Gap {
            reason: GapReason::Overflow,
            core: Core(0),
            offset: StreamOffset(0),
            address: None,
            since: None,
            until: None,
            bytes: None,
            stack_lost,
        })))
    }
    /// Checks the flow as that of one thread, in batches of two events.
    pub(crate) fn check_with(&self, options: CheckOptions) -> Report {
        let checker = Checker::new(methods(), options);
        let info = ThreadInfo { tid: Tid(7), java_tid: 1, name: "main".into(), started: Tsc(1) };
        let (checker, ()) = run(checker, |to| {
            let mut sink = to.thread(&info);
            self.0.chunks(2).for_each(|batch| sink.events(batch));
            sink.end();
        });
        checker.report()
    }
    pub(crate) fn check(&self) -> Report {
        self.check_with(CheckOptions::default())
    }
    /// The rules broken, in the order of the events.
    pub(crate) fn broken(&self) -> Vec<&'static str> {
        self.check().first.iter().map(|f| f.rule.name()).collect()
    }
}
