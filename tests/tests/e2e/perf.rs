// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal export perf-data` and `jportal import`, checked with an unmodified `perf`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jportal_capture::CaptureReader;
use jportal_machine_flow::{Decision, Item};
use jportal_reconstruct::{MachineListener, Stretch};
use jportal_tests::perf;
use jportal_tests::place::{self, Installation};
use jportal_tests::process::Finished;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};
use jportal_tests::skip;

/// At least this many branches must be equal.
const BRANCHES: u64 = 10_000_000;

/// How many recordings are made until one has no stale block.
const RECORDINGS: u32 = 4;

/// A hash over all blocks of a core, in order, and the threads that executed them.
#[derive(Default, Debug, PartialEq, Eq)]
struct BlockHash {
    blocks: u64,
    gaps: u64,
    sum: u64,
}

impl MachineListener for BlockHash {
    fn items(&mut self, stretch: &Stretch, items: &[Item], _: &[Decision]) -> bool {
        for item in items {
            match *item {
                Item::Block { start, end, exit, .. } => {
                    let one = u64::from(start) << 32
                        | u64::from(end) ^ u64::from(stretch.tid.0) << 40 ^ exit as u64;
                    self.sum = (self.sum ^ one).wrapping_mul(0x100_0000_01b3).rotate_left(23);
                    self.blocks += 1;
                }
                Item::Gap(_) => self.gaps += 1,
                _ => {}
            }
        }
        true
    }
}

fn blocks(capture: &Path) -> Vec<BlockHash> {
    let reader = CaptureReader::open(capture).unwrap();
    let recording = jportal_reconstruct::Recording::open(reader).unwrap();
    let one = |core| {
        let mut blocks = BlockHash::default();
        recording.machine_flow(core, &mut blocks).unwrap();
        blocks
    };
    recording.cores().map(one).collect()
}

/// The errors that `perf report -D` reports.
fn malformed(data: &Path) -> Vec<String> {
    let out =
        Command::new("perf").args(["report", "-D", "-i"]).arg(data).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let bad =
        |l: &&str| l.contains("Bad packet") || l.contains("failed to process") || l.contains("Unhandled");
    let mut all: Vec<String> = text.lines().filter(bad).take(5).map(str::to_owned).collect();
    all.extend(String::from_utf8_lossy(&out.stderr).lines().take(5).map(str::to_owned));
    if !out.status.success() {
        all.push(out.status.to_string());
    }
    assert!(text.contains("PERF_RECORD_AUXTRACE") && text.contains("PERF_RECORD_MMAP2"), "no dump");
    all
}

/// A recording of H2 and its `perf.data`.
///
/// A thread may execute a block whose code another thread overwrites meanwhile. `perf.data` has no
/// record for such a block. The export must report it; then H2 is recorded again.
fn exported(place: &Installation) -> (RecordedRun, Finished, PathBuf) {
    let program = programs::by_name("h2").expect("a program of that name");
    // With the coarsest clock, the export has to find out when each thread ran.
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Tiered) };
    for _ in 0..RECORDINGS {
        let recording = RecordedRun::make(place, &program, &plan).unwrap();
        let folder = recording.file("perf");
        let target = folder.to_str().expect("a plain name");
        let arguments = ["export", "perf-data", "--json", "-o", target];
        let out = recording.jportal(&arguments, &recording.capture(), &[]).unwrap();
        if out.status.success() {
            return (recording, out, folder.join("perf.data"));
        }
        let found = out.json().unwrap();
        let wrong = ["misplaced_changes", "misattributed_switches", "gaps"].map(|what| &found[what]);
        assert!(wrong.iter().all(|n| **n == 0), "{found}{}", out.stderr);
        assert!(found["stale_blocks"].as_u64() > Some(0), "{found}{}", out.stderr);
        println!("recorded again: {found}");
    }
    panic!("each of {RECORDINGS} recordings has blocks whose code was overwritten while they ran");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn perf_lists_the_branches_of_the_machine_flow() {
    let name = "perf_lists_the_branches_of_the_machine_flow";
    let Some(place) = place::installed(name) else { return };
    if !perf::installed() {
        return skip::skip(name, "perf is missing; install linux-perf");
    }
    let (recording, out, data) = exported(&place);

    let reader = CaptureReader::open(&recording.capture()).unwrap();
    let opened = jportal_reconstruct::Recording::open(reader).unwrap();
    let found = perf::compare(&opened, &data, u64::MAX).unwrap();
    println!("{found}{}", out.text());
    assert!(found.is_equal(), "{found}");
    assert!(found.equal() >= BRANCHES, "{found}");
    assert_eq!(malformed(&data), Vec::<String>::new());

    let back = recording.file("back.jportal");
    let to = back.to_str().expect("a plain name");
    let capture = recording.capture();
    let metadata = capture.to_str().expect("a plain name");
    let import = ["import", "--capture", metadata, "-o", to];
    let out = recording.jportal(&import, &data, &[]).unwrap();
    assert!(out.status.success(), "{}", out.stderr);
    let (ours, theirs) = (blocks(&capture), blocks(&back));
    assert!(ours.iter().all(|core| core.gaps == 0 && core.blocks > 0), "{ours:?}");
    assert_eq!(ours, theirs);
    // The threads must be right, too: perf's padding is the trace of no thread.
    let flow = |file: &Path| {
        let info = recording.jportal(&["info", "--json"], file, &[]).unwrap().json().unwrap();
        ["bytecodes", "gaps", "unresolved", "completeness"].map(|what| info[what].clone())
    };
    assert_eq!(flow(&capture), flow(&back));
}
