// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exports of coverage.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use jportal::analyses::coverage::{Coverage, CoverageAnalysis, CoverageOptions};
use jportal::analyses::names::Naming;
use jportal::export::coverage::{
    CoberturaOptions, JacocoOptions, LcovOptions, write_cobertura, write_jacoco, write_lcov,
};

use super::{ExportSummary, written};
use crate::args::{Classes, CoverageFileArgs};
use crate::files::OutputFile;
use crate::report::Subject;
use crate::{CommandOutcome, decode};

/// Collects coverage, and writes it.
fn write(
    format: &'static str,
    args: &CoverageFileArgs,
    content: impl FnOnce(&Coverage, OutputFile) -> Result<()>,
) -> Result<CommandOutcome> {
    let common = &args.common;
    let target = OutputFile::create(&args.file.output)?;
    let subject = Subject::of(common)?;
    let analysis = CoverageAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    // The formats know no versions of a method.
    let naming = Naming { merge_versions: true, ..common.naming.get() };
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(naming);
    let answer = subject.run(common, analysis)?;
    let options = CoverageOptions { counts: true, exception_branches: args.exception_branches };
    let coverage = answer.analysis.report_with(options, |m| common.scope.selects(m, Classes::App));
    content(&coverage, target)?;
    let (output, exact) = (&*args.file.output, coverage.exact);
    written(common, &ExportSummary::<()> { format, output, exact, report: None })
}

pub(super) fn lcov(args: &CoverageFileArgs) -> Result<CommandOutcome> {
    write("lcov", args, |coverage, target| {
        let options = LcovOptions { test: "", prefix: &args.prefix };
        target.fill(|out| write_lcov(coverage, options, out))
    })
}

pub(super) fn jacoco(args: &CoverageFileArgs) -> Result<CommandOutcome> {
    write("jacoco", args, |coverage, target| {
        target.fill(|out| write_jacoco(coverage, JacocoOptions::default(), out))
    })
}

pub(super) fn cobertura(args: &CoverageFileArgs) -> Result<CommandOutcome> {
    write("cobertura", args, |coverage, target| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let prefix = [&*args.prefix];
        let sources: &[&str] = if args.prefix.is_empty() { &[] } else { &prefix };
        let options = CoberturaOptions { sources, timestamp, version: env!("CARGO_PKG_VERSION") };
        target.fill(|out| write_cobertura(coverage, options, out))
    })
}
