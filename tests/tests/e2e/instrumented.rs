// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Records real programs while an agent of `tests/baselines` instruments them, and compares what
//! the agent says with the reports and exports of the same run. The map that the agent writes
//! makes the flow one of the program before instrumentation, so threads and chance do not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use jportal_tests::figures::figure;
use jportal_tests::place::{self, Installation};
use jportal_tests::process;
use jportal_tests::programs::{self, Program, Size};
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};
use jportal_tests::scratch::Scratch;
use jportal_tests::skip;

use crate::baselines::{Agents, drop_token};
use crate::counted::{
    ALL, Counts, OPEN, Skipped, TraceEvent, blocks, differences, divergence, methods, paths, table, traces,
    tree,
};

/// Modes that count: the report, and how to read it.
type Counting = (&'static str, &'static [&'static str], fn(&Value, &Skipped) -> Counts);
const COUNTING: [Counting; 4] = [
    ("sc", &["report", "blocks", "--top", ALL], blocks),
    ("pf", &["report", "paths", "--cut", "--top", ALL], paths),
    ("hm", &["report", "hot-methods", "--top", ALL], methods),
    ("jp", &["report", "call-tree", "--bba", "both", "--hide", "splice", "--native", "none"], tree),
];
/// Modes that log blocks.
const BLOCKS: [&str; 2] = ["jbi", "cf"];
/// Modes that log sites. All but the first log some of them only.
const SITES: [&str; 3] = ["fi", "bri", "casper"];

/// A recorded run of an instrumented program.
struct Instrumented {
    recording: RecordedRun,
    /// What the agent wrote.
    out: PathBuf,
    skipped: Skipped,
}

impl Instrumented {
    fn record(
        place: &Installation,
        agents: &Agents,
        program: &Program,
        (mode, plan): (&str, Option<&Path>),
    ) -> Result<Self, String> {
        let out = agents.folder.join(format!("{}-{mode}", program.name));
        let plan = plan.map(|plan| format!(",plan={}", plan.display())).unwrap_or_default();
        let agent =
            format!("-javaagent:{}=mode={mode},map=true,out={}{plan}", agents.jar.display(), out.display());
        let arguments = program.command(&place.root, &place.programs, Size::Small);
        let flags = ["-XX:JPortalPrecision=exact", "-XX:-OmitStackTraceInFastThrow", &agent];
        let flags = flags.map(str::to_owned).into();
        let settings = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
        let recording = RecordedRun::command(place, &arguments, &settings).map_err(|e| e.to_string())?;
        if !recording.program.status.success() {
            return Err(format!("{}: {}", recording.program.status, recording.program.stderr));
        }
        let skipped = Skipped::of(&result(&out, mode)?);
        Ok(Self { recording, out, skipped })
    }

    /// Runs a command on the flow of the original methods.
    fn client(&self, command: &[&str]) -> Result<Value, String> {
        let map = self.out.join("map.json").display().to_string();
        let scope = ["--classes", "app", "--json", "--map", &map];
        let finished = self.recording.jportal(command, &self.recording.capture(), &scope);
        let finished = finished.map_err(|e| e.to_string())?;
        if !finished.status.success() {
            return Err(format!("{command:?}: {}", finished.stderr));
        }
        finished.json().map_err(|e| e.to_string())
    }

    /// Exports into a new folder.
    fn export(&self, what: &str) -> Result<PathBuf, String> {
        let folder = self.recording.file(what);
        self.client(&["export", what, "-o", &folder.display().to_string()])?;
        Ok(folder)
    }

    fn counts(&self, (mode, report, read): Counting) -> Result<usize, String> {
        let flow = read(&self.client(report)?, &self.skipped);
        let mut probes = read(&result(&self.out, mode)?, &self.skipped);
        let found = differences(&flow, &probes);
        if !found.is_empty() {
            return Err(format!("{found:#?}"));
        }
        let most = probes.values_mut().max().ok_or("nothing is counted")?;
        *most += 1;
        require(differences(&flow, &probes).len() == 1, "one count too many is not seen")?;
        Ok(flow.len())
    }

    fn blocks(&self, agents: &Agents) -> Result<usize, String> {
        let flow = traces(&self.export("block-trace")?, &self.skipped);
        let folder = self.out.join("blocks");
        agents.blocks(&self.out, &folder);
        let mut probes = traces(&folder, &self.skipped);
        same_traces(&flow, &probes)?;
        let longest = probes.values_mut().max_by_key(|events| events.len()).ok_or("no thread")?;
        longest.remove(longest.len() / 2);
        require(same_traces(&flow, &probes).is_err(), "a missing event is not seen")?;
        Ok(flow.values().map(Vec::len).sum())
    }

    /// The call traces of the flow, with the plan's numbers of sites.
    fn call_traces(&self, sites: &PlannedSites) -> Result<BTreeMap<u32, Vec<u32>>, String> {
        let folder = self.export("call-trace")?;
        let numbers = sites.numbers(&folder.join("sites.tsv"), &self.skipped);
        let mut all = BTreeMap::new();
        for file in files(&folder, "trace") {
            let bytes = std::fs::read(&file).map_err(|e| e.to_string())?;
            let words = words(&bytes);
            let tokens = flow_tokens(&words[4..], &numbers, sites)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            if !tokens.is_empty() {
                all.insert(words[2], tokens);
            }
        }
        Ok(all)
    }
}

fn require(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn result(out: &Path, mode: &str) -> Result<Value, String> {
    let file = out.join(format!("{mode}.json"));
    let bytes = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", file.display()))
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder exists").map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == extension)).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// The probes' log of a thread whose frames have no end may be cut: a thread does not stop before
/// the VM ends.
fn same_traces(
    ours: &BTreeMap<u32, Vec<TraceEvent>>,
    theirs: &BTreeMap<u32, Vec<TraceEvent>>,
) -> Result<(), String> {
    let none = Vec::new();
    for tid in ours.keys().chain(theirs.keys()) {
        let [flow, log] = [ours, theirs].map(|of| of.get(tid).unwrap_or(&none));
        let cut = flow.last().filter(|(kind, ..)| *kind == OPEN).and_then(|_| flow.get(..log.len()));
        if let Some(divergence) = divergence(cut.unwrap_or(flow), log) {
            return Err(format!("thread {tid}: {divergence}"));
        }
    }
    Ok(())
}

/// A class initializer begins: the method's number follows. As in `Tokens.java`.
const IMPLICIT: u32 = 1 << 31 | 1 << 28 | 3 << 20;
/// Head of a log of the baselines: its words, and the place of its length in bytes.
const HEADER: usize = 8;
const LENGTH_AT: usize = 4;

/// The sites of a plan.
struct PlannedSites {
    /// By class, method, descriptor and bci; the bci of an exit is empty.
    ids: BTreeMap<[String; 4], u32>,
    initializers: BTreeSet<u32>,
}

impl PlannedSites {
    fn read(plan: &Path) -> Self {
        let mut sites = Self { ids: BTreeMap::new(), initializers: BTreeSet::new() };
        for row in table(plan, '\t') {
            let id = row["id"].parse().unwrap();
            if row["kind"] == "exit" && row["method"] == "<clinit>" {
                sites.initializers.insert(id);
            }
            sites.ids.insert(["class", "method", "descriptor", "bci"].map(|cell| row[cell].clone()), id);
        }
        sites
    }

    /// The plan's numbers of the sites of an exported call trace. Methods that were not
    /// instrumented have none.
    fn numbers(&self, file: &Path, skipped: &Skipped) -> Vec<Option<u32>> {
        let number = |row: BTreeMap<String, String>| {
            let method = format!("{}.{}{}", row["class"], row["method"], row["descriptor"]);
            let [class, name, descriptor, bci] =
                ["class", "method", "descriptor", "bci"].map(|cell| row[cell].clone());
            let id = self.ids.get(&[class.replace('.', "/"), name, descriptor, bci]);
            id.copied().filter(|_| !skipped.leaves_out(&method))
        };
        table(file, '\t').into_iter().map(number).collect()
    }
}

/// The sites that a thread executed, with the beginnings of class initializers.
fn flow_tokens(words: &[u32], numbers: &[Option<u32>], sites: &PlannedSites) -> Result<Vec<u32>, String> {
    let number = |site: u32| numbers[site as usize];
    let (mut tokens, mut at, mut exact) = (Vec::new(), 0, false);
    while let Some(word) = words.get(at).copied() {
        let (kind, more) = (word >> 20 & 0xff, word >> 28 & 7);
        match (word >> 31, kind) {
            (0, _) => tokens.extend(number(word)),
            (_, 3) => {
                let method = number(words[at + 1]).filter(|id| sites.initializers.contains(id));
                tokens.extend(method.into_iter().flat_map(|id| [IMPLICIT, id]));
            }
            // Callbacks, entries, times.
            (_, 1 | 2 | 5) => {}
            (_, 14) => exact = word & 1 == 1,
            _ => return Err(format!("word {at} is a mark of kind {kind}")),
        }
        at += 1 + if word >> 31 == 1 { more as usize } else { 0 };
    }
    require(exact, "the trace is not exact")?;
    Ok(tokens)
}

/// The logs in a folder: OS thread id, file, words.
fn logs(folder: &Path) -> Vec<(u32, PathBuf, Vec<u32>)> {
    let read = |file: PathBuf| {
        let mut words = words(&std::fs::read(&file).unwrap());
        words.truncate(words[LENGTH_AT] as usize / 4);
        (words[2], file, words)
    };
    files(folder, "words").into_iter().map(read).collect()
}

/// Compares the log of mode `fi` with the call traces of the flow.
fn full_log(run: &Instrumented, sites: &PlannedSites) -> Result<usize, String> {
    let flow = run.call_traces(sites)?;
    let mut equal = 0;
    let mut logs = logs(&run.out);
    logs.retain(|(.., words)| words.len() > HEADER);
    let threads: BTreeSet<u32> = logs.iter().map(|(tid, ..)| *tid).collect();
    if !threads.iter().eq(flow.keys()) {
        return Err(format!("threads {:?} in the flow, {threads:?} by probes", flow.keys()));
    }
    for (tid, _, words) in &logs {
        let (ours, theirs) = (&flow[tid], &words[HEADER..]);
        let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
        if same < ours.len().max(theirs.len()) {
            let next = |tokens: &[u32]| {
                let tokens = tokens.iter().skip(same.saturating_sub(2)).take(6);
                tokens.map(|id| sites.name(*id)).collect::<Vec<_>>().join(", ")
            };
            return Err(format!(
                "thread {tid}: token {same} of {} and {}: {} in the flow, {} by probes",
                ours.len(),
                theirs.len(),
                next(ours),
                next(theirs)
            ));
        }
        equal += same;
        let mut spoiled = theirs.to_vec();
        spoiled.remove(same / 2);
        require(*ours != spoiled, "a missing token is not seen")?;
    }
    Ok(equal)
}

impl PlannedSites {
    fn name(&self, id: u32) -> String {
        let found = self.ids.iter().find(|(_, other)| **other == id).map(|(site, _)| site);
        found.map_or_else(|| format!("{id:#x}"), |[class, method, _, bci]| format!("{class}.{method}@{bci}"))
    }
}

/// Expands the log of a mode that logs some sites, and compares with the call traces of the flow.
fn expanded(agents: &Agents, run: &Instrumented, classes: &Path, plan: &Path) -> Result<usize, String> {
    let flow = run.call_traces(&PlannedSites::read(plan))?;
    let full = run.recording.file("full");
    std::fs::create_dir_all(&full).map_err(|e| e.to_string())?;
    let logs = logs(&run.out);
    for (tid, file, words) in &logs {
        let mut log = words[..HEADER].to_vec();
        log.extend(flow.get(tid).into_iter().flatten());
        log[LENGTH_AT] = u32::try_from(4 * log.len()).map_err(|e| e.to_string())?;
        let bytes: Vec<u8> = log.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(full.join(file.file_name().unwrap()), bytes).map_err(|e| e.to_string())?;
    }
    let (same, text) = agents.compare(classes, plan, &run.out, &full);
    require(same, &text)?;
    expanded_by_the_command(run, plan)?;
    let longest = logs.iter().max_by_key(|(.., words)| words.len()).ok_or("no log")?;
    drop_token(&longest.1);
    require(!agents.compare(classes, plan, &run.out, &full).0, "a missing token is not seen")?;
    Ok(flow.values().map(Vec::len).sum())
}

/// The same with `jportal dev verify`, which has an expander of its own. It knows nothing of
/// methods that were not instrumented.
fn expanded_by_the_command(run: &Instrumented, plan: &Path) -> Result<(), String> {
    if !run.skipped.is_empty() {
        return Ok(());
    }
    let [folder, plan] = [&run.out, plan].map(|path| path.display().to_string());
    let map = run.out.join("map.json").display().to_string();
    let options = ["--call-trace", &folder, "--plan", &plan, "--map", &map];
    let verified = run.recording.jportal(&["dev", "verify"], &run.recording.capture(), &options);
    let verified = verified.map_err(|e| e.to_string())?;
    require(verified.status.success(), &format!("{}{}", verified.text(), verified.stderr))
}

/// Other arguments of a program at its small size.
type Arguments = Option<&'static [&'static str]>;

/// Compares these modes on a program.
fn check(name: &str, small: Arguments, modes: &[&str]) {
    check_each(&format!("instrumented {name}"), [(name, small)], modes);
}

/// Compares these modes on each program. Tries all before the test fails. The variable
/// `JPORTAL_MODES` selects some of the modes, as `bri,casper`.
fn check_each<'a>(test: &str, all: impl IntoIterator<Item = (&'a str, Arguments)>, modes: &[&str]) {
    let Some(place) = place::installed(test) else { return };
    let scratch = Scratch::new().unwrap();
    let agents = Agents::build_in(&place, scratch.path().to_owned());
    let selected = std::env::var("JPORTAL_MODES").unwrap_or_default();
    let selected: Vec<&str> = selected.split(',').filter(|mode| !mode.is_empty()).collect();
    for mode in &selected {
        assert!(all_modes().contains(mode), "JPORTAL_MODES: no mode is named {mode}");
    }
    let is_selected = |mode: &str| selected.is_empty() || selected.contains(&mode);
    let mut errors = Vec::new();
    for (name, small) in all {
        let mut program = programs::by_name(name).expect("a program of that name");
        if let Some(small) = small {
            program = program.with_small(small);
        }
        if let Some(missing) = program.missing() {
            skip::skip(&format!("{test}: {name}"), &missing);
            continue;
        }
        for mode in modes.iter().filter(|mode| is_selected(mode)) {
            match compare(&place, &agents, &program, mode) {
                Ok(equal) => figure(&format!("instrumented\t{name}\t{mode}\tequal {equal}")),
                Err(error) => errors.push(format!("{name}, {mode}: {error:.4000}")),
            }
        }
    }
    assert!(errors.is_empty(), "{test}: {}", errors.join("\n"));
}

fn compare(place: &Installation, agents: &Agents, program: &Program, mode: &str) -> Result<usize, String> {
    if SITES.contains(&mode) {
        let arguments = program.command(&place.root, &place.programs, Size::Small);
        let at = arguments.iter().position(|argument| argument == "-cp").ok_or("no class path")?;
        let mut classes = PathBuf::from(&arguments[at + 1]);
        if program.name == "javac" {
            classes = format!("{}:{}", classes.display(), classes_of_javac(place, agents)?).into();
        }
        let plan = agents.plan(if mode == "bri" { "bri" } else { "casper" }, &classes);
        let run = Instrumented::record(place, agents, program, (mode, Some(&plan)))?;
        return kept(
            match mode {
                "fi" => full_log(&run, &PlannedSites::read(&plan)),
                _ => expanded(agents, &run, &classes, &plan),
            },
            run,
        );
    }
    let run = Instrumented::record(place, agents, program, (mode, None))?;
    let counting = COUNTING.into_iter().find(|(counting, ..)| *counting == mode);
    kept(
        match counting {
            Some(counting) => run.counts(counting),
            None => run.blocks(agents),
        },
        run,
    )
}

/// The class files of the modules that are javac, which are on no class path. DocLint is in
/// `jdk.javadoc`, and overrides methods of `jdk.compiler`.
fn classes_of_javac(place: &Installation, agents: &Agents) -> Result<String, String> {
    let home = place.java.ancestors().nth(2).ok_or("java is in no JDK")?;
    let mut folders = Vec::new();
    for module in ["jdk.compiler", "jdk.javadoc"] {
        let folder = agents.folder.join(module);
        if !folder.exists() {
            let mut command = Command::new(home.join("bin/jmod"));
            let jmod = home.join(format!("jmods/{module}.jmod"));
            command.arg("extract").arg("--dir").arg(&folder).arg(jmod);
            let finished = process::run(&mut command, LIMIT).map_err(|e| e.to_string())?;
            require(finished.status.success(), &finished.stderr)?;
        }
        folders.push(folder.join("classes").display().to_string());
    }
    Ok(folders.join(":"))
}

/// Keeps the recording of a comparison that failed.
fn kept(result: Result<usize, String>, run: Instrumented) -> Result<usize, String> {
    result.map_err(|error| format!("{error}\nthe capture is in {}", run.recording.keep().display()))
}

fn all_modes() -> Vec<&'static str> {
    COUNTING.iter().map(|(mode, ..)| *mode).chain(BLOCKS).chain(SITES).collect()
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn calls() {
    check("calls", None, &all_modes());
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn h2() {
    check("h2", Some(&["20"]), &all_modes());
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn hsqldb() {
    check("hsqldb", Some(&["2"]), &all_modes());
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn xalan() {
    check("xalan", None, &all_modes());
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn antlr() {
    check("antlr", Some(&["@grammar", "1", "1"]), &all_modes());
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn javac() {
    check("javac", Some(&["@least", "1"]), &all_modes());
}

/// Which blocks ran, and how methods began and ended: so the frames of the application are the same
/// at each block (`docs/stacks.md`). The class loader of `resolving` runs code of its own while the
/// VM resolves the classes of the probes.
#[test]
#[ignore = "minutes; scripts/verify-all"]
fn small_programs() {
    let names = programs::UNITS.iter().map(|program| program.name).filter(|name| *name != "resolving");
    check_each("instrumented small programs", names.map(|name| (name, None)), &["jbi"]);
}
