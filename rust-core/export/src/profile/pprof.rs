// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! pprof: a `profile.proto`, compressed with gzip.
//!
//! Sample types are `invocations/count`, `bytecodes/count` and, if the TSC's frequency is known,
//! `time/nanoseconds`. A node has one sample for its invocations and its time, and one for its
//! bytecodes in each tier, with the label `tier`. All samples have the label `thread` and, if
//! known, `thread_id`. Samples of nodes whose figures are lower bounds have the label `exact` with
//! the value `no`. The comments say whether the tree is exact, and how it was built.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hashbrown::HashMap;
use jportal_analyses::tree::{CallTree, Context};
use prost::Message;

use super::pprof_proto::{Function, FunctionLine, Label, Location, PprofMapping, Profile, Sample, ValueType};
use super::stacks::{ProfileFrame, SampleFigures, Stacks, thread_names};
use super::{ProfileOptions, Weight, exactness};
use crate::Error;

/// Writes a tree as a pprof profile. Memory: proportional to the different frames; samples are
/// written as they are made.
pub fn write_pprof(tree: &CallTree, options: &ProfileOptions<'_>, out: &mut dyn Write) -> Result<(), Error> {
    if options.weight == Weight::Time && options.ticks_per_second.is_none() {
        return Err(Error::NoTime);
    }
    let stacks = Stacks::new(tree, options)?;
    let mut writer = Writer { texts: Texts::new(), locations: HashMap::new(), frames: Vec::new() };
    // Encoded messages of one type that follow each other are one message, in which the lists
    // are joined.
    let mut out = GzEncoder::new(out, Compression::fast());
    out.write_all(&writer.head(tree, options)?.encode_to_vec())?;
    let threads: Vec<Vec<Label>> = writer.threads(tree);
    for (node, thread) in tree.nodes.iter().zip(&stacks.threads) {
        let sample = writer.samples(&stacks, node, &threads[*thread as usize])?;
        if !sample.is_empty() {
            out.write_all(&Profile { sample, ..Profile::default() }.encode_to_vec())?;
        }
    }
    out.write_all(&writer.tail(&stacks, options)?.encode_to_vec())?;
    out.finish()?;
    Ok(())
}

/// The string table.
struct Texts {
    all: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl Texts {
    fn new() -> Self {
        Self { all: vec![String::new()], numbers: HashMap::from([(String::new(), 0)]) }
    }
    fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// A count as the format's signed number.
fn signed(what: &'static str, value: u64) -> Result<i64, Error> {
    i64::try_from(value).map_err(|_| Error::TooLarge { what, value, most: i64::MAX as u64 })
}

struct Writer {
    texts: Texts,
    /// Numbers of locations, from 1.
    locations: HashMap<ProfileFrame, u64>,
    frames: Vec<ProfileFrame>,
}

impl Writer {
    /// All but samples and tables.
    fn head(&mut self, tree: &CallTree, options: &ProfileOptions<'_>) -> Result<Profile, Error> {
        let mut types = vec![("invocations", "count"), ("bytecodes", "count")];
        types.extend(options.ticks_per_second.map(|_| ("time", "nanoseconds")));
        let mut text = |text: &str| self.texts.number(text);
        let sample_type =
            types.iter().map(|(name, unit)| ValueType { r#type: text(name), unit: text(unit) }).collect();
        let mapping = PprofMapping {
            id: 1,
            filename: text(options.title),
            has_functions: true,
            has_filenames: options.sources.is_some(),
            has_line_numbers: true,
        };
        Ok(Profile {
            sample_type,
            mapping: vec![mapping],
            time_nanos: signed("the start", options.started.unwrap_or(0))?,
            duration_nanos: signed("the duration", options.duration.unwrap_or(0))?,
            comment: exactness::notes(tree).iter().map(|note| text(note)).collect(),
            default_sample_type: text(options.weight.figure()),
            ..Profile::default()
        })
    }
    /// The labels of each thread.
    fn threads(&mut self, tree: &CallTree) -> Vec<Vec<Label>> {
        let (name_key, id_key) = (self.texts.number("thread"), self.texts.number("thread_id"));
        let labels = |(name, tid): (String, Option<u32>)| {
            let name = Label { key: name_key, str: self.texts.number(&name), num: 0 };
            let id = tid.map(|tid| Label { key: id_key, str: 0, num: i64::from(tid) });
            [name].into_iter().chain(id).collect()
        };
        let ids = tree.threads.iter().map(|t| t.tid);
        thread_names(tree).into_iter().zip(ids).map(labels).collect()
    }
    /// The samples of one node.
    fn samples(
        &mut self,
        stacks: &Stacks<'_>,
        node: &Context,
        labels: &[Label],
    ) -> Result<Vec<Sample>, Error> {
        let parts = stacks.parts(node)?;
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let mut frames = std::mem::take(&mut self.frames);
        stacks.frames(node.id, &mut frames);
        let location_id: Vec<u64> = frames.iter().map(|frame| self.location(*frame)).collect();
        self.frames = frames;
        let inexact = (!node.exact).then(|| self.label("exact", "no"));
        let sample = |part: &SampleFigures| {
            let tier = part.tier.map(|tier| self.label("tier", tier));
            let mut value =
                vec![signed("the invocations", part.invocations)?, signed("the bytecodes", part.bytecodes)?];
            if let Some(time) = part.time {
                value.push(signed("the time", time)?);
            }
            let label = labels.iter().copied().chain(tier).chain(inexact).collect();
            Ok(Sample { location_id: location_id.clone(), value, label })
        };
        parts.iter().map(sample).collect()
    }
    fn label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.texts.number(key), str: self.texts.number(text), num: 0 }
    }
    fn location(&mut self, frame: ProfileFrame) -> u64 {
        let next = self.locations.len() as u64 + 1;
        *self.locations.entry(frame).or_insert(next)
    }
    /// The tables.
    fn tail(mut self, stacks: &Stacks<'_>, options: &ProfileOptions<'_>) -> Result<Profile, Error> {
        let mut location: Vec<Location> = self
            .locations
            .iter()
            .map(|(frame, id)| {
                let line = frame.line.map_or(0, i64::from);
                let line = vec![FunctionLine { function_id: u64::from(frame.function) + 1, line }];
                Location { id: *id, mapping_id: 1, line }
            })
            .collect();
        location.sort_unstable_by_key(|l| l.id);
        let mut function = Vec::with_capacity(stacks.functions.len());
        for (number, (method, loader)) in (0..).zip(&stacks.functions) {
            let source = options.sources.and_then(|sources| sources.get(method, loader));
            function.push(Function {
                id: u64::from(number) + 1,
                name: self.texts.number(stacks.shown(number)),
                system_name: self.texts.number(method),
                filename: self.texts.number(source.map_or("", |s| &s.file)),
                start_line: source.and_then(|s| s.line).map_or(0, i64::from),
            });
        }
        Ok(Profile { location, function, string_table: self.texts.all, ..Profile::default() })
    }
}
