// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exports of timelines.

use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use jportal::analyses::timeline::{Limits, TimelineAnalysis, TimelineSink, Timelines};
use jportal::export::timeline::firefox::Firefox;
use jportal::export::timeline::perfetto::Perfetto;
use jportal::export::timeline::{Clock, Process};
use jportal::{ThreadInfo, Tsc};

use super::{ExportSummary, written};
use crate::args::{Classes, FirefoxArgs, PerfettoArgs, TimelineArgs};
use crate::files::OutputFile;
use crate::report::Subject;
use crate::{CommandOutcome, decode};

/// A stream that the threads of a timeline share.
#[derive(Clone)]
struct SharedStream(Arc<Mutex<Option<OutputFile>>>);

impl Write for SharedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(target) => target.write(bytes),
            None => Err(io::Error::other("the output has been closed")),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map_or(Ok(()), Write::flush)
    }
}

fn clock_and_process(subject: &Subject) -> Result<(Clock, Process)> {
    let header = subject.capture.recording().reader().header();
    let clock = Clock { start: Tsc(header.start_tsc), tsc_khz: decode::tsc_khz(header)? };
    Ok((clock, Process { pid: header.pid, name: subject.name() }))
}

/// Decodes, and passes the timelines to the sinks that `open` makes.
fn run(
    args: &TimelineArgs,
    subject: &Subject,
    clock: Clock,
    open: impl Fn(&ThreadInfo) -> Box<dyn TimelineSink> + Send + Sync + 'static,
) -> Result<Timelines> {
    let common = &args.common;
    let min = args.min.saturating_mul(clock.tsc_khz) / 1000;
    let limits = Limits { min, depth: args.depth, ..Limits::new(clock.tsc_khz) };
    let with = (limits, decode::excluded(&common.exclude));
    let open = move |thread: &ThreadInfo| Ok(Some(open(thread)));
    let analysis = TimelineAnalysis::new(Arc::clone(&subject.methods), common.naming.get(), with, open)
        .within(|m| common.scope.selects(m, Classes::All));
    let answer = subject.run(common, analysis)?;
    match answer.analysis.error() {
        Some(e) => Err(e).with_context(|| format!("cannot write {}", args.file.output.display())),
        None => Ok(answer.analysis.report()),
    }
}

pub(super) fn perfetto(args: &PerfettoArgs) -> Result<CommandOutcome> {
    let args = &args.timeline;
    let cannot = || format!("cannot write {}", args.file.output.display());
    let target = SharedStream(Arc::new(Mutex::new(Some(OutputFile::create(&args.file.output)?))));
    let subject = Subject::of(&args.common)?;
    let (clock, process) = clock_and_process(&subject)?;
    let file = Perfetto::new(BufWriter::new(target.clone()), clock, &process).with_context(cannot)?;
    let of_threads = file.clone();
    let report = run(args, &subject, clock, move |thread| Box::new(of_threads.thread(thread)))?;
    file.flush().with_context(cannot)?;
    let target = target.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    target.map_or(Ok(()), OutputFile::finish)?;
    let (output, exact) = (&*args.file.output, report.exact);
    written(&args.common, &ExportSummary { format: "perfetto", output, exact, report: Some(&report) })
}

pub(super) fn firefox(args: &FirefoxArgs) -> Result<CommandOutcome> {
    let (samples, args) = (args.samples, &args.timeline);
    let target = OutputFile::create(&args.file.output)?;
    let subject = Subject::of(&args.common)?;
    let (clock, process) = clock_and_process(&subject)?;
    let profile = Firefox::new(clock, process, samples);
    let of_threads = profile.clone();
    let report = run(args, &subject, clock, move |thread| Box::new(of_threads.thread(thread)))?;
    target.fill(|out| profile.write(out).map(drop))?;
    let (output, exact) = (&*args.file.output, report.exact);
    written(&args.common, &ExportSummary { format: "firefox", output, exact, report: Some(&report) })
}
