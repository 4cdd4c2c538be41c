// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! OpenTelemetry's profiles (OTLP), package `opentelemetry.proto.profiles.v1development`, as binary
//! protobuf: a message `ProfilesData`.
//!
//! The layout is that of opentelemetry-proto v1.10.0, which is an alpha version: stacks are in a
//! table of the dictionary (`stack_table`, `Sample.stack_index`), each `Profile` has one sample
//! type, and attributes are `KeyValueAndUnit`. Versions up to 1.8 have other field numbers and
//! cannot read this.
//!
//! There is a profile for `invocations/count`, one for `bytecodes/count`, and one for
//! `time/nanoseconds` if the TSC's frequency is known. Attributes of samples are `thread.id` and
//! `thread.name` (OpenTelemetry's conventions), `jportal.tier` where a figure is known by tier, and
//! `jportal.exact` where it is a lower bound. Attributes of profiles are `jportal.exact` and
//! `jportal.inexact.*`, the reasons. Frames of Java methods have `profile.frame.type`.

use std::io::Write;

use hashbrown::HashMap;
use jportal_analyses::names::split_qualified;
use jportal_analyses::tree::CallTree;
use prost::Message;

use super::otlp_proto::{
    AnyValue, Function, InstrumentationScope, KeyValueAndUnit, Line, Link, Location, Mapping, Profile,
    ProfilesData, ProfilesDictionary, ResourceProfiles, Sample, SampleStack, ScopeProfiles, Value, ValueType,
};
use super::stacks::{ProfileFrame, SampleFigures, Stacks, thread_names};
use super::{ProfileOptions, exactness};
use crate::Error;

/// The maximum number of frames of all stacks together. The message is built in memory.
const MOST_FRAMES: u64 = 1 << 27;

/// Writes a tree as OTLP profiles. Memory: proportional to the frames of all stacks together.
pub fn write_otlp(tree: &CallTree, options: &ProfileOptions<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let stacks = Stacks::new(tree, options)?;
    let (frames, nodes) = (stacks.frames_of_all(), tree.nodes.len() as u64);
    if frames > MOST_FRAMES {
        return Err(Error::TooDeep { frames, most: MOST_FRAMES });
    }
    // Tables have fewer than two entries per node, apart from a few names and attributes.
    if nodes > MOST_FRAMES {
        return Err(Error::TooLarge { what: "the number of nodes", value: nodes, most: MOST_FRAMES });
    }
    let mut dictionary = Dictionary::new(options);
    let profiles = profiles(&stacks, options, &mut dictionary)?;
    let scope =
        InstrumentationScope { name: "jportal".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let scope_profiles = vec![ScopeProfiles { scope: Some(scope), profiles }];
    let data = ProfilesData {
        resource_profiles: vec![ResourceProfiles { scope_profiles }],
        dictionary: Some(dictionary.end(&stacks, options)),
    };
    Ok(out.write_all(&data.encode_to_vec())?)
}

/// The tables under construction. Entry 0 of each is empty.
struct Dictionary {
    tables: ProfilesDictionary,
    texts: HashMap<String, i32>,
    attributes: HashMap<(i32, AttributeValue), i32>,
    locations: HashMap<ProfileFrame, i32>,
    frames: Vec<ProfileFrame>,
    /// The index of the mapping.
    mapping: i32,
}

/// An attribute's value as a key of a map.
#[derive(Clone, PartialEq, Eq, Hash)]
enum AttributeValue {
    Text(String),
    Bool(bool),
    Int(i64),
}

impl Dictionary {
    fn new(options: &ProfileOptions<'_>) -> Self {
        let tables = ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Link::default()],
            string_table: vec![String::new()],
            attribute_table: vec![KeyValueAndUnit::default()],
            stack_table: vec![SampleStack::default()],
        };
        let texts = HashMap::from([(String::new(), 0)]);
        let (attributes, locations, frames) = Default::default();
        let mut new = Self { tables, texts, attributes, locations, frames, mapping: 0 };
        if !options.title.is_empty() {
            let filename_strindex = new.text(options.title);
            new.mapping = 1;
            new.tables.mapping_table.push(Mapping { filename_strindex });
        }
        new
    }
    fn text(&mut self, text: &str) -> i32 {
        if let Some(&index) = self.texts.get(text) {
            return index;
        }
        let index = self.tables.string_table.len() as i32;
        self.tables.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), index);
        index
    }
    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { type_strindex: self.text(name), unit_strindex: self.text(unit) }
    }
    fn attribute(&mut self, key: &str, value: AttributeValue) -> i32 {
        let key_strindex = self.text(key);
        let index = self.tables.attribute_table.len() as i32;
        let known = *self.attributes.entry((key_strindex, value.clone())).or_insert(index);
        if known == index {
            let value = match value {
                AttributeValue::Text(text) => Value::Text(text),
                AttributeValue::Bool(yes) => Value::Bool(yes),
                AttributeValue::Int(n) => Value::Int(n),
            };
            let value = Some(AnyValue { value: Some(value) });
            self.tables.attribute_table.push(KeyValueAndUnit { key_strindex, value, unit_strindex: 0 });
        }
        known
    }
    /// Adds the stack of a node.
    fn stack(&mut self, stacks: &Stacks<'_>, node: u32) -> i32 {
        let mut frames = std::mem::take(&mut self.frames);
        stacks.frames(node, &mut frames);
        let location_indices = frames.iter().map(|frame| self.location(stacks, *frame)).collect();
        self.frames = frames;
        self.tables.stack_table.push(SampleStack { location_indices });
        self.tables.stack_table.len() as i32 - 1
    }
    fn location(&mut self, stacks: &Stacks<'_>, frame: ProfileFrame) -> i32 {
        if let Some(&index) = self.locations.get(&frame) {
            return index;
        }
        // Entry 0 of the table is empty.
        let function_index = frame.function as i32 + 1;
        let line = Line { function_index, line: frame.line.map_or(0, i64::from) };
        // Texts in parentheses stand for frames that are not known, or for no frame at all.
        let method = stacks.functions[frame.function as usize].0;
        let is_java = !method.starts_with('(') && split_qualified(method).is_some();
        let kind =
            is_java.then(|| self.attribute("profile.frame.type", AttributeValue::Text("jvm".to_owned())));
        let attribute_indices = kind.into_iter().collect();
        let index = self.tables.location_table.len() as i32;
        let location = Location { mapping_index: self.mapping, lines: vec![line], attribute_indices };
        self.tables.location_table.push(location);
        self.locations.insert(frame, index);
        index
    }
    /// The tables, with all functions.
    fn end(mut self, stacks: &Stacks<'_>, options: &ProfileOptions<'_>) -> ProfilesDictionary {
        for (number, (method, loader)) in (0..).zip(&stacks.functions) {
            let source = options.sources.and_then(|sources| sources.get(method, loader));
            let function = Function {
                name_strindex: self.text(stacks.shown(number)),
                system_name_strindex: self.text(method),
                filename_strindex: self.text(source.map_or("", |s| &s.file)),
                start_line: source.and_then(|s| s.line).map_or(0, i64::from),
            };
            self.tables.function_table.push(function);
        }
        self.tables
    }
}

/// The figures, each of which has a profile: name, unit and value.
type Figure = (&'static str, &'static str, fn(&SampleFigures) -> u64);
const FIGURES: [Figure; 3] = [
    ("invocations", "count", |part| part.invocations),
    ("bytecodes", "count", |part| part.bytecodes),
    ("time", "nanoseconds", |part| part.time.unwrap_or(0)),
];

fn profiles(
    stacks: &Stacks<'_>,
    options: &ProfileOptions<'_>,
    dictionary: &mut Dictionary,
) -> Result<Vec<Profile>, Error> {
    let tree = stacks.tree;
    let figures = if options.ticks_per_second.is_some() { &FIGURES[..] } else { &FIGURES[..2] };
    let attribute_indices = exact_attributes(tree, dictionary)?;
    let mut profiles: Vec<Profile> = figures
        .iter()
        .map(|(name, unit, _)| Profile {
            sample_type: Some(dictionary.value_type(name, unit)),
            time_unix_nano: options.started.unwrap_or(0),
            duration_nano: options.duration.unwrap_or(0),
            attribute_indices: attribute_indices.clone(),
            ..Profile::default()
        })
        .collect();
    let threads = thread_attributes(tree, dictionary);
    for (node, thread) in tree.nodes.iter().zip(&stacks.threads) {
        let parts = stacks.parts(node)?;
        if parts.is_empty() {
            continue;
        }
        let stack_index = dictionary.stack(stacks, node.id);
        let inexact =
            (!node.exact).then(|| dictionary.attribute("jportal.exact", AttributeValue::Bool(false)));
        for part in &parts {
            let tier = part
                .tier
                .map(|tier| dictionary.attribute("jportal.tier", AttributeValue::Text(tier.to_owned())));
            let thread = &threads[*thread as usize];
            let attribute_indices: Vec<i32> = thread.iter().copied().chain(tier).chain(inexact).collect();
            for ((name, _, value), profile) in figures.iter().zip(&mut profiles) {
                let value = value(part);
                if value > 0 {
                    let values = vec![signed(name, value)?];
                    let attribute_indices = attribute_indices.clone();
                    profile.samples.push(Sample { stack_index, attribute_indices, values });
                }
            }
        }
    }
    Ok(profiles)
}

/// The attributes of each thread.
fn thread_attributes(tree: &CallTree, dictionary: &mut Dictionary) -> Vec<Vec<i32>> {
    let names = thread_names(tree);
    let attributes = |(name, tid): (String, Option<u32>)| {
        let id = tid.map(|tid| dictionary.attribute("thread.id", AttributeValue::Int(i64::from(tid))));
        id.into_iter().chain([dictionary.attribute("thread.name", AttributeValue::Text(name))]).collect()
    };
    names.into_iter().zip(tree.threads.iter().map(|t| t.tid)).map(attributes).collect()
}

/// Whether the tree is exact, and why it is not.
fn exact_attributes(tree: &CallTree, dictionary: &mut Dictionary) -> Result<Vec<i32>, Error> {
    let mut all = vec![dictionary.attribute("jportal.exact", AttributeValue::Bool(tree.exact))];
    for (reason, n) in exactness::reasons(&tree.inexact) {
        let n = signed("a reason", n)?;
        all.push(dictionary.attribute(&format!("jportal.inexact.{reason}"), AttributeValue::Int(n)));
    }
    Ok(all)
}

/// A count as the format's signed number.
fn signed(what: &'static str, value: u64) -> Result<i64, Error> {
    i64::try_from(value).map_err(|_| Error::TooLarge { what, value, most: i64::MAX as u64 })
}
