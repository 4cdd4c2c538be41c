// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The profile as JSON. The types follow `src/types/profile.ts` of the profiler.

use std::io::{self, Write};

use hashbrown::HashMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{CATEGORIES, LOST, Process, ThreadProfile};

/// The version of the format.
const VERSION: u32 = 58;
/// The version of the format from which the profiler's own recordings are processed.
const GECKO_VERSION: u32 = 31;
/// `MarkerPhase`: a moment, and a period.
const INSTANT: u8 = 0;
const INTERVAL: u8 = 1;

/// A column of a table, made while it is written.
struct LazyColumn<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for LazyColumn<I> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.clone())
    }
}

/// Milliseconds.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The strings of all threads.
#[derive(Default)]
struct Strings<'p> {
    all: Vec<&'p str>,
    by_text: HashMap<&'p str, usize>,
}

impl<'p> Strings<'p> {
    fn id(&mut self, text: &'p str) -> usize {
        *self.by_text.entry(text).or_insert_with(|| {
            self.all.push(text);
            self.all.len() - 1
        })
    }
}

/// Source files, as numbers of strings.
#[derive(Default)]
struct Sources {
    all: Vec<usize>,
    by_string: HashMap<usize, usize>,
}

impl Sources {
    fn id(&mut self, string: usize) -> usize {
        *self.by_string.entry(string).or_insert_with(|| {
            self.all.push(string);
            self.all.len() - 1
        })
    }
}

#[derive(Serialize)]
struct Whole<'p> {
    meta: Value,
    libs: [(); 0],
    shared: SharedTables<'p>,
    threads: Vec<RawThread<'p>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SharedTables<'p> {
    string_array: Vec<&'p str>,
    sources: Value,
}

/// A thread: the small tables as values, the samples written from the profile.
#[derive(Serialize)]
struct RawThread<'p> {
    #[serde(flatten)]
    head: Value,
    samples: SampleColumns<'p>,
    #[serde(rename = "stackTable")]
    stacks: StackColumns<'p>,
}

struct SampleColumns<'p>(&'p ThreadProfile);

impl Serialize for SampleColumns<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct SampleTable<A, B, C> {
            stack: A,
            time: B,
            weight: C,
            weight_type: &'static str,
            length: usize,
        }
        let all = &self.0.samples;
        let next = all.iter().skip(1).map(|s| s.0).chain([self.0.end]);
        let weight = all.iter().zip(next).map(|(s, next)| ms(next.saturating_sub(s.0)));
        SampleTable {
            stack: LazyColumn(all.iter().map(|s| s.1)),
            time: LazyColumn(all.iter().map(|s| ms(s.0))),
            weight: LazyColumn(weight),
            weight_type: "tracing-ms",
            length: all.len(),
        }
        .serialize(to)
    }
}

struct StackColumns<'p>(&'p ThreadProfile);

impl Serialize for StackColumns<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct StackTable<A, B> {
            frame: A,
            prefix: B,
            length: usize,
        }
        let all = &self.0.stacks;
        let (frame, prefix) = (LazyColumn(all.iter().map(|s| s.0)), LazyColumn(all.iter().map(|s| s.1)));
        StackTable { frame, prefix, length: all.len() }.serialize(to)
    }
}

/// Writes the profile.
pub(super) fn write(process: &Process, threads: &[ThreadProfile], out: &mut dyn Write) -> io::Result<()> {
    let (mut strings, mut sources) = (Strings::default(), Sources::default());
    let mut seen: HashMap<u32, u32> = HashMap::new();
    let mut all = Vec::with_capacity(threads.len());
    for profile in threads {
        let times = seen.entry(profile.tid).or_default();
        *times += 1;
        // One OS thread id may belong to several threads, one after the other.
        let tid = if *times == 1 { profile.tid.to_string() } else { format!("{}.{times}", profile.tid) };
        let head = thread((process, tid), profile, &mut strings, &mut sources);
        all.push(RawThread { head, samples: SampleColumns(profile), stacks: StackColumns(profile) });
    }
    let nothing = vec![Value::Null; sources.all.len()];
    let length = sources.all.len();
    let sources = json!({ "length": length, "uuid": nothing, "filename": sources.all });
    let shared = SharedTables { string_array: strings.all, sources };
    let whole = Whole { meta: meta(process), libs: [], shared, threads: all };
    serde_json::to_writer(&mut *out, &whole)?;
    out.flush()
}

fn meta(process: &Process) -> Value {
    let category =
        |(name, color): (&str, &str)| json!({ "name": name, "color": color, "subcategories": ["Other"] });
    json!({
        "interval": 1,
        "startTime": 0,
        "processType": 0,
        "product": process.name,
        "importedFrom": "JPortal",
        "stackwalk": 1,
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "categories": CATEGORIES.map(category),
        "markerSchema": [],
        "symbolicationNotSupported": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "keepProfileThreadOrder": true,
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
    })
}

/// Everything of a thread but its samples and stacks.
fn thread<'p>(
    (process, tid): (&'p Process, String),
    p: &'p ThreadProfile,
    strings: &mut Strings<'p>,
    sources: &mut Sources,
) -> Value {
    let empty = || json!({ "length": 0 });
    let resources = merged(empty(), json!({ "lib": [], "name": [], "host": [], "type": [] }));
    let symbols = merged(empty(), json!({ "libIndex": [], "address": [], "name": [], "functionSize": [] }));
    let start = p.samples.first().map_or(0, |s| s.0);
    json!({
        "processType": "default",
        "processName": process.name,
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": ms(start),
        "unregisterTime": ms(p.end),
        "pausedRanges": [],
        "showMarkersInTimeline": true,
        "name": p.name,
        "isMainThread": p.name == "main",
        "pid": process.pid.to_string(),
        "tid": tid,
        "markers": markers(p, strings),
        "frameTable": frames(p),
        "funcTable": functions(p, strings, sources),
        "resourceTable": resources,
        "nativeSymbols": symbols,
    })
}

fn merged(mut a: Value, b: Value) -> Value {
    if let (Value::Object(a), Value::Object(b)) = (&mut a, b) {
        a.extend(b);
    }
    a
}

fn markers<'p>(p: &'p ThreadProfile, strings: &mut Strings<'p>) -> Value {
    let all = &p.markers;
    let name: Vec<usize> = all.iter().map(|m| strings.id(&m.name)).collect();
    let start: Vec<f64> = all.iter().map(|m| ms(m.start)).collect();
    let end: Vec<Option<f64>> = all.iter().map(|m| m.end.map(ms)).collect();
    let phase: Vec<u8> = all.iter().map(|m| if m.end.is_some() { INTERVAL } else { INSTANT }).collect();
    json!({
        "data": vec![Value::Null; all.len()],
        "name": name,
        "startTime": start,
        "endTime": end,
        "phase": phase,
        "category": vec![LOST; all.len()],
        "length": all.len(),
    })
}

fn frames(p: &ThreadProfile) -> Value {
    let n = p.frames.len();
    let nothing = || vec![Value::Null; n];
    let function: Vec<u32> = p.frames.iter().map(|f| f.0).collect();
    let category: Vec<u8> = p.frames.iter().map(|f| f.1).collect();
    json!({
        "address": vec![-1; n],
        "inlineDepth": vec![0; n],
        "category": category,
        "subcategory": vec![0; n],
        "func": function,
        "nativeSymbol": nothing(),
        "innerWindowID": nothing(),
        "line": nothing(),
        "column": nothing(),
        "length": n,
    })
}

fn functions<'p>(p: &'p ThreadProfile, strings: &mut Strings<'p>, sources: &mut Sources) -> Value {
    let n = p.functions.len();
    let name: Vec<usize> = p.functions.iter().map(|f| strings.id(&f.name)).collect();
    let source = |f: &'p super::ShownFunction| match f.source.is_empty() {
        true => None,
        false => Some(sources.id(strings.id(&f.source))),
    };
    let source: Vec<Option<usize>> = p.functions.iter().map(source).collect();
    json!({
        "name": name,
        "isJS": vec![false; n],
        "relevantForJS": vec![false; n],
        "resource": vec![-1; n],
        "source": source,
        "lineNumber": vec![Value::Null; n],
        "columnNumber": vec![Value::Null; n],
        "length": n,
    })
}
