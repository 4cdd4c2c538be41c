// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::import;
use crate::testing::{self, FIRST, LOW, OUTSIDE, PATCH, SECOND, TIDS};
use jportal_capture::header::sources;
use jportal_machine_flow::{Decision, Item};
use jportal_perf_abi::RecordReader;
use jportal_pt_packet::{LastIp, Packet, PacketDecoder};
use jportal_reconstruct::{MachineListener, Stretch};
use proptest::prelude::*;
use std::io::Cursor;

/// All blocks of a core, each with the thread that ran it.
#[derive(Default)]
struct CoreBlocks(Vec<(u32, u64, u64)>);

impl MachineListener for CoreBlocks {
    fn items(&mut self, stretch: &Stretch, items: &[Item], _: &[Decision]) -> bool {
        for item in items {
            if let Item::Block { start, end, .. } = *item {
                self.0.push((stretch.tid.0, LOW + u64::from(start), LOW + u64::from(end)));
            }
        }
        true
    }
}

fn blocks(recording: &Recording) -> Vec<Vec<(u32, u64, u64)>> {
    let one = |core| {
        let mut blocks = CoreBlocks::default();
        recording.machine_flow(core, &mut blocks).unwrap();
        blocks.0
    };
    recording.cores().map(one).collect()
}

fn nothing(_: u64, _: u64) {}

/// A model of perf: the records of the file by time, and each core's trace between them. It
/// computes to which callees the calls branch.
struct Perf {
    /// Time, address, length and place in the file of each mapping, in order.
    mapped: Vec<(u64, u64, u64, u64)>,
    /// Time, core and thread of each switch to a core.
    switches: Vec<(u64, u32, u32)>,
    trace: Vec<(u32, Vec<u8>)>,
    code: Vec<u8>,
    clock: PerfClock,
}

impl Perf {
    fn open(folder: &Path) -> Self {
        let bytes = std::fs::read(folder.join(DATA_FILE)).unwrap();
        let code = std::fs::read(folder.join(CODE_FILE)).unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (mut at, size) = (word(40) as usize, word(48) as usize);
        let end = at + size;
        let clock = PerfClock::of(&jportal_capture::Header { tsc_khz: 2_500_000, ..Default::default() });
        let mut perf = Self { mapped: Vec::new(), switches: Vec::new(), trace: Vec::new(), code, clock };
        while at < end {
            let kind = word(at) as u32;
            let len = u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]) as usize;
            if kind == 71 {
                let trace = word(at + 8) as usize;
                let (core, piece) = (word(at + 40) as u32, &bytes[at + len..at + len + trace]);
                match perf.trace.iter_mut().find(|t| t.0 == core) {
                    Some((_, all)) => all.extend(piece),
                    None => perf.trace.push((core, piece.to_vec())),
                }
                at += trace;
            } else if kind < 64 {
                perf.record(&RecordReader::new(&bytes[at..at + len]).next().unwrap().unwrap());
            }
            at += len;
        }
        perf
    }

    fn record(&mut self, record: &Record) {
        let s = &record.sample;
        match &record.body {
            Body::Mmap2(m) if m.name.ends_with(CODE_FILE.as_bytes()) => {
                self.mapped.push((s.time, m.address, m.len, m.file_offset));
            }
            Body::Switch { out: false, .. } => self.switches.push((s.time, s.cpu, s.tid)),
            _ => {}
        }
    }

    /// The instruction bytes at `ip`, as mapped at `tsc`.
    fn bytes(&self, tsc: u64, ip: u64) -> &[u8] {
        let mut seen = self.mapped.iter().filter(|m| self.clock.tsc(m.0).0 <= tsc);
        let found = seen.rfind(|m| (m.1..m.1 + m.2).contains(&ip)).unwrap();
        let at = (found.3 + ip - found.1) as usize;
        &self.code[at..at + 8]
    }

    /// The target of the call at `LOW` at `tsc`.
    fn called(&self, tsc: u64) -> u64 {
        let call = self.bytes(tsc, LOW);
        assert_eq!(call[0], 0xe8);
        let distance = i32::from_le_bytes(call[1..5].try_into().unwrap());
        (LOW + 5).wrapping_add_signed(distance.into())
    }

    /// The targets of the calls of `core`, in order. A walk sees the mappings of the time of
    /// the previous stop.
    fn calls(&self, core: u32) -> Vec<u64> {
        let trace = &self.trace.iter().find(|t| t.0 == core).unwrap().1;
        let (mut ip, mut now, mut back) = (LastIp::default(), 0, false);
        let mut calls = Vec::new();
        let mut decoder = PacketDecoder::new(trace);
        while let Some((_, packet)) = decoder.next_packet().unwrap() {
            match packet {
                Packet::Psb => ip.reset(),
                Packet::Tsc(tsc) => now = now.max(tsc),
                Packet::TipPge(p) => {
                    assert_eq!(ip.update(p), Some(LOW));
                    calls.push(self.called(now));
                }
                Packet::Tip(p) => {
                    assert_eq!(ip.update(p), Some(LOW + 5));
                    back = true;
                }
                // The branch of the loop; the other one is that of the callee.
                Packet::TntShort(t) if back => {
                    back = false;
                    calls.extend((t.bits != 0).then(|| self.called(now)));
                }
                Packet::TntShort(_) => assert_eq!(calls.last(), Some(&SECOND)),
                _ => {}
            }
        }
        calls
    }
}

/// The callees in the flow.
fn callees(blocks: &[(u32, u64, u64)]) -> Vec<u64> {
    blocks.iter().map(|b| b.1).filter(|&s| s == FIRST || s == SECOND).collect()
}

/// Exports a synthetic capture and reads it back, both as perf and by import.
fn there_and_back(begins: [u64; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let reader = testing::capture(&folder.path().join("a.jportal"), begins, true);
    let recording = Recording::open(reader).unwrap();
    let ours = blocks(&recording);
    for (core, begins) in ours.iter().zip(begins) {
        let (old, new) = testing::rounds(begins);
        let want: Vec<u64> = (0..old + new).map(|n| if n < old { FIRST } else { SECOND }).collect();
        assert_eq!(callees(core), want, "{begins}");
    }
    let exported = export(&recording, &folder.path().join("x"), &mut nothing).unwrap();
    assert_eq!((exported.cores, exported.misplaced, exported.misattributed, exported.gaps), (2, 0, 0, 0));
    let perf = Perf::open(&folder.path().join("x"));
    for (n, core) in (0u32..).zip(&ours) {
        assert_eq!(perf.calls(n), callees(core), "core {n}, {begins:?}, {exported:?}");
        let told: Vec<u32> = perf.switches.iter().filter(|s| s.1 == n).map(|s| s.2).collect();
        assert_eq!(told, [TIDS[n as usize]]);
    }
    let data = std::fs::read(folder.path().join("x").join(DATA_FILE)).unwrap();
    let metadata = testing::capture(&folder.path().join("m.jportal"), begins, false);
    let back = folder.path().join("back.jportal");
    let imported = import(Cursor::new(data), &metadata, &back, &mut nothing).unwrap();
    assert_eq!((imported.cores, imported.left_out), (2, 0));
    let back = Recording::open(CaptureReader::open(&back).unwrap()).unwrap();
    assert_eq!(back.reader().header().pt.source, sources::PERF);
    assert_eq!(blocks(&back), ours);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn perf_and_a_capture_made_of_the_file_see_the_same_flow(
        one in PATCH - 400_000..PATCH + 400_000,
        other in PATCH - 400_000..PATCH + 400_000,
    ) {
        there_and_back([one, other]);
    }
}

/// With deferred TIPs, the packets of the callees fit both versions of the call. Only the
/// return out of the code distinguishes them.
#[test]
fn a_return_out_of_the_code_tells_versions_of_a_call_apart() {
    there_and_back([PATCH - 249_999; 2]);
}

#[test]
fn a_run_wholly_before_or_after_the_patch() {
    there_and_back([PATCH - 900_000, PATCH + 900_000]);
    there_and_back([PATCH, PATCH + 40_000]);
}

#[test]
fn the_file_is_what_perf_expects() {
    let folder = tempfile::tempdir().unwrap();
    let reader = testing::capture(&folder.path().join("a.jportal"), [PATCH; 2], true);
    let recording = Recording::open(reader).unwrap();
    export(&recording, &folder.path().join("x"), &mut nothing).unwrap();
    let bytes = std::fs::read(folder.path().join("x").join(DATA_FILE)).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(&bytes[..8], b"PERFILE2");
    // Header, size of a table entry, table, records, and the only feature: the index of the
    // trace.
    assert_eq!((word(8), word(16), word(24), word(32)), (104, 128, 120, 256));
    assert_eq!((word(40), word(72), word(80)), (376, 1 << 18, 0));
    // AUXTRACE_INFO comes first and says Intel PT.
    let at = word(40) as usize;
    assert_eq!((word(at) as u32, word(at + 8)), (70, 1));
    let features = at + word(48) as usize;
    let (index, len) = (word(features) as usize, word(features + 8) as usize);
    assert_eq!(index + len, bytes.len());
    assert_eq!((8 + 16 * word(index), word(index + 16)), (len as u64, 48));
    assert!(word(index) > 4, "several pieces of each core");
    assert_eq!(word(word(index + 8) as usize) as u32, 71);
    let text = bytes.windows(7).filter(|w| *w == b"main\0\0\0").count();
    assert_eq!(text, 1);
    assert!(bytes.windows(16).any(|w| w == b"a thread with a\0"));
    assert!(!bytes.windows(OUTSIDE.to_le_bytes().len()).any(|w| w == b"oracle\0\0"));
}

#[test]
fn folders_that_a_filter_cannot_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let reader = testing::capture(&folder.path().join("a.jportal"), [PATCH; 2], true);
    let recording = Recording::open(reader).unwrap();
    for name in ["a b", "a,b", "a\nb"] {
        let error = export(&recording, &folder.path().join(name), &mut nothing).unwrap_err();
        assert!(matches!(error, Error::FolderName { .. }), "{name:?}: {error}");
    }
    let reader = testing::capture(&folder.path().join("m.jportal"), [PATCH; 2], false);
    let recording = Recording::open(reader).unwrap();
    assert!(matches!(export(&recording, folder.path(), &mut nothing), Err(Error::NoTrace)));
}

#[test]
fn names_of_threads_are_cut_between_characters() {
    assert_eq!(short("main"), b"main");
    assert_eq!(short("0123456789abcdefg"), b"0123456789abcde");
    assert_eq!(short("0123456789abcdä"), "0123456789abcd".as_bytes());
}
