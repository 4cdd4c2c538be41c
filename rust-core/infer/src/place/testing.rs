// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A small program and its flows for unit tests.

use std::sync::{Arc, Mutex};

use jportal_bytecode::{ExceptionRow, InvokeRef, Method, MethodTable, Opcode};
use jportal_flow::{
    Entry, Event, EventKind, Exit, FlowConsumer, FlowSink, Gap, GapReason, Orphan, Provenance, ThreadInfo,
    Tier,
};
use jportal_units::{Bci, Core, MethodId, StreamOffset, Tid, Tsc};

use crate::place::{PlacementSettings, Projector, Summary};

/// See [`methods`]; 2 is `other`.
pub(crate) const OUTER: u32 = 0;
pub(crate) const INNER: u32 = 1;
pub(crate) const CALLER: u32 = 3;
pub(crate) const CATCHING: u32 = 4;
pub(crate) const LOOP: u32 = 5;
pub(crate) const THROWING: u32 = 6;
pub(crate) const CHOOSING: u32 = 7;

fn method(name: &str, code: &[u8], invokes: &[(u16, &str)]) -> Method {
    let invoke = |(bci, name): &(u16, &str)| InvokeRef {
        bci: Bci(*bci),
        class_name: "a/A".into(),
        name: (*name).into(),
        signature: "()V".into(),
    };
    Method {
        class_name: "a/A".into(),
        name: name.into(),
        signature: "()V".into(),
        access_flags: 8,
        code: code.into(),
        invokes: invokes.iter().map(invoke).collect(),
        ..Method::default()
    }
}

/// The methods of the tests, in the order of the constants above.
pub(crate) fn methods() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    // 0 iconst_1; 1 invokestatic inner; 4 istore_1; 5 iload_1; 6 ifeq 11; 9 iconst_2; 10
    // ireturn; 11 iconst_3; 12 ireturn
    t.push(method("outer", &[4, 184, 0, 1, 60, 27, 153, 0, 5, 5, 172, 6, 172], &[(1, "inner")]));
    // 0 iconst_5; 1 ireturn
    t.push(method("inner", &[8, 172], &[]));
    // 0 iload_1; 1 ifeq 6; 4 iconst_2; 5 ireturn; 6 iconst_4; 7 ireturn
    t.push(method("other", &[27, 153, 0, 5, 5, 172, 7, 172], &[]));
    // 0 invokestatic outer; 3 pop; 4 return
    t.push(method("caller", &[184, 0, 1, 87, 177], &[(0, "outer")]));
    // 0 fload_0; 1 invokestatic throwing; 4 fstore_1; 5 return; 6 astore_2; 7 return; handler 6
    let rows = [ExceptionRow { start: Bci(0), end: Bci(5), handler: Bci(6), catch_type: None }];
    let catching = method("catching", &[34, 184, 0, 1, 68, 177, 77, 177], &[(1, "throwing")]);
    t.push(Method { exceptions: rows.into(), ..catching });
    // 0 dload_0; 1 dstore_1; 2 goto 0
    t.push(method("loop", &[38, 72, 167, 0xff, 0xfe], &[]));
    // 0 lload_0; 1 athrow
    t.push(method("throwing", &[30, 191], &[]));
    // 0 invokestatic outer; 3 goto 9; 6 invokestatic other; 9 return
    let choosing = [184, 0, 1, 167, 0, 6, 184, 0, 2, 177];
    t.push(method("choosing", &choosing, &[(0, "outer"), (6, "other")]));
    // 0 iconst_4; 1 invokestatic inner; 4 istore_1; 5 return
    t.push(method("twin", &[7, 184, 0, 1, 60, 177], &[(1, "inner")]));
    // 0 fconst_0; 1 return
    t.push(method("initialiser", &[11, 177], &[]));
    // 0 invokestatic initialiser; 3 dup; 4 pop2; 5 areturn
    t.push(method("calling", &[184, 0, 1, 89, 88, 176], &[(0, "initialiser")]));
    // 0 new; 3 dup; 4 dup2; 5 areturn
    t.push(method("creating", &[187, 0, 1, 89, 92, 176], &[]));
    Arc::new(t)
}

pub(crate) fn event(kind: EventKind) -> Event {
    Event::decoded(kind)
}
/// Orphans without a branch.
pub(crate) fn orphans(opcodes: &[Opcode]) -> Vec<Event> {
    opcodes.iter().map(|o| orphan(*o, None)).collect()
}
pub(crate) fn orphan(opcode: Opcode, taken: Option<bool>) -> Event {
    event(EventKind::Orphan(Orphan::Bytecode { opcode: opcode.0, taken }))
}
pub(crate) fn throw() -> Event {
    event(EventKind::Orphan(Orphan::Throw))
}
pub(crate) fn enter(method: u32, tier: Tier, entry: Entry) -> Event {
    event(EventKind::Enter { method: MethodId(method), tier, entry })
}
pub(crate) fn at(method: u32, bci: u16) -> Event {
    event(EventKind::Bytecode { method: MethodId(method), bci: Bci(bci), tier: Tier::C1 })
}
pub(crate) fn leave(method: u32, exit: Exit) -> Event {
    event(EventKind::Leave { method: MethodId(method), exit })
}
/// A call of `inner`, as the flow reports it above an unknown frame.
pub(crate) fn call_of_inner() -> Vec<Event> {
    let found = enter(INNER, Tier::Interpreter, Entry::Found);
    vec![found, at(INNER, 0), at(INNER, 1), leave(INNER, Exit::Return)]
}
pub(crate) fn gap() -> Event {
    event(EventKind::Gap(Box::new(Gap {
        reason: GapReason::Truncated,
        core: Core(0),
        offset: StreamOffset(0),
        address: None,
        since: None,
        until: None,
        bytes: None,
        stack_lost: true,
    })))
}

/// The last flow that was passed to it.
#[derive(Default)]
pub(crate) struct LastFlow(Arc<Mutex<Vec<Event>>>);
struct Keep(Arc<Mutex<Vec<Event>>>);

impl FlowConsumer for LastFlow {
    fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(Keep(Arc::clone(&self.0)))
    }
}
impl FlowSink for Keep {
    fn events(&mut self, events: &[Event]) {
        self.0.lock().unwrap().extend_from_slice(events);
    }
    fn end(self: Box<Self>) {}
}

/// The result for a flow that is passed in pieces of `batch` events.
pub(crate) fn projected(
    events: &[Event],
    settings: PlacementSettings,
    batch: usize,
) -> (Vec<Event>, Summary) {
    let mut kept = LastFlow::default();
    let info = ThreadInfo { tid: Tid(7), java_tid: 1, name: "t".into(), started: Tsc(0) };
    let mut projector = Projector::new(methods(), settings, &mut kept);
    let mut sink = projector.thread(&info);
    events.chunks(batch).for_each(|b| sink.events(b));
    sink.end();
    let summary = projector.summary();
    let events = std::mem::take(&mut *kept.0.lock().unwrap());
    (events, summary)
}

/// A short notation of events: `>o` entered by a call, `>f` found, `>g` on-stack replacement,
/// `4` a bytecode of the top frame, `<r`, `<u`, `<l`, `<x` left by return, exception, lost,
/// replaced; `~n` follows events that were placed with `n` paths.
pub(crate) fn words(events: &[Event]) -> Vec<String> {
    let word = |e: &Event| {
        let text = match &e.kind {
            EventKind::Enter { method, entry: Entry::Call, .. } => format!(">c{}", method.0),
            EventKind::Enter { method, entry: Entry::Found, .. } => format!(">f{}", method.0),
            EventKind::Enter { method, entry: Entry::Osr, .. } => format!(">g{}", method.0),
            EventKind::Enter { method, .. } => format!(">{}", method.0),
            EventKind::Bytecode { method, bci, .. } => format!("{}@{bci}", method.0),
            EventKind::Leave { method, exit } => {
                let exit = match exit {
                    Exit::Return => 'r',
                    Exit::Unwind => 'u',
                    Exit::Replaced => 'x',
                    _ => 'l',
                };
                format!("<{exit}{}", method.0)
            }
            EventKind::Catch { method, bci } => format!("catch {}@{bci}", method.0),
            EventKind::Orphan(Orphan::Throw) => "throw".into(),
            EventKind::Orphan(Orphan::Bytecode { opcode, .. }) => Opcode(*opcode).name().into(),
            EventKind::Gap(_) => "gap".into(),
            other => format!("{other:?}"),
        };
        match e.provenance {
            Provenance::Projected { paths } => format!("{text}~{paths}"),
            _ => text,
        }
    };
    events.iter().map(word).collect()
}
