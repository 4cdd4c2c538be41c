// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report call-tree`, and call trees for exports.

use std::sync::Arc;

use anyhow::Result;
use jportal::Answer;
use jportal::analyses::tree::{CallTree, Layout, TreeAnalysis};

use super::{Subject, is_csv, show};
use crate::args::{Classes, TreeArgs, TreeReportArgs};
use crate::output::{ResultKind, put_csv};
use crate::{CommandOutcome, decode};

const KIND: ResultKind = ResultKind::new("report-call-tree", Some("nodes"));

pub(super) fn call_tree(args: &TreeReportArgs) -> Result<CommandOutcome> {
    let common = &args.tree.common;
    let subject = Subject::open(&common.decode.capture)?;
    let (tree, answer) = build(&args.tree, &subject)?;
    if is_csv(common) {
        put_csv(|to| tree.rows(|row| to.serialize(row)))?;
        return Ok(CommandOutcome::Done);
    }
    let layout = Layout { weight: args.weight.into(), depth: args.depth, min: args.min, top: args.top };
    show(common, KIND, &tree, || tree.text(&layout), &subject.capture, &answer)
}

/// Builds the tree that the arguments describe.
pub(crate) fn build(args: &TreeArgs, subject: &Subject) -> Result<(CallTree, Answer<TreeAnalysis>)> {
    let common = &args.common;
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = TreeAnalysis::new(methods, inlined, args.options())
        .within(|m| common.scope.selects(m, Classes::All))
        .excluding(decode::excluded(&common.exclude))
        .naming(common.naming.get())
        .timed_by(subject.capture.clock());
    let answer = subject.run(common, analysis)?;
    let tree = answer.analysis.tree()?;
    Ok((tree, answer))
}
