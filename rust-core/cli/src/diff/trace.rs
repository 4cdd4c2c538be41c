// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal diff --by call-trace`: the first call of each thread that differs.

use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use jportal::analyses::call_trace::{CallTraceAnalysis, CallTraces, Sites, ThreadTrace, TraceSink};
use jportal::analyses::diff::{DiffError, Presence, Side};
use jportal::analyses::names::Naming;
use jportal::analyses::select::is_application;
use jportal::export::call_trace::{
    CallTrace, CommonSites, SiteTable, TraceParting, TraceWriter, compare_traces,
};
use jportal::{Method, ThreadInfo};
use jportal_plain::line;
use serde::Serialize;
use tempfile::SpooledTempFile;

use super::{is_stored, run};
use crate::CommandOutcome;
use crate::args::DiffArgs;
use crate::output::{ResultKind, put};
use crate::progress::ProgressLine;
use crate::report::Subject;

const KIND: ResultKind = ResultKind::new("diff-call-trace", Some("threads"));

/// Bytes of a thread's trace that are kept in memory before a temporary file is created.
const IN_MEMORY: usize = 1 << 20;

/// The trace of one thread, which disappears with the command.
#[derive(Clone)]
struct KeptTrace(Arc<Mutex<SpooledTempFile>>);

impl Write for KeptTrace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

type KeptTraces = Arc<Mutex<Vec<((u32, u64), KeptTrace)>>>;

/// The call traces of a capture.
struct Traced {
    sites: SiteTable,
    report: CallTraces,
    kept: KeptTraces,
}

impl Traced {
    fn new(args: &DiffArgs, path: &Path) -> Result<Self> {
        let subject = Subject::open(path)?;
        let naming = Naming { stable: true, merge_versions: false };
        let wanted = |m: &Method| match args.class.as_slice() {
            [] => is_application(m),
            classes => classes.iter().any(|pattern| pattern.selects(m)),
        };
        let sites = Arc::new(Sites::new(Arc::clone(&subject.methods), naming, wanted)?);
        let kept = KeptTraces::default();
        let of_threads = Arc::clone(&kept);
        let open = move |thread: &ThreadInfo| {
            let file = KeptTrace(Arc::new(Mutex::new(SpooledTempFile::new(IN_MEMORY))));
            let key = (thread.tid.get(), thread.started.get());
            of_threads.lock().unwrap_or_else(PoisonError::into_inner).push((key, file.clone()));
            Ok(Some(Box::new(TraceWriter::new(file, thread, true, false)?) as Box<dyn TraceSink>))
        };
        let table = SiteTable::of(&sites);
        let answer = run(args, &subject, CallTraceAnalysis::new(sites, Arc::clone(&subject.inlined), open))?;
        if let Some(e) = answer.analysis.error() {
            return Err(e).context("the call traces cannot be kept; is there room where TMPDIR points?");
        }
        Ok(Self { sites: table, report: answer.analysis.report(), kept })
    }
    /// The trace of a thread, from its beginning.
    fn trace(&self, thread: &ThreadTrace) -> Result<KeptTrace> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let own = kept.iter().find(|(key, _)| *key == (thread.tid, thread.started));
        let trace = own.map(|(_, trace)| trace.clone());
        trace.ok_or_else(|| anyhow!("thread {} has no call trace", thread.tid))
    }
    fn inexact(&self) -> Option<String> {
        self.report.inexact_text()
    }
}

/// The comparison of a thread's traces.
#[derive(Serialize)]
struct ThreadParting {
    /// Which runs have the thread.
    presence: Presence,
    thread: String,
    before_tid: Option<u32>,
    after_tid: Option<u32>,
    /// Tokens that are the same, from the beginning on.
    same: u64,
    /// Nothing differs, and all was compared.
    equal: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    parting: Option<TraceParting>,
    /// Why the rest was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
}

/// The comparison of two runs' call traces.
#[derive(Serialize)]
struct TraceDiff {
    equal: bool,
    exact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_inexact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_inexact: Option<String>,
    threads: Vec<ThreadParting>,
}

pub(super) fn diff(args: &DiffArgs) -> Result<CommandOutcome> {
    for (given, option) in [
        (args.tolerance > 0, "--tolerance"),
        (args.merge, "--merge"),
        (args.merge_versions, "--merge-versions"),
    ] {
        if given {
            bail!("{option} has no effect on call traces, which are sequences; leave it out");
        }
    }
    for path in [&args.before, &args.after] {
        if is_stored(path)? {
            bail!("{} is a stored result, which has no call trace; name two captures", path.display());
        }
    }
    let [before, after] = [Traced::new(args, &args.before)?, Traced::new(args, &args.after)?];
    for (side, traced) in [(Side::Before, &before), (Side::After, &after)] {
        if let Some(why) = traced.inexact().filter(|_| !args.allow_inexact) {
            return Err(DiffError::Inexact { side, why }.into());
        }
    }
    let threads = compare([&before, &after])?;
    let diff = TraceDiff {
        equal: threads.iter().all(|t| t.parting.is_none() && matches!(t.presence, Presence::Both)),
        exact: before.report.exact && after.report.exact,
        before_inexact: before.inexact(),
        after_inexact: after.inexact(),
        threads,
    };
    put(&args.format, KIND, &diff, || Ok(diff.text(args.top)))?;
    Ok(if diff.equal { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Compares the threads of both runs. Those of the same name are matched by their start.
fn compare(runs: [&Traced; 2]) -> Result<Vec<ThreadParting>> {
    let sites = CommonSites::new(runs.map(|run| &run.sites));
    let [mut left, mut right] = runs.map(|run| run.report.threads.iter().collect::<Vec<_>>());
    let all = runs[0].report.total.words.min(runs[1].report.total.words);
    let (mut progress, mut done) = (ProgressLine::counting("comparing", "million tokens"), 0);
    let mut threads = Vec::new();
    for before in left.drain(..) {
        let same = right.iter().position(|after| after.name == before.name);
        let Some(after) = same.map(|at| right.remove(at)) else {
            threads.push(ThreadParting::alone(Presence::Before, before));
            continue;
        };
        let [a, b] = [runs[0].trace(before)?, runs[1].trace(after)?];
        let [mut a, mut b] =
            [a.0.lock(), b.0.lock()].map(|file| file.unwrap_or_else(PoisonError::into_inner));
        let traces = [&mut *a, &mut *b].map(|file| {
            file.rewind()?;
            CallTrace::read(file).map_err(anyhow::Error::from)
        });
        let [a, b] = traces;
        let compared = compare_traces(&sites, [a?, b?], &mut |same| progress.update(done + same, all))?;
        done += compared.same;
        threads.push(ThreadParting {
            presence: Presence::Both,
            thread: before.name.clone(),
            before_tid: Some(before.tid),
            after_tid: Some(after.tid),
            same: compared.same,
            equal: compared.parting.is_none() && compared.stopped.is_none(),
            parting: compared.parting,
            stopped: compared.stopped,
        });
    }
    threads.extend(right.into_iter().map(|after| ThreadParting::alone(Presence::After, after)));
    Ok(threads)
}

impl ThreadParting {
    /// A thread that only one run has.
    fn alone(presence: Presence, thread: &ThreadTrace) -> Self {
        let tid = |of| Some(thread.tid).filter(|_| presence == of);
        let (before_tid, after_tid) = (tid(Presence::Before), tid(Presence::After));
        let (thread, parting, stopped) = (thread.name.clone(), None, None);
        Self { presence, thread, before_tid, after_tid, same: 0, equal: false, parting, stopped }
    }
    /// The lines of a thread.
    fn text(&self) -> String {
        let name = line(&self.thread);
        let mut text = match (self.presence, &self.parting, &self.stopped) {
            (Presence::Before, ..) => format!("- thread \"{name}\": only in the first run\n"),
            (Presence::After, ..) => format!("+ thread \"{name}\": only in the second run\n"),
            (_, Some(_), _) => format!("~ thread \"{name}\": differs at token {}\n", self.same),
            (_, _, Some(why)) => {
                format!("? thread \"{name}\": the first {} tokens are the same; {}\n", self.same, line(why))
            }
            _ => format!("  thread \"{name}\": {} tokens are the same\n", self.same),
        };
        if let Some(TraceParting { common, before, after, .. }) = &self.parting {
            let ended = ["(the trace has ended)".to_owned()];
            let next = |tokens| if <[String]>::is_empty(tokens) { &ended[..] } else { tokens };
            for (mark, tokens) in [("  ", &common[..]), ("- ", next(before)), ("+ ", next(after))] {
                tokens.iter().for_each(|token| text += &format!("    {mark}{}\n", line(token)));
            }
        }
        text
    }
}

impl TraceDiff {
    fn text(&self, top: usize) -> String {
        let different: Vec<&ThreadParting> = self.threads.iter().filter(|t| !t.equal).collect();
        let mut text: String = different.iter().take(top).map(|thread| thread.text()).collect();
        if let Some(more) = different.len().checked_sub(top).filter(|n| *n > 0) {
            text += &format!("{more} more threads differ\n");
        }
        let same: u64 = self.threads.iter().map(|t| t.same).sum();
        let equal = self.threads.len() - different.len();
        text += &format!("{equal} of {} threads are equal; {same} tokens are the same\n", self.threads.len());
        for (which, why) in [("first", &self.before_inexact), ("second", &self.after_inexact)] {
            if let Some(why) = why {
                text += &format!("the {which} run is not exact: {why}\n");
            }
        }
        text
    }
}
