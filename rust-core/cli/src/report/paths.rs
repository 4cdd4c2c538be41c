// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report paths`.

use std::sync::Arc;

use anyhow::Result;
use jportal::analyses::paths::{CSV_HEAD, PathsAnalysis, Show};

use super::{Subject, is_csv, show};
use crate::args::{Classes, PathsArgs};
use crate::output::{ResultKind, put_csv};
use crate::{CommandOutcome, decode};

const KIND: ResultKind = ResultKind::new("report-paths", Some("methods"));

pub(super) fn paths(args: &PathsArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    let subject = Subject::of(common)?;
    let analysis = PathsAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let what = Show { top: args.top, cut: args.cut };
    let report = answer.analysis.report(what, |m| common.scope.selects(m, Classes::App));
    if is_csv(common) {
        put_csv(|to| {
            to.write_record(CSV_HEAD)?;
            report.csv_rows().try_for_each(|row| to.write_record(row))
        })?;
        return Ok(CommandOutcome::Done);
    }
    show(common, KIND, &report, || report.text(), &subject.capture, &answer)
}
