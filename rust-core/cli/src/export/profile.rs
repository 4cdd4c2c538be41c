// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exports of call trees.

use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;

use anyhow::{Result, bail};
use jportal::analyses::tree::CallTree;
use jportal::export::Error;
use jportal::export::profile::{
    ProfileOptions, Sources, Weight, write_collapsed, write_collapsed_diff, write_otlp, write_pprof,
    write_speedscope,
};

use super::{ExportSummary, written};
use crate::CommandOutcome;
use crate::args::{CollapsedArgs, ProfileArgs, StackWeight, TreeFileArgs};
use crate::files::OutputFile;
use crate::report::{Subject, tree};

/// Builds a tree, and writes it.
fn write(
    format: &'static str,
    (args, weight): (&ProfileArgs, Weight),
    content: impl FnOnce(&CallTree, &ProfileOptions<'_>, &mut dyn Write) -> Result<(), Error>,
) -> Result<CommandOutcome> {
    let common = &args.tree.common;
    // An output that cannot be written is found before the decode.
    let target = OutputFile::create(&args.file.output)?;
    let subject = Subject::of(common)?;
    let (tree, _) = tree::build(&args.tree, &subject)?;
    let header = subject.capture.recording().reader().header();
    let (title, sources) = (subject.name(), Sources::new(&subject.methods, common.naming.get()));
    let options = ProfileOptions {
        weight,
        threads: !args.tree.merge,
        descriptors: args.descriptors,
        depth: args.depth,
        ticks_per_second: NonZeroU64::new(header.tsc_khz.saturating_mul(1000)),
        sources: Some(&sources),
        title: &title,
        started: Some(header.start_unix_ns).filter(|ns| *ns > 0),
        duration: subject.duration(),
    };
    target.fill(|out| content(&tree, &options, out))?;
    let (output, exact) = (&*args.file.output, tree.exact);
    written(common, &ExportSummary::<()> { format, output, exact, report: None })
}

impl From<StackWeight> for Weight {
    fn from(weight: StackWeight) -> Self {
        match weight {
            StackWeight::Bytecodes => Self::Bytecodes,
            StackWeight::Calls => Self::Calls,
            StackWeight::Time => Self::Time,
        }
    }
}

pub(super) fn collapsed(args: &CollapsedArgs) -> Result<CommandOutcome> {
    let CollapsedArgs { tree: TreeFileArgs { profile, weight }, against } = args;
    match against {
        None => write("collapsed", (profile, (*weight).into()), write_collapsed),
        Some(after) => difference((profile, (*weight).into()), after),
    }
}

/// Builds the trees of two captures, and writes both.
fn difference((args, weight): (&ProfileArgs, Weight), after: &Path) -> Result<CommandOutcome> {
    let common = &args.tree.common;
    let target = OutputFile::create(&args.file.output)?;
    let [before, after] = [Subject::of(common)?, Subject::open(after)?];
    let khz = |subject: &Subject| subject.capture.recording().reader().header().tsc_khz;
    if weight == Weight::Time && khz(&before) != khz(&after) {
        bail!(
            "the clocks of the captures differ ({} and {} kHz), so their times have no common unit; choose \
             another weight",
            khz(&before),
            khz(&after)
        );
    }
    let [(a, _), (b, _)] = [tree::build(&args.tree, &before)?, tree::build(&args.tree, &after)?];
    let title = format!("{} and {}", before.name(), after.name());
    let options = ProfileOptions {
        weight,
        threads: !args.tree.merge,
        descriptors: args.descriptors,
        depth: args.depth,
        ticks_per_second: NonZeroU64::new(khz(&before).saturating_mul(1000)),
        title: &title,
        ..ProfileOptions::default()
    };
    target.fill(|out| write_collapsed_diff(&a, &b, &options, out))?;
    let (output, exact) = (&*args.file.output, a.exact && b.exact);
    written(common, &ExportSummary::<()> { format: "collapsed", output, exact, report: None })
}

pub(super) fn speedscope(args: &TreeFileArgs) -> Result<CommandOutcome> {
    write("speedscope", (&args.profile, args.weight.into()), write_speedscope)
}

pub(super) fn pprof(args: &TreeFileArgs) -> Result<CommandOutcome> {
    write("pprof", (&args.profile, args.weight.into()), write_pprof)
}

/// The format has all weights.
pub(super) fn otlp(args: &ProfileArgs) -> Result<CommandOutcome> {
    write("otlp", (args, Weight::default()), write_otlp)
}
