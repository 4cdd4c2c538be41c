// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Export of Parquet tables.

use std::num::NonZeroU64;
use std::sync::Arc;

use anyhow::{Context, Result};
use jportal::Tsc;
use jportal::export::table::{Partition, Slices, TableAnalysis, TableOptions};

use super::{ExportSummary, written};
use crate::args::ParquetArgs;
use crate::files::Folder;
use crate::report::Subject;
use crate::{CommandOutcome, decode};

pub(super) fn parquet(args: &ParquetArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    common.scope.refuse("the tables hold all classes; select with `WHERE class = ...` when they are read")?;
    let folder = Folder::create(&args.output)?;
    let subject = Subject::of(common)?;
    let header = subject.capture.recording().reader().header();
    let slices = match args.slice {
        Some(length) => {
            let ticks = length.as_nanos().saturating_mul(decode::tsc_khz(header)?.into()) / 1_000_000;
            let ticks = NonZeroU64::new(u64::try_from(ticks).unwrap_or(u64::MAX));
            Some(Slices { origin: Tsc(header.start_tsc), ticks: ticks.unwrap_or(NonZeroU64::MIN) })
        }
        None => None,
    };
    let capture = subject.capture.path().display().to_string();
    let options = TableOptions {
        events: args.events,
        slices,
        thread_column: false,
        labels: vec![("jportal.capture".to_owned(), capture)],
        exclude: decode::excluded(&common.exclude),
    };
    let open = move |partition: &Partition| {
        Ok(Box::new(folder.growing(&partition.path())?) as Box<dyn std::io::Write + Send>)
    };
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = TableAnalysis::new(methods, inlined, options, open);
    let answer = subject.run(common, analysis)?;
    let exact =
        answer.analysis.finish().with_context(|| format!("cannot write to {}", args.output.display()))?;
    written(common, &ExportSummary::<()> { format: "parquet", output: &args.output, exact, report: None })
}
