// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Small flows for the tests of this crate and of those above it.

use jportal_units::{Bci, Core, MethodId, StreamOffset, Tid, Tsc};

use crate::{
    Analysis, Entry, Event, EventKind, Exit, FlowConsumer, Gap, GapReason, Provenance, ThreadInfo, Tier,
};

/// A call of method `m`, interpreted.
pub fn enter(m: u32) -> Event {
    enter_as(m, Entry::Call)
}

/// A frame of method `m` that begins as `entry`, interpreted.
pub fn enter_as(m: u32, entry: Entry) -> Event {
    Event::decoded(EventKind::Enter { method: MethodId(m), tier: Tier::Interpreter, entry })
}

/// A return from method `m`.
pub fn leave(m: u32) -> Event {
    leave_as(m, Exit::Return)
}

/// The end of a frame of method `m`.
pub fn leave_as(m: u32, exit: Exit) -> Event {
    Event::decoded(EventKind::Leave { method: MethodId(m), exit })
}

/// An interpreted bytecode.
pub fn bytecode(m: u32, bci: u16) -> Event {
    Event::decoded(EventKind::Bytecode { method: MethodId(m), bci: Bci(bci), tier: Tier::Interpreter })
}

/// The event, filled in with confidence 0.5.
pub fn recovered(e: Event) -> Event {
    Event { provenance: Provenance::Recovered { confidence: 0.5 }, ..e }
}

/// The event, placed on the only path.
pub fn projected(e: Event) -> Event {
    Event { provenance: Provenance::Projected { paths: 1 }, ..e }
}

/// A gap of 100 lost bytes.
pub fn gap(stack_lost: bool) -> Event {
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

/// A thread called `t<tid>`.
pub fn thread(tid: u32) -> ThreadInfo {
    ThreadInfo { tid: Tid(tid), java_tid: 1, name: format!("t{tid}"), started: Tsc(0) }
}

/// Passes one thread's flow to a consumer, in batches of three events.
pub fn pass(consumer: &mut dyn FlowConsumer, tid: u32, events: &[Event]) {
    let mut sink = consumer.thread(&thread(tid));
    events.chunks(3).for_each(|batch| sink.events(batch));
    sink.end();
}

/// Feeds one thread's flow to an analysis, in batches of three events.
pub fn feed<A: Analysis>(analysis: &mut A, tid: u32, events: &[Event]) {
    feed_as(analysis, &thread(tid), events);
}

/// As [`feed`], for any thread.
pub fn feed_as<A: Analysis>(analysis: &mut A, thread: &ThreadInfo, events: &[Event]) {
    let mut state = analysis.begin(thread);
    for batch in events.chunks(3) {
        if analysis.events(&mut state, batch).is_break() {
            break;
        }
    }
    analysis.merge(state);
}
