// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal diff`.

mod trace;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use jportal::analyses::calls::CallsAnalysis;
use jportal::analyses::coverage::CoverageAnalysis;
use jportal::analyses::diff::{Diff, DiffOptions, Document, DocumentKind};
use jportal::analyses::hot::HotAnalysis;
use jportal::analyses::names::Naming;
use jportal::analyses::select::is_application;
use jportal::analyses::tree::{Hide, Options, TreeAnalysis};
use jportal::{Analysis, Answer, Method};

use crate::CommandOutcome;
use crate::args::{Compared, DiffArgs};
use crate::output::{ResultKind, put};
use crate::progress::ProgressLine;
use crate::report::Subject;

const KIND: ResultKind = ResultKind::new("diff", Some("differences"));

pub(crate) fn diff(args: &DiffArgs) -> Result<CommandOutcome> {
    let requested = match args.by {
        Some(Compared::CallTrace) => return trace::diff(args),
        Some(Compared::CallTree) => Some(DocumentKind::CallTree),
        Some(Compared::HotMethods) => Some(DocumentKind::HotMethods),
        Some(Compared::Calls) => Some(DocumentKind::Calls),
        Some(Compared::Coverage) => Some(DocumentKind::Coverage),
        None => None,
    };
    let options = DiffOptions {
        tolerance: args.tolerance,
        classes: args.class.clone(),
        allow_inexact: args.allow_inexact,
        merge_threads: args.merge,
        merge_versions: args.merge_versions,
        most: args.top,
    };
    let [before, after] = [read(&args.before)?, read(&args.after)?];
    // What a stored result holds decides what is taken from a capture.
    let stored = [&before, &after].into_iter().flatten().next().map(|Input(document)| document.kind());
    let by = requested.or(stored).unwrap_or(DocumentKind::CallTree);
    let settings = [&before, &after].into_iter().flatten().next();
    let tree = settings.and_then(Input::tree_options).unwrap_or_else(|| tree_options(args));
    let document = |read: Option<Input>, path: &Path| match read {
        Some(Input(document)) => Ok(document),
        None => of_capture(args, path, by, tree),
    };
    let (before, after) = (document(before, &args.before)?, document(after, &args.after)?);
    let diff = Diff::new(&before, &after, &options)?;
    put(&args.format, KIND, &diff, || Ok(diff.text()))?;
    Ok(if diff.equal { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// A result that was stored as JSON.
struct Input(Document);

impl Input {
    /// How its call tree was built, so that a capture's is built in the same way.
    fn tree_options(&self) -> Option<Options> {
        match &self.0 {
            Document::CallTree(tree) => Options::of(&tree.settings),
            _ => None,
        }
    }
}

/// How call trees of captures are built, as `report call-tree` does it: if classes were requested,
/// frames of others are transparent, and what they lack does not make the tree inexact.
fn tree_options(args: &DiffArgs) -> Options {
    let hide = if args.class.is_empty() { Hide::Show } else { Hide::Splice };
    Options { hide, ..Options::default() }
}

/// Whether a method is in the scope of a call tree. A stored tree does not say its scope; without
/// `--class`, a tree with hidden frames is taken for one of the application.
fn in_scope(args: &DiffArgs, hide: Hide, method: &Method) -> bool {
    match (args.class.is_empty(), hide) {
        (false, _) => args.class.iter().any(|pattern| pattern.selects(method)),
        (true, Hide::Show) => true,
        (true, Hide::Splice | Hide::Fold) => is_application(method),
    }
}

/// Whether a file begins like JSON.
fn is_stored(path: &Path) -> Result<bool> {
    let cannot = || format!("cannot read {}", path.display());
    let mut head = [0; 64];
    let n = File::open(path).and_then(|mut file| file.read(&mut head)).with_context(cannot)?;
    Ok(head[..n].trim_ascii_start().first() == Some(&b'{'))
}

/// Reads a stored result; `None` if the file does not begin like JSON.
fn read(path: &Path) -> Result<Option<Input>> {
    if !is_stored(path)? {
        return Ok(None);
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let document = Document::parse(&bytes).with_context(|| path.display().to_string())?;
    Ok(Some(Input(document)))
}

/// The result for a capture.
fn of_capture(args: &DiffArgs, path: &Path, by: DocumentKind, tree: Options) -> Result<Document> {
    let subject = Subject::open(path)?;
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let naming = Naming { stable: true, merge_versions: args.merge_versions };
    Ok(match by {
        DocumentKind::CallTree => {
            let analysis = TreeAnalysis::new(methods, inlined, tree).naming(naming);
            let analysis = analysis.within(|m| in_scope(args, tree.hide, m));
            run(args, &subject, analysis)?.analysis.tree()?.into()
        }
        DocumentKind::HotMethods => {
            let analysis = HotAnalysis::new(methods, inlined).naming(naming);
            run(args, &subject, analysis)?.analysis.report(usize::MAX, |_| true).into()
        }
        DocumentKind::Calls => {
            let analysis = CallsAnalysis::new(methods, inlined).naming(naming);
            run(args, &subject, analysis)?.analysis.report(usize::MAX, |_| true).into()
        }
        DocumentKind::Coverage => {
            let analysis = CoverageAnalysis::new(methods, inlined).naming(naming);
            // As `report coverage` selects them.
            let wanted = |m: &Method| !args.class.is_empty() || is_application(m);
            run(args, &subject, analysis)?.analysis.report(wanted).into()
        }
    })
}

fn run<A: Analysis>(args: &DiffArgs, subject: &Subject, analysis: A) -> Result<Answer<A>> {
    let mut line = ProgressLine::new("decoding");
    let query = subject.capture.query().place(jportal::Place::Nothing);
    Ok(args.jobs.apply(query).progress(move |done, all| line.update(done, all)).run(analysis)?)
}
