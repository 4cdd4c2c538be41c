// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small methods and flows for unit tests.

use std::sync::Arc;

use jportal_bytecode::{InvokeRef, LineRow, Method, MethodTable};
use jportal_flow::{
    Entry, Event, EventKind, Exit, FlowConsumer, Gap, GapReason, Provenance, ThreadInfo, Tier,
};
use jportal_units::{Bci, Core, MethodId, StreamOffset, Tid, Tsc};

/// `iload_0; ifeq 8; iconst_1; goto 9; iconst_0(8); ireturn(9)`, lines 10, 11, 12.
pub(crate) const BRANCHY: &[u8] = &[26, 153, 0, 7, 4, 167, 0, 4, 3, 172];

pub(crate) fn method(class: &str, name: &str, code: &[u8]) -> Method {
    let loader = if class.starts_with("java/") { "" } else { "app" };
    Method {
        class_name: class.into(),
        loader: loader.into(),
        source_file: "A.java".into(),
        name: name.into(),
        signature: "(I)I".into(),
        access_flags: 8,
        code: code.into(),
        ..Method::default()
    }
}

/// m0 and m1 are [`BRANCHY`], m2 is a method of `java/lang/Math`, m3 has the probes 1 and
/// 0x12345.
pub(crate) fn methods() -> Arc<MethodTable> {
    let line = |bci, line| LineRow { bci: Bci(bci), line };
    let lines = [line(0, 10), line(4, 11), line(8, 12)];
    let mut t = MethodTable::default();
    t.push(Method { lines: lines.into(), ..method("a/B", "f", BRANCHY) });
    t.push(Method { lines: lines.into(), ..method("a/B", "g", BRANCHY) });
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

pub(crate) fn enter(m: u32) -> Event {
    enter_as(m, Entry::Call)
}
pub(crate) fn enter_as(m: u32, entry: Entry) -> Event {
    Event::decoded(EventKind::Enter { method: MethodId(m), tier: Tier::Interpreter, entry })
}
pub(crate) fn leave(m: u32) -> Event {
    leave_as(m, Exit::Return)
}
pub(crate) fn leave_as(m: u32, exit: Exit) -> Event {
    Event::decoded(EventKind::Leave { method: MethodId(m), exit })
}
pub(crate) fn bytecode(m: u32, bci: u16) -> Event {
    Event::decoded(EventKind::Bytecode { method: MethodId(m), bci: Bci(bci), tier: Tier::Interpreter })
}
/// A probe call of method 3, the native method, and the return from it.
pub(crate) fn probe_call(bci: u16) -> [Event; 3] {
    let native = EventKind::Enter { method: MethodId(4), tier: Tier::Native, entry: Entry::Call };
    [bytecode(3, bci), Event::decoded(native), leave(4)]
}
pub(crate) fn recovered(e: Event) -> Event {
    Event { provenance: Provenance::Recovered { confidence: 0.5 }, ..e }
}
pub(crate) fn projected(e: Event) -> Event {
    Event { provenance: Provenance::Projected { paths: 1 }, ..e }
}
pub(crate) fn gap(stack_lost: bool) -> Event {
    Event::decoded(EventKind::Gap(Box::new(Gap {
        reason: GapReason::Truncated,
        core: Core(1),
        offset: StreamOffset(4096),
        address: None,
        since: Some(Tsc(5)),
        until: None,
        bytes: Some(100),
        stack_lost,
    })))
}
pub(crate) fn thread(tid: u32) -> ThreadInfo {
    ThreadInfo { tid: Tid(tid), java_tid: 1, name: format!("t{tid}"), started: Tsc(0) }
}

/// Feeds one thread's flow in batches of three.
pub(crate) fn feed(consumer: &mut dyn FlowConsumer, tid: u32, events: &[Event]) {
    let mut sink = consumer.thread(&thread(tid));
    events.chunks(3).for_each(|batch| sink.events(batch));
    sink.end();
}
