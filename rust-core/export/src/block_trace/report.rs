// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What was written into block traces.

use std::collections::BTreeMap;

use jportal_analyses::block_trace::{Accounts, Left, Open, Steps};
use jportal_analyses::{Inexact, Inlined};
use jportal_flow::{Tally, ThreadInfo};
use jportal_plain::table::{Align, table};
use serde::Serialize;

use super::format::Format;

/// The block trace of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadTrace {
    /// OS thread id.
    pub tid: u32,
    /// `java.lang.Thread.getId()`, 0 if unknown.
    pub java_tid: u64,
    /// Name.
    pub name: String,
    /// TSC of its start.
    pub started: u64,
    /// Whether the file holds every event of the methods in scope.
    pub exact: bool,
    /// Why not. Figures of the thread's whole flow.
    pub inexact: Inexact,
    /// Methods that began.
    pub starts: Tally,
    /// Methods that returned.
    pub ends: Tally,
    /// Blocks executed.
    pub blocks: Tally,
    /// Frames that an exception left.
    pub unwinds: u64,
    /// Frames that an exception left before their first bytecode. They did not begin.
    pub unstarted: u64,
    /// Frames that a debugger removed, or made return.
    pub forced: u64,
    /// Handlers entered.
    pub catches: u64,
    /// Bytecodes of methods whose blocks are not known.
    pub no_blocks: u64,
    /// Marks by kind, without those for exceptions and times.
    pub marks: BTreeMap<&'static str, u64>,
    /// Classes loaded. Absent if the capture does not say when classes were loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loads: Option<u64>,
    /// Words in the file, before the last mark.
    pub words: u64,
}

impl ThreadTrace {
    pub(super) fn of(info: &ThreadInfo) -> Self {
        Self {
            tid: info.tid.get(),
            java_tid: info.java_tid,
            name: info.name.clone(),
            started: info.started.get(),
            exact: false,
            inexact: Inexact::default(),
            starts: Tally::default(),
            ends: Tally::default(),
            blocks: Tally::default(),
            unwinds: 0,
            unstarted: 0,
            forced: 0,
            catches: 0,
            no_blocks: 0,
            marks: BTreeMap::new(),
            loads: None,
            words: 0,
        }
    }
    pub(super) const fn left(&mut self, how: Left) {
        match how {
            Left::Unwind => self.unwinds += 1,
            Left::Unstarted => self.unstarted += 1,
            Left::PopFrame | Left::EarlyReturn => self.forced += 1,
        }
    }
}

/// The block traces of all threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockTrace {
    /// Whether the files hold every event of the methods in scope.
    pub exact: bool,
    /// The form of event numbers.
    pub format: Format,
    /// The threads, by start.
    pub threads: Vec<ThreadTrace>,
}

impl BlockTrace {
    pub(super) fn new(
        format: Format,
        steps: &Steps,
        inlined: &Inlined,
        threads: Vec<(ThreadTrace, Open)>,
    ) -> Self {
        let mut accounts = Accounts::new(steps.methods(), inlined);
        let finish = |(mut trace, open): (ThreadTrace, Open)| {
            let hidden = accounts.methods(&open).keys().any(|m| steps.in_scope(*m));
            trace.exact = !open.is_lossy() && trace.no_blocks == 0 && !hidden;
            trace.inexact = open.inexact().clone();
            trace
        };
        let mut threads: Vec<ThreadTrace> = threads.into_iter().map(finish).collect();
        threads.sort_by(|a, b| (a.started, a.tid, &a.name).cmp(&(b.started, b.tid, &b.name)));
        Self { exact: threads.iter().all(|t| t.exact), format, threads }
    }
    /// The report as a table.
    pub fn text(&self) -> String {
        let row = |t: &ThreadTrace| {
            let marks: Vec<String> = t.marks.iter().map(|(name, n)| format!("{n} {name}")).collect();
            vec![
                t.tid.to_string(),
                t.name.clone(),
                if t.exact { "exact" } else { "inexact" }.to_owned(),
                t.starts.text(),
                t.ends.text(),
                t.blocks.text(),
                t.unwinds.to_string(),
                t.loads.map_or_else(String::new, |n| n.to_string()),
                marks.join(", "),
            ]
        };
        let rows: Vec<_> = self.threads.iter().map(row).collect();
        let columns = [
            ("tid", Align::Right),
            ("thread", Align::Left),
            ("events", Align::Left),
            ("starts", Align::Right),
            ("ends", Align::Right),
            ("blocks", Align::Right),
            ("unwinds", Align::Right),
            ("class loads", Align::Right),
            ("marks", Align::Left),
        ];
        let note = match self.exact {
            true => "",
            false => "inexact: marks in the files say where events are missing, inferred or left out\n",
        };
        format!("{}{note}", table(&columns, &rows))
    }
}
