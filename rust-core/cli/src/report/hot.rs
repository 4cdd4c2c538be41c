// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report hot-methods`.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use jportal::analyses::hot::{HotAnalysis, HotMethods, HotRank};
use jportal::validate::stacks::grade::{RankingReport, StackProfile};
use serde::Serialize;

use super::{Subject, show};
use crate::args::{Classes, HotArgs, HotRankName};
use crate::output::ResultKind;
use crate::{CommandOutcome, decode, profiles, say};

const KIND: ResultKind = ResultKind::new("report-hot-methods", Some("methods"));

/// The report, and the profiles beside it.
#[derive(Serialize)]
struct HotReport<'a> {
    #[serde(flatten)]
    report: HotMethods,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    comparisons: Vec<ComparedProfile<'a>>,
}

/// A profile beside the report.
#[derive(Serialize)]
struct ComparedProfile<'a> {
    file: &'a Path,
    #[serde(flatten)]
    ranking: RankingReport,
}

impl HotReport<'_> {
    fn text(&self) -> String {
        let comparison = |c: &ComparedProfile<'_>| format!("\n{}: {}", c.file.display(), c.ranking.text());
        self.report.text() + &self.comparisons.iter().map(comparison).collect::<String>()
    }
}

pub(super) fn hot_methods(args: &HotArgs) -> Result<CommandOutcome> {
    let common = &args.top.common;
    // A profile that cannot be read is found before the decode.
    let read = |file| Ok((file, profiles::profile(args.jfr_tool.as_deref(), file)?));
    let files: Vec<(&Path, StackProfile)> =
        args.compare.iter().map(|file| read(file.as_path())).collect::<Result<_>>()?;
    let subject = Subject::of(common)?;
    let mut analysis = HotAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined))
        .excluding(decode::excluded(&common.exclude))
        .naming(common.naming.get())
        .ranked(args.by.into(), subject.capture.clock());
    if !files.is_empty() {
        analysis = analysis.beside_profiles(subject.capture.clock());
    }
    let answer = subject.run(common, analysis)?;
    let costs = answer.analysis.named_costs();
    let comparisons: Vec<ComparedProfile<'_>> = files
        .iter()
        .map(|(file, profile)| ComparedProfile {
            file,
            ranking: RankingReport::new(profile, &costs, &subject.methods),
        })
        .collect();
    for c in comparisons.iter().filter(|c| c.ranking.graded == 0) {
        say(&format!("{}: no stack has a frame of Java: is it a profile of the same run?", c.file.display()));
    }
    let report = answer.analysis.report(args.top.top, |m| common.scope.selects(m, Classes::All));
    let report = HotReport { report, comparisons };
    show(common, KIND, &report, || report.text(), &subject.capture, &answer)
}

impl From<HotRankName> for HotRank {
    fn from(name: HotRankName) -> Self {
        match name {
            HotRankName::Bytecodes => Self::Bytecodes,
            HotRankName::Calls => Self::Calls,
            HotRankName::Inclusive => Self::Inclusive,
            HotRankName::Time => Self::Time,
        }
    }
}
