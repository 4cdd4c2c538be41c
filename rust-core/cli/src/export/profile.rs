// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exports of call trees.

use anyhow::Result;
use jportal::analyses::tree::CallTree;
use jportal::export::profile::{
    CollapsedOptions, OtlpOptions, PprofOptions, SpeedscopeOptions, write_collapsed, write_otlp, write_pprof,
    write_speedscope,
};

use super::{Written, written};
use crate::Outcome;
use crate::args::{FileArgs, ProfileArgs, TreeArgs, TreeFileArgs};
use crate::files::Target;
use crate::report::{Subject, tree};

/// Builds a tree, and writes it.
fn write(
    format: &'static str,
    (args, file): (&TreeArgs, &FileArgs),
    content: impl FnOnce(&Subject, &CallTree, Target) -> Result<()>,
) -> Result<Outcome> {
    // An output that cannot be written is found before the decode.
    let target = Target::create(&file.output)?;
    let subject = Subject::open(&args.common.decode.capture)?;
    let (tree, _) = tree::build(args, &subject)?;
    content(&subject, &tree, target)?;
    written(&args.common, &Written::<()> { format, output: &file.output, exact: tree.exact, report: None })
}

pub(super) fn collapsed(args: &TreeFileArgs) -> Result<Outcome> {
    write("collapsed", (&args.tree, &args.file), |subject, tree, target| {
        let options = CollapsedOptions { weight: args.weight.into(), ..subject.into() };
        target.write(|out| write_collapsed(tree, &options, out))
    })
}

pub(super) fn speedscope(args: &TreeFileArgs) -> Result<Outcome> {
    write("speedscope", (&args.tree, &args.file), |subject, tree, target| {
        let options = SpeedscopeOptions { weight: args.weight.into(), ..subject.into() };
        target.write(|out| write_speedscope(tree, &options, out))
    })
}

pub(super) fn pprof(args: &ProfileArgs) -> Result<Outcome> {
    write("pprof", (&args.tree, &args.file), |subject, tree, target| {
        target.write(|out| write_pprof(tree, &PprofOptions::from(subject), out))
    })
}

pub(super) fn otlp(args: &ProfileArgs) -> Result<Outcome> {
    write("otlp", (&args.tree, &args.file), |subject, tree, target| {
        target.write(|out| write_otlp(tree, &OtlpOptions::from(subject), out))
    })
}
