// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report polymorphism`, `natives` and `metrics`.

use std::sync::Arc;

use anyhow::Result;
use jportal::analyses::metrics::MetricsAnalysis;
use jportal::analyses::natives::NativesAnalysis;
use jportal::analyses::polymorphism::PolymorphismAnalysis;

use super::{Subject, show};
use crate::args::{Classes, MetricsArgs, TopArgs};
use crate::output::ResultKind;
use crate::{CommandOutcome, decode};

pub(super) fn polymorphism(args: &TopArgs) -> Result<CommandOutcome> {
    const KIND: ResultKind = ResultKind::new("report-polymorphism", Some("sites"));
    let common = &args.common;
    let subject = Subject::of(common)?;
    let analysis = PolymorphismAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let report = answer.analysis.report(args.top, |m| common.scope.selects(m, Classes::App));
    show(common, KIND, &report, || report.text(), &subject.capture, &answer)
}

pub(super) fn natives(args: &TopArgs) -> Result<CommandOutcome> {
    const KIND: ResultKind = ResultKind::new("report-natives", Some("rows"));
    let common = &args.common;
    let subject = Subject::of(common)?;
    let analysis = NativesAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let report = answer.analysis.report(args.top, |m| common.scope.selects(m, Classes::All));
    show(common, KIND, &report, || report.text(), &subject.capture, &answer)
}

pub(super) fn metrics(args: &MetricsArgs) -> Result<CommandOutcome> {
    const KIND: ResultKind = ResultKind::new("report-metrics", None);
    let common = &args.common;
    common.scope.refuse(
        "the metrics are of the whole program, with those of the application beside them (app...); \
         `jportal report hot-methods`, `blocks` and `polymorphism` take classes",
    )?;
    let subject = Subject::of(common)?;
    let analysis = MetricsAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = analysis.excluding(decode::excluded(&common.exclude));
    let answer = subject.run(common, analysis)?;
    let report = answer.analysis.report();
    show(common, KIND, &report, || report.text(), &subject.capture, &answer)
}
