// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report `blocks`: its parts.

use jportal_flow::Tally;
use serde::Serialize;

use super::Entries;
use crate::hidden::Inexact;
use crate::names::Version;

/// What is listed of each method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Its blocks, branch ways and exceptions.
    #[default]
    Blocks,
    /// Its lines in addition.
    Lines,
    /// Its lines and bytecodes in addition.
    Bytecodes,
}

/// What the report contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlocksOptions {
    /// What is listed of each method.
    pub level: Level,
    /// Only this many methods: those with the most bytecodes executed.
    pub top: Option<usize>,
    /// Methods that certainly were not executed, too.
    pub idle: bool,
}

/// A block of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockCount {
    /// Its first bytecode.
    pub bci: u16,
    /// Its last bytecode.
    pub end: u16,
    /// Number of bytecodes.
    pub bytecodes: u32,
    /// Its first and last source line, if known.
    pub lines: Option<(u16, u16)>,
    /// Executions of its first bytecode.
    pub executions: Tally,
    /// Whether the count is complete.
    pub exact: bool,
    /// Whether more executions are possible in an unresolved stretch, or in a frame that existed
    /// where trace was lost.
    pub perhaps_more: bool,
}

/// A source line of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineCount {
    /// The line.
    pub line: u16,
    /// Executions: the greatest count of its bytecodes.
    pub times: Tally,
    /// How often it was entered from another line, or from the beginning of the method.
    pub entered: Tally,
    /// Bytecodes of the line that were executed.
    pub executed: u64,
    /// Bytecodes of the line.
    pub bytecodes: u64,
    /// Whether the counts are complete.
    pub exact: bool,
    /// Whether more executions are possible, see [`BlockCount::perhaps_more`].
    pub perhaps_more: bool,
}

/// A bytecode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BytecodeCount {
    /// Its place.
    pub bci: u16,
    /// Its mnemonic, with targets, names of callees and constants.
    pub instruction: String,
    /// Its source line, if known.
    pub line: Option<u16>,
    /// Whether a block begins here.
    pub leader: bool,
    /// Executions.
    pub executions: Tally,
    /// Whether the count is complete.
    pub exact: bool,
    /// Whether more executions are possible, see [`BlockCount::perhaps_more`].
    pub perhaps_more: bool,
}

/// One way out of a conditional or switch. Cases with the same target are one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BranchWay {
    /// The branch.
    pub bci: u16,
    /// The bytecode to which the way leads.
    pub to: u16,
    /// The source line of the branch, if known.
    pub line: Option<u16>,
    /// How often it was taken.
    pub times: Tally,
    /// Whether the count is complete.
    pub exact: bool,
    /// Whether it may have been taken more often, see [`BlockCount::perhaps_more`].
    pub perhaps_more: bool,
}

/// A way that exceptions took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExceptionWay {
    /// The bytecode that threw, or that called what threw. `None` if it is unknown.
    pub from: Option<u16>,
    /// The handler. `None`: out of the method.
    pub to: Option<u16>,
    /// The source line of `from`, if known.
    pub line: Option<u16>,
    /// How many exceptions took it.
    pub times: Tally,
    /// Whether the count is complete.
    pub exact: bool,
    /// Whether more may have taken it, see [`BlockCount::perhaps_more`].
    pub perhaps_more: bool,
}

/// A method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MethodBlocks {
    /// Name and descriptor.
    pub name: String,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Which of the methods of this name, if several with different code have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<Version>,
    /// How often it was entered.
    pub entries: Entries,
    /// Bytecodes executed in the method itself.
    pub bytecodes: Tally,
    /// Whether all counts of the method are complete.
    pub exact: bool,
    /// Whether more executions are possible, see [`BlockCount::perhaps_more`].
    pub perhaps_more: bool,
    /// Whether the code could not be parsed, so that the lists are not complete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub malformed: bool,
    /// Its blocks, by bci.
    pub blocks: Vec<BlockCount>,
    /// Its branch ways, by bci and target.
    pub ways: Vec<BranchWay>,
    /// Exceptions that were seen, by origin and handler.
    pub exceptions: Vec<ExceptionWay>,
    /// Its lines, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<LineCount>>,
    /// Its bytecodes, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Vec<BytecodeCount>>,
}

/// The methods of one class of one loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassBlocks {
    /// Binary name (`java.lang.Object`).
    pub class: String,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// The `SourceFile` attribute, possibly empty.
    pub source_file: String,
    /// Its methods, in order of definition.
    pub methods: Vec<MethodBlocks>,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// Whether all counts of the selected methods are complete, and nothing was lost, inferred or
    /// repeated.
    pub exact: bool,
    /// Why the report is not exact, in the threads shown.
    pub inexact: Inexact,
    /// Bytecodes that were counted twice, perhaps: a compiled frame and the interpreted frame
    /// that continued it both have it.
    pub repeated: u64,
    /// Bytecodes executed in the selected methods.
    pub bytecodes: Tally,
    /// Block executions in the selected methods.
    pub executions: Tally,
    /// Selected methods that have a row but are not shown, because of the number requested.
    pub methods_left_out: usize,
    /// The classes, by name.
    pub classes: Vec<ClassBlocks>,
}
