// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `--check`: passes the flow to the checker and to another consumer.

use std::sync::Arc;

use jportal_check::{Checker, Options, Report};
use jportal_flow::{Event, FlowConsumer, FlowSink, ThreadInfo};
use jportal_reconstruct::Recording;

use crate::args::CheckArgs;

/// A consumer, together with the checker if the arguments ask for it.
pub(crate) struct Checked<'a> {
    main: &'a mut dyn FlowConsumer,
    checker: Option<Checker>,
}

impl<'a> Checked<'a> {
    pub(crate) fn new(args: &CheckArgs, recording: &Recording<'_>, main: &'a mut dyn FlowConsumer) -> Self {
        let options = Options { keep: args.findings };
        let checker = args.check.then(|| Checker::new(Arc::new(recording.methods().clone()), options));
        Self { main, checker }
    }
    /// The checker's report, after the flow has ended. `None` without `--check`.
    pub(crate) fn report(&self) -> Option<Report> {
        self.checker.as_ref().map(Checker::report)
    }
}

impl FlowConsumer for Checked<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        let main = self.main.thread(info);
        match &mut self.checker {
            Some(checker) => Box::new(Pair(main, checker.thread(info))),
            None => main,
        }
    }
    fn takes_runs(&self) -> bool {
        self.checker.is_none() && self.main.takes_runs()
    }
}

/// Two sinks of the same flow.
struct Pair(Box<dyn FlowSink + Send>, Box<dyn FlowSink + Send>);

impl FlowSink for Pair {
    fn events(&mut self, events: &[Event]) {
        self.0.events(events);
        self.1.events(events);
    }
    fn end(self: Box<Self>) {
        self.0.end();
        self.1.end();
    }
}
