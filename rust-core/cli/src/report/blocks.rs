// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report blocks`.

use std::sync::Arc;

use anyhow::Result;
use jportal::analyses::blocks::{BlocksOptions, CountsAnalysis, Level};

use super::{Subject, is_csv, show};
use crate::args::{BlocksArgs, Classes};
use crate::output::{ResultKind, put_csv};
use crate::{CommandOutcome, decode};

const KIND: ResultKind = ResultKind::new("report-blocks", Some("classes"));

pub(super) fn blocks(args: &BlocksArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    let subject = Subject::of(common)?;
    let analysis = CountsAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let level = match (args.bytecodes, args.lines) {
        (true, _) => Level::Bytecodes,
        (false, true) => Level::Lines,
        (false, false) => Level::Blocks,
    };
    let options = BlocksOptions { level, top: args.top, idle: args.idle };
    let report = answer.analysis.blocks(options, |m| common.scope.selects(m, Classes::App));
    if is_csv(common) {
        put_csv(|to| report.rows().try_for_each(|row| to.serialize(row)))?;
        return Ok(CommandOutcome::Done);
    }
    show(common, KIND, &report, || report.text(), &subject.capture, &answer)
}
