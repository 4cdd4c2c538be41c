// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads what `jfr print --json` prints. The document is read event by event.

use std::fmt;
use std::io::Read;

use hashbrown::HashMap;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::time::unix_ns;
use crate::stacks::log::LoggedMethod;

/// The events of JFR's sampler.
pub const JFR_EVENTS: [&str; 2] = ["jdk.ExecutionSample", "jdk.NativeMethodSample"];

/// Without `--stack-depth`, `jfr print` prints this number of frames and does not say so.
const PRINTED_FRAMES: usize = 5;

/// Why events of JFR cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JfrError {
    /// Not JSON, or not that of `jfr print`.
    #[error("not what `jfr print --json` prints: {0}")]
    Json(#[from] serde_json::Error),
    /// An event that the command does not print so.
    #[error("event {number} of JFR is malformed: {what}")]
    Event {
        /// Number of the event, from 1.
        number: u64,
        /// What is wrong.
        what: String,
    },
}

/// The bci of a frame that has begun no bytecode: JFR writes -1, as debug info has it for the entry
/// of a method. No bytecode is at this bci.
pub(crate) const BEFORE_FIRST: u16 = u16::MAX;

/// How JFR says that a frame was executed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum JfrFrameType {
    Interpreted,
    Compiled,
    Inlined,
    Native,
}

impl JfrFrameType {
    /// A short stable name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Interpreted => "interpreted",
            Self::Compiled => "compiled",
            Self::Inlined => "inlined",
            Self::Native => "native",
        }
    }
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "Interpreted" => Self::Interpreted,
            "JIT compiled" => Self::Compiled,
            "Inlined" => Self::Inlined,
            "Native" => Self::Native,
            _ => return None,
        })
    }
}

/// A frame of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JfrFrame {
    /// Index of the method in [`JfrSamples::methods`].
    pub(crate) method: u32,
    /// The bci, or [`BEFORE_FIRST`]. JFR writes 0 for a native method, which has none.
    pub(crate) bci: u16,
    pub(crate) kind: JfrFrameType,
}

/// A stack that JFR's sampler took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JfrSample {
    /// Index of the event in [`JFR_EVENTS`].
    pub(crate) event: usize,
    /// Number of the sample among those read, from 0.
    pub(crate) number: u64,
    /// Nanoseconds since 1970 UTC.
    pub(crate) unix_ns: u64,
    /// OS thread id and `java.lang.Thread.getId()`; 0 if JFR does not know it.
    pub(crate) tid: u32,
    pub(crate) java_tid: u64,
    /// Index of the thread's name in [`JfrSamples::threads`].
    pub(crate) thread: u32,
    /// Outer frames are missing, because the stack was deeper than JFR's limit or the printer's.
    pub(crate) truncated: bool,
    /// Innermost first; at least one.
    pub(crate) frames: Vec<JfrFrame>,
}

/// Names by number.
#[derive(Debug)]
pub(crate) struct JfrTable<T> {
    all: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for JfrTable<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> JfrTable<T> {
    fn number(&mut self, one: T) -> u32 {
        let next = self.all.len() as u32;
        *self.numbers.entry(one).or_insert_with_key(|one| {
            self.all.push(one.clone());
            next
        })
    }
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all.iter()
    }
}

impl<T> std::ops::Index<u32> for JfrTable<T> {
    type Output = T;
    fn index(&self, number: u32) -> &T {
        &self.all[number as usize]
    }
}

/// The samples of a recording of JFR.
#[derive(Debug, Default)]
pub struct JfrSamples {
    pub(crate) all: Vec<JfrSample>,
    pub(crate) methods: JfrTable<LoggedMethod>,
    pub(crate) threads: JfrTable<Box<str>>,
    /// Events of other kinds.
    others: u64,
    /// Samples without a stack or without a thread.
    bare: u64,
    /// All stacks have at most the number of frames that `jfr print` prints by default, and some
    /// have as many.
    cut: bool,
}

impl JfrSamples {
    /// Reads what `jfr print --json` printed.
    ///
    /// # Errors
    /// [`JfrError`]. What follows the error has not been read.
    pub fn read(from: impl Read) -> Result<Self, JfrError> {
        let (mut samples, mut number, mut wrong) = (Self::default(), 0, None);
        let mut add = |event: RawEvent| {
            number += 1;
            let added = samples.add(event);
            added.map_err(|what| wrong.insert(JfrError::Event { number, what }).to_string())
        };
        let mut json = serde_json::Deserializer::from_reader(from);
        let read = Field("recording", Field("events", EachEvent(&mut add))).deserialize(&mut json);
        let read = read.and_then(|()| json.end());
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        read?;
        samples.mark_cut();
        Ok(samples)
    }

    /// Number of samples with a stack.
    pub fn len(&self) -> usize {
        self.all.len()
    }
    /// Whether there is no sample with a stack.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// What the reader of the result should know of the input.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.cut {
            remarks.push(format!(
                "no stack has more than {PRINTED_FRAMES} frames, the limit of `jfr print` without --stack-depth; \
                 those with as many count as truncated: print with --stack-depth 2048"
            ));
        }
        if self.bare > 0 {
            remarks.push(format!("{} samples have no stack or no thread, and are left out", self.bare));
        }
        remarks
    }
    /// Keeps the samples of threads that `wanted` accepts, by OS thread id and name.
    pub fn retain(&mut self, wanted: impl Fn(u32, &str) -> bool) {
        let threads = &self.threads;
        self.all.retain(|s| wanted(s.tid, &threads[s.thread]));
    }

    fn add(&mut self, event: RawEvent) -> Result<(), String> {
        let Some(kind) = JFR_EVENTS.iter().position(|name| *name == event.kind) else {
            self.others += 1;
            return Ok(());
        };
        let RawValues { start_time, thread, stack } = event.values;
        let (Some(thread), Some(stack)) = (thread, stack) else {
            self.bare += 1;
            return Ok(());
        };
        let time = start_time.ok_or("it has no startTime")?;
        let unix_ns = unix_ns(&time).ok_or_else(|| format!("startTime is {time:?}"))?;
        let mut frames = Vec::with_capacity(stack.frames.len());
        for frame in stack.frames {
            frames.push(self.frame(frame)?);
        }
        if frames.is_empty() {
            self.bare += 1;
            return Ok(());
        }
        let name = thread.java_name.or(thread.os_name).unwrap_or_default();
        self.all.push(JfrSample {
            event: kind,
            number: self.all.len() as u64,
            unix_ns,
            tid: thread.os_id.and_then(|id| id.try_into().ok()).unwrap_or(0),
            java_tid: thread.java_id.and_then(|id| id.try_into().ok()).unwrap_or(0),
            thread: self.threads.number(name.into()),
            truncated: stack.truncated,
            frames,
        });
        Ok(())
    }

    fn frame(&mut self, frame: RawFrame) -> Result<JfrFrame, String> {
        let RawFrame { method: RawMethod { class, name, descriptor }, bci, kind } = frame;
        let kind = JfrFrameType::of(&kind).ok_or_else(|| format!("a frame has the type {kind:?}"))?;
        let bci = match bci {
            -1 => BEFORE_FIRST,
            bci => u16::try_from(bci).map_err(|_| format!("a frame has the bytecodeIndex {bci}"))?,
        };
        let class = internal_name(&class.map(|c| c.name).unwrap_or_default()).into();
        let method = LoggedMethod { class, name: name.into(), descriptor: descriptor.into() };
        Ok(JfrFrame { method: self.methods.number(method), bci, kind })
    }

    fn mark_cut(&mut self) {
        let most = self.all.iter().map(|s| s.frames.len()).max();
        self.cut = most == Some(PRINTED_FRAMES) && self.all.len() > 1;
        if self.cut {
            let full = self.all.iter_mut().filter(|s| s.frames.len() == PRINTED_FRAMES);
            full.for_each(|s| s.truncated = true);
        }
    }
}

/// The name of a class as captures have it.
///
/// JFR names a hidden class with dots, and adds a slash and the identity hash of its mirror
/// (`create_hidden_klass_symbol` in `jfrTypeSetUtils.cpp`):
/// `a.Main$$Lambda$14+0x0000000800c01208/1830423`.
fn internal_name(jfr: &str) -> String {
    match jfr.rsplit_once('/') {
        Some((name, hash)) if !hash.is_empty() && hash.bytes().all(|b| b.is_ascii_digit()) => {
            name.replace('.', "/")
        }
        _ => jfr.to_owned(),
    }
}

#[derive(Deserialize)]
struct RawEvent {
    #[serde(rename = "type")]
    kind: String,
    values: RawValues,
}

#[derive(Deserialize)]
struct RawValues {
    #[serde(rename = "startTime", default)]
    start_time: Option<String>,
    #[serde(rename = "sampledThread", default)]
    thread: Option<RawThread>,
    #[serde(rename = "stackTrace", default)]
    stack: Option<RawStack>,
}

#[derive(Deserialize)]
struct RawThread {
    #[serde(rename = "osName")]
    os_name: Option<String>,
    #[serde(rename = "osThreadId")]
    os_id: Option<i64>,
    #[serde(rename = "javaName")]
    java_name: Option<String>,
    #[serde(rename = "javaThreadId")]
    java_id: Option<i64>,
}

#[derive(Deserialize)]
struct RawStack {
    truncated: bool,
    frames: Vec<RawFrame>,
}

#[derive(Deserialize)]
struct RawFrame {
    method: RawMethod,
    #[serde(rename = "bytecodeIndex")]
    bci: i64,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct RawMethod {
    #[serde(rename = "type")]
    class: Option<RawClass>,
    name: String,
    descriptor: String,
}

#[derive(Deserialize)]
struct RawClass {
    name: String,
}

/// Reads one field of an object, which must be there, and ignores the others.
struct Field<S>(&'static str, S);

impl<'de, S: DeserializeSeed<'de, Value = ()>> DeserializeSeed<'de> for Field<S> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = ()>> Visitor<'de> for Field<S> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with a field `{}`", self.0)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(name, inner) = self;
        let mut inner = Some(inner);
        while let Some(key) = map.next_key::<String>()? {
            match inner.take_if(|_| key == name) {
                Some(inner) => map.next_value_seed(inner)?,
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        if inner.is_some() {
            return Err(A::Error::missing_field(name));
        }
        Ok(())
    }
}

/// Calls a function with each event of an array.
struct EachEvent<'f, F>(&'f mut F);

impl<'de, F: FnMut(RawEvent) -> Result<(), String>> DeserializeSeed<'de> for EachEvent<'_, F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(RawEvent) -> Result<(), String>> Visitor<'de> for EachEvent<'_, F> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of events")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element()? {
            (self.0)(event).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}
