// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The input of the page.
//!
//! All times are values of the TSC, and all durations are numbers of its ticks.

use hashbrown::HashMap;
use jportal_analyses::coverage::Coverage;
use jportal_analyses::hot::{HotMethod, HotMethods};
use jportal_analyses::names::Version;
use jportal_analyses::tree::{CallTree, Tiers};
use jportal_analyses::{Inexact, ThreadTotals};
use jportal_bytecode::{Method, MethodTable};
use jportal_flow::Tally;

use super::listing::Listing;
use super::overview::Overview;

/// What the page shows. `None` means that the question was not asked; the page says so.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The capture as a whole.
    pub meta: ViewMeta,
    /// The threads, by start.
    pub threads: Vec<ThreadTotals>,
    /// Call trees. The page shows the first one first.
    pub trees: Vec<ViewTree>,
    /// The methods that executed, most bytecodes first.
    pub methods: Vec<ViewMethod>,
    /// Coverage of the classes shown.
    pub coverage: Option<Coverage>,
    /// Tiers and gaps over time.
    pub overview: Option<Overview>,
    /// Durations of calls.
    pub latency: Option<Latency>,
    /// What the compilers did.
    pub jit: Option<Jit>,
    /// Source files. Those that belong to no method of the page are left out.
    pub sources: Vec<SourceFile>,
}

/// The capture as a whole.
#[derive(Clone, Debug, Default)]
pub struct ViewMeta {
    /// Name of the capture's file.
    pub capture: String,
    /// The JVM, as its version string says. Empty: unknown.
    pub jvm: String,
    /// When the recording was made, as text. Empty: unknown.
    pub recorded: String,
    /// What wrote the page: `jportal 0.1.0`.
    pub producer: String,
    /// The command that wrote the page. Empty: not shown.
    pub command: String,
    /// Ticks of the TSC per second. `None`: unknown, the page shows ticks.
    pub ticks_per_second: Option<f64>,
    /// Whether all figures are complete.
    pub exact: bool,
    /// Why they are not.
    pub inexact: Inexact,
    /// Remarks that the page shows as they are: what was selected, excluded, placed or filled.
    pub notes: Vec<String>,
}

/// A call tree with a title.
#[derive(Clone, Debug)]
pub struct ViewTree {
    /// What its entries are: `Threads`, or `Requests` if each entry is an activation.
    pub title: String,
    /// The tree.
    pub tree: CallTree,
}

/// One method. Its name and loader are those that the nodes of the trees have.
#[derive(Clone, Debug, Default)]
pub struct ViewMethod {
    /// `class.name(descriptor)`.
    pub method: String,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// The version of a redefined method.
    pub version: Option<Version>,
    /// The `SourceFile` attribute of its class, possibly empty.
    pub source_file: String,
    /// Activations that began.
    pub calls: Tally,
    /// Bytecodes executed in the method itself.
    pub bytecodes: Tally,
    /// The bytecodes by tier.
    pub tiers: Tiers,
    /// Whether the figures are complete. Otherwise they are lower bounds.
    pub exact: bool,
    /// Most bytecodes and calls that may be missing. `None`: no limit is known.
    pub at_most: [Option<u64>; 2],
    /// Its bytecode with counts.
    pub listing: Option<Listing>,
}

impl ViewMethod {
    /// The row of a hot method, without source file and listing.
    pub fn of(hot: &HotMethod) -> Self {
        let tiers = hot.counts.tiers;
        Self {
            method: hot.method.clone(),
            loader: hot.loader.clone(),
            version: hot.version,
            source_file: String::new(),
            calls: hot.counts.calls,
            bytecodes: hot.counts.bytecodes,
            tiers: Tiers { interpreter: tiers.interpreter, c1: tiers.c1, c2: tiers.c2 },
            exact: hot.exact,
            at_most: [hot.missing.bytecodes.max.0, hot.missing.calls.max.0],
            listing: None,
        }
    }
    /// The rows of a report.
    pub fn all(hot: &HotMethods) -> Vec<Self> {
        hot.methods.iter().map(Self::of).collect()
    }
    /// Completes rows with source file and listing from the methods of the recording. `listing`
    /// makes the listing of a method, or none. Rows stay as they are if their name was changed, or
    /// is the sum of several methods.
    pub fn complete(
        rows: &mut [Self],
        methods: &MethodTable,
        mut listing: impl FnMut(&Method) -> Option<Listing>,
    ) {
        let mut named: HashMap<(String, &str), Vec<&Method>> = HashMap::new();
        for m in methods.iter() {
            named.entry((m.qualified_name(), &m.loader)).or_default().push(m);
        }
        for row in rows {
            let Some(same) = named.get(&(row.method.clone(), row.loader.as_str())) else { continue };
            let method = match (row.version, &same[..]) {
                (None, [method]) => Some(method),
                (Some(v), all) if all.len() == v.of as usize => all.get(v.number.wrapping_sub(1) as usize),
                _ => None,
            };
            if let Some(method) = method {
                row.source_file = method.source_file.to_string();
                row.listing = listing(method);
            }
        }
    }
    /// The binary name of its class.
    pub(super) fn class(&self) -> &str {
        let name = self.method.split_once('(').map_or(self.method.as_str(), |(head, _)| head);
        name.rsplit_once('.').map_or("", |(class, _)| class)
    }
}

/// Durations of calls.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// What was measured: `wall time`, `time on a core`.
    pub measure: String,
    /// How far apart the known times are, in ticks: no duration is better known than that.
    pub resolution: Option<u64>,
    /// One row per method, in the order of display.
    pub rows: Vec<LatencyRow>,
}

/// The durations of one method's calls.
#[derive(Clone, Debug, Default)]
pub struct LatencyRow {
    /// Name.
    pub name: String,
    /// Number of measured calls.
    pub calls: u64,
    /// Calls whose beginning or end is not known. They are in no other figure.
    pub unmeasured: u64,
    /// Sum of the durations.
    pub sum: u64,
    /// Shortest, median, 90th, 99th percentile and longest duration.
    pub quantiles: [u64; 5],
    /// Buckets: lower bound of the durations, and number of calls. Ascending. A bucket ends
    /// where the next one begins, the last one at the longest duration.
    pub buckets: Vec<(u64, u64)>,
    /// The slowest calls, slowest first.
    pub slowest: Vec<ActivationTime>,
    /// Whether all calls were measured.
    pub exact: bool,
}

/// One call with its duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivationTime {
    /// When it began.
    pub at: u64,
    /// Its duration.
    pub ticks: u64,
    /// OS thread id.
    pub tid: u32,
}

/// What the compilers did.
#[derive(Clone, Debug, Default)]
pub struct Jit {
    /// The events, by time.
    pub events: Vec<JitEvent>,
    /// Kinds that the capture does not tell. The page calls them unknown.
    pub unknown: Vec<JitKind>,
}

/// One event of compiled code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitEvent {
    /// When.
    pub at: u64,
    /// What happened.
    pub kind: JitKind,
    /// `class.name(descriptor)` of the outermost method; a name in parentheses if unknown.
    pub method: String,
    /// `CompLevel` of the code: 1 to 3 for C1, 4 for C2, 0 for a native wrapper.
    pub level: u8,
    /// The number that `-XX:+PrintCompilation` shows.
    pub compile_id: u32,
    /// Bci of the entry, for code of an on-stack replacement.
    pub osr_bci: Option<u16>,
    /// Size of the code in bytes; 0 if unknown.
    pub size: u32,
    /// A reason or another remark. May be empty.
    pub detail: String,
}

/// What happened to compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum JitKind {
    /// It was installed.
    Installed,
    /// It was made not entrant.
    NotEntrant,
    /// It was unloaded, or its memory was freed.
    Unloaded,
    /// One of its frames was deoptimised.
    Deoptimised,
}

/// A source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path in the directory or archive, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}
