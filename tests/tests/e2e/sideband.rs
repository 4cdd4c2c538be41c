//! The kernel itself, for all of a recording but PT: who ran when, on a native VM with many threads.

use std::collections::BTreeMap;
use std::time::Duration;

use jportal_capture::CaptureReader;
use jportal_perf_abi::record::{Body, Record, RecordReader};
use jportal_reconstruct::Recording;
use jportal_tests::figures::figure;
use jportal_tests::place::{self, Place};
use jportal_tests::process::{self, Finished};
use jportal_tests::recording::LIMIT;
use jportal_tests::scratch::Scratch;
use jportal_tests::skip;

/// What the VM's records and the kernel's may differ by: 50 microseconds at 4 GHz. Times are interpolated where the kernel's clock
/// has no relation to the TSC.
const SLACK: u64 = 200_000;

/// Most of a switch that the kernel counts for the thread, seconds.
const SWITCH_COST: f64 = 8e-6;

/// A recorded run of `java/Switching.java`.
struct Run {
    folder: Scratch,
    place: Place,
    program: Finished,
}

impl Run {
    /// `None` after counting the test as skipped: without the right to trace itself a process can record nothing.
    fn make(test: &str, threads: u32, length: Duration) -> Option<Self> {
        let place = place::installed(test)?;
        let folder = Scratch::new().expect("a folder");
        let source = place.root.join("tests/tests/e2e/java/Switching.java");
        let mut javac = std::process::Command::new(place.java.with_file_name("javac"));
        let made = process::run(javac.arg("-g").arg("-d").arg(folder.path()).arg(source), LIMIT);
        assert!(made.expect("javac runs").status.success(), "Switching.java does not compile");
        let mut java = std::process::Command::new(&place.java);
        java.args(["-XX:+JPortal", "-XX:JPortalSource=sideband", "-Xlog:jportal*=warning:stderr"]);
        java.arg(format!("-XX:JPortalFile={}", folder.path().join("capture.jportal").display()));
        java.arg("-cp").arg(folder.path()).arg("programs.Switching");
        java.args([threads.to_string(), length.as_millis().to_string()]);
        let program = process::run(&mut java, LIMIT).expect("java runs");
        if program.text().contains("perf_event_open") || program.stderr.contains("perf_event_open") {
            skip::skip(
                test,
                &format!("the kernel lets nobody record: {:.300}{:.300}", program.text(), program.stderr),
            );
            return None;
        }
        assert!(program.status.success(), "{}: {}", program.status, program.stderr);
        Some(Self { folder, place, program })
    }

    fn reader(&self) -> CaptureReader {
        CaptureReader::open(&self.folder.path().join("capture.jportal")).expect("a capture")
    }
}

/// All records with the number of their core, each core's in order.
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

/// A thread by the kernel: from its fork to its exit. That the VM begins in has no fork.
#[derive(Clone, Copy, Debug)]
struct Life {
    from: u64,
    to: u64,
}

/// The lives of each thread id, in order.
fn lives(records: &[(u32, Record)]) -> BTreeMap<u32, Vec<Life>> {
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
        let mut all: Vec<Life> = Vec::new();
        for (time, begins) in ends {
            match all.last_mut() {
                Some(last) if !begins => last.to = time,
                None if !begins => all.push(Life { from: 0, to: time }),
                _ => all.push(Life { from: time, to: u64::MAX }),
            }
        }
        all
    };
    ends.into_iter().map(|(tid, ends)| (tid, lives(ends))).collect()
}

/// What the records say of the threads of one name.
#[derive(Clone, Copy, Debug, Default)]
struct Presence {
    /// On a core.
    seconds: f64,
    /// How often it came to one.
    visits: f64,
}

/// Checks everything but the program's own observation; returns seconds on a core by thread name, and the number of switches.
fn check(reader: &CaptureReader) -> (BTreeMap<String, Presence>, usize) {
    let recording = Recording::open(reader).expect("a recording");
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
        let whole = [Life { from: 0, to: u64::MAX }];
        let life = lives.get(&tid).map_or(&whole[..], Vec::as_slice).iter();
        let life = life.copied().find(|l| l.from <= time + SLACK && time <= l.to.saturating_add(SLACK));
        let named = |life: Life| {
            let inside =
                |started: u64| started + SLACK >= life.from && started <= life.to.saturating_add(SLACK);
            starts.get(&tid).is_some_and(|starts| starts.iter().any(|&started| inside(started)))
        };
        if !life.is_some_and(named) {
            *unknown.entry(tid).or_default() += 1;
        }
    }
    assert!(
        unknown.is_empty(),
        "of {switches} switches: ids without a name, and their switches: {unknown:?}"
    );
    (visits(&recording), switches)
}

/// Seconds on a core by name; nobody may be on two cores at once, and no core may have two threads.
fn visits(recording: &Recording<'_>) -> BTreeMap<String, Presence> {
    let khz = recording.reader().header().tsc_khz;
    let seconds = |ticks: u64| ticks as f64 / (khz as f64 * 1000.0);
    let mut all: Vec<_> = recording.visits().collect();
    all.sort_by_key(|(_, _, v)| v.came);
    let mut spans: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for span in recording.image().threads.iter() {
        spans.entry(span.tid.get()).or_default().push(span);
    }
    let (mut of_core, mut of_thread) = (BTreeMap::new(), BTreeMap::new());
    let mut by_name: BTreeMap<String, Presence> = BTreeMap::new();
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

/// What the threads say of themselves: the time on a core, which the kernel counts in a way of its own.
fn compare(run: &Run, by_name: &BTreeMap<String, Presence>, threads: u32) {
    let text = run.program.text();
    let lines: Vec<_> = text.lines().filter(|l| l.starts_with("switcher-")).collect();
    assert_eq!(lines.len(), threads as usize, "{text}");
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        let own = words[2].parse::<f64>().expect("nanoseconds") / 1e9;
        let Presence { seconds, visits } = by_name.get(words[0]).copied().unwrap_or_default();
        // The kernel's clock counts the switch itself, some microseconds, for the thread; the records are written inside of it. A
        // hypervisor may take the core away meanwhile, which that clock does not count.
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
    let Some(run) = Run::make(test, THREADS, length) else { return };
    let reader = run.reader();
    let (by_name, switches) = check(&reader);
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
        std::process::Command::new(&run.place.jportal)
            .args(["info"])
            .arg(run.folder.path().join("capture.jportal")),
        LIMIT,
    );
    let info = info.expect("info runs");
    assert!(info.status.success(), "{}", info.stderr);
    let text = info.text();
    assert!(text.contains("PT source     sideband") && text.contains("switcher-15"), "{text:.2000}");
    assert!(text.contains("to 2 cores; 0 records lost") || reader.cores().len() != 2, "{text:.2000}");
}

#[test]
fn every_switch_is_of_a_thread_with_a_name() {
    sixteen_threads("every_switch_is_of_a_thread_with_a_name", Duration::from_secs(5));
}

#[test]
#[ignore = "one minute; scripts/verify-all runs it"]
fn every_switch_of_a_minute_is_of_a_thread_with_a_name() {
    sixteen_threads("every_switch_of_a_minute_is_of_a_thread_with_a_name", Duration::from_secs(60));
}
