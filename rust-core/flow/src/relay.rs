// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Runs a consumer on a thread of its own.

use crate::{Event, FlowConsumer, FlowSink, Sender, ThreadInfo, bounded};
use std::sync::mpsc::{self, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of events that may wait for the consumer. It is large enough that a consumer with
/// occasional delays does not stop the producer.
const AHEAD: usize = 1 << 18;

/// Runs `producer`. The sinks of `to` process its events in order on another thread, while
/// `producer` continues. [`FlowConsumer::thread`] itself is called on the present thread. Returns
/// when the sinks have processed all events.
///
/// At most some hundred thousand events wait at a time, plus one batch.
///
/// # Panics
/// If one of the sinks panics.
pub fn relayed<T>(to: &mut dyn FlowConsumer, producer: impl FnOnce(&mut dyn FlowConsumer) -> T) -> T {
    let (send, receive) = bounded(AHEAD);
    let (give_back, taken) = channel();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let mut sinks = Sinks::default();
            receive.iter().for_each(|message| {
                if let Some(batch) = sinks.take(message) {
                    // If the producer has finished, nothing takes the batch.
                    let _ = give_back.send(batch);
                }
            });
        });
        let mut relay = Relay { to, begun: 0, send, empty: Arc::new(Mutex::new(taken)) };
        let result = producer(&mut relay);
        drop(relay);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result
    })
}

/// Messages to the other thread; a number identifies a sink.
enum Message {
    Begin(Box<dyn FlowSink + Send>),
    Events(usize, Vec<Event>),
    End(usize),
}

/// The sinks, in order of creation.
#[derive(Default)]
struct Sinks(Vec<Option<Box<dyn FlowSink + Send>>>);

impl Sinks {
    /// Passes a message to its sink. Returns the batch, empty.
    fn take(&mut self, message: Message) -> Option<Vec<Event>> {
        match message {
            Message::Begin(sink) => self.0.push(Some(sink)),
            Message::Events(number, mut batch) => {
                if let Some(Some(sink)) = self.0.get_mut(number) {
                    sink.take(&mut batch);
                }
                batch.clear();
                return Some(batch);
            }
            Message::End(number) => {
                if let Some(sink) = self.0.get_mut(number).and_then(Option::take) {
                    sink.end();
                }
            }
        }
        None
    }
}

/// The consumer that the producer sees.
struct Relay<'c> {
    to: &'c mut dyn FlowConsumer,
    /// Number of sinks up to here.
    begun: usize,
    send: Sender<Message>,
    empty: Arc<Mutex<mpsc::Receiver<Vec<Event>>>>,
}

impl FlowConsumer for Relay<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        let (number, send) = (self.begun, self.send.clone());
        self.begun += 1;
        // The other thread hangs up only when it panics; the panic is passed on at the end.
        let _ = send.send(Message::Begin(self.to.thread(info)), 0);
        Box::new(RelaySink { number, send, empty: Arc::clone(&self.empty) })
    }
    fn takes_runs(&self) -> bool {
        self.to.takes_runs()
    }
    fn takes_code(&self) -> bool {
        self.to.takes_code()
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
}

/// A sink that the producer sees.
struct RelaySink {
    number: usize,
    send: Sender<Message>,
    empty: Arc<Mutex<mpsc::Receiver<Vec<Event>>>>,
}

impl RelaySink {
    fn empty(&self) -> Vec<Event> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).try_recv().unwrap_or_default()
    }
}

impl FlowSink for RelaySink {
    fn events(&mut self, events: &[Event]) {
        let mut batch = self.empty();
        batch.extend_from_slice(events);
        let _ = self.send.send(Message::Events(self.number, batch), events.len());
    }
    fn take(&mut self, events: &mut Vec<Event>) {
        let batch = std::mem::replace(events, self.empty());
        let len = batch.len();
        let _ = self.send.send(Message::Events(self.number, batch), len);
    }
    fn end(self: Box<Self>) {
        let _ = self.send.send(Message::End(self.number), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;
    use jportal_units::{Tid, Tsc};
    use std::thread::{ThreadId, current};

    /// The number of a sink, the time it received (`None` for the end), and the thread of the
    /// call.
    type Told = (u32, Option<u64>, ThreadId);

    /// Records all calls of the sinks.
    #[derive(Default)]
    struct Notes(Arc<Mutex<Vec<Told>>>);
    struct Note(u32, Arc<Mutex<Vec<Told>>>);

    impl FlowConsumer for Notes {
        fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
            Box::new(Note(info.tid.0, Arc::clone(&self.0)))
        }
    }
    impl FlowSink for Note {
        fn events(&mut self, events: &[Event]) {
            for event in events {
                let EventKind::Time(tsc) = event.kind else { panic!("a sink that panics") };
                self.1.lock().unwrap().push((self.0, Some(tsc.0), current().id()));
            }
        }
        fn end(self: Box<Self>) {
            self.1.lock().unwrap().push((self.0, None, current().id()));
        }
    }
    fn info(tid: u32) -> ThreadInfo {
        ThreadInfo { tid: Tid(tid), java_tid: 0, name: String::new(), started: Tsc(0) }
    }
    fn times(range: std::ops::Range<u64>) -> Vec<Event> {
        range.map(|t| Event::decoded(EventKind::Time(Tsc(t)))).collect()
    }

    #[test]
    fn everything_comes_in_order_and_on_another_thread() {
        let mut notes = Notes::default();
        let result = relayed(&mut notes, |to| {
            let (mut a, mut b) = (to.thread(&info(1)), to.thread(&info(2)));
            for round in 0..100 {
                a.events(&times(2 * round..2 * round + 1));
                let mut batch = times(2 * round + 1..2 * round + 2);
                b.take(&mut batch);
                assert!(batch.is_empty());
            }
            b.end();
            a.events(&times(500..501));
            a.end();
            "result"
        });
        let all = notes.0.lock().unwrap();
        let told: Vec<_> = all.iter().map(|(tid, time, _)| (*tid, *time)).collect();
        let mut expected: Vec<_> = (0..200).map(|t| (1 + (t % 2) as u32, Some(t))).collect();
        expected.extend([(2, None), (1, Some(500)), (1, None)]);
        assert_eq!((result, told), ("result", expected));
        assert!(all.iter().all(|(_, _, thread)| *thread != current().id()));
    }

    #[test]
    fn a_panic_of_a_sink_is_passed_on() {
        let failed = std::panic::catch_unwind(|| {
            relayed(&mut Notes::default(), |to| {
                let mut sink = to.thread(&info(1));
                // More events than may wait: the producer must not wait for a thread that has
                // gone.
                for _ in 0..2 * AHEAD {
                    sink.events(&[Event::decoded(EventKind::Orphan(crate::Orphan::Throw))]);
                }
                sink.end();
            })
        });
        let panic = failed.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a sink that panics"));
    }
}
