// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arguments of `jportal report`.

use clap::{Args, Subcommand};
use jportal::analyses::select::Pattern;

use super::{Classes, DecodeArgs, ExcludeArgs, InferArgs, RangeArgs, pattern};

/// The reports.
#[derive(Subcommand, Debug)]
pub(crate) enum ReportCommand {
    /// Which bytecodes, lines and branch outcomes were executed
    Coverage(CoverageArgs),
    /// Bytecodes executed in each method itself, by tier, and calls
    HotMethods(TopArgs),
    /// Callers, call sites, callees and counts
    Calls(TopArgs),
}

/// Arguments of every report.
#[derive(Args, Debug)]
pub(crate) struct CommonArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) infer: InferArgs,
    #[command(flatten)]
    pub(crate) exclude: ExcludeArgs,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Show the versions of a redefined method as one row
    #[arg(long)]
    pub(crate) merge_versions: bool,
    /// Remove from names what differs between runs, so that two runs can be compared
    ///
    /// `Main$$Lambda$14+0x…` becomes `Main$$Lambda`, and `GeneratedMethodAccessor7` loses its
    /// number. Methods whose names become equal are one row.
    #[arg(long)]
    pub(crate) stable_names: bool,
}

/// Which classes and methods.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScopeArgs {
    /// Which classes; default: app for coverage, otherwise all
    #[arg(long, value_enum)]
    pub(crate) classes: Option<Classes>,
    /// Only these classes or methods; may be repeated
    ///
    /// `com.example` is a package with all below it, or a class with those nested in it. `*` and
    /// `?` match within a part of a name, `**` matches any parts: `com.**.Foo*`.
    /// `com.example.Foo#get*` selects methods.
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) class: Vec<Pattern>,
}

#[derive(Args, Debug)]
pub(crate) struct CoverageArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Also one row per method
    #[arg(long)]
    pub(crate) methods: bool,
}

/// Arguments of a report with the most frequent rows first.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) top: usize,
}
