// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What was written into the call traces.

use std::collections::BTreeMap;

use jportal_flow::ThreadInfo;
use jportal_plain::table::{Align, table};
use serde::Serialize;

use crate::hidden::Inexact;

/// Numbers of tokens of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Call sites.
    pub calls: u64,
    /// Return sites.
    pub returns: u64,
    /// Exceptional exits.
    pub exits: u64,
    /// Methods that were called from outside of the scope, with frames of the scope below.
    pub callbacks: u64,
    /// Methods that were called with no frame of the scope below.
    pub entries: u64,
    /// Class initialisers and finalisers.
    pub implicit: u64,
    /// Times.
    pub times: u64,
    /// Of all these, tokens that are known by placing or filling only.
    pub inferred: u64,
    /// Places where tokens may be missing, by kind.
    pub marks: BTreeMap<&'static str, u64>,
    /// Words of 32 bits in all.
    pub words: u64,
}

impl Tokens {
    pub(super) fn are_exact(&self, inexact: &Inexact) -> bool {
        self.marks.is_empty() && self.inferred == 0 && inexact.found == 0
    }
    fn merge(&mut self, other: &Self) {
        let pairs = [
            (&mut self.calls, other.calls),
            (&mut self.returns, other.returns),
            (&mut self.exits, other.exits),
            (&mut self.callbacks, other.callbacks),
            (&mut self.entries, other.entries),
            (&mut self.implicit, other.implicit),
            (&mut self.times, other.times),
            (&mut self.inferred, other.inferred),
            (&mut self.words, other.words),
        ];
        for (mine, theirs) in pairs {
            *mine += theirs;
        }
        for (mark, n) in &other.marks {
            *self.marks.entry(mark).or_default() += n;
        }
    }
}

/// The trace of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadTrace {
    /// OS thread id.
    pub tid: u32,
    /// `java.lang.Thread.getId()`, 0 if unknown.
    pub java_tid: u64,
    /// Name.
    pub name: String,
    /// TSC at its start.
    pub started: u64,
    /// No token is missing or inferred.
    pub exact: bool,
    /// What the flow leaves open, in the scope and outside of it.
    pub inexact: Inexact,
    /// The tokens.
    pub tokens: Tokens,
}

impl ThreadTrace {
    pub(super) fn new(info: &ThreadInfo, exact: bool, inexact: Inexact, tokens: Tokens) -> Self {
        Self {
            tid: info.tid.get(),
            java_tid: info.java_tid,
            name: info.name.clone(),
            started: info.started.get(),
            exact,
            inexact,
            tokens,
        }
    }
}

/// The traces of all threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallTraces {
    /// No token of any thread is missing or inferred.
    pub exact: bool,
    /// What the flow leaves open, in the threads written.
    pub inexact: Inexact,
    /// Number of sites in the scope.
    pub sites: u32,
    /// All tokens.
    pub total: Tokens,
    /// The threads that have a trace, by start and then thread id.
    pub threads: Vec<ThreadTrace>,
}

impl CallTraces {
    pub(super) fn new(sites: u32, mut threads: Vec<ThreadTrace>) -> Self {
        threads.sort_by_key(|t| (t.started, t.tid));
        let (mut total, mut inexact) = (Tokens::default(), Inexact::default());
        for t in &threads {
            total.merge(&t.tokens);
            inexact.merge(&t.inexact);
        }
        Self { exact: threads.iter().all(|t| t.exact), inexact, sites, total, threads }
    }
    /// A table of the threads, and a line that says whether the traces are complete.
    pub fn text(&self) -> String {
        let columns = [
            ("thread", Align::Left),
            ("tid", Align::Right),
            ("calls", Align::Right),
            ("returns", Align::Right),
            ("exits", Align::Right),
            ("callbacks", Align::Right),
            ("entries", Align::Right),
            ("implicit", Align::Right),
            ("marks", Align::Right),
        ];
        let row = |t: &ThreadTrace| {
            let n = &t.tokens;
            let counts = [n.calls, n.returns, n.exits, n.callbacks, n.entries, n.implicit];
            let mut row = vec![t.name.clone(), t.tid.to_string()];
            row.extend(counts.map(|n| n.to_string()));
            row.push(n.marks.values().sum::<u64>().to_string());
            row
        };
        let rows: Vec<_> = self.threads.iter().map(row).collect();
        let sites = format!("{} sites in the scope\n", self.sites);
        format!("{}{sites}{}", table(&columns, &rows), self.note())
    }
    fn note(&self) -> String {
        match self.inexact_text() {
            Some(why) => format!("The traces are not exact: {why}.\n"),
            None => "The traces are exact.\n".to_owned(),
        }
    }
    /// Why the traces are not exact; `None` if they are.
    pub fn inexact_text(&self) -> Option<String> {
        if self.exact {
            return None;
        }
        let marks: Vec<String> = self.total.marks.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let mut parts = Vec::new();
        if !marks.is_empty() {
            parts.push(format!("tokens may be missing at {}", marks.join(", ")));
        }
        if self.total.inferred > 0 {
            parts.push(format!("{} tokens are inferred", self.total.inferred));
        }
        if self.inexact.found > 0 {
            parts.push(format!("the beginning of {} frames was not seen", self.inexact.found));
        }
        Some(parts.join("; "))
    }
}
