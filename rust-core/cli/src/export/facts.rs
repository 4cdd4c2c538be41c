// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Export of static facts.

use std::ops::ControlFlow;

use anyhow::{Context, Result};
use jportal::export::facts::{StaticFacts, XSD};
use jportal::{Analysis, Enough, Event, EventKind, MethodId, ThreadInfo};

use super::{Written, written};
use crate::Outcome;
use crate::args::{Classes, FactsFormat, StaticArgs};
use crate::files::Folder;
use crate::report::Subject;

/// Which methods were entered, or executed a bytecode.
#[derive(Debug, Default)]
struct Executed(Vec<bool>);

impl Executed {
    fn mark(&mut self, method: MethodId) {
        let index = method.get() as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, false);
        }
        self.0[index] = true;
    }
    fn has(&self, method: MethodId) -> bool {
        self.0.get(method.get() as usize).copied().unwrap_or(false)
    }
}

impl Analysis for Executed {
    type Thread = Self;

    fn begin(&self, _: &ThreadInfo) -> Self {
        Self::default()
    }
    fn events(&self, thread: &mut Self, events: &[Event]) -> ControlFlow<Enough> {
        for event in events {
            match event.kind {
                EventKind::Enter { method, .. }
                | EventKind::Bytecode { method, .. }
                | EventKind::Run { method, .. } => thread.mark(method),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: Self) {
        for (index, _) in thread.0.iter().enumerate().filter(|(_, executed)| **executed) {
            self.mark(MethodId(index as u32));
        }
    }
}

pub(super) fn facts(args: &StaticArgs) -> Result<Outcome> {
    let common = &args.common;
    let folder = Folder::create(&args.output)?;
    let subject = Subject::open(&common.decode.capture)?;
    let executed = match args.executed {
        true => Some(subject.run(common, Executed::default())?.analysis),
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
            std::io::Write::write_all(&mut schema, XSD.as_bytes()).with_context(cannot)?;
            facts.write_xml(&mut folder.file("static.xml").with_context(cannot)?).with_context(cannot)?;
        }
        FactsFormat::Csv => {
            let open = |name: &str| Ok(Box::new(folder.file(name)?) as Box<dyn std::io::Write + Send>);
            facts.write_csv(open).with_context(cannot)?;
        }
        FactsFormat::Json => {
            facts.write_json(&mut folder.file("static.json").with_context(cannot)?).with_context(cannot)?;
        }
    }
    written(common, &Written::<()> { format: "static", output: &args.output, exact: true, report: None })
}
