// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report latency`.

use std::sync::Arc;

use anyhow::Result;
use jportal::Tsc;
use jportal::analyses::latency::LatencyAnalysis;

use super::{Subject, show};
use crate::args::{Classes, LatencyArgs};
use crate::output::ResultKind;
use crate::{CommandOutcome, decode};

const KIND: ResultKind = ResultKind::new("report-latency", Some("methods"));

pub(super) fn latency(args: &LatencyArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    let subject = Subject::of(common)?;
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let wanted = |m: &jportal::Method| common.scope.selects(m, Classes::App);
    let analysis = LatencyAnalysis::new(methods, inlined, args.slowest, wanted);
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis.on_core(subject.capture.clock()))?;
    let header = subject.capture.recording().reader().header();
    let report = answer.analysis.report(args.top, Tsc(header.start_tsc), decode::tsc_khz(header)?);
    show(common, KIND, &report, || report.text(), &subject.capture, &answer)
}
