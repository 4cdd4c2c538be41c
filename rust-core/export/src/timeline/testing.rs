// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A small flow for the tests of the exports. One tick is one microsecond.

use std::sync::Arc;

use jportal_analyses::names::Naming;
use jportal_analyses::timeline::{Limits, TimelineAnalysis, TimelineSink, Timelines};
use jportal_bytecode::testing::method;
use jportal_bytecode::{LineRow, Method, MethodTable};
use jportal_flow::testing::{bytecode, enter, enter_as, feed_as, gap, leave, leave_as, thread};
use jportal_flow::{Entry, Event, EventKind, Exclude, Exit, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId, Tsc};

use super::Clock;

pub(super) const CLOCK: Clock = Clock { start: Tsc(1000), tsc_khz: 1000 };

pub(super) fn methods() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    let lines = || Box::new([LineRow { bci: Bci(0), line: 10 }]);
    t.push(Method { lines: lines(), ..method("main", &[184, 0, 1, 177]) });
    t.push(method("work\u{202e}", &[177]));
    Arc::new(t)
}

pub(super) fn time(t: u64) -> Event {
    Event::decoded(EventKind::Time(Tsc(t)))
}

/// `main` (1000–1090) calls `work` (1010–1040 and 1050–1060), which is replaced and throws. Then
/// the frames are lost.
pub(super) fn flow() -> Vec<Event> {
    let c2 = Event::decoded(EventKind::Enter { method: MethodId(1), tier: Tier::C2, entry: Entry::Osr });
    vec![
        time(1000),
        enter_as(0, Entry::Upcall),
        bytecode(0, 0),
        time(1010),
        enter(1),
        bytecode(1, 0),
        time(1040),
        leave(1),
        time(1050),
        enter(1),
        time(1055),
        leave_as(1, Exit::Replaced),
        c2,
        time(1060),
        leave_as(1, Exit::Unwind),
        time(1090),
        gap(true),
        time(1100),
    ]
}

/// Shows the flow in two threads with the same OS thread id.
pub(super) fn show(open: impl Fn(&ThreadInfo) -> Box<dyn TimelineSink> + Send + Sync + 'static) -> Timelines {
    let limits = Limits { min: 5, depth: 9, load: Some(20) };
    let open = move |info: &ThreadInfo| Ok(Some(open(info)));
    let mut a = TimelineAnalysis::new(methods(), Naming::default(), (limits, Exclude::default()), open);
    for started in [5, 6] {
        let info = ThreadInfo { started: Tsc(started), name: format!("t\u{1}{started}"), ..thread(77) };
        feed_as(&mut a, &info, &flow());
    }
    assert!(a.error().is_none());
    a.report()
}
