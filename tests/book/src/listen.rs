// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Prints what mdBook reports, and counts its warnings and errors.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Runs `f`; returns its result and the number of warnings and errors that mdBook reported in it.
pub fn during<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let result = tracing::subscriber::with_default(Listener(Arc::clone(&count)), f);
    (result, count.load(Ordering::Relaxed))
}

struct Listener(Arc<AtomicUsize>);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO && metadata.target().starts_with("mdbook")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        match *event.metadata().level() {
            Level::INFO => println!("{}", message.0),
            level => {
                self.0.fetch_add(1, Ordering::Relaxed);
                eprintln!("{}: {}", level.as_str().to_lowercase(), message.0);
            }
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
