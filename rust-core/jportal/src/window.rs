// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The part of a flow between two bounds.

use std::ops::Range;

use jportal_flow::{Entry, Event, EventKind, FlowConsumer, FlowSink, Gap, GapReason, ThreadInfo, Tier};
use jportal_units::{MethodId, Tsc};

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A time. The range includes the events at it or after it.
    Time(Tsc),
    /// The number of an event in the flow of a thread, from 0. It is the first of the range, or
    /// the first after it.
    Event(u64),
}

/// Where a range begins and ends; `None` for the ends of the recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) from: Option<Bound>,
    pub(crate) to: Option<Bound>,
}

impl Bounds {
    /// Whether nothing is left out.
    pub(crate) fn is_whole(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
    /// Whether they are numbers of events.
    pub(crate) fn number_events(&self) -> bool {
        [self.from, self.to].iter().any(|b| matches!(b, Some(Bound::Event(_))))
    }
}

/// Passes on the events between two bounds. Frames that are on the stack where the range begins
/// come first, as found. If trace before the range was left out, so that there may be further
/// frames, the gap comes before them.
pub(crate) struct WindowConsumer<'c> {
    bounds: Bounds,
    to: &'c mut dyn FlowConsumer,
}

impl<'c> WindowConsumer<'c> {
    pub(crate) fn new(bounds: Bounds, to: &'c mut dyn FlowConsumer) -> Self {
        Self { bounds, to }
    }
}

impl FlowConsumer for WindowConsumer<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        if self.bounds.is_whole() {
            return self.to.thread(info);
        }
        Box::new(WindowSink {
            bounds: self.bounds,
            before: Some(Vec::new()).filter(|_| self.bounds.from.is_some()),
            left_out: None,
            ended: false,
            number: 0,
            now: Tsc(0),
            to: self.to.thread(info),
        })
    }
    fn takes_runs(&self) -> bool {
        // A bound may be the number of any bytecode.
        !self.bounds.number_events() && self.to.takes_runs()
    }
    fn takes_code(&self) -> bool {
        self.to.takes_code()
    }
    // The end of the range does not end the decode: its figures are those of the whole trace.
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
}

/// One thread.
struct WindowSink {
    bounds: Bounds,
    /// Before the range: the frames on the stack, outermost first.
    before: Option<Vec<(MethodId, Tier)>>,
    /// Before the range: the last gap of trace that was left out.
    left_out: Option<Box<Gap>>,
    ended: bool,
    /// Number of the next event.
    number: u64,
    now: Tsc,
    to: Box<dyn FlowSink + Send>,
}

impl WindowSink {
    /// Whether the next event, at the present time, is at or after a bound.
    fn has_reached(&self, bound: Bound) -> bool {
        match bound {
            Bound::Time(tsc) => self.now >= tsc,
            Bound::Event(number) => self.number >= number,
        }
    }
    fn follow(frames: &mut Vec<(MethodId, Tier)>, kind: &EventKind) {
        match *kind {
            EventKind::Enter { method, tier, .. } => frames.push((method, tier)),
            EventKind::Leave { .. } => drop(frames.pop()),
            EventKind::Bytecode { method, tier, .. } | EventKind::Run { method, tier, .. }
                if frames.is_empty() =>
            {
                frames.push((method, tier));
            }
            EventKind::Gap(ref gap) if gap.stack_lost => frames.clear(),
            _ => {}
        }
    }
    /// The events of the batch that are in the range.
    fn select(&mut self, events: &[Event]) -> Range<usize> {
        let mut begin = if self.before.is_some() { events.len() } else { 0 };
        for (at, event) in events.iter().enumerate() {
            if let EventKind::Time(tsc) = event.kind {
                self.now = tsc;
            }
            if let Some(mut frames) = self.before.take() {
                if self.bounds.from.is_none_or(|from| self.has_reached(from)) {
                    begin = at;
                    self.found(&frames);
                } else {
                    Self::follow(&mut frames, &event.kind);
                    if let EventKind::Gap(gap) = &event.kind
                        && gap.reason == GapReason::LeftOut
                    {
                        self.left_out = Some(gap.clone());
                    }
                    self.before = Some(frames);
                }
            }
            if self.bounds.to.is_some_and(|to| self.has_reached(to)) {
                self.ended = true;
                return begin.min(at)..at;
            }
            // Numbers are those of a flow without steps of code.
            self.number += u64::from(!matches!(event.kind, EventKind::Code(_)));
        }
        begin..events.len()
    }
    /// The frames at the beginning of the range, and its time.
    fn found(&mut self, frames: &[(MethodId, Tier)]) {
        let enter = |&(method, tier): &(MethodId, Tier)| {
            Event::decoded(EventKind::Enter { method, tier, entry: Entry::Found })
        };
        let mut events: Vec<Event> = frames.iter().map(enter).collect();
        let known = |tsc: Tsc| Some(tsc).filter(|tsc| *tsc > Tsc(0));
        if let Some(gap) = self.left_out.take() {
            let gap = Gap { until: known(self.now), ..*gap };
            events.insert(0, Event::decoded(EventKind::Gap(Box::new(gap))));
        }
        if let Some(now) = known(self.now) {
            events.insert(0, Event::decoded(EventKind::Time(now)));
        }
        self.to.take(&mut events);
    }
}

impl FlowSink for WindowSink {
    fn events(&mut self, events: &[Event]) {
        if self.ended {
            return;
        }
        let part = self.select(events);
        if !part.is_empty() {
            self.to.events(&events[part]);
        }
    }
    fn has_enough(&self) -> bool {
        self.ended || self.to.has_enough()
    }
    fn end(self: Box<Self>) {
        self.to.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use jportal_flow::testing::{bytecode, enter, enter_as, leave, pass};
    use jportal_units::{Core, StreamOffset};

    use super::*;

    #[derive(Default)]
    struct Kept(Arc<Mutex<Vec<Event>>>);
    impl FlowConsumer for Kept {
        fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
            Box::new(Self(Arc::clone(&self.0)))
        }
    }
    impl FlowSink for Kept {
        fn events(&mut self, events: &[Event]) {
            self.0.lock().unwrap().extend_from_slice(events);
        }
        fn end(self: Box<Self>) {}
    }

    fn time(tsc: u64) -> Event {
        Event::decoded(EventKind::Time(Tsc(tsc)))
    }

    fn flow() -> Vec<Event> {
        let mut all = vec![time(1), enter(0), bytecode(0, 0), enter(1), time(5), bytecode(1, 0)];
        all.extend([leave(1), time(9), bytecode(0, 3), leave(0)]);
        all
    }

    fn part(from: Option<Bound>, to: Option<Bound>) -> Vec<Event> {
        let mut kept = Kept::default();
        let mut window = WindowConsumer::new(Bounds { from, to }, &mut kept);
        pass(&mut window, 1, &flow());
        assert!(!window.has_enough());
        Arc::into_inner(kept.0).unwrap().into_inner().unwrap()
    }

    #[test]
    fn without_bounds_everything_passes() {
        assert_eq!(part(None, None), flow());
    }

    #[test]
    fn a_part_begins_with_the_frames_on_the_stack() {
        let found = |m| enter_as(m, Entry::Found);
        let mut expected = vec![time(5), found(0), found(1)];
        expected.extend_from_slice(&flow()[4..7]);
        assert_eq!(part(Some(Bound::Time(Tsc(4))), Some(Bound::Time(Tsc(8)))), expected);
        assert_eq!(part(Some(Bound::Event(4)), Some(Bound::Event(7))), expected);
        assert_eq!(part(Some(Bound::Time(Tsc(10))), None), []);
        assert_eq!(part(None, Some(Bound::Event(2))), flow()[..2]);
    }

    #[test]
    fn a_part_after_trace_that_was_left_out_begins_with_the_gap() {
        let gap = |reason, until| Gap {
            reason,
            core: Core(1),
            offset: StreamOffset(7),
            address: None,
            since: None,
            until,
            bytes: None,
            stack_lost: true,
        };
        let event = |reason, until| Event::decoded(EventKind::Gap(Box::new(gap(reason, until))));
        let flow = vec![
            event(GapReason::LeftOut, None),
            enter(0),
            event(GapReason::Truncated, None),
            enter(1),
            time(5),
            bytecode(1, 0),
        ];
        let mut kept = Kept::default();
        let bounds = Bounds { from: Some(Bound::Time(Tsc(4))), to: None };
        pass(&mut WindowConsumer::new(bounds, &mut kept), 1, &flow);
        let kept = Arc::into_inner(kept.0).unwrap().into_inner().unwrap();
        let left_out = event(GapReason::LeftOut, Some(Tsc(5)));
        assert_eq!(kept, [time(5), left_out, enter_as(1, Entry::Found), time(5), bytecode(1, 0)]);
    }

    #[test]
    fn runs_are_split_if_events_are_numbered() {
        let mut kept = Kept::default();
        let by = |bound| Bounds { from: None, to: Some(bound) };
        assert!(by(Bound::Event(3)).number_events() && !by(Bound::Time(Tsc(3))).number_events());
        assert!(!WindowConsumer::new(by(Bound::Event(3)), &mut kept).takes_runs());
    }
}
