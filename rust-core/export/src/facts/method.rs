// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The facts of one method.

use jportal_analyses::block_trace::leaders;
use jportal_analyses::names::Version;
use jportal_bytecode::{Blocks, BytecodeError, Instruction, Method, Transfer, instructions};
use jportal_units::Bci;
use serde::Serialize;
use serde::ser::Serializer;

use super::counts::Counts;
use crate::block_trace::Format;

/// A method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MethodFacts<'a> {
    /// Its number among all methods.
    pub number: u32,
    /// The id of its block 0, whether or not it has one.
    #[serde(serialize_with = "id")]
    pub id: u64,
    /// Name.
    pub name: &'a str,
    /// Descriptor.
    pub descriptor: &'a str,
    /// Access flags (JVMS table 4.6-A).
    pub flags: u32,
    /// Bytes of code; 0 for native and abstract methods.
    pub code_bytes: usize,
    /// The version, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Why there are no blocks, if the code cannot be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    /// Its blocks, by bci.
    pub blocks: Vec<BlockFacts<'a>>,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockFacts<'a> {
    /// Its id in all block traces and static facts of the recording.
    #[serde(serialize_with = "id")]
    pub id: u64,
    /// Its number in the method.
    pub number: u32,
    /// First bci.
    pub bci: u16,
    /// First bci after the block.
    pub end: u16,
    /// Source line of the first bytecode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u16>,
    /// The 19 counts.
    pub metrics: Counts,
    /// The invokes, by bci.
    pub calls: Vec<CallFacts<'a>>,
    /// The handlers of at least one of its bytecodes, in order of the exception table.
    pub handlers: Vec<HandlerFacts<'a>>,
}

/// A call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CallFacts<'a> {
    /// Bci of the invoke.
    pub bci: u16,
    /// Name of the opcode.
    pub opcode: &'static str,
    /// The symbolic target, if the capture has it.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub target: Option<TargetFacts<'a>>,
}

/// The symbolic target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TargetFacts<'a> {
    /// Internal name of the class; empty for `invokedynamic`.
    pub class: &'a str,
    /// Name.
    pub name: &'a str,
    /// Descriptor.
    pub descriptor: &'a str,
}

impl TargetFacts<'_> {
    /// `class.name(descriptor)` with the internal name of the class.
    pub fn text(&self) -> String {
        let dot = if self.class.is_empty() { "" } else { "." };
        format!("{}{dot}{}{}", self.class, self.name, self.descriptor)
    }
}

/// A handler of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HandlerFacts<'a> {
    /// The id of the block that handles the exception.
    #[serde(serialize_with = "id")]
    pub block: u64,
    /// First bci of the block that is covered.
    pub from: u16,
    /// First bci after the part that is covered.
    pub to: u16,
    /// Internal name of the caught class. `None` for all exceptions.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub catch_type: Option<&'a str>,
}

/// Numbers above 2^53 are texts: readers of JSON keep numbers as `double`.
fn id<S: Serializer>(id: &u64, to: S) -> Result<S::Ok, S::Error> {
    if *id > 1 << 53 { to.collect_str(id) } else { to.serialize_u64(*id) }
}

impl<'a> MethodFacts<'a> {
    pub(super) fn of(m: &'a Method, format: Format, version: Option<Version>) -> Self {
        let (blocks, malformed) = match blocks(m, format) {
            Ok(blocks) => (blocks, None),
            Err(e) => (Vec::new(), Some(e.to_string())),
        };
        Self {
            number: m.id.get(),
            id: format.id(m.id, 0),
            name: &m.name,
            descriptor: &m.signature,
            flags: m.access_flags,
            code_bytes: m.code.len(),
            version,
            malformed,
            blocks,
        }
    }
    /// Number of instructions.
    pub fn instructions(&self) -> u64 {
        self.blocks.iter().filter_map(|b| b.metrics.0[0]).map(u64::from).sum()
    }
}

fn blocks(m: &Method, format: Format) -> Result<Vec<BlockFacts<'_>>, BytecodeError> {
    let numbers = leaders(m)?;
    let starts = numbers.leaders();
    let ends = starts.iter().skip(1).copied().chain([Bci(m.code.len() as u16)]);
    let mut all: Vec<BlockFacts<'_>> = (0..)
        .zip(starts.iter().zip(ends))
        .map(|(number, (bci, end))| BlockFacts {
            id: format.id(m.id, number),
            number,
            bci: bci.get(),
            end: end.get(),
            line: m.line_at(*bci),
            metrics: Counts::none(m.constants.is_some()),
            calls: Vec::new(),
            handlers: handlers(m, format, &numbers, (*bci, end)),
        })
        .collect();
    let mut at = 0;
    for i in instructions(&m.code) {
        let i = i?;
        while all.get(at).is_some_and(|b| b.end <= i.bci.get()) {
            at += 1;
        }
        let Some(block) = all.get_mut(at) else { break };
        block.metrics.count(m, &i);
        if i.opcode.transfer() == Transfer::Invoke {
            block.calls.push(call(m, &i));
        }
    }
    Ok(all)
}

fn call<'a>(m: &'a Method, i: &Instruction<'_>) -> CallFacts<'a> {
    let target = m.invoke_at(i.bci).map(|to| TargetFacts {
        class: &to.class_name,
        name: &to.name,
        descriptor: &to.signature,
    });
    CallFacts { bci: i.bci.get(), opcode: i.opcode.name(), target }
}

fn handlers<'a>(m: &'a Method, format: Format, numbers: &Blocks, block: (Bci, Bci)) -> Vec<HandlerFacts<'a>> {
    let rows = m.exceptions.iter().filter_map(|row| {
        let (from, to) = (row.start.max(block.0), row.end.min(block.1));
        let number = numbers.leaders().binary_search(&row.handler).ok()?;
        (from < to).then(|| HandlerFacts {
            block: format.id(m.id, number as u32),
            from: from.get(),
            to: to.get(),
            catch_type: row.catch_type.as_deref(),
        })
    });
    rows.collect()
}
