// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A close view of one event: the machine blocks around it, with what the VM said of them and
//! the events that resulted from them.

use std::sync::Arc;

use anyhow::Result;
use jportal::Capture;
use jportal::analyses::print::Words;
use jportal::reconstruct::{MachineBlock, MachineStep, Watch};
use jportal_plain::line;
use serde_json::{Value, json};

use crate::args::DecodeArgs;
use crate::decode;

/// The steps around an event.
pub(crate) struct Look {
    watch: Watch,
    steps: Vec<MachineStep>,
    words: Words,
}

/// Maximum number of bytes of a block that are shown.
const BYTES: usize = 48;
/// Number of events of a step that are shown before and after the watched one. In other steps:
/// the number shown before the last one.
const EVENTS: usize = 6;

impl Look {
    /// Decodes again, up to the event.
    pub(crate) fn at(args: &DecodeArgs, capture: &Capture, watch: Watch) -> Result<Self> {
        let steps = decode::query(args, capture)?.steps_around(watch)?;
        Ok(Self { watch, steps, words: Words::new(Arc::new(capture.methods().clone())) })
    }

    /// Whether the thread has this event.
    pub(crate) fn has_event(&self) -> bool {
        self.steps.iter().any(|s| s.watched)
    }

    pub(crate) fn text(&self) -> String {
        let Watch { tid, event, .. } = self.watch;
        let mut text = format!("what the machine did around flow event {event} of {tid}:\n");
        for step in &self.steps {
            let mark = if step.watched { "=>" } else { "  " };
            match &step.what {
                Ok(block) => text += &block_text(mark, block),
                Err(what) => text += &format!("{mark} {}\n", line(what)),
            }
            text += &format!("     {}, {}, time {}\n", step.core, step.offset, step.time);
            for (number, words) in self.events(step) {
                let mark = if number == Some(event) { "=>" } else { "  " };
                let number = number.map_or_else(|| "…".to_owned(), |n| n.to_string());
                text += &format!("     {mark} {number:>8} {words}\n");
            }
        }
        if !self.has_event() {
            text += "the event belongs to no machine block: these were the thread's last ones\n";
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let step = |s: &MachineStep| {
            let (block, what) = match &s.what {
                Ok(b) => (block_json(b), Value::Null),
                Err(what) => (Value::Null, what.as_str().into()),
            };
            let events: Vec<Value> =
                self.events(s).iter().map(|(n, words)| json!({"event": n, "text": words})).collect();
            json!({
                "core": s.core.get(), "offset": s.offset.get(), "tsc": s.time.get(), "watched": s.watched,
                "block": block, "what": what, "events": events,
            })
        };
        json!({"event": self.watch.event, "steps": self.steps.iter().map(step).collect::<Vec<_>>()})
    }

    /// The events of a step with their numbers. An entry without a number stands for omitted
    /// events.
    fn events(&self, step: &MachineStep) -> Vec<(Option<u64>, String)> {
        let last = step.events.len().saturating_sub(1);
        let centre = if step.watched {
            usize::try_from(self.watch.event - step.first_event).unwrap_or(last)
        } else {
            last
        };
        let shown = centre.saturating_sub(EVENTS)..=(centre + EVENTS).min(last);
        let mut all = Vec::new();
        if *shown.start() > 0 {
            all.push((None, format!("{} events before", shown.start())));
        }
        for (number, (at, e)) in (step.first_event..).zip(step.events.iter().enumerate()) {
            if shown.contains(&at)
                && let Some(words) = self.words.of(e)
            {
                all.push((Some(number), words));
            }
        }
        if *shown.end() < last {
            all.push((None, format!("{} events after", last - shown.end())));
        }
        all
    }
}

fn hex(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().take(BYTES).map(|b| format!("{b:02x}")).collect();
    let more = if bytes.len() > BYTES { format!(" … {} in all", bytes.len()) } else { String::new() };
    format!("{}{more}", shown.join(" "))
}

fn block_text(mark: &str, b: &MachineBlock) -> String {
    let (from, to) = b.offsets;
    let mut text = format!(
        "{mark} {} to {}, +{from} to +{to} of {}, ends with {}\n",
        b.start,
        b.end,
        line(&b.code),
        b.exit
    );
    text += &format!("     bytes   {}\n", hex(&b.bytes));
    b.markers.iter().for_each(|m| text += &format!("     marker  {}\n", line(m)));
    b.scopes.iter().for_each(|s| text += &format!("     scope   {}\n", line(s)));
    text
}

fn block_json(b: &MachineBlock) -> Value {
    json!({
        "start": b.start.get(), "end": b.end.get(), "code": b.code, "from": b.offsets.0, "to": b.offsets.1,
        "exit": b.exit, "bytes": hex(&b.bytes), "markers": b.markers, "scopes": b.scopes,
    })
}
