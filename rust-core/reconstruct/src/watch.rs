// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Shows the machine's steps around one event of a flow, to explain why the event is there.
//!
//! The trace is decoded again up to that event. The machine blocks before and after it are
//! kept, each with the events that it caused, and described with the VM's metadata of the code.

use std::collections::VecDeque;

use crate::driver::{DecodeOptions, Progress, decode_watched};
use crate::error::Error;
use crate::machine::StreamPlace;
use crate::recording::Recording;
use jportal_bytecode::Method;
use jportal_capture::schema::{compilers, edge_outcomes};
use jportal_flow::{Event, FlowConsumer, FlowSink, ThreadInfo};
use jportal_machine_flow::Item;
use jportal_units::{Address, CodeId, Core, MethodId, StreamOffset, Tid, Tsc};
use jportal_vm_image::{Marker, NMethod, PathMarkers};

/// The event to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its thread.
    pub tid: Tid,
    /// When that thread started; needed because the OS reuses ids.
    pub started: Tsc,
    /// Its number in the thread's flow, from 0.
    pub event: u64,
}

/// A step of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineStep {
    /// The core on which it ran.
    pub core: Core,
    /// The place in that core's PT stream, as exact as the decoder's batches.
    pub offset: StreamOffset,
    /// The last known time.
    pub time: Tsc,
    /// The block, or a description of what else happened.
    pub what: Result<MachineBlock, String>,
    /// Number in the thread's flow of the first of `events`.
    pub first_event: u64,
    /// The events that it caused.
    pub events: Vec<Event>,
    /// The watched event is one of them.
    pub watched: bool,
}

/// Executed instructions with the VM's metadata of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineBlock {
    /// First instruction.
    pub start: Address,
    /// The byte after the last.
    pub end: Address,
    /// How the block ended.
    pub exit: String,
    /// The code to which it belongs: method, compile id, tier; name of the stub.
    pub code: String,
    /// Offsets of start and end in that code.
    pub offsets: (u64, u64),
    /// The bytes. If several versions are possible, the last one installed by then.
    pub bytes: Vec<u8>,
    /// Path markers at and inside the block, and on the edges from its end.
    pub markers: Vec<String>,
    /// Debug-info positions in and at the end of the block, with inline chains, innermost first.
    pub scopes: Vec<String>,
}

/// Machine steps kept before the event, and after it.
const BEFORE: usize = 6;
const BEHIND: usize = 3;

#[derive(Debug)]
struct Raw {
    place: StreamPlace,
    time: Tsc,
    item: Item,
    first_event: u64,
    events: Vec<Event>,
}

/// Collects the steps while the trace is decoded.
#[derive(Debug)]
pub(crate) struct Watcher {
    watch: Watch,
    seen: u64,
    kept: VecDeque<Raw>,
    /// The number of steps that are still wanted, once the event has been seen.
    rest: Option<usize>,
}

impl Watcher {
    /// The OS thread of the event.
    pub(crate) const fn tid(&self) -> Tid {
        self.watch.tid
    }
    pub(crate) fn wants(&self, info: &ThreadInfo) -> bool {
        (info.tid, info.started) == (self.watch.tid, self.watch.started)
    }
    pub(crate) fn is_done(&self) -> bool {
        self.rest == Some(0)
    }
    /// The thread took `item`, which caused `events`.
    pub(crate) fn step(&mut self, place: StreamPlace, time: Tsc, item: &Item, events: &[Event]) {
        let first_event = self.seen;
        self.seen += events.len() as u64;
        if self.is_done() || matches!(item, Item::Time(_)) && events.is_empty() {
            return;
        }
        let found = (first_event..self.seen).contains(&self.watch.event);
        self.kept.push_back(Raw { place, time, item: item.clone(), first_event, events: events.to_vec() });
        match &mut self.rest {
            Some(rest) => *rest -= 1,
            None if found => self.rest = Some(BEHIND),
            None if self.kept.len() > BEFORE => {
                self.kept.pop_front();
            }
            None => {}
        }
    }
}

struct Nobody;

impl FlowConsumer for Nobody {
    fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(Self)
    }
}

impl FlowSink for Nobody {
    fn events(&mut self, _: &[Event]) {}
    fn end(self: Box<Self>) {}
}

impl Recording {
    /// The machine's steps around an event, in order. If there is no such event, the last steps
    /// of the thread.
    ///
    /// # Errors
    /// As [`Recording::decode`].
    pub fn steps_around(
        &self,
        watch: Watch,
        options: &DecodeOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<MachineStep>, Error> {
        let mut watcher = Watcher { watch, seen: 0, kept: VecDeque::new(), rest: None };
        decode_watched(self, options, &mut Nobody, progress, Some(&mut watcher))?;
        Ok(watcher.kept.into_iter().map(|raw| self.describe(raw, watch.event)).collect())
    }

    fn describe(&self, raw: Raw, event: u64) -> MachineStep {
        let what = match raw.item {
            Item::Block { start, end, code, exit } => {
                Ok(self.block((start, end), code, format!("{exit:?}"), raw.time))
            }
            Item::Enter { ip } => Err(format!("control enters at {ip}")),
            Item::Leave { target: Some(t) } => Err(format!("control leaves to {t:?}")),
            Item::Leave { target: None } => Err("control leaves".to_owned()),
            Item::Interrupt { ip } => Err(format!("interrupted before {ip}")),
            Item::Time(tsc) => Err(format!("time {tsc}")),
            Item::Gap(ref gap) => Err(format!("gap in the trace: {:?}", gap.reason)),
        };
        MachineStep {
            core: raw.place.core,
            offset: raw.place.offset,
            time: raw.time,
            what,
            first_event: raw.first_event,
            watched: (raw.first_event..raw.first_event + raw.events.len() as u64).contains(&event),
            events: raw.events,
        }
    }

    fn block(&self, (start, end): (u32, u32), code: CodeId, exit: String, time: Tsc) -> MachineBlock {
        let address = |offset: u32| self.code_cache().start.plus(offset.into());
        let (first, behind) = (address(start), address(end));
        let len = usize::try_from(behind.0.saturating_sub(first.0)).unwrap_or(0);
        let bytes = self.history().versions(first, len, time, time).pop().map_or(Vec::new(), |v| v.bytes);
        let Some(version) = self.image().code(code) else {
            let unknown = "code that was never described".to_owned();
            let (markers, scopes) = (Vec::new(), Vec::new());
            return MachineBlock {
                start: first,
                end: behind,
                exit,
                code: unknown,
                offsets: (0, len as u64),
                bytes,
                markers,
                scopes,
            };
        };
        let base = version.range.start;
        let offsets = (first.0.saturating_sub(base.0), behind.0.saturating_sub(base.0));
        let (mut name, mut markers, mut scopes) = (version.describe(), Vec::new(), Vec::new());
        if let Some(n) = version.nmethod() {
            let (from, to) = (offsets.0 as u32, offsets.1 as u32);
            name = self.compiled(n);
            scopes = self.scopes(n, from, to);
            match &n.markers {
                Some(m) => markers = self.markers(m, from, to),
                None => markers.push("none recorded for this nmethod".to_owned()),
            }
        }
        MachineBlock { start: first, end: behind, exit, code: name, offsets, bytes, markers, scopes }
    }

    fn method(&self, id: Option<MethodId>) -> String {
        let method = id.and_then(|id| self.methods().get(id));
        method.map_or_else(|| "an unknown method".to_owned(), Method::qualified_name)
    }

    fn compiled(&self, n: &NMethod) -> String {
        let name = match n.compiler {
            compilers::C1 => "C1",
            compilers::C2 => "C2",
            compilers::JVMCI => "JVMCI",
            _ => "an unknown compiler",
        };
        let osr = n.osr_bci.map_or_else(String::new, |bci| format!(", OSR at {bci}"));
        let precision = match &n.markers {
            Some(m) if m.exact => ", exact",
            Some(_) => "",
            None => ", no path markers",
        };
        format!(
            "{} (compile id {}, {name}, level {}{osr}{precision})",
            self.method(n.method),
            n.compile_id,
            n.level
        )
    }

    fn scopes(&self, n: &NMethod, from: u32, to: u32) -> Vec<String> {
        let all = n.positions.iter().filter(|p| (from..=to).contains(&p.offset));
        let chain = |scope| {
            let one = |s: &jportal_vm_image::Scope| format!("{} @{}", self.method(s.method), s.bci);
            n.chain(scope).map(one).collect::<Vec<_>>().join(" in ")
        };
        all.map(|p| format!("+{}: {}", p.offset, chain(p.scope))).collect()
    }

    fn markers(&self, m: &PathMarkers, from: u32, to: u32) -> Vec<String> {
        let mut all = Vec::new();
        let mut put = |place: String, list: &[Marker]| {
            let words: Vec<String> = list.iter().map(|mark| self.marker(m, *mark)).collect();
            all.push(format!("{place}: {}", words.join("; ")));
        };
        for (at, list) in m.passed(from, to) {
            put(format!("+{at}"), list);
        }
        // An edge starts at its branch, in the block, or at the return address of its call.
        for (at, outcome, target, list) in m.edges().filter(|e| (from..=to).contains(&e.0)) {
            put(format!("+{at} → +{target}, {}", outcome_name(outcome)), list);
        }
        all
    }

    fn marker(&self, m: &PathMarkers, mark: Marker) -> String {
        match mark {
            Marker::PollState => "state of the next poll".to_owned(),
            Marker::Ambiguous(cause) => {
                format!("ambiguous ({})", jportal_vm_image::markers::ambiguity_name(cause))
            }
            Marker::Block { context, bci } => {
                let mut at = bci;
                let chain = m.chain(context).map(|c| {
                    let text = format!("{} @{at}", self.method(c.method));
                    at = c.call_bci;
                    text
                });
                chain.collect::<Vec<_>>().join(" in ")
            }
        }
    }
}

const fn outcome_name(outcome: u8) -> &'static str {
    match outcome {
        edge_outcomes::TAKEN => "taken",
        edge_outcomes::NOT_TAKEN => "not taken",
        edge_outcomes::JUMP_TABLE => "jump table",
        edge_outcomes::CALL_RETURN => "call returns",
        edge_outcomes::EXCEPTION => "exception",
        edge_outcomes::FAULT => "fault",
        _ => "unknown outcome",
    }
}
