// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal view`.

mod listings;
mod meta;
mod sources;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use jportal::analyses::blocks::{BlocksOptions, CountsAnalysis, Level};
use jportal::analyses::coverage::CoverageOptions;
use jportal::analyses::execution::Visits;
use jportal::analyses::hot::HotAnalysis;
use jportal::analyses::latency::{LatencyAnalysis, Lengths, MethodLengths};
use jportal::analyses::names::stable_qualified;
use jportal::analyses::tree::{Hide, Options, TooManyNodes, TreeAnalysis};
use jportal::analyses::{Inexact, Threads};
use jportal::export::view::{
    ActivationTime, Jit, JitEvent, JitKind, Latency, LatencyRow, OverviewAnalysis, View, ViewMethod,
    ViewTree, write_view,
};
use jportal::{Answer, Method, MethodId};

use crate::args::{Classes, CommonArgs, ViewArgs};
use crate::export::{ExportSummary, written};
use crate::files::OutputFile;
use crate::messages::say;
use crate::report::Subject;
use crate::{CommandOutcome, decode};

use listings::Listings;

/// What one pass over the flow collects.
type Pass = (Threads, (HotAnalysis, (TreeAnalysis, (CountsAnalysis, (OverviewAnalysis, LatencyAnalysis)))));

/// Slowest activations that are kept, of all methods together, and that a method's row shows.
const SLOWEST: [usize; 2] = [500, 20];
/// Methods of which the page shows durations.
const DURATIONS: usize = 500;

pub(crate) fn view(args: &ViewArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    let output = output(args)?;
    // What cannot be written or read is found before the decode.
    let target = OutputFile::create(&output)?;
    let subject = Subject::of(common)?;
    let sources = sources::read(&args.source, &subject.methods)?;
    let answer = subject.run(common, pass(args, &subject))?;
    let view = View { sources, ..page(args, &subject, &answer) };
    let to_file = !target.is_stdout();
    target.fill(|out| write_view(&view, out))?;
    let exact = view.meta.exact;
    if to_file && common.decode.format.is_for_programs() {
        return written(
            common,
            &ExportSummary::<()> { format: "html", output: &output, exact, report: None },
        );
    }
    say(&done(&output, to_file, exact, &view.meta.inexact));
    Ok(CommandOutcome::Done)
}

/// The page to write.
fn output(args: &ViewArgs) -> Result<PathBuf> {
    let capture = &args.common.decode.capture;
    let output = args.output.clone().unwrap_or_else(|| capture.with_extension("html"));
    if output == *capture {
        bail!("the page would replace the capture; name another file with -o");
    }
    Ok(output)
}

/// What was written, and whether its figures can be relied on.
fn done(output: &Path, to_file: bool, exact: bool, inexact: &Inexact) -> String {
    let size = std::fs::metadata(output).ok().filter(|_| to_file).map(|file| file.len());
    let size = size.map_or_else(String::new, |n| format!(" ({:.1} MB)", n as f64 / 1e6));
    let place = if to_file { output.display().to_string() } else { "stdout".to_owned() };
    let why: Vec<String> =
        [inexact.blind_text(), inexact.stretches_text()].into_iter().filter(|why| !why.is_empty()).collect();
    let exactness = match (exact, why.is_empty()) {
        (true, _) => "all figures are exact".to_owned(),
        (false, true) => "not all figures are exact; the page says where".to_owned(),
        (false, false) => format!("not all figures are exact: {}", why.join(", ")),
    };
    format!("the page is in {place}{size}; {exactness}")
}

/// The analyses.
fn pass(args: &ViewArgs, subject: &Subject) -> Pass {
    let common = &args.common;
    let (exclude, naming) = (decode::excluded(&common.exclude), common.naming.get());
    let methods = || Arc::clone(&subject.methods);
    let inlined = || Arc::clone(&subject.inlined);
    let hot = HotAnalysis::new(methods(), inlined()).excluding(exclude).naming(naming);
    let tree = TreeAnalysis::new(methods(), inlined(), tree_options(common))
        .within(|m| common.scope.selects(m, Classes::All))
        .excluding(exclude)
        .naming(naming)
        .timed_by(subject.capture.clock());
    let counts = CountsAnalysis::new(methods(), inlined()).excluding(exclude).naming(naming);
    let overview = OverviewAnalysis::default().excluding(exclude);
    let wanted = |m: &Method| match args.latency.as_slice() {
        [] => common.scope.selects(m, Classes::App),
        patterns => patterns.iter().any(|pattern| pattern.selects(m)),
    };
    let latency = LatencyAnalysis::new(methods(), inlined(), SLOWEST[0], wanted);
    let latency = latency.excluding(exclude).naming(naming);
    (Threads::default(), (hot, (tree, (counts, (overview, latency)))))
}

/// As `report call-tree` builds it: if classes were requested, frames of others are transparent.
fn tree_options(args: &CommonArgs) -> Options {
    let scoped = args.scope.classes.is_some() || !args.scope.class.is_empty();
    Options { hide: if scoped { Hide::Splice } else { Hide::Show }, ..Options::default() }
}

/// The content of the page, without sources.
fn page(args: &ViewArgs, subject: &Subject, answer: &Answer<Pass>) -> View {
    let (threads, (hot, (tree, (counts, (overview, latency))))) = &answer.analysis;
    let common = &args.common;
    let in_scope = |m: &Method| common.scope.selects(m, Classes::All);
    let hot = hot.report(usize::MAX, in_scope);
    let tree = tree.tree();
    let coverage = counts.coverage(CoverageOptions::default(), |m| common.scope.selects(m, Classes::App));
    let blocks = counts.blocks(BlocksOptions { level: Level::Bytecodes, ..Default::default() }, in_scope);
    let lengths = latency.lengths();
    let naming = common.naming.get();
    let listings = Listings::new(&blocks, &subject.methods, naming);
    let mut methods = ViewMethod::all(&hot);
    ViewMethod::complete(&mut methods, &subject.methods, |m| listings.of(m));
    let visits = subject.capture.visits();
    let overview = overview.overview(Some(&visits).filter(|visits| **visits != Visits::default()));

    let mut meta = meta::of(args, subject, answer);
    let built = tree.as_ref().is_ok_and(|tree| tree.exact);
    meta.exact = hot.exact && coverage.exact && blocks.exact && lengths.exact && built;
    if blocks.repeated > 0 {
        let n = blocks.repeated;
        meta.notes.push(format!("{n} bytecodes after deoptimisations may be counted twice."));
    }
    meta.notes.extend(tree.as_ref().err().map(no_tree));
    meta.notes.extend(left_out(&lengths));
    meta.inexact = hot.inexact;
    View {
        meta,
        threads: threads.totals(),
        trees: tree.into_iter().map(|tree| ViewTree { title: "Threads".to_owned(), tree }).collect(),
        methods,
        coverage: Some(coverage),
        overview: Some(overview),
        latency: Some(durations(&lengths)),
        jit: Some(jit(subject, naming.stable)),
        sources: Vec::new(),
    }
}

/// A remark on a tree that is too large.
fn no_tree(e: &TooManyNodes) -> String {
    format!(
        "There is no flame graph: the call tree needs more than {} nodes; thread {} was at {}. Choose fewer \
         classes (--class).",
        e.limit, e.thread, e.path
    )
}

/// The methods of which durations can be shown.
fn measured(lengths: &Lengths) -> impl Iterator<Item = &MethodLengths> {
    lengths.methods.iter().filter(|m| m.measured > 0)
}

/// A remark on the methods of which no durations are shown.
fn left_out(lengths: &Lengths) -> Option<String> {
    let shown = measured(lengths).count().min(DURATIONS);
    let unmeasured = lengths.methods.len() - measured(lengths).count();
    let rest = measured(lengths).count() - shown;
    let parts =
        [(unmeasured, "methods without an activation that could be measured"), (rest, "more methods")];
    let parts: Vec<_> = parts.iter().filter(|p| p.0 > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!parts.is_empty()).then(|| format!("There are no durations of {}.", parts.join(" and of ")))
}

/// Durations in wall time.
fn durations(lengths: &Lengths) -> Latency {
    let row = |m: &MethodLengths| {
        let slowest = m.slowest.iter().take(SLOWEST[1]);
        LatencyRow {
            name: m.method.clone(),
            calls: m.measured,
            unmeasured: m.unmeasured,
            sum: m.sum,
            quantiles: m.quantiles,
            buckets: m.buckets.clone(),
            slowest: slowest.map(|s| ActivationTime { at: s.begin, ticks: s.ticks, tid: s.tid }).collect(),
            exact: m.exact,
        }
    };
    let rows = measured(lengths).take(DURATIONS).map(row).collect();
    Latency { measure: "wall time".to_owned(), resolution: lengths.resolution, rows }
}

/// What the compilers installed. The image of the VM keeps no other events.
fn jit(subject: &Subject, stable: bool) -> Jit {
    let name = |method: Option<MethodId>| {
        let method = method.and_then(|id| subject.methods.get(id));
        let name = method.map_or_else(|| "(unknown)".to_owned(), Method::qualified_name);
        if stable { stable_qualified(&name).into_owned() } else { name }
    };
    let installed = subject.capture.recording().image().codes().iter().filter_map(|code| {
        let compiled = code.nmethod()?;
        Some(JitEvent {
            at: code.installed.get(),
            kind: JitKind::Installed,
            method: name(compiled.method),
            level: compiled.level,
            compile_id: compiled.compile_id,
            osr_bci: compiled.osr_bci,
            size: u32::try_from(code.range.len()).unwrap_or(u32::MAX),
            detail: String::new(),
        })
    });
    let mut events: Vec<JitEvent> = installed.collect();
    events.sort_by_key(|event| event.at);
    Jit { events, unknown: vec![JitKind::NotEntrant, JitKind::Unloaded, JitKind::Deoptimised] }
}
