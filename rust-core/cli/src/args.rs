// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

mod export;
mod replay;
mod report;
mod tree;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jportal::analyses::select::Pattern;

pub(crate) use export::{
    BlockFormat, BlockTraceArgs, CallTraceArgs, CallTraceFilesArgs, CollapsedArgs, Compared,
    CoverageFileArgs, DiffArgs, ExportCommand, FactsFormat, FirefoxArgs, GraphArgs, ParquetArgs,
    PerfDataArgs, PerfettoArgs, ProfileArgs, StackWeight, StaticArgs, TimelineArgs, TreeFileArgs, ViewArgs,
    WitnessesArgs,
};
pub(crate) use replay::ReplayArgs;
pub(crate) use report::{
    BlocksArgs, CommonArgs, CoverageArgs, HotArgs, HotRankName, JitArgs, JitList, LatencyArgs, MetricsArgs,
    NamingArgs, PathsArgs, ReportCommand, ScopeArgs, SplitArgs, TopArgs,
};
pub(crate) use tree::{TreeArgs, TreeReportArgs};

use crate::sections;

/// Records what a Java program executes, and shows it.
#[derive(Parser, Debug)]
#[command(name = "jportal", version, max_term_width = 100, help_template = TEMPLATE)]
#[command(after_help = sections::text())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Colour the words error and warning
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    #[arg(hide_possible_values = true, help_heading = "Messages")]
    pub(crate) color: Colour,
    /// Say more on stderr: the commands that are run, and how long each step took
    #[arg(short, long, global = true, help_heading = "Messages")]
    pub(crate) verbose: bool,
}

/// The help of the command itself: the commands by section, then the options.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{options}";

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a Java program and record it, or record a VM that runs already
    ///
    /// `jportal record -- java -jar app.jar` ends as the program ends, by exit status or by signal.
    /// Failures of the command itself have the exit statuses 125 (it cannot record), 126 (java
    /// cannot be run) and 127 (java was not found), so that they differ from the program's. A
    /// capture that exists is kept as `NAME.old`.
    #[command(visible_alias = "run")]
    Record(RunArgs),
    /// Show what a capture contains and how much of it can be decoded
    ///
    /// `completeness` is the share of the recorded PT bytes that was decoded. Bytes skipped
    /// after an error and bytes of no known thread count as not decoded. Trace that was lost
    /// before it could be recorded appears in `gaps`. With `--thread`, the figures are those of the
    /// selected threads; the trace of others is left out, and counted in `not_asked_bytes`.
    Info(InfoArgs),
    /// Print the flow as text, one thread after the other
    Print(PrintArgs),
    /// Report what was executed, in figures
    #[command(subcommand)]
    Report(ReportCommand),
    /// Show a capture as one page of HTML
    View(ViewArgs),
    /// Run a profiler in Java on what was recorded
    ///
    /// The profiler sees a call tree of each thread grow, and is called after as many bytecodes as
    /// it asks for, as the exact profiler JP does in a running program. It runs in a java of its
    /// own. If a tree is not exact, a warning says why, and the profiler gets the reason. Defaults
    /// are those of a profiler that runs with the program: methods of the application, without
    /// native ones.
    Replay(ReplayArgs),
    /// Compare two captures, or two results in JSON; exit status 1 if they differ
    ///
    /// Each of the two is a capture, or a result that `jportal report call-tree`, `hot-methods`,
    /// `calls` or `coverage` wrote with `--format json`. A stored result and a new capture make a
    /// test of what a program executes: `jportal diff base.json new.jportal --class com.example`.
    /// Names are compared without what differs between runs. Input that is not exact is refused
    /// with status 2, unless it is allowed.
    Diff(DiffArgs),
    /// Judge what the JVM says of its own code, by what the code did
    #[command(subcommand)]
    Validate(ValidateCommand),
    /// Compare the flow with an oracle's log, with another recording, or with JaCoCo
    #[command(hide = true)]
    Verify(VerifyArgs),
    /// Measure a flow against a loss-free recording of the same run: PMD, PR, RA, PDC, PD, DA
    ///
    /// Both captures are decoded and compared bytecode by bytecode, thread by thread. PMD and
    /// PDC are the shares of trace bytes that were lost and captured; `lost` is the share lost
    /// in bytecodes. PR and PD are the shares of the true flow that were recovered and decoded
    /// correctly. RA is the correctly recovered share of what was lost, DA the correctly
    /// decoded share of what was captured. Overall is PR + PD. Exit status 1 if a decoded
    /// bytecode has no counterpart in the truth. While the command runs, the flows are kept in
    /// temporary files of 4 bytes per bytecode.
    #[command(hide = true)]
    Accuracy(AccuracyArgs),
    /// Remove trace from a loss-free capture, as a full buffer or an overflow of the unit would
    ///
    /// The model is the kernel's: a drain that is too slow fills the AUX buffer of a core,
    /// tracing stops at the end of a region, and it resumes with a PSB when the drain has made
    /// room. Metadata is never lost, and records of switches are lost only if requested. The
    /// same seed gives the same file.
    #[command(hide = true)]
    Degrade(DegradeArgs),
    /// Write what was executed in another tool's format
    #[command(subcommand)]
    Export(ExportCommand),
    /// Make a capture from another tool's recording
    ///
    /// The trace is from `perf record -e intel_pt//u`, while the VM recorded only metadata
    /// (`-XX:JPortalSource=none`). Trace in the capture with the metadata is left out.
    Import(ImportArgs),
    /// Check what this machine can record with, and say what to change
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    ///
    /// For bash: `jportal completions bash > ~/.local/share/bash-completion/completions/jportal`
    Completions(CompletionsArgs),
    /// Write man pages: one for the command and one for each subcommand
    Man(ManArgs),
    /// Tools for developers of JPortal
    #[command(subcommand)]
    Dev(DevCommand),
}

/// What developers of a JDK want to know of it.
#[derive(Subcommand, Debug)]
pub(crate) enum ValidateCommand {
    /// Compare the debug info of compiled code with where control was
    ///
    /// Each PcDesc, row of an exception table and state of a deoptimisation that control reached is
    /// compared with the bytecode block and the inlined frames that path markers give, and with
    /// what control did there. Path markers do not come from debug info. Where they say nothing, a
    /// state is not judged, and the report says why. The last table shows what a profiler would be
    /// shown if each executed instruction of compiled code were a sample. Exit status 1 if
    /// something is wrong.
    DebugInfo(DebugInfoArgs),
    /// Compare the stacks that the JVM's own interfaces gave with the stack of the flow
    ///
    /// The stacks agent takes stacks while the program is recorded, and logs them. At the same
    /// moment of the flow each is compared frame by frame: methods, whether they are native, and
    /// the bci. Exit status 1 if a stack is broken.
    ///
    /// `--jfr` does the same for the stacks that JFR took in the recorded run
    /// (`-XX:StartFlightRecording=filename=FILE,settings=profile`). JFR's times are coarse: a stack
    /// is equal if the thread had it in a window around the time, and broken if the thread never
    /// had it. `--grade` compares a profile without times with the exact call tree: which of its
    /// stacks exist, which of its calls never happened, and how far its shares are from the true
    /// ones. Exit status 1 if a stack does not exist.
    Stacks(StacksArgs),
}

#[derive(Args, Debug)]
pub(crate) struct StacksArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    #[command(flatten)]
    pub(crate) input: StacksInput,
    /// Judge only the stacks of this interface; may be repeated
    #[arg(long, value_name = "API", conflicts_with_all = ["jfr", "grade"])]
    pub(crate) api: Vec<StackApiName>,
    /// How far from JFR's time of a stack the thread may have had it, on either side
    #[arg(long, value_name = "MS", default_value_t = 20.0, conflicts_with_all = ["log", "grade"])]
    pub(crate) window: f64,
    /// The command `jfr` of a JDK, or that JDK; default: of $JAVA_HOME, else beside java on PATH
    #[arg(long, value_name = "PATH", conflicts_with = "log")]
    pub(crate) jfr_tool: Option<PathBuf>,
    /// The part of an interface's stacks, or of a profile, that may be broken, between 0 and 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    pub(crate) allow: f64,
    /// Maximum number of findings shown; all are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) findings: usize,
}

/// The stacks to judge.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct StacksInput {
    /// The log directory of the stacks agent
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
    /// A recording of JFR of the same run, or what `jfr print --json` printed of it
    #[arg(long, value_name = "FILE")]
    pub(crate) jfr: Option<PathBuf>,
    /// A profile of the same run, which is compared without times: collapsed stacks, a pprof
    /// profile, or as --jfr
    #[arg(long, value_name = "FILE")]
    pub(crate) grade: Option<PathBuf>,
}

/// How a stack was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackApiName {
    /// JVMTI's GetStackTrace of the calling thread
    Gst,
    /// AsyncGetCallTrace, called by the thread itself in native code
    Asgct,
    /// StackWalker, with hidden frames
    Walker,
    /// The backtrace of a new Throwable
    Throwable,
    /// AsyncGetCallTrace, called in a signal handler
    AsgctAsync,
    /// JVMTI's GetStackTrace of another thread
    GstOther,
}

#[derive(Args, Debug)]
pub(crate) struct DebugInfoArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    /// Maximum number of findings shown; all are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) findings: usize,
    /// Also list each place whose innermost frame is in this class, or in a class nested in it
    #[arg(long, value_name = "CLASS")]
    pub(crate) places: Option<String>,
    /// Maximum number of methods in the table of samples
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
}

/// What developers of JPortal need to prove it right.
#[derive(Subcommand, Debug)]
pub(crate) enum DevCommand {
    /// Compare the flow with an oracle's log, with another recording, or with JaCoCo
    Verify(VerifyArgs),
    /// Measure a flow against a loss-free recording of the same run: PMD, PR, RA, PDC, PD, DA
    ///
    /// See `jportal accuracy --help` for the figures.
    Accuracy(AccuracyArgs),
    /// Remove trace from a loss-free capture, as a full buffer or an overflow of the unit would
    ///
    /// See `jportal degrade --help` for the model.
    Degrade(DegradeArgs),
    /// Show the machine blocks around one event of a thread's flow
    ///
    /// Findings of `--check` and of `verify` give the numbers of events.
    BlocksAround(BlocksAroundArgs),
    /// Write a page of the manual for each command, as Markdown
    Pages(ManArgs),
}

#[derive(Args, Debug)]
pub(crate) struct BlocksAroundArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    /// The number of the event in the thread's flow, from 0
    #[arg(value_name = "EVENT")]
    pub(crate) event: u64,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    Text,
    /// One JSON document
    Json,
    /// One JSON object per line: the rows of the result
    Jsonl,
    /// The rows of the result as comma-separated values, with a heading
    Csv,
}

/// Arguments of the commands with a result for programs.
#[derive(Args, Clone, Debug)]
pub(crate) struct FormatArgs {
    /// How to write the result [default: text]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// The same as --format json
    #[arg(long)]
    json: bool,
}

impl FormatArgs {
    /// The chosen format.
    pub(crate) fn get(&self) -> Format {
        self.format.unwrap_or(if self.json { Format::Json } else { Format::Text })
    }
    /// Whether the result is for programs.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.get() != Format::Text
    }
}

/// Arguments of the commands that can show a part of the recording.
#[derive(Args, Clone, Debug)]
pub(crate) struct RangeArgs {
    /// Begin at this place: seconds since the recording began (`1.5`, `250ms`), `tsc:N`, or
    /// `event:N` of one thread
    ///
    /// The flow begins with the frames that are on the stack there.
    #[arg(long, value_name = "PLACE", value_parser = crate::range::place)]
    pub(crate) from: Option<RecordingPlace>,
    /// End before this place, which is given as for --from
    #[arg(long, value_name = "PLACE", value_parser = crate::range::place)]
    pub(crate) to: Option<RecordingPlace>,
    /// Do not decode the trace before --from, which must be a time
    ///
    /// This makes a part of a large capture available at once. The frames that are open at --from
    /// are not known: a flow that began earlier begins with a gap (left-out), and bytecodes of
    /// unknown frames are orphans until control enters a method.
    #[arg(long, requires = "from")]
    pub(crate) cold: bool,
}

/// A place in a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RecordingPlace {
    /// Nanoseconds since the recording began.
    Nanos(u64),
    /// A TSC value.
    Tsc(u64),
    /// The number of an event in the flow of a thread.
    Event(u64),
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The directory to write to; it is created if necessary
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnFull {
    /// Lose nothing: the unit queues trace until the recorder has room
    Stall,
    /// Lose trace, as the kernel does
    Drop,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Timing {
    /// TSC packets only
    Tsc,
    /// TSC and MTC packets
    Mtc,
    /// TSC, MTC and CYC packets
    Cyc,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Use the emulated PT unit even where Intel PT is present
    #[arg(long)]
    pub(crate) emulate: bool,
    /// Make the application's flow the same in each run, as far as flags of the VM can
    ///
    /// Adds `-XX:JPortalPrecision=exact`, `-XX:-OmitStackTraceInFastThrow` and
    /// `-XX:-OptimizeStringConcat` before the program's own flags. The flow of the JDK's methods
    /// still depends on what the compilers replace.
    #[arg(long)]
    pub(crate) reproducible: bool,
    /// Virtual cores of the emulated unit [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) cores: Option<u32>,
    /// What the emulated unit does when a buffer is full [default: stall]
    #[arg(long, value_enum)]
    pub(crate) on_full: Option<OnFull>,
    /// PT buffer per core, a power of two; suffixes k, m, g
    #[arg(long, value_name = "SIZE", value_parser = power_of_two)]
    pub(crate) aux: Option<u64>,
    /// With `--on-full drop`: bytes per second that the drain may take from each core's buffer
    ///
    /// Suffixes k, m, g. Default: the drain is as fast as it can be.
    #[arg(long, value_name = "BYTES/S", value_parser = bandwidth)]
    pub(crate) drain_bandwidth: Option<u64>,
    /// Timing packets of the emulated unit [default: mtc]
    #[arg(long, value_enum)]
    pub(crate) timing: Option<Timing>,
    /// Compress returns: a TNT bit instead of a TIP packet where the target is known
    #[arg(long)]
    pub(crate) return_compression: bool,
    /// Seed of the emulated unit's scheduler
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Mean number of blocks for which a thread keeps a virtual core
    #[arg(long, value_name = "N")]
    pub(crate) quantum: Option<u64>,
    /// Further argument for the emulated unit, KEY=VALUE (see rust-core/emulator/src/config.rs)
    #[arg(long = "unit-option", value_name = "KEY=VALUE", hide_short_help = true)]
    pub(crate) unit_options: Vec<String>,
    /// The recording JDK, or its `java`; default: $JPORTAL_JAVA_HOME, else build/jdk near the
    /// command
    #[arg(long, value_name = "PATH")]
    pub(crate) java: Option<PathBuf>,
    /// The capture; in the file name, `%p` is the process id, `%t` the time and `%%` a `%`
    #[arg(short, long, value_name = "FILE", default_value = "app.jportal")]
    pub(crate) output: PathBuf,
    /// Print nothing but errors and warnings
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Record the VM of this process, which runs already, with jcmd
    ///
    /// The VM must have been started with -XX:+JPortal, perhaps with -XX:-JPortalStart. The
    /// recording ends with the process, after --for, or when the command is interrupted.
    #[arg(long, value_name = "PID", conflicts_with_all = ["emulate", "cores", "on_full", "aux", "drain_bandwidth"])]
    #[arg(conflicts_with_all = ["timing", "return_compression", "seed", "quantum", "unit_options", "java_args", "reproducible"])]
    pub(crate) pid: Option<u32>,
    /// With --pid: stop the recording after this time (`10`, `2.5`, `500ms`)
    #[arg(long = "for", value_name = "SECONDS", requires = "pid", value_parser = crate::range::seconds)]
    pub(crate) length: Option<std::time::Duration>,
    /// The program: `java`, or the path of one, with its arguments; or its arguments alone
    #[arg(last = true, required_unless_present = "pid", value_name = "[java] ARGS")]
    pub(crate) java_args: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MachineDecoder {
    /// JPortal's own decoder
    Own,
    /// Intel's libipt: the reference, slow
    Libipt,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Positions {
    /// Path markers where the VM recorded them, elsewhere debug info
    Markers,
    /// Only debug info
    DebugInfo,
}

/// Arguments of every command that decodes.
#[derive(Args, Clone, Debug)]
pub(crate) struct DecodeArgs {
    /// The capture
    #[arg(value_name = "CAPTURE")]
    pub(crate) capture: PathBuf,
    /// Which decoder turns packets into machine blocks
    #[arg(long, value_enum, default_value_t = MachineDecoder::Own, hide_short_help = true)]
    pub(crate) native_decoder: MachineDecoder,
    /// Where the positions in compiled code come from
    #[arg(long, value_enum, default_value_t = Positions::Markers, hide_short_help = true)]
    pub(crate) positions: Positions,
    /// Only threads of this name or OS thread id; may be repeated
    #[arg(long = "thread", value_name = "NAME|TID")]
    pub(crate) threads: Vec<String>,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// How many threads decode.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct JobsArgs {
    /// Number of threads that decode [default: one for each processor]
    ///
    /// The result does not depend on it.
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
}

/// How to place orphans: interpreted bytecodes whose frame is older than a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Project {
    /// Do not place them: they stay orphans, of which only the opcode is known
    None,
    /// Algorithm 1 of the JPortal paper: try every place
    Enumerate,
    /// Algorithm 2 of the paper: try every place on an abstraction first
    Guided,
    /// JPortal's own: look up the part of a segment that has the fewest possible places
    Indexed,
}

/// How to fill gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recover {
    /// Do not fill: a gap stays a gap
    None,
    /// Algorithm 3 of the JPortal paper
    Basic,
    /// Algorithm 4 of the paper
    Tiered,
    /// JPortal's own: continue as the run itself did in the same context, for the duration of
    /// the gap
    Follow,
}

/// Arguments of the commands that can show more of a flow than was decoded.
#[derive(Args, Clone, Debug)]
pub(crate) struct InferArgs {
    /// What to do about gaps [default: place]
    #[arg(long, value_enum, value_name = "HOW", conflicts_with_all = ["project", "recover"])]
    gaps: Option<Gaps>,
    /// For developers: how to place interpreted bytecodes that follow a gap
    #[arg(long, value_enum, hide = true)]
    project: Option<Project>,
    /// For developers: how to fill gaps with the bytecodes that likely ran there, learned from the
    /// decoded threads
    #[arg(long, value_enum, hide = true)]
    recover: Option<Recover>,
}

/// What to do about gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gaps {
    /// Show only what follows from the trace
    Keep,
    /// Also place interpreted bytecodes that follow a gap; they are marked as projected
    Place,
    /// Also fill gaps with the bytecodes that likely ran there, marked as recovered, each with a
    /// confidence
    Fill,
}

impl InferArgs {
    /// How to place.
    pub(crate) fn project(&self) -> Project {
        let default = if self.gaps == Some(Gaps::Keep) { Project::None } else { Project::Indexed };
        self.project.unwrap_or(default)
    }
    /// How to fill.
    pub(crate) fn recover(&self) -> Recover {
        let default = if self.gaps == Some(Gaps::Fill) { Recover::Follow } else { Recover::None };
        self.recover.unwrap_or(default)
    }
}

/// The provenance of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventProvenance {
    /// From the trace alone
    Decoded,
    /// Placed in the program (`--project`)
    Projected,
    /// Filled in for lost trace (`--recover`)
    Recovered,
    /// Not known: gaps
    Lost,
}

/// Arguments of the commands that can leave out uncertain events.
#[derive(Args, Debug)]
pub(crate) struct ExcludeArgs {
    /// Leave out events of these provenances; a comma-separated list
    #[arg(long, value_enum, value_name = "HOW", value_delimiter = ',')]
    pub(crate) exclude: Vec<EventProvenance>,
}

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) infer: InferArgs,
    /// Show only what is known without decoding the trace
    #[arg(long, conflicts_with_all = ["check", "recover", "gaps", "from", "to"])]
    pub(crate) no_decode: bool,
    #[command(flatten)]
    pub(crate) check: CheckArgs,
}

/// Arguments of the commands that can check the flow while they decode.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// Check that a JVM could have done every step of the flow; findings make the exit status 1
    #[arg(long)]
    pub(crate) check: bool,
    /// Maximum number of findings shown; all are counted
    #[arg(long, value_name = "N", default_value_t = 20, requires = "check")]
    pub(crate) findings: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PrintLevel {
    /// Calls, returns, exceptions
    Call,
    /// Also bytecode blocks
    Block,
    /// Also every bytecode
    Bytecode,
}

#[derive(Args, Debug)]
pub(crate) struct PrintArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) infer: InferArgs,
    #[command(flatten)]
    pub(crate) exclude: ExcludeArgs,
    /// Level of detail
    #[arg(long, value_enum, default_value_t = PrintLevel::Call)]
    pub(crate) level: PrintLevel,
    /// Maximum number of lines per thread
    ///
    /// The rest of the thread's trace is not read if possible, nor is the trace of threads that
    /// cannot run bytecodes: of the garbage collector, C1 and C2. There is no table of shares then.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub(crate) limit: u64,
    /// Show the machine blocks around this event of one thread, with markers and debug info
    ///
    /// Findings of `--check` and of `verify` give such numbers. The output of `print --json
    /// --gaps keep` gives the number of each event.
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["level", "limit", "recover", "gaps", "exclude", "from", "to"])]
    pub(crate) around: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Classes {
    /// All classes
    All,
    /// Classes of the application, not those of the boot and platform loaders
    App,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("peer").required(true))]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    /// Directory that the oracle agent wrote
    #[arg(long, value_name = "DIR", group = "peer")]
    pub(crate) oracle: Option<PathBuf>,
    /// Compare bytecode by bytecode with another recording, made with -Xint
    ///
    /// Both must be recordings of the same deterministic program.
    #[arg(long, value_name = "CAPTURE", group = "peer")]
    pub(crate) against: Option<PathBuf>,
    /// Compare coverage with JaCoCo's: the file that its agent wrote
    ///
    /// The agent must have run in another run of the same deterministic program.
    #[arg(long, value_name = "FILE.exec", group = "peer", requires = "class_files")]
    pub(crate) jacoco: Option<PathBuf>,
    /// Compare with call traces of the same run: the directory of the logs of an agent, or that of
    /// `jportal export witnesses`
    ///
    /// The logs are expanded to full call traces by the plan.
    #[arg(long, value_name = "DIR", group = "peer", requires = "plan")]
    pub(crate) call_trace: Option<PathBuf>,
    /// With --call-trace: which sites the logs have
    #[arg(long, value_name = "FILE", requires = "call_trace")]
    pub(crate) plan: Option<PathBuf>,
    /// With --call-trace: leave out what an agent inserted, as for `jportal report`
    #[arg(long, value_name = "FILE", requires = "call_trace")]
    pub(crate) map: Option<PathBuf>,
    /// With --jacoco: where the program's class files are; may be repeated
    #[arg(long = "classes", id = "class_files", value_name = "JAR|DIR|jrt:/MODULE", requires = "jacoco")]
    pub(crate) classes: Vec<String>,
    /// With --jacoco: the directory of JaCoCo's and ASM's jars; default: Debian's
    #[arg(long, value_name = "DIR", requires = "jacoco")]
    pub(crate) jacoco_jars: Option<PathBuf>,
    /// With --jacoco: the JDK that runs JaCoCo's library, or its `java`; default as for
    /// `jportal run`
    #[arg(long, value_name = "PATH", requires = "jacoco")]
    pub(crate) java: Option<PathBuf>,
    /// With --jacoco: one row per class
    #[arg(long, requires = "jacoco")]
    pub(crate) rows: bool,
    /// With --against and --jacoco: only these classes or methods, as in `jportal report`; may be
    /// repeated; default: the application's classes
    #[arg(long, value_name = "PATTERN", conflicts_with = "oracle", value_parser = pattern)]
    pub(crate) class: Vec<Pattern>,
    /// With --oracle: the recording was started or stopped with jcmd
    ///
    /// Probes that ran before or after it do not count as missing.
    #[arg(long, requires = "oracle")]
    pub(crate) part: bool,
    /// Succeed if nothing is wrong, even if gaps or unresolved stretches hide some probes
    #[arg(long)]
    pub(crate) allow_gaps: bool,
    #[command(flatten)]
    pub(crate) check: CheckArgs,
}

#[derive(Args, Debug)]
pub(crate) struct AccuracyArgs {
    /// A loss-free capture of the run
    #[arg(value_name = "TRUTH")]
    pub(crate) truth: PathBuf,
    #[command(flatten)]
    pub(crate) decode: DecodeArgs,
    #[command(flatten)]
    pub(crate) infer: InferArgs,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
#[command(group = clap::ArgGroup::new("places").conflicts_with_all(["loss", "drain_bandwidth"]))]
pub(crate) struct DegradeArgs {
    /// The capture, which must be loss-free
    #[arg(value_name = "CAPTURE")]
    pub(crate) capture: PathBuf,
    /// Share of the trace to lose by full buffers, 25% or 0.25
    ///
    /// The command searches for the drain bandwidth that loses this share.
    #[arg(long, value_name = "SHARE", group = "what", conflicts_with = "drain_bandwidth", value_parser = share)]
    pub(crate) loss: Option<f64>,
    /// Bytes per second that the drain of each core writes; suffixes k, m, g
    #[arg(long, value_name = "BYTES/S", group = "what", value_parser = size)]
    pub(crate) drain_bandwidth: Option<u64>,
    /// Instead of a drain: the unit stops this many bytes after each PSB with which it starts
    ///
    /// Only short segments remain. Suffixes k, m, g.
    #[arg(long, value_name = "BYTES", group = "what", group = "places", value_parser = size)]
    pub(crate) every: Option<u64>,
    /// Instead of a drain: the unit stops whenever a thread leaves a core
    #[arg(long, group = "what", group = "places")]
    pub(crate) at_switches: bool,
    /// Instead of a drain: each core lacks its first PSB, and everything from its last PSB on
    #[arg(long, group = "what", group = "places")]
    pub(crate) without_ends: bool,
    /// AUX buffer per core, a power of two; suffixes k, m, g
    ///
    /// Default: as in the recording, or smaller if the trace is short.
    #[arg(long, value_name = "SIZE", value_parser = power_of_two)]
    pub(crate) aux: Option<u64>,
    /// Milliseconds after which the drain runs without being woken
    #[arg(long, value_name = "MS", default_value_t = 10.0)]
    pub(crate) timer: f64,
    /// Cause an internal overflow every EVERY bytes of trace; each loses about BYTES bytes
    /// (default 500)
    #[arg(long, value_name = "EVERY[:BYTES]", group = "what", value_parser = overflow)]
    pub(crate) overflow: Option<(u64, u64)>,
    /// Lose about RECORDS sideband records (default 8) every EVERY records
    ///
    /// These records say which thread runs when, and so to which thread the trace belongs. They
    /// are lost as if the data ring of a core were full.
    #[arg(long, value_name = "EVERY[:RECORDS]", group = "what", value_parser = lost_records)]
    pub(crate) lost_records: Option<(u64, u64)>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The degraded capture
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Write the position of each gap, in the loss-free and in the degraded stream, as JSON to
    /// this file
    #[arg(long, value_name = "FILE")]
    pub(crate) truth: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// The file that `perf record -o` wrote
    #[arg(value_name = "PERF.DATA")]
    pub(crate) data: PathBuf,
    /// The VM's capture of the same run
    #[arg(long = "capture", value_name = "METADATA")]
    pub(crate) metadata: PathBuf,
    /// The capture to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The recording JDK, or its `java`
    #[arg(long, value_name = "PATH")]
    pub(crate) java: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

fn pattern(text: &str) -> Result<Pattern, String> {
    text.parse().map_err(|e: jportal::analyses::select::BadPattern| e.to_string())
}

/// Parses a number with an optional suffix k, m or g.
fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let n: u64 = digits.parse().map_err(|_| "expected a number, perhaps with suffix k, m or g".to_owned())?;
    n.checked_mul(1 << shift).ok_or_else(|| "number too large".to_owned())
}

fn bandwidth(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("expected at least a byte per second".to_owned()),
        n => Ok(n),
    }
}

fn power_of_two(text: &str) -> Result<u64, String> {
    match size(text)? {
        n if n.is_power_of_two() && n >= 8192 => Ok(n),
        _ => Err("expected a power of two of at least 8k".to_owned()),
    }
}

/// Parses a share, `25%` or `0.25`.
fn share(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.strip_suffix('%') {
        Some(digits) => (digits, 0.01),
        None => (text, 1.0),
    };
    match digits.parse::<f64>().map(|n| n * unit) {
        Ok(n) if (0.0..=0.99).contains(&n) => Ok(n),
        _ => Err("expected a share from 0 to 99%".to_owned()),
    }
}

/// Parses the distance and length of overflows.
fn overflow(text: &str) -> Result<(u64, u64), String> {
    every(text, "500")
}

/// Parses the distance and number of lost records.
fn lost_records(text: &str) -> Result<(u64, u64), String> {
    every(text, "8")
}

/// Parses a distance and an optional length.
fn every(text: &str, length: &str) -> Result<(u64, u64), String> {
    let (every, length) = text.split_once(':').unwrap_or((text, length));
    match (size(every)?, size(length)?) {
        (0, _) => Err("expected a distance of at least 1".to_owned()),
        both => Ok(both),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn java_arguments_stand_after_two_dashes() {
        let cli = Cli::try_parse_from(["jportal", "run", "--cores", "3", "--", "-cp", "x", "Main"]).unwrap();
        let Command::Record(a) = cli.command else { panic!("another command") };
        assert_eq!((a.cores, a.java_args.len()), (Some(3), 3));
        assert!(Cli::try_parse_from(["jportal", "run", "Main"]).is_err());
        assert!(Cli::try_parse_from(["jportal", "run", "--"]).is_err());
    }

    #[test]
    fn what_is_recovered_and_what_is_left_out() {
        let parse = |args: &[&str]| Cli::try_parse_from(["jportal"].iter().chain(args));
        let Ok(Cli { command: Command::Print(a), .. }) =
            parse(&["print", "--recover", "follow", "--exclude", "recovered,projected", "x"])
        else {
            panic!("another command")
        };
        assert_eq!((a.infer.recover(), a.exclude.exclude.len()), (Recover::Follow, 2));
        for (gaps, project, recover) in [
            ("keep", Project::None, Recover::None),
            ("place", Project::Indexed, Recover::None),
            ("fill", Project::Indexed, Recover::Follow),
        ] {
            let Ok(Cli { command: Command::Print(a), .. }) = parse(&["print", "--gaps", gaps, "x"]) else {
                panic!("another command")
            };
            assert_eq!((a.infer.project(), a.infer.recover()), (project, recover));
        }
        assert!(parse(&["print", "--gaps", "fill", "--recover", "basic", "x"]).is_err());
        assert!(parse(&["info", "--no-decode", "x"]).is_ok());
        assert!(parse(&["info", "--no-decode", "--recover", "basic", "x"]).is_err());
        assert!(parse(&["print", "--around", "3", "--recover", "basic", "x"]).is_err());
        assert!(parse(&["verify", "--oracle", "d", "--recover", "basic", "x"]).is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(power_of_two("64k"), Ok(65536));
        assert_eq!(power_of_two("1g"), Ok(1 << 30));
        assert!(
            power_of_two("3000").is_err()
                && power_of_two("4k").is_err()
                && power_of_two("99999999999g").is_err()
        );
    }
    #[test]
    fn shares_and_overflows() {
        assert_eq!((share("25%"), share("0.5")), (Ok(0.25), Ok(0.5)));
        assert!(share("100%").is_err() && share("-1").is_err() && share("NaN").is_err());
        assert_eq!((overflow("64k"), overflow("1m:100")), (Ok((65536, 500)), Ok((1 << 20, 100))));
        assert_eq!((lost_records("100"), lost_records("1k:3")), (Ok((100, 8)), Ok((1024, 3))));
        assert!(overflow("0").is_err() && overflow("5:x").is_err());
    }

    #[test]
    fn what_is_to_be_lost_has_to_be_said() {
        let parse = |args: &[&str]| {
            Cli::try_parse_from(["jportal", "degrade", "a", "-o", "b"].iter().chain(args)).is_ok()
        };
        assert!(!parse(&[]) && parse(&["--loss", "5%"]) && parse(&["--overflow", "9k", "--loss", "5%"]));
        assert!(!parse(&["--loss", "5%", "--drain-bandwidth", "1m"]));
        assert!(parse(&["--every", "500"]) && parse(&["--at-switches", "--overflow", "9k"]));
        assert!(!parse(&["--at-switches", "--loss", "5%"]) && !parse(&["--at-switches", "--without-ends"]));
    }
}
