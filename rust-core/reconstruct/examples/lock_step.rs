// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decodes a capture with what the decoder keeps and without it, and compares the flows:
//! `cargo run --example lock_step -- app.jportal [JOBS]`

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use jportal_capture::CaptureReader;
use jportal_flow::{Event, FlowConsumer, FlowSink, ThreadInfo};
use jportal_reconstruct::{DecodeOptions, MachineDecoder, Recording};

/// Thread, number of events, hash of the events.
type Digest = (u32, u64, u64);

struct Digests {
    ended: Arc<Mutex<Vec<Digest>>>,
    runs: bool,
}

struct Digesting {
    thread: u32,
    events: u64,
    hash: DefaultHasher,
    ended: Arc<Mutex<Vec<Digest>>>,
}

impl FlowConsumer for Digests {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        let ended = Arc::clone(&self.ended);
        let hash = DefaultHasher::new();
        Box::new(Digesting { thread: info.tid.get(), events: 0, hash, ended })
    }
    fn takes_runs(&self) -> bool {
        self.runs
    }
}

impl FlowSink for Digesting {
    fn events(&mut self, events: &[Event]) {
        for event in events {
            self.events += 1;
            format!("{event:?}").hash(&mut self.hash);
        }
    }
    fn end(self: Box<Self>) {
        let digest = (self.thread, self.events, self.hash.finish());
        self.ended.lock().expect("no sink panics").push(digest);
    }
}

fn main() -> ExitCode {
    let path = std::env::args().nth(1).unwrap_or_else(|| "app.jportal".into());
    let jobs = std::env::args().nth(2).and_then(|j| j.parse().ok()).unwrap_or(NonZeroUsize::MIN);
    let recording =
        Recording::open(CaptureReader::open(path.as_ref()).expect("a capture")).expect("a recording");
    let mut same = true;
    for runs in [false, true] {
        let digest = |native_decoder| {
            let ended = Arc::default();
            let mut digests = Digests { ended: Arc::clone(&ended), runs };
            let options = DecodeOptions { native_decoder, jobs: Some(jobs), ..DecodeOptions::default() };
            let start = Instant::now();
            let summary = recording.decode(&options, &mut digests, &mut |_, _| {}).expect("a decode");
            let counters: Vec<_> = summary.threads.iter().map(|t| (t.info.tid, t.counters.clone())).collect();
            println!("{native_decoder:?}: {:.2} s", start.elapsed().as_secs_f64());
            let mut all: Vec<Digest> = std::mem::take(&mut *ended.lock().expect("no sink panics"));
            all.sort_unstable();
            (all, counters)
        };
        let (own, reference) = (digest(MachineDecoder::Own), digest(MachineDecoder::Reference));
        println!("runs: {runs}, events: {}", own.0.iter().map(|d| d.1).sum::<u64>());
        same &= own == reference;
    }
    println!("{}", if same { "the same" } else { "DIFFERENT" });
    if same { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
