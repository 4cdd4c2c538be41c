// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Timelines as a profile of the Firefox Profiler, in its processed format.
//!
//! Each change of a thread's slices is a sample that weighs the time until the next change
//! (`weightType` `tracing-ms`), so sums are exact up to the limits of the timeline. Gaps are frames
//! `(lost)` and markers. The bytecodes of the tiers are not part of the profile.
//!
//! The format is version 58, of `docs-developer/CHANGELOG-formats.md` and `src/types/profile.ts` in
//! the profiler's repository. Newer profilers upgrade it when they load it. It holds its samples
//! in columns, so a profile is kept in memory until it is written: 16 bytes per sample, with a
//! limit per thread.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use jportal_analyses::timeline::{Load, Lost, Slice, SliceEnd, TimelineSink};
use jportal_flow::{ThreadInfo, Tier};
use jportal_units::{MethodId, Tsc};

use super::{Clock, Process};

mod json;

/// Samples of a thread, unless the caller says otherwise.
pub const MOST_SAMPLES: usize = 10_000_000;

/// Categories by number: the tiers, then gaps.
const CATEGORIES: [(&str, &str); 6] = [
    ("Other", "grey"),
    ("interpreter", "yellow"),
    ("C1", "lightblue"),
    ("C2", "blue"),
    ("native", "green"),
    ("lost", "red"),
];
const LOST: u8 = 5;

const fn category(tier: Tier) -> u8 {
    tier as u8 + 1
}

/// Something that the profiler shows as a function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShownFunction {
    name: String,
    /// Source file, may be empty.
    source: String,
}

/// A period or a moment that the profiler shows beside the samples.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marker {
    name: String,
    /// Nanoseconds.
    start: u64,
    end: Option<u64>,
}

/// What is kept of a thread.
#[derive(Clone, Debug, Default)]
struct ThreadProfile {
    tid: u32,
    started: u64,
    name: String,
    functions: Vec<ShownFunction>,
    /// Function and category.
    frames: Vec<(u32, u8)>,
    /// Frame and stack below.
    stacks: Vec<(u32, Option<u32>)>,
    /// Nanoseconds, and the stack from then on.
    samples: Vec<(u64, Option<u32>)>,
    /// The end of the last sample.
    end: u64,
    markers: Vec<Marker>,
}

/// A profile of all threads.
#[derive(Clone, Debug)]
pub struct Firefox {
    clock: Clock,
    process: Process,
    most: usize,
    threads: Arc<Mutex<Vec<ThreadProfile>>>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Threads.
    pub threads: usize,
    /// Samples.
    pub samples: usize,
    /// Threads that had more samples than the limit. A marker shows where their samples end.
    pub limited: usize,
}

/// The marker of a thread that had more samples than the limit.
const LIMITED: &str = "limit of samples reached";

impl Firefox {
    /// A profile with at most `most` samples per thread; see [`MOST_SAMPLES`].
    pub fn new(clock: Clock, process: Process, most: usize) -> Self {
        Self { clock, process, most, threads: Arc::default() }
    }
    /// The sink of one thread.
    pub fn thread(&self, info: &ThreadInfo) -> FirefoxThread {
        let profile = ThreadProfile {
            tid: info.tid.get(),
            started: info.started.get(),
            name: info.name.clone(),
            ..ThreadProfile::default()
        };
        FirefoxThread {
            to: self.clone(),
            profile,
            path: Vec::new(),
            limited: false,
            functions: HashMap::new(),
            frames: HashMap::new(),
            stacks: HashMap::new(),
        }
    }
    /// Writes the profile, after all threads have finished. The threads are in order of start.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<Written> {
        let mut threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.sort_by_key(|t| (t.started, t.tid));
        json::write(&self.process, &threads, out)?;
        let limited = threads.iter().filter(|t| t.markers.iter().any(|m| m.name == LIMITED)).count();
        let samples = threads.iter().map(|t| t.samples.len()).sum();
        Ok(Written { threads: threads.len(), samples, limited })
    }
}

/// What a function stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum FunctionKey {
    Method(MethodId),
    Lost,
}

/// Collects the samples of one thread.
#[derive(Debug)]
pub struct FirefoxThread {
    to: Firefox,
    profile: ThreadProfile,
    /// The stacks of the slices that have not ended, from the bottom up.
    path: Vec<u32>,
    /// There were more samples than the limit.
    limited: bool,
    functions: HashMap<FunctionKey, u32>,
    frames: HashMap<(u32, u8), u32>,
    stacks: HashMap<(u32, Option<u32>), u32>,
}

impl FirefoxThread {
    fn stack(&mut self, key: FunctionKey, category: u8, function: impl FnOnce() -> ShownFunction) -> u32 {
        let p = &mut self.profile;
        let next = p.functions.len() as u32;
        let function_id = *self.functions.entry(key).or_insert_with(|| {
            p.functions.push(function());
            next
        });
        let (next, frame) = (p.frames.len() as u32, (function_id, category));
        let frame_id = *self.frames.entry(frame).or_insert_with(|| {
            p.frames.push(frame);
            next
        });
        let (next, stack) = (p.stacks.len() as u32, (frame_id, self.path.last().copied()));
        *self.stacks.entry(stack).or_insert_with(|| {
            p.stacks.push(stack);
            next
        })
    }
    /// The stack has changed at `time`.
    fn changed(&mut self, time: Tsc) {
        let now = self.to.clock.ns(time).max(self.profile.end);
        if self.limited {
            return;
        }
        self.profile.end = now;
        let stack = self.path.last().copied();
        let samples = &mut self.profile.samples;
        if let Some(last) = samples.last_mut().filter(|last| last.0 == now) {
            // The sample before has no length.
            last.1 = stack;
        } else if samples.len() >= self.to.most {
            self.limited = true;
            self.profile.markers.push(Marker { name: LIMITED.to_owned(), start: now, end: None });
        } else {
            samples.push((now, stack));
        }
    }
}

impl TimelineSink for FirefoxThread {
    fn begin(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let function = || ShownFunction { name: slice.name.to_owned(), source: slice.source.to_owned() };
        let stack = self.stack(FunctionKey::Method(slice.method), category(slice.tier), function);
        self.path.push(stack);
        self.changed(slice.begin);
        Ok(())
    }
    fn end(&mut self, end: &SliceEnd) -> io::Result<()> {
        self.path.pop();
        self.changed(end.end);
        Ok(())
    }
    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        let [start, end] = [Some(lost.since), lost.until].map(|t| t.map(|t| self.to.clock.ns(t)));
        let name = format!("lost: {}", lost.reason);
        self.profile.markers.push(Marker { name, start: start.unwrap_or(0), end });
        let Some(until) = lost.until else { return Ok(()) };
        let function = || ShownFunction { name: "(lost)".to_owned(), source: String::new() };
        let stack = self.stack(FunctionKey::Lost, LOST, function);
        self.path.push(stack);
        self.changed(lost.since);
        self.path.pop();
        self.changed(until);
        Ok(())
    }
    fn load(&mut self, _: &Load) -> io::Result<()> {
        Ok(())
    }
    fn finish(&mut self) -> io::Result<()> {
        let profile = std::mem::take(&mut self.profile);
        self.to.threads.lock().unwrap_or_else(PoisonError::into_inner).push(profile);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
