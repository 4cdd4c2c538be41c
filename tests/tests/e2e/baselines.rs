// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares reports and exports of a recording with what the instrumenting agents of
//! `tests/baselines` count in native runs of the same program. Application classes only.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use jportal_tests::figures::figure;
use jportal_tests::place::{self, Installation};
use jportal_tests::process;
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};

use crate::counted::{
    ALL, Skipped, TraceEvent, blocks, check, differences, divergence, methods, paths, traces, tree,
};

const PRINTED: &str = "5\n396\n11\n41\n48\n5 1500\n[1, 2, 3] 4 10 6\n";

/// The jar of the baselines, and a folder for their output.
pub(crate) struct Agents {
    pub(crate) jar: PathBuf,
    pub(crate) java: PathBuf,
    pub(crate) classes: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Agents {
    pub(crate) fn build(place: &Installation, recording: &RecordedRun) -> Self {
        Self::build_in(place, recording.file("baselines"))
    }

    pub(crate) fn build_in(place: &Installation, folder: PathBuf) -> Self {
        let build = place.root.join("tests/baselines/build.sh");
        let finished = process::run(Command::new(build).arg(&folder), LIMIT).unwrap();
        assert!(finished.status.success(), "{}{}", finished.text(), finished.stderr);
        let classes = place.programs.join("examples.jar");
        Self { jar: folder.join("jportal-baselines.jar"), java: place.java.clone(), classes, folder }
    }

    pub(crate) fn java(&self, arguments: &[String]) -> String {
        let mut command = Command::new(&self.java);
        let finished = process::run(command.arg("-XX:TieredStopAtLevel=1").args(arguments), LIMIT).unwrap();
        assert!(finished.status.success(), "{arguments:?}: {}", finished.stderr);
        finished.text()
    }

    /// Runs the examples in a mode, without the probe of number `fault`.
    fn run(&self, mode: &str, fault: Option<u32>) -> PathBuf {
        let out = self.folder.join(format!("{mode}-{fault:?}"));
        let fault = fault.map(|n| format!(",fault={n}")).unwrap_or_default();
        let agent = format!("-javaagent:{}=mode={mode},out={}{fault}", self.jar.display(), out.display());
        let classes = self.classes.display().to_string();
        let printed = self.java(&[agent, "-Xverify:all".into(), "-cp".into(), classes, "All".into()]);
        assert_eq!(printed.replace('\n', " "), PRINTED.replace('\n', " "), "{mode}");
        out
    }

    fn result(&self, mode: &str, fault: Option<u32>) -> Value {
        let file = self.run(mode, fault).join(format!("{mode}.json"));
        let result: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(result["skipped"], serde_json::json!([]), "{mode}");
        result
    }

    /// The block traces that a mode's log holds.
    fn traces(&self, mode: &str, fault: Option<u32>) -> Vec<Vec<TraceEvent>> {
        let (log, out) = (self.run(mode, fault), self.folder.join(format!("{mode}-{fault:?}.blocks")));
        self.blocks(&log, &out);
        sorted_traces(&out)
    }

    /// Makes block traces of the log of a run in mode `cf` or `jbi`.
    pub(crate) fn blocks(&self, log: &Path, out: &Path) {
        let [log, to] = [log, out].map(|path| path.display().to_string());
        self.java(&["-jar".into(), self.jar.display().to_string(), "blocks".into(), log, to]);
    }
}

/// The examples, interpreted.
pub(crate) fn record(place: &Installation) -> RecordedRun {
    let classes = place.programs.join("examples.jar").display().to_string();
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Interpreter) };
    let recording = RecordedRun::command(place, &["-cp".into(), classes, "All".into()], &plan);
    recording.expect("the examples can be recorded")
}

/// The traces of threads, sorted: agents and recordings of another run name threads differently.
fn sorted_traces(folder: &Path) -> Vec<Vec<TraceEvent>> {
    let mut traces: Vec<_> = traces(folder, &Skipped::default()).into_values().collect();
    traces.sort();
    traces
}

fn client(recording: &RecordedRun, command: &[&str]) -> Value {
    let scope = ["--classes", "app", "--json"];
    let finished = recording.jportal(command, &recording.capture(), &scope).unwrap();
    assert!(finished.status.success(), "{command:?}: {}", finished.stderr);
    finished.json().unwrap()
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn instrumented_runs_count_what_the_flow_does() {
    let Some(place) = place::installed("instrumented_runs_count_what_the_flow_does") else { return };
    let recording = record(&place);
    let agents = Agents::build(&place, &recording);
    let report = |command: &[&str]| client(&recording, &[&["report"], command].concat());
    let all = &Skipped::default();

    let flow = blocks(&report(&["blocks", "--top", ALL]), all);
    check("sc", &flow, &blocks(&agents.result("sc", None), all), 80);
    assert!(
        !differences(&flow, &blocks(&agents.result("sc", Some(1)), all)).is_empty(),
        "sc: a fault is not seen"
    );

    let flow = paths(&report(&["paths", "--cut", "--top", ALL]), all);
    check("pf", &flow, &paths(&agents.result("pf", None), all), 120);
    assert!(
        !differences(&flow, &paths(&agents.result("pf", Some(1)), all)).is_empty(),
        "pf: a fault is not seen"
    );

    let flow = methods(&report(&["hot-methods", "--top", ALL]), all);
    check("hm", &flow, &methods(&agents.result("hm", None), all), 60);
    assert!(
        !differences(&flow, &methods(&agents.result("hm", Some(6)), all)).is_empty(),
        "hm: a fault is not seen"
    );

    let flow = tree(&report(&["call-tree", "--bba", "both", "--hide", "splice"]), all);
    check("jp", &flow, &tree(&agents.result("jp", None), all), 4500);
    assert!(
        !differences(&flow, &tree(&agents.result("jp", Some(7)), all)).is_empty(),
        "jp: a fault is not seen"
    );

    let folder = recording.file("block-trace");
    client(&recording, &["export", "block-trace", "-o", &folder.display().to_string()]);
    let flow = sorted_traces(&folder);
    assert!(
        flow.len() == 2 && flow.iter().map(Vec::len).sum::<usize>() > 8000,
        "{:?}",
        flow.iter().map(Vec::len)
    );
    for (mode, fault) in [("jbi", 2), ("cf", 4)] {
        let probes = agents.traces(mode, None);
        assert_eq!(flow.len(), probes.len(), "{mode}: threads");
        for (ours, theirs) in flow.iter().zip(&probes) {
            let divergence = divergence(ours, theirs);
            assert!(divergence.is_none(), "{mode}: {divergence:?}");
        }
        assert!(agents.traces(mode, Some(fault)) != flow, "{mode}: a fault is not seen");
    }
}

/// The commands of the jar that plan and expand call traces.
impl Agents {
    pub(crate) fn plan(&self, kind: &str, classes: &Path) -> PathBuf {
        let plan = self.folder.join(format!("{kind}.plan"));
        let [jar, classes, file] = [&self.jar, classes, &plan].map(|path| path.display().to_string());
        self.java(&["-jar".into(), jar, "plan".into(), kind.into(), classes, file]);
        plan
    }

    fn logs(&self, mode: &str, plan: &Path, classes: &Path, main: &str) -> PathBuf {
        let out = self.folder.join(format!("{main}-{mode}"));
        let [jar, classes, plan, to] =
            [&self.jar, classes, plan, &out].map(|path| path.display().to_string());
        self.java(&[
            format!("-javaagent:{jar}=mode={mode},plan={plan},out={to}"),
            "-cp".into(),
            classes,
            main.into(),
        ]);
        let result: Value =
            serde_json::from_slice(&std::fs::read(out.join(format!("{mode}.json"))).unwrap()).unwrap();
        assert_eq!(result["skipped"], serde_json::json!([]), "{mode}");
        out
    }

    /// Whether a log expands to a full trace, and what the comparison says.
    pub(crate) fn compare(&self, classes: &Path, plan: &Path, logs: &Path, full: &Path) -> (bool, String) {
        let mut command = Command::new(&self.java);
        command.arg("-jar").arg(&self.jar).arg("compare").args([classes, plan, logs, full]);
        let finished = process::run(&mut command, LIMIT).unwrap();
        let code = finished.status.code();
        assert!(code == Some(0) || code == Some(1), "{}", finished.stderr);
        (code == Some(0), finished.text())
    }
}

/// The sites of a plan that write tokens: method and bci.
fn logged(plan: &Path, class: &str) -> Vec<String> {
    let content = std::fs::read_to_string(plan).unwrap();
    let cells = content.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    cells.filter(|c| c[2] == class && c[8] == "1").map(|c| format!("{}@{}", c[3], c[5])).collect()
}

/// Removes the middle one of a log's tokens that are sites.
pub(crate) fn drop_token(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let length = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
    let (mut at, mut sites) = (32, Vec::new());
    while at < length {
        let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        if word >> 31 == 0 {
            sites.push(at);
            at += 4;
        } else {
            at += 4 + 4 * (word >> 28 & 7) as usize;
        }
    }
    let at = sites[sites.len() / 2];
    bytes.copy_within(at + 4.., at);
    bytes[16..24].copy_from_slice(&(length as u64 - 4).to_le_bytes());
    std::fs::write(file, bytes).unwrap();
}

/// Expands the logs of programs in both modes; then a log with a token less must not expand.
fn expand(agents: &Agents, classes: &Path, main: &str) {
    let plans = ["bri", "casper"].map(|kind| (kind, agents.plan(kind, classes)));
    let full = agents.logs("fi", &plans[1].1, classes, main);
    for (mode, plan) in &plans {
        let logs = agents.logs(mode, plan, classes, main);
        let (same, text) = agents.compare(classes, plan, &logs, &full);
        assert!(same, "{main}, {mode}: {text}");
        drop_token(&logs.join("t0.words"));
        let (same, text) = agents.compare(classes, plan, &logs, &full);
        assert!(!same, "{main}, {mode}: a missing token is not seen: {text}");
    }
}

/// Records a program, and exports what the plan would have logged of it. That must expand to the
/// full call traces; with a token less it must not.
fn witness(place: &Installation, agents: &Agents, classes: &Path, main: &str) {
    let flags = ["-XX:JPortalPrecision=exact", "-XX:-OmitStackTraceInFastThrow"].map(str::to_owned).into();
    let settings = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
    let words = ["-cp".to_owned(), classes.display().to_string(), main.to_owned()];
    let recording = RecordedRun::command(place, &words, &settings).expect("the program is recorded");
    assert!(recording.program.status.success(), "{}", recording.program.stderr);
    for kind in ["bri", "casper"] {
        let plan = agents.plan(kind, classes).display().to_string();
        let folder = recording.file(kind);
        let to = folder.display().to_string();
        let export = ["--plan", &plan, "-o", &to, "--json"];
        let export = recording.jportal(&["export", "witnesses"], &recording.capture(), &export).unwrap();
        assert!(export.status.success(), "{main}, {kind}: {}", export.stderr);
        let verify = || {
            let options = ["--call-trace", &to, "--plan", &plan, "--json"];
            recording.jportal(&["dev", "verify"], &recording.capture(), &options).unwrap()
        };
        let compared = verify();
        assert_eq!(compared.status.code(), Some(0), "{main}, {kind}: {}{}", compared.text(), compared.stderr);
        let compared = compared.json().unwrap();
        let [sites, words] = ["sites", "words"].map(|field| compared[field].as_u64().unwrap());
        figure(&format!("witness\t{main}\t{kind}\tsites {sites}\twords {words}"));
        assert!(sites > 100, "{compared}");
        let logs = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let longest = logs.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
        drop_token(&longest);
        assert_eq!(verify().status.code(), Some(1), "{main}, {kind}: a missing token is not seen");
    }
}

/// Compiles random programs. Their main class is `RandomAll`, unless they are `small`.
fn random_programs(place: &Installation, agents: &Agents, seed: u64, count: u32, small: bool) -> PathBuf {
    let (source, classes) = (agents.folder.join("source"), agents.folder.join("classes"));
    let generator = place.root.join("tests/baselines/generator/RandomPrograms.java");
    let [generator, to] = [&generator, &source].map(|path| path.display().to_string());
    let size = small.then(|| "small".to_owned());
    let words: Vec<_> =
        [generator, to, seed.to_string(), count.to_string()].into_iter().chain(size).collect();
    agents.java(&words);
    let mut command = Command::new(place.java.with_file_name("javac"));
    command.arg("-g").arg("-d").arg(&classes);
    for entry in std::fs::read_dir(&source).unwrap() {
        command.arg(entry.unwrap().path());
    }
    let finished = process::run(&mut command, LIMIT).unwrap();
    assert!(finished.status.success(), "{}", finished.stderr);
    classes
}

fn casper(test: &str, seed: u64, count: u32) {
    let Some(place) = place::installed(test) else { return };
    let scratch = jportal_tests::scratch::Scratch::new().unwrap();
    let agents = Agents::build_in(&place, scratch.path().to_owned());
    let examples = agents.classes.clone();
    // Figure 2 of the Casper paper; c4 is main0@35.
    let branches = ["B@4", "B@10", "E@4", "E@10"];
    let chosen = logged(&agents.plan("casper", &examples), "Cas");
    assert_eq!(chosen, [&branches[..], &["main0@35"]].concat());
    let chosen = logged(&agents.plan("bri", &examples), "Cas");
    assert_eq!((chosen.len(), &chosen[..4]), (7, &branches.map(str::to_owned)[..]), "{chosen:?}");
    let random = random_programs(&place, &agents, seed, count, false);
    for (classes, main) in [(&examples, "All"), (&random, "RandomAll")] {
        expand(&agents, classes, main);
        witness(&place, &agents, classes, main);
    }
}

/// The numbers of sites of each small class of a path, which the jar prints: all, those that BRI
/// and Casper log, and the least number that suffices. All plans must be feasible.
fn numbers_of_sites(agents: &Agents, classes: &Path) -> Vec<(String, [u64; 4])> {
    let [jar, classes] = [&agents.jar, classes].map(|path| path.display().to_string());
    let printed = agents.java(&["-jar".into(), jar, "least".into(), classes]);
    let row = |line: &str| {
        let (name, numbers) = line.split_once('\t').unwrap();
        let numbers: Vec<u64> = numbers.split('\t').map(|n| n.parse().unwrap()).collect();
        (name.to_owned(), numbers.try_into().unwrap())
    };
    printed.lines().map(row).collect()
}

/// The conflict graphs of a path: how many have a greedy cover, and how many of those are judged;
/// the sites of these covers, and of the least covers; the number of covers larger than the least.
/// All must be within the bound of the spec.
fn numbers_of_covers(agents: &Agents, classes: &str) -> [u64; 5] {
    let jar = agents.jar.display().to_string();
    let printed = agents.java(&["-jar".into(), jar, "covers".into(), classes.to_owned()]);
    let numbers: Vec<u64> = printed.trim().split('\t').map(|n| n.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// The least cover of each conflict graph of H2 and of random programs is found by trial.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn greedy_covers_are_within_their_bound() {
    let Some(place) = place::installed("greedy_covers_are_within_their_bound") else { return };
    let scratch = jportal_tests::scratch::Scratch::new().unwrap();
    let agents = Agents::build_in(&place, scratch.path().to_owned());
    let random = random_programs(&place, &agents, 1, 200, false).display().to_string();
    for (name, classes) in [("random programs", random.as_str()), ("H2", "/usr/share/java/h2.jar")] {
        let numbers = numbers_of_covers(&agents, classes);
        let [covers, judged, greedy, least, larger] = numbers;
        figure(&format!("covers of {name}\tall, judged; sites, least, larger\t{numbers:?}"));
        assert!(covers >= judged && judged > 50, "{name}: {numbers:?}");
        assert!(greedy >= least && (greedy > least) == (larger > 0), "{name}: {numbers:?}");
    }
}

/// All sets of sites of 200 programs are tried, by a second computation of feasibility.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn plans_are_feasible_and_log_no_fewer_sites_than_the_least_set() {
    let Some(place) = place::installed("plans_are_feasible_and_log_no_fewer_sites_than_the_least_set") else {
        return;
    };
    let scratch = jportal_tests::scratch::Scratch::new().unwrap();
    let agents = Agents::build_in(&place, scratch.path().to_owned());
    // Figure 2 of the Casper paper: a set of four sites exists, and the algorithm finds five.
    let examples = numbers_of_sites(&agents, &agents.classes);
    assert!(examples.contains(&("Cas".to_owned(), [20, 7, 5, 4])), "{examples:?}");
    let classes = random_programs(&place, &agents, 1, 200, true);
    let programs = numbers_of_sites(&agents, &classes);
    assert_eq!(programs.len(), 200);
    let mut sums = [0; 4];
    for (name, numbers) in &programs {
        let [all, bri, casper, least] = *numbers;
        assert!(all <= 12 && least <= casper && casper <= bri && bri <= all, "{name}: {numbers:?}");
        sums.iter_mut().zip(numbers).for_each(|(sum, n)| *sum += n);
    }
    figure(&format!("sites of 200 small programs\tall, bri, casper, least\t{sums:?}"));
    assert!(sums[3] < sums[2] && sums[2] < sums[1], "{sums:?}");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn logs_of_few_sites_expand_to_full_call_traces() {
    casper("logs_of_few_sites_expand_to_full_call_traces", 1000, 12);
}

#[test]
#[ignore = "some minutes: 200 random programs; scripts/verify-all runs it"]
fn logs_of_many_random_programs_expand() {
    casper("logs_of_many_random_programs_expand", 1, 200);
}
