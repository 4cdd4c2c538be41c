//! Counts how often each exception handler ran: `cargo run --example handlers -- app.jportal`
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use jportal::{Analysis, Bci, Capture, Enough, Error, Event, EventKind, MethodId, ThreadInfo};

#[derive(Default)]
struct Handlers(BTreeMap<(MethodId, Bci), u64>);

impl Analysis for Handlers {
    type Thread = Vec<(MethodId, Bci)>;
    fn begin(&self, _: &ThreadInfo) -> Self::Thread {
        Vec::new()
    }
    fn events(&self, seen: &mut Self::Thread, events: &[Event]) -> ControlFlow<Enough> {
        seen.extend(events.iter().filter_map(|e| match e.kind {
            EventKind::Catch { method, bci } => Some((method, bci)),
            _ => None,
        }));
        ControlFlow::Continue(())
    }
    fn merge(&mut self, seen: Self::Thread) {
        seen.into_iter().for_each(|place| *self.0.entry(place).or_default() += 1);
    }
}

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "app.jportal".into());
    let capture = Capture::open(path.as_ref())?;
    let answer = capture.query().run(Handlers::default())?;
    for ((method, bci), count) in answer.analysis.0 {
        let name = capture.methods().get(method).map_or_else(|| "?".into(), |m| m.qualified_name());
        println!("{count:>8}  {name} @{bci}");
    }
    Ok(())
}
