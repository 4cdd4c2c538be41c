// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Findings: the event that breaks a rule, its place, and the frames around it.

use std::fmt::Write as _;

use jportal_bytecode::{Method, MethodTable};
use jportal_plain::line;
use jportal_units::{Bci, MethodId};
use serde::Serialize;

use crate::check::code::Codes;
use crate::check::rule::Rule;
use crate::check::stack::CheckedFrame;

/// A frame as it was before the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    /// `class.name(descriptor)`.
    pub method: String,
    /// The bytecode that began last, if one is known.
    pub bci: Option<u16>,
    /// Its mnemonic.
    pub opcode: Option<&'static str>,
    /// Its source line.
    pub line: Option<u16>,
    /// What executes the frame: the interpreter, a compiler's code, or native code.
    pub tier: &'static str,
}

/// An event that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The broken rule.
    pub rule: Rule,
    /// OS thread id.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// TSC of the thread's start.
    pub started: u64,
    /// The event's number in the thread's flow, from 0.
    pub event: u64,
    /// The last time in the flow before the event.
    pub tsc: Option<u64>,
    /// What happened and what was expected.
    pub what: String,
    /// The innermost frames as they were before the event, innermost first.
    pub frames: Vec<Position>,
}

impl Finding {
    /// Several lines: rule and place, description, and the frames.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: thread \"{}\" (tid {}), event {}",
            self.rule.name(),
            line(&self.thread),
            self.tid,
            self.event
        );
        if let Some(tsc) = self.tsc {
            let _ = write!(text, ", after TSC {tsc}");
        }
        let _ = writeln!(text, "\n    {}", line(&self.what));
        for (i, frame) in self.frames.iter().enumerate() {
            let _ = writeln!(text, "    {} {}", if i == 0 { "in" } else { "called from" }, frame.text());
        }
        text
    }
}

impl Position {
    fn text(&self) -> String {
        let mut text = line(&self.method).into_owned();
        match self.bci {
            Some(bci) => {
                let _ = write!(text, " @{bci} {}", self.opcode.unwrap_or("?"));
            }
            None => text.push_str(" @?"),
        }
        if let Some(number) = self.line {
            let _ = write!(text, " line {number}");
        }
        let _ = write!(text, " ({})", self.tier);
        text
    }
}

/// Translates ids to names.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) methods: &'a MethodTable,
    pub(crate) codes: &'a Codes,
}

impl Names<'_> {
    pub(crate) fn method(&self, id: MethodId) -> String {
        self.methods.get(id).map_or_else(|| format!("unknown method {id}"), Method::qualified_name)
    }
    fn opcode(&self, id: MethodId, bci: Bci) -> Option<&'static str> {
        Some(self.codes.get(self.methods, id)?.op(bci)?.opcode.name())
    }
    /// `bci 7 (ifeq)`.
    pub(crate) fn bytecode(&self, id: MethodId, bci: Bci) -> String {
        format!("bci {bci} ({})", self.opcode(id, bci).unwrap_or("inside an instruction"))
    }
    /// A list of bcis as text, shortened.
    pub(crate) fn bcis(list: &[Bci]) -> String {
        const SHOWN: usize = 8;
        let mut text: Vec<String> = list.iter().take(SHOWN).map(Bci::to_string).collect();
        if list.len() > SHOWN {
            text.push(format!("{} more", list.len() - SHOWN));
        }
        if text.is_empty() { "nothing".to_owned() } else { text.join(", ") }
    }
    pub(crate) fn position(&self, frame: &CheckedFrame) -> Position {
        let bci = frame.at.bci();
        Position {
            method: self.method(frame.method),
            bci: bci.map(Bci::get),
            opcode: bci.and_then(|b| self.opcode(frame.method, b)),
            line: bci.and_then(|b| self.methods.get(frame.method)?.line_at(b)),
            tier: frame.tier.name(),
        }
    }
}
