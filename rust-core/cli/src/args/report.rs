// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arguments of `jportal report`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jportal::Method;
use jportal::analyses::select::Pattern;

use super::tree::TreeReportArgs;
use super::{Classes, DecodeArgs, ExcludeArgs, InferArgs, RangeArgs, pattern};

/// The reports.
#[derive(Subcommand, Debug)]
pub(crate) enum ReportCommand {
    /// Which bytecodes, lines and branch outcomes were executed
    Coverage(CoverageArgs),
    /// Bytecodes executed in each method itself, by tier, and calls
    HotMethods(HotArgs),
    /// Callers, call sites, callees and counts
    Calls(TopArgs),
    /// For each calling context: how often it was entered, and what it executed
    CallTree(TreeReportArgs),
    /// Executions of each block, branch outcome, line and bytecode
    Blocks(BlocksArgs),
    /// Executions of each path through a method (Ball and Larus)
    Paths(PathsArgs),
    /// Targets of virtual calls, by call site
    Polymorphism(TopArgs),
    /// Native methods: calls, callers, and what they called
    Natives(TopArgs),
    /// Dynamic metrics of the program (Dufour and others)
    Metrics(MetricsArgs),
    /// Durations of the activations of methods
    Latency(LatencyArgs),
    /// What the JIT compilers decided, beside what ran
    Jit(JitArgs),
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
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    /// Leave out what an agent inserted into methods, and show them as they were before
    ///
    /// FILE is `map.json` of an agent that writes one, as tests/baselines does. Record with
    /// -XX:JPortalPrecision=exact.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) map: Option<PathBuf>,
}

/// How methods are named.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct NamingArgs {
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
    /// Which classes; default: app for coverage, blocks, paths, polymorphism, latency, call traces
    /// and replays, otherwise all
    #[arg(long, value_enum)]
    pub(crate) classes: Option<Classes>,
    /// Only these classes or methods; may be repeated
    ///
    /// `com.example` is a package with all below it, or a class with those nested in it. `*` and
    /// `?` match within a part of a name, `**` matches any parts: `com.**.Foo*`.
    /// `com.example.Foo#get*` selects methods. Call trees and timelines show what other methods
    /// call as called by the frame below them. `report metrics` and `export parquet` take no
    /// classes.
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) class: Vec<Pattern>,
}

/// By what a result is divided.
#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    /// Divide the result by the outermost activations of these methods: by test, by request
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) split: Vec<Pattern>,
}

impl SplitArgs {
    /// Whether the result is divided.
    pub(crate) fn is_requested(&self) -> bool {
        !self.split.is_empty()
    }
    /// Whether the outermost activations of a method are buckets.
    pub(crate) fn begins(&self, method: &Method) -> bool {
        self.split.iter().any(|pattern| pattern.selects(method))
    }
}

#[derive(Args, Debug)]
pub(crate) struct CoverageArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Also one row per method
    #[arg(long, conflicts_with = "split")]
    pub(crate) methods: bool,
    /// Also how often each line and branch outcome was executed
    #[arg(long, conflicts_with_all = ["uncovered", "split"])]
    pub(crate) counts: bool,
    /// Only what was not executed: methods, lines and branch outcomes
    #[arg(long, conflicts_with_all = ["methods", "split"])]
    pub(crate) uncovered: bool,
    /// Count ways of exceptions as branch outcomes, too
    #[arg(long)]
    pub(crate) exception_branches: bool,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
    /// With --split: which activations executed this line
    #[arg(long, value_name = "FILE:LINE", requires = "split", value_parser = line)]
    pub(crate) which_covers: Option<(String, u16)>,
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

/// By what methods are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HotRankName {
    /// Bytecodes executed in the method itself
    Bytecodes,
    /// Calls
    Calls,
    /// Bytecodes executed in the method and in all that it called
    Inclusive,
    /// Time on a core in the method itself
    ///
    /// The flow has a time stamp from time to time. The time between two of them is shared by the
    /// bytecodes executed there; the report says how long these steps are.
    Time,
}

#[derive(Args, Debug)]
pub(crate) struct HotArgs {
    #[command(flatten)]
    pub(crate) top: TopArgs,
    /// By what methods are ranked
    #[arg(long, value_enum, value_name = "MEASURE", default_value = "bytecodes")]
    pub(crate) by: HotRankName,
    /// Also compare with this profile of the same run; may be repeated
    ///
    /// Collapsed stacks, a pprof profile, a recording of JFR, or what `jfr print --json` printed.
    /// Methods are compared by class and name, of all threads and classes: their shares of the
    /// profile, of the bytecodes and of the time, the first ten, and the order.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) compare: Vec<PathBuf>,
    /// The command `jfr` of a JDK, or that JDK; default: of $JAVA_HOME, else beside java on PATH
    #[arg(long, value_name = "PATH", requires = "compare")]
    pub(crate) jfr_tool: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct BlocksArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Also each source line
    #[arg(long)]
    pub(crate) lines: bool,
    /// Also each line and bytecode: a listing with counts in the margin
    #[arg(long)]
    pub(crate) bytecodes: bool,
    /// Also methods that were not executed
    #[arg(long)]
    pub(crate) idle: bool,
    /// Only the N methods that executed most bytecodes
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct PathsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Maximum number of methods, of paths of each, and of hot paths
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) top: usize,
    /// Also the paths that were cut: by an exception, by lost trace
    #[arg(long)]
    pub(crate) cut: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Args, Debug)]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Maximum number of methods
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) top: usize,
    /// Number of slowest activations that are listed
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) slowest: usize,
}

#[derive(Args, Debug)]
pub(crate) struct JitArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Maximum number of rows of each list
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) top: usize,
    /// The list that `--format jsonl` and `csv` write
    #[arg(long, value_enum, default_value_t)]
    pub(crate) list: JitList,
    /// The log that HotSpot wrote of the same run: -XX:+UnlockDiagnosticVMOptions
    /// -XX:+LogCompilation -XX:LogFile=FILE
    ///
    /// Compilations are matched by number. What one of the two does not have is shown.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_compilation: Option<PathBuf>,
}

/// The lists of the report on the JIT compilers.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum JitList {
    /// Compilations
    #[default]
    Nmethods,
    /// Call sites
    Sites,
    /// Branches
    Branches,
    /// Deoptimisations
    Deoptimisations,
    /// Blocks of C2's code that were not executed
    Untaken,
}

/// Parses a line of a source file, `Foo.java:12`.
fn line(text: &str) -> Result<(String, u16), String> {
    let parts = text.rsplit_once(':').and_then(|(file, line)| Some((file.to_owned(), line.parse().ok()?)));
    parts
        .filter(|(file, _)| !file.is_empty())
        .ok_or_else(|| "expected FILE:LINE, such as Foo.java:12".to_owned())
}
