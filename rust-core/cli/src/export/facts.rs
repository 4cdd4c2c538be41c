// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Export of static facts.

use std::io::Write;
use std::ops::ControlFlow;

use anyhow::{Context, Result};
use jportal::export::facts::{StaticFacts, XSD};
use jportal::{Analysis, Enough, Entry, Event, EventKind, Exclude, MethodId, Provenance, ThreadInfo};

use super::{ExportSummary, written};
use crate::args::{Classes, FactsFormat, StaticArgs};
use crate::files::Folder;
use crate::report::Subject;
use crate::{CommandOutcome, decode};

/// Which methods were entered, or executed a bytecode.
#[derive(Debug, Default)]
struct EnteredMethods {
    methods: Vec<bool>,
    /// Others may have run, or some of these are placed or filled.
    inexact: bool,
}

impl EnteredMethods {
    fn mark(&mut self, method: MethodId) {
        let index = method.get() as usize;
        if self.methods.len() <= index {
            self.methods.resize(index + 1, false);
        }
        self.methods[index] = true;
    }
    fn has(&self, method: MethodId) -> bool {
        self.methods.get(method.get() as usize).copied().unwrap_or(false)
    }
}

/// Collects the methods that were executed.
#[derive(Debug, Default)]
struct Executed {
    exclude: Exclude,
    seen: EnteredMethods,
}

impl Analysis for Executed {
    type Thread = EnteredMethods;

    fn begin(&self, _: &ThreadInfo) -> EnteredMethods {
        EnteredMethods::default()
    }
    fn events(&self, seen: &mut EnteredMethods, events: &[Event]) -> ControlFlow<Enough> {
        for event in events {
            let (method, known) = match event.kind {
                EventKind::Enter { method, entry, .. } => (Some(method), entry != Entry::Found),
                EventKind::Bytecode { method, .. } | EventKind::Run { method, .. } => (Some(method), true),
                EventKind::Unresolved { .. } | EventKind::Orphan(_) | EventKind::Gap(_) => (None, false),
                EventKind::Leave { .. }
                | EventKind::Catch { .. }
                | EventKind::Time(_)
                | EventKind::Code(_) => continue,
            };
            seen.inexact |= !known || event.provenance != Provenance::Decoded;
            match method.filter(|_| !self.exclude.hides(event.provenance)) {
                Some(method) => seen.mark(method),
                None => seen.inexact = true,
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, seen: EnteredMethods) {
        self.seen.inexact |= seen.inexact;
        for (index, _) in (0..).zip(&seen.methods).filter(|(_, executed)| **executed) {
            self.seen.mark(MethodId(index));
        }
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}

pub(super) fn facts(args: &StaticArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    let folder = Folder::create(&args.output)?;
    let subject = Subject::of(common)?;
    let executed = match args.executed {
        true => {
            let analysis = Executed { exclude: decode::excluded(&common.exclude), ..Executed::default() };
            Some(subject.run(common, analysis)?.analysis.seen)
        }
        false => None,
    };
    let wanted = |m: &jportal::Method| {
        common.scope.selects(m, Classes::All) && executed.as_ref().is_none_or(|e| e.has(m.id))
    };
    let facts = StaticFacts::new(&subject.methods, args.numbers.into(), wanted)?;
    let cannot = || format!("cannot write to {}", args.output.display());
    match args.form {
        FactsFormat::Xml => {
            let mut schema = folder.file("static.xsd").with_context(cannot)?;
            schema.write_all(XSD.as_bytes()).and_then(|()| schema.flush()).with_context(cannot)?;
            facts.write_xml(&mut folder.file("static.xml").with_context(cannot)?).with_context(cannot)?;
        }
        FactsFormat::Csv => {
            let open = |name: &str| Ok(Box::new(folder.file(name)?) as Box<dyn Write + Send>);
            facts.write_csv(open).with_context(cannot)?;
        }
        FactsFormat::Json => {
            facts.write_json(&mut folder.file("static.json").with_context(cannot)?).with_context(cannot)?;
        }
    }
    let (output, exact) = (&*args.output, executed.is_none_or(|seen| !seen.inexact));
    written(common, &ExportSummary::<()> { format: "static", output, exact, report: None })
}
