// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Arguments of `jportal export`, `diff` and `view`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand, ValueEnum};
use jportal::analyses::select::Pattern;

use super::tree::TreeArgs;
use super::{CommonArgs, DecodeArgs, FormatArgs, JobsArgs, pattern};

/// The formats.
#[derive(Subcommand, Debug)]
pub(crate) enum ExportCommand {
    /// Call trees as collapsed stacks, for flame graphs; those of two captures, too
    Collapsed(CollapsedArgs),
    /// Call trees as a profile of `pprof`
    Pprof(TreeFileArgs),
    /// Call trees for speedscope.app
    Speedscope(TreeFileArgs),
    /// Call trees as OTLP profiles of OpenTelemetry (alpha)
    Otlp(ProfileArgs),
    /// Coverage as an LCOV trace file
    Lcov(CoverageFileArgs),
    /// Coverage as a report of JaCoCo, in XML
    Jacoco(CoverageFileArgs),
    /// Coverage as a report of Cobertura, in XML
    Cobertura(CoverageFileArgs),
    /// The sequence of call sites and return sites of each thread
    CallTrace(CallTraceArgs),
    /// Of these sites, only those that a plan logs: what Casper's instrumentation would write
    Witnesses(WitnessesArgs),
    /// The call graph, for Graphviz
    Dot(GraphArgs),
    /// The call graph as GraphML, for yEd, Gephi and others
    Graphml(GraphArgs),
    /// The sequence of blocks of each thread, as JBInsTrace writes it
    BlockTrace(BlockTraceArgs),
    /// Classes, methods, blocks, call sites and handlers, with 19 counts of each block
    Static(StaticArgs),
    /// Activations over time, for ui.perfetto.dev
    Perfetto(PerfettoArgs),
    /// Activations over time, for profiler.firefox.com
    Firefox(FirefoxArgs),
    /// Tables in Parquet: methods, threads, calls, blocks, events
    Parquet(ParquetArgs),
    /// `perf.data` and the code in `code.elf`, for `perf script --itrace`
    ///
    /// `perf script --itrace=b -i DIR/perf.data` lists the branches, with symbols. The
    /// directory cannot be moved, because perf.data contains the path of the code file. perf
    /// knows only from the time which version of the code ran. Where the times in the trace are
    /// too coarse for that, TSC packets are inserted and CYC packets are omitted. An OVF packet
    /// marks lost trace. Exit status 1 if perf will not see every change of code, or every
    /// switch of threads, at its place.
    PerfData(PerfDataArgs),
}

#[derive(Args, Debug)]
pub(crate) struct PerfDataArgs {
    /// The capture
    #[arg(value_name = "CAPTURE")]
    pub(crate) capture: PathBuf,
    /// The directory to write to; it is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The file that an export writes.
#[derive(Args, Debug)]
pub(crate) struct FileArgs {
    /// The file to write; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// What stacks are weighted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackWeight {
    /// Bytecodes executed in the method itself
    Bytecodes,
    /// Invocations
    Calls,
    /// Time on a core in the method itself
    Time,
}

/// A call tree as stacks, in a format that has one weight.
#[derive(Args, Debug)]
pub(crate) struct TreeFileArgs {
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    /// The weight of stacks; pprof has all of them, and shows this one first
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = StackWeight::Bytecodes)]
    pub(crate) weight: StackWeight,
}

#[derive(Args, Debug)]
pub(crate) struct CollapsedArgs {
    #[command(flatten)]
    pub(crate) tree: TreeFileArgs,
    /// Also the tree of this capture: each stack has two weights, the one in AFTER last
    ///
    /// `difffolded.pl` writes such files, and `flamegraph.pl` draws a differential flame graph of
    /// them. Threads are matched by name, methods by names without what differs between runs. All
    /// other options apply to both captures.
    #[arg(long, value_name = "AFTER")]
    pub(crate) against: Option<PathBuf>,
}

/// A call tree as stacks.
#[derive(Args, Debug)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    pub(crate) tree: TreeArgs,
    /// Show the descriptors of methods
    #[arg(long)]
    pub(crate) descriptors: bool,
    /// Maximum number of frames of a stack; what lies deeper belongs to the deepest frame shown
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CoverageFileArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Count ways of exceptions as branch outcomes, too
    #[arg(long)]
    pub(crate) exception_branches: bool,
    /// What precedes the path of a source file, such as `src/main/java/`
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// What to do with call traces.
#[derive(Debug)]
pub(crate) enum CallTraceArgs {
    /// Show those of a directory, or one.
    Decode(PathBuf),
    /// Write those of a capture.
    Write(Box<CallTraceFilesArgs>),
}

/// The name of the option that shows call traces.
const DECODE: &str = "decode";

impl FromArgMatches for CallTraceArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.get_one::<PathBuf>(DECODE) {
            Some(path) => Ok(Self::Decode(path.clone())),
            None => CallTraceFilesArgs::from_arg_matches(matches).map(|args| Self::Write(Box::new(args))),
        }
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

// Derived code would require the capture, also where `--decode` excludes it.
impl Args for CallTraceArgs {
    fn augment_args(command: Command) -> Command {
        let decode = Arg::new(DECODE)
            .long(DECODE)
            .value_name("DIR|FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .exclusive(true)
            .help("Show call traces as text: those of the directory of an export, or one of its files")
            .long_help(
                "Show call traces as text: those of the directory of an export, or one of its files\n\n\
                 No capture is needed, and no other option applies.",
            );
        CallTraceFilesArgs::augment_args(command).arg(decode)
    }
    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// What is written into the files of a call trace.
#[derive(Args, Debug)]
pub(crate) struct CallTraceFilesArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The directory to write to; it must be empty, and is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Compress each trace (zlib)
    #[arg(long)]
    pub(crate) deflate: bool,
    /// Also the times between the tokens
    #[arg(long)]
    pub(crate) times: bool,
}

#[derive(Args, Debug)]
pub(crate) struct WitnessesArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    /// Which sites are logged: what `jportal-baselines.jar plan` wrote of the program's classes
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: PathBuf,
    /// As for `jportal report`: leave out what an agent inserted
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) map: Option<PathBuf>,
    /// The directory to write to; it must be empty, and is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Only the N edges with most calls, and their methods
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// The form of event numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BlockFormat {
    /// 32 bits: at most 524,288 methods of at most 2,048 blocks
    Jbi32,
    /// 64 bits
    Jbi64,
}

#[derive(Args, Debug)]
pub(crate) struct BlockTraceArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The directory to write to; it must be empty, and is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// The form of event numbers
    #[arg(long, value_enum, value_name = "FORM", default_value_t = BlockFormat::Jbi32)]
    pub(crate) numbers: BlockFormat,
    /// Compress each trace (zlib)
    #[arg(long)]
    pub(crate) deflate: bool,
    /// Also where exceptions and debuggers ended frames, and where handlers began
    #[arg(long)]
    pub(crate) unwinds: bool,
    /// Also the beginnings and ends of native methods
    #[arg(long)]
    pub(crate) natives: bool,
    /// Also times
    #[arg(long)]
    pub(crate) times: bool,
    /// Also when the thread came to a core, and when and why it left
    #[arg(long)]
    pub(crate) switches: bool,
}

/// The form of static facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FactsFormat {
    /// One XML file, `static.xml`, and its schema, `static.xsd`
    Xml,
    /// Five files: classes, methods, blocks, call sites, handlers
    Csv,
    /// One JSON file, `static.json`
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct StaticArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The directory to write to; it must be empty, and is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// The form
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = FactsFormat::Xml)]
    pub(crate) form: FactsFormat,
    /// The form of the numbers of blocks
    #[arg(long, value_enum, value_name = "FORM", default_value_t = BlockFormat::Jbi32)]
    pub(crate) numbers: BlockFormat,
    /// Only methods that were executed
    #[arg(long)]
    pub(crate) executed: bool,
}

/// What a timeline shows.
#[derive(Args, Debug)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Least length of an activation that is shown, in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 100)]
    pub(crate) min: u64,
    /// Greatest number of activations above each other
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) depth: u32,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PerfettoArgs {
    #[command(flatten)]
    pub(crate) timeline: TimelineArgs,
}

#[derive(Args, Debug)]
pub(crate) struct FirefoxArgs {
    #[command(flatten)]
    pub(crate) timeline: TimelineArgs,
    /// Maximum number of samples of one thread
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) samples: usize,
}

#[derive(Args, Debug)]
pub(crate) struct ParquetArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The directory to write to; it must be empty, and is created if necessary
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Also the events of the flow: some 2 bytes per bytecode
    #[arg(long)]
    pub(crate) events: bool,
    /// With --events: the time that one file covers, in seconds
    #[arg(long, value_name = "SECONDS", requires = "events", value_parser = crate::range::seconds)]
    pub(crate) slice: Option<std::time::Duration>,
}

/// What two results are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compared {
    /// Call trees
    CallTree,
    /// Bytecodes and calls of each method
    HotMethods,
    /// Calls by site and callee
    Calls,
    /// Coverage
    Coverage,
    /// Call traces: the first call of each thread that differs
    CallTrace,
}

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// A capture, or a result in JSON
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// A capture, or a result in JSON
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    /// What to compare of two captures; a result in JSON says it itself [default: call-tree]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) by: Option<Compared>,
    /// Only these classes or methods; may be repeated. Frames of other methods are transparent
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) class: Vec<Pattern>,
    /// A figure that differs by at most this counts as equal
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tolerance: u64,
    /// Also compare results that are not exact
    #[arg(long)]
    pub(crate) allow_inexact: bool,
    /// Add up the threads of call trees
    #[arg(long)]
    pub(crate) merge: bool,
    /// Add up the versions of a redefined method
    #[arg(long)]
    pub(crate) merge_versions: bool,
    /// Maximum number of differences shown; all are counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The page to write [default: the capture's name with .html]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// A directory or a JAR with the program's sources; may be repeated
    #[arg(long, value_name = "DIR|JAR")]
    pub(crate) source: Vec<PathBuf>,
    /// Measure the activations of these methods, instead of all of the application; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) latency: Vec<Pattern>,
}
