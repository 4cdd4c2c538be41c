// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report call-tree`, and call trees for exports.

use std::sync::Arc;

use anyhow::Result;
use jportal::Answer;
use jportal::analyses::tree::{CallTree, Layout, Series, SeriesAnalysis, TreeAnalysis};

use super::{Subject, is_csv, show};
use crate::args::{Classes, TreeArgs, TreeReportArgs};
use crate::output::{ResultKind, put_csv};
use crate::{CommandOutcome, decode};

const KIND: ResultKind = ResultKind::new("report-call-tree", Some("nodes"));
const SERIES: ResultKind = ResultKind { rows: Some("intervals"), ..KIND };

pub(super) fn call_tree(args: &TreeReportArgs) -> Result<CommandOutcome> {
    let common = &args.tree.common;
    let subject = Subject::of(common)?;
    if let Some(every) = args.every {
        return series(args, every, &subject);
    }
    let mut analysis = analysis(&args.tree, &subject);
    if args.split.is_requested() {
        analysis = analysis.split(|m| args.split.begins(m));
    }
    let (tree, answer) = tree(&args.tree, &subject, analysis)?;
    if is_csv(common) {
        put_csv(|to| tree.rows(|row| to.serialize(row)))?;
        return Ok(CommandOutcome::Done);
    }
    let layout = Layout { weight: args.weight.into(), depth: args.depth, min: args.min, top: args.top };
    show(common, KIND, &tree, || tree.text(&layout), &subject.capture, &answer)
}

/// `--every`: the tree as a series of changes.
fn series(args: &TreeReportArgs, every: u32, subject: &Subject) -> Result<CommandOutcome> {
    let common = &args.tree.common;
    let analysis = SeriesAnalysis::new(analysis(&args.tree, subject), every);
    let answer = subject.run(common, analysis)?;
    let series: Series = answer.analysis.series()?;
    if is_csv(common) {
        put_csv(|to| series.rows(|row| to.serialize(row)))?;
        return Ok(CommandOutcome::Done);
    }
    show(common, SERIES, &series, || series.text(), &subject.capture, &answer)
}

/// Builds the tree that the arguments describe.
pub(crate) fn build(args: &TreeArgs, subject: &Subject) -> Result<(CallTree, Answer<TreeAnalysis>)> {
    tree(args, subject, analysis(args, subject))
}

fn tree(
    args: &TreeArgs,
    subject: &Subject,
    analysis: TreeAnalysis,
) -> Result<(CallTree, Answer<TreeAnalysis>)> {
    let answer = subject.run(&args.common, analysis)?;
    let tree = answer.analysis.tree()?;
    Ok((tree, answer))
}

/// The analysis that the arguments describe.
fn analysis(args: &TreeArgs, subject: &Subject) -> TreeAnalysis {
    let common = &args.common;
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    TreeAnalysis::new(methods, inlined, args.options())
        .within(|m| common.scope.selects(m, Classes::All))
        .excluding(decode::excluded(&common.exclude))
        .naming(common.naming.get())
        .timed_by(subject.capture.clock())
}
