// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The kernel's part of a recording without PT: which thread ran when, on a native VM with many
//! threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jportal_capture::CaptureReader;
use jportal_perf_abi::record::{Body, Record, RecordReader};
use jportal_reconstruct::Recording;
use jportal_tests::figures::figure;
use jportal_tests::place::{self, Installation};
use jportal_tests::process::{self, Finished, Running};
use jportal_tests::recording::LIMIT;
use jportal_tests::scratch::Scratch;
use jportal_tests::skip;

/// How much the times of the VM's records and the kernel's may differ: 50 microseconds at 4 GHz.
/// Times are interpolated if the kernel's clock has no relation to the TSC.
const SLACK: u64 = 200_000;

/// The largest part of a switch that the kernel counts as the thread's time, in seconds.
const SWITCH_COST: f64 = 8e-6;

/// The command that records `java/Switching.java`, compiled in `folder`.
fn switching(
    place: &Installation,
    folder: &Scratch,
    flags: &[&str],
    threads: u32,
    length: Duration,
) -> Command {
    let source = place.root.join("tests/tests/e2e/java/Switching.java");
    let mut javac = Command::new(place.java.with_file_name("javac"));
    let made = process::run(javac.arg("-g").arg("-d").arg(folder.path()).arg(source), LIMIT);
    assert!(made.expect("javac runs").status.success(), "Switching.java does not compile");
    let mut java = Command::new(&place.java);
    java.args(["-XX:+JPortal", "-XX:JPortalSource=sideband", "-Xlog:jportal*=warning:stderr"]);
    java.arg(format!("-XX:JPortalFile={}", folder.path().join("capture.jportal").display()));
    java.args(flags).arg("-cp").arg(folder.path()).arg("programs.Switching");
    java.args([threads.to_string(), length.as_millis().to_string()]);
    java
}

/// Counts the test as skipped if the kernel has refused. A process that may not trace itself
/// cannot record.
fn refused(test: &str, said: &str) -> bool {
    let refused = said.contains("perf_event_open");
    if refused {
        skip::skip(test, &format!("the kernel lets nobody record: {said:.300}"));
    }
    refused
}

/// A recorded run of `java/Switching.java`.
struct SwitchingRun {
    folder: Scratch,
    place: Installation,
    program: Finished,
}

impl SwitchingRun {
    /// Records the program. Returns `None` after counting the test as skipped.
    fn make(test: &str, threads: u32, length: Duration) -> Option<Self> {
        let place = place::installed(test)?;
        let folder = Scratch::new().expect("a folder");
        let mut java = switching(&place, &folder, &[], threads, length);
        let program = process::run(&mut java, LIMIT).expect("java runs");
        if refused(test, &program.text()) || refused(test, &program.stderr) {
            return None;
        }
        assert!(program.status.success(), "{}: {}", program.status, program.stderr);
        Some(Self { folder, place, program })
    }

    fn recording(&self) -> Recording {
        recording(&self.folder.path().join("capture.jportal"))
    }
}

fn recording(path: &Path) -> Recording {
    Recording::open(CaptureReader::open(path).expect("a capture")).expect("a recording")
}

/// All records with the number of their core; those of each core are in order.
fn records(reader: &CaptureReader) -> Vec<(u32, Record)> {
    let mut all = Vec::new();
    for core in reader.cores() {
        for piece in reader.sideband_bytes(core) {
            let piece = piece.expect("the sideband is readable");
            all.extend(
                RecordReader::new(&piece).map(|r| (core.get(), r.expect("a record that can be read"))),
            );
        }
    }
    all
}

/// The life of a thread according to the kernel: from its fork to its exit. The VM's first thread
/// has no fork.
#[derive(Clone, Copy, Debug)]
struct TaskLife {
    from: u64,
    to: u64,
}

/// The lives of each thread id, in order.
fn lives(records: &[(u32, Record)]) -> BTreeMap<u32, Vec<TaskLife>> {
    let mut ends: BTreeMap<u32, Vec<(u64, bool)>> = BTreeMap::new();
    for (_, record) in records {
        match record.body {
            Body::Fork(task) => ends.entry(task.tid).or_default().push((task.time, true)),
            Body::Exit(task) => ends.entry(task.tid).or_default().push((task.time, false)),
            _ => {}
        }
    }
    let lives = |mut ends: Vec<(u64, bool)>| {
        ends.sort_unstable();
        let mut all: Vec<TaskLife> = Vec::new();
        for (time, begins) in ends {
            match all.last_mut() {
                Some(last) if !begins => last.to = time,
                None if !begins => all.push(TaskLife { from: 0, to: time }),
                _ => all.push(TaskLife { from: time, to: u64::MAX }),
            }
        }
        all
    };
    ends.into_iter().map(|(tid, ends)| (tid, lives(ends))).collect()
}

/// The times on a core of the threads with one name, according to the records.
#[derive(Clone, Copy, Debug, Default)]
struct CorePresence {
    /// Seconds on a core.
    seconds: f64,
    /// The number of visits to a core.
    visits: f64,
}

/// Checks everything except the program's own observations. `part` says that the recording began
/// and ended while the VM ran. Returns the presence by thread name, and the number of switches.
fn check(recording: &Recording, part: bool) -> (BTreeMap<String, CorePresence>, usize) {
    let reader = recording.reader();
    assert!(reader.completeness().is_whole() && reader.losses().is_empty(), "{:?}", reader.losses());
    assert_eq!(recording.lost_records(), 0);
    assert_eq!(reader.header().pt.source_name(), "sideband");
    let records = records(reader);
    let lives = lives(&records);
    let mut starts: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for span in recording.image().threads.iter().filter(|s| !s.name.is_empty()) {
        starts.entry(span.tid.get()).or_default().push(span.started.get());
    }
    let mut switches = 0;
    let mut unknown: BTreeMap<u32, u64> = BTreeMap::new();
    for (core, record) in &records {
        let Body::Switch { .. } = record.body else { continue };
        switches += 1;
        let (tid, time) = (record.sample.tid, record.sample.time);
        assert_eq!((record.sample.pid, record.sample.cpu), (reader.header().pid, *core));
        let whole = [TaskLife { from: 0, to: u64::MAX }];
        let life = lives.get(&tid).map_or(&whole[..], Vec::as_slice).iter();
        let life = life.copied().find(|l| l.from <= time + SLACK && time <= l.to.saturating_add(SLACK));
        let named = |life: TaskLife| {
            let inside =
                |started: u64| started + SLACK >= life.from && started <= life.to.saturating_add(SLACK);
            starts.get(&tid).is_some_and(|starts| starts.iter().any(|&started| inside(started)))
        };
        if !life.is_some_and(named) {
            *unknown.entry(tid).or_default() += 1;
        }
    }
    let first = records.iter().map(|(_, r)| r.sample.time).min();
    unknown.retain(|tid, _| !part || !lives.get(tid).is_some_and(|of| is_cut_off(of, &records, reader)));
    let of_unknown = |r: &&(u32, Record)| unknown.contains_key(&r.1.sample.tid);
    assert!(
        unknown.is_empty(),
        "of {switches} switches from {first:?} on: ids without a name, and their switches: {unknown:?}: {:?}",
        records.iter().filter(of_unknown).take(8).collect::<Vec<_>>()
    );
    (visits(recording), switches)
}

/// For a recording that begins and ends while the VM runs: whether the thread ended shortly after
/// the recording began, so that the VM had forgotten it, or began shortly before the recording
/// ended, so that the VM had not recorded its name.
fn is_cut_off(lives: &[TaskLife], records: &[(u32, Record)], reader: &CaptureReader) -> bool {
    const BRIEF_MS: u64 = 50;
    let brief = reader.header().tsc_khz * BRIEF_MS;
    let times = || records.iter().map(|(_, r)| r.sample.time);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let [life] = lives else { return false };
    life.from == 0 && life.to < first + brief || life.to == u64::MAX && life.from + brief > last
}

/// The presence by thread name. Checks that no thread is on two cores at once, and that no core
/// has two threads at once.
fn visits(recording: &Recording) -> BTreeMap<String, CorePresence> {
    let khz = recording.reader().header().tsc_khz;
    let seconds = |ticks: u64| ticks as f64 / (khz as f64 * 1000.0);
    let mut all: Vec<_> = recording.visits().collect();
    all.sort_by_key(|(_, _, v)| v.came);
    let mut spans: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for span in recording.image().threads.iter() {
        spans.entry(span.tid.get()).or_default().push(span);
    }
    let (mut of_core, mut of_thread) = (BTreeMap::new(), BTreeMap::new());
    let mut by_name: BTreeMap<String, CorePresence> = BTreeMap::new();
    for (core, _, v) in &all {
        assert!(v.came <= v.left, "{v:?}");
        for before in [of_core.insert(core.get(), v.left), of_thread.insert(v.tid.get(), v.left)] {
            assert!(
                before.is_none_or(|left| left.get() <= v.came.get() + SLACK),
                "two at once: {before:?}, {v:?}"
            );
        }
        let of_tid = spans.get(&v.tid.get()).into_iter().flatten();
        let mut named = of_tid.filter(|s| s.started.get() <= v.left.get() + SLACK);
        if let Some(span) = named.next_back() {
            let presence = by_name.entry(span.name.clone()).or_default();
            presence.seconds += seconds(v.left.get() - v.came.get());
            presence.visits += 1.0;
        }
    }
    by_name
}

/// Compares with the threads' own measurements of their time on a core, which the kernel counts
/// independently of the records.
fn compare(run: &SwitchingRun, by_name: &BTreeMap<String, CorePresence>, threads: u32) {
    let text = run.program.text();
    let lines: Vec<_> = text.lines().filter(|l| l.starts_with("switcher-")).collect();
    assert_eq!(lines.len(), threads as usize, "{text}");
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        let own = words[2].parse::<f64>().expect("nanoseconds") / 1e9;
        let CorePresence { seconds, visits } = by_name.get(words[0]).copied().unwrap_or_default();
        // The kernel's clock counts the switch itself, some microseconds, as the thread's time;
        // the records are written during the switch. Meanwhile, a hypervisor may take the core
        // away, which the clock does not count.
        let (least, most) = (own * 0.97 - 0.01 - visits * SWITCH_COST, own * 1.25 + 0.1);
        assert!((least..most).contains(&seconds), "{line}: {seconds:.3} s on a core in {visits} visits");
    }
    for name in ["main", "VM Thread", "Signal Dispatcher"] {
        assert!(by_name.contains_key(name), "{name} never ran: {:?}", by_name.keys());
    }
    let compilers = by_name.keys().filter(|n| n.contains("CompilerThread")).count();
    assert!(compilers >= 2, "{:?}", by_name.keys());
}

fn sixteen_threads(test: &str, length: Duration) {
    const THREADS: u32 = 16;
    let Some(run) = SwitchingRun::make(test, THREADS, length) else { return };
    let recording = run.recording();
    let reader = recording.reader();
    let (by_name, switches) = check(&recording, false);
    compare(&run, &by_name, THREADS);
    let seconds: f64 = by_name.values().map(|p| p.seconds).sum();
    assert!(switches as f64 > 100.0 * length.as_secs_f64(), "{switches} switches");
    figure(&format!(
        "sideband, {THREADS} threads, {} s: {switches} switches of {} threads, {seconds:.1} s on {} cores",
        length.as_secs(),
        by_name.len(),
        reader.cores().len()
    ));
    let info = process::run(
        Command::new(&run.place.jportal).args(["info"]).arg(run.folder.path().join("capture.jportal")),
        LIMIT,
    );
    let info = info.expect("info runs");
    assert!(info.status.success(), "{}", info.stderr);
    let text = info.text();
    assert!(text.contains("PT source     sideband") && text.contains("switcher-15"), "{text:.2000}");
    assert!(text.contains("to 2 cores; 0 records lost") || reader.cores().len() != 2, "{text:.2000}");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn every_switch_is_of_a_thread_with_a_name() {
    sixteen_threads("every_switch_is_of_a_thread_with_a_name", Duration::from_secs(5));
}

#[test]
#[ignore = "one minute; scripts/verify-all runs it"]
fn every_switch_of_a_minute_is_of_a_thread_with_a_name() {
    sixteen_threads("every_switch_of_a_minute_is_of_a_thread_with_a_name", Duration::from_secs(60));
}

/// A VM with running threads that is not recording at first.
struct Attached {
    running: Running,
    folder: Scratch,
    place: Installation,
}

/// The name of each thread and the nanoseconds that it was on a core, by thread id
/// (`/proc/PID/task/TID/schedstat`).
type OnCore = BTreeMap<u32, (String, u64)>;

impl Attached {
    const THREADS: usize = 16;

    fn start(place: Installation) -> Self {
        let folder = Scratch::new().expect("a folder");
        let flags = ["-XX:-JPortalStart"];
        let mut java = switching(&place, &folder, &flags, Self::THREADS as u32, Duration::from_secs(600));
        let running = process::start(&mut java).expect("java runs");
        let this = Self { running, folder, place };
        let all = || Ok(this.switchers().len() == Self::THREADS);
        this.running.wait_until("16 threads", LIMIT, all).expect("16 threads");
        this
    }

    fn file(&self, tid: u32, name: &str) -> Option<String> {
        // The thread may end in the meantime.
        std::fs::read_to_string(format!("/proc/{}/task/{tid}/{name}", self.running.id())).ok()
    }

    fn threads(&self) -> Vec<u32> {
        let entries = std::fs::read_dir(format!("/proc/{}/task", self.running.id())).expect("its threads");
        entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    fn switchers(&self) -> Vec<u32> {
        let mut all = self.threads();
        all.retain(|tid| self.file(*tid, "comm").is_some_and(|name| name.starts_with("switcher-")));
        all
    }

    fn on_core(&self) -> OnCore {
        let spent = |tid| self.file(tid, "schedstat")?.split(' ').next()?.parse().ok();
        let of = |tid| Some((tid, (self.file(tid, "comm")?, spent(tid)?)));
        self.threads().into_iter().filter_map(of).collect()
    }

    fn jcmd(&self, words: &[&str]) -> String {
        self.place.jcmd(self.running.id(), words).expect("jcmd answers")
    }
}

/// The presence by thread id.
fn seconds(recording: &Recording) -> BTreeMap<u32, CorePresence> {
    let hz = recording.reader().header().tsc_khz as f64 * 1000.0;
    let mut all: BTreeMap<u32, CorePresence> = BTreeMap::new();
    for (_, _, visit) in recording.visits() {
        let presence = all.entry(visit.tid.get()).or_default();
        presence.seconds += (visit.left.get() - visit.came.get()) as f64 / hz;
        presence.visits += 1.0;
    }
    all
}

/// A recording that begins while threads run contains all that each thread does from then on, and
/// nothing of the recorder's own threads.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn threads_that_run_already_are_recorded() {
    let test = "threads_that_run_already_are_recorded";
    let Some(place) = place::installed(test) else { return };
    let vm = Attached::start(place);
    for round in 0..3 {
        let capture = vm.folder.path().join(format!("{round}.jportal"));
        let before = vm.on_core();
        let answer = vm.jcmd(&["JPortal.start", &format!("file={}", capture.display())]);
        if refused(test, &answer) {
            return;
        }
        assert!(answer.contains("state: recording"), "{answer}");
        let first = vm.on_core();
        std::thread::sleep(Duration::from_secs(2));
        let last = vm.on_core();
        let answer = vm.jcmd(&["JPortal.stop"]);
        let behind = vm.on_core();
        assert!(answer.contains("state: stopped") && answer.contains("losses: 0"), "{answer}");

        let recording = recording(&capture);
        let (by_name, switches) = check(&recording, true);
        let seen = seconds(&recording);
        let mut compared = 0;
        for (tid, (name, last)) in &last {
            let of = |when: &OnCore| when.get(tid).map(|t| t.1);
            let spent = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
            let least = spent(of(&first).unwrap_or(0), *last);
            let most = spent(of(&before).unwrap_or(0), of(&behind).unwrap_or(u64::MAX));
            let ours = name.starts_with("jportal-");
            let CorePresence { seconds, visits } = seen.get(tid).copied().unwrap_or_default();
            assert!(!ours || visits == 0.0, "{name} was traced");
            // As in `compare`. A stay that began before the recording, or continues at its end,
            // may be missing from the visits.
            let range = least * 0.97 - 0.05 - visits * SWITCH_COST..most * 1.25 + 0.1;
            assert!(
                ours || range.contains(&seconds),
                "{name}: {seconds:.3} s in {visits} visits, not {range:?}"
            );
            compared += 1;
        }
        let brief = by_name.keys().filter(|n| n.starts_with("brief-")).count();
        assert!(compared > Attached::THREADS && brief > 10, "{compared} threads, {brief} brief ones");
        figure(&format!(
            "sideband, started in a running VM: {switches} switches, {compared} threads compared, {brief} new ones"
        ));
    }
}
