// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A PT unit and a VM whose output is known in advance.
#![allow(dead_code)] // each test program uses its part

use fastrand::Rng;
use jportal_capture::{CaptureReader, Record};
use jportal_perf_abi::emulated::{Counter, EmulatedUnit, Mode, PacketConfig, UnitConfig};
use jportal_perf_abi::record::{Body, RecordReader, aux_flags};
use jportal_perf_abi::ring::CoreProducer;
use jportal_recorder::Recorder;
use jportal_units::Core;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// `MethodFreed`: a body of one `u64`.
pub const KIND: u16 = 12;

/// The byte at position `at` of a core's stream.
pub fn trace_byte(core: u32, at: u64) -> u8 {
    ((at ^ u64::from(core) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A unit with small rings.
pub fn unit_config(cores: u32, mode: Mode) -> UnitConfig {
    UnitConfig {
        cores,
        data_bytes: 16 << 10,
        aux_bytes: 32 << 10,
        tsc_khz: 2_400_000,
        mode,
        packets: PacketConfig { psb_period: 3, ..PacketConfig::default() },
        ..UnitConfig::default()
    }
}

/// A unit that, once enabled, writes `bytes` bytes of [`trace_byte`] on each core, in pieces,
/// with the records of threads that are switched in and out.
pub struct FakeUnit {
    cores: Vec<JoinHandle<u64>>,
}

/// The TSC until which the unit reports its rings as complete.
pub const COMPLETE: u64 = 4_000_000_000;

impl FakeUnit {
    /// The unit confirms a disable when every core has written its bytes, like a unit with a
    /// queue.
    pub fn start(path: &Path, config: UnitConfig, bytes: u64) -> Self {
        let unit = Arc::new(EmulatedUnit::create(path, config).unwrap());
        unit.set_detail("fake unit");
        unit.set_complete_until(COMPLETE);
        let left = Arc::new(AtomicU32::new(config.cores));
        let cores = (0..config.cores).map(|core| {
            let (unit, left) = (Arc::clone(&unit), Arc::clone(&left));
            std::thread::spawn(move || {
                // Waits for a generation instead of "enabled", because a short recording may
                // have ended before this thread looks.
                while unit.generation() == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert_eq!((unit.command().low, unit.command().high), (0x1000, 0x9000));
                let losses = play(&unit, core, bytes);
                if left.fetch_sub(1, AcqRel) == 1 {
                    unit.set_counter(Counter::Blocks, 42);
                    while unit.command().enabled {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    unit.acknowledge(unit.generation());
                }
                losses
            })
        });
        Self { cores: cores.collect() }
    }

    /// Waits for the unit; returns the number of losses of each core.
    pub fn join(self) -> Vec<u64> {
        self.cores.into_iter().map(|c| c.join().unwrap()).collect()
    }
}

fn play(unit: &EmulatedUnit, core: u32, bytes: u64) -> u64 {
    play_on(unit.producer(core, std::process::id()).unwrap(), core, bytes, unit.config().mode == Mode::Stall)
}

/// Plays the same on any rings; returns the number of losses.
pub fn play_on(mut p: CoreProducer, core: u32, bytes: u64, stall: bool) -> u64 {
    let mut random = Rng::with_seed(u64::from(core) + 1);
    let (mut losses, mut tsc, mut attempts) = (0, 0, 0);
    while attempts < bytes {
        let tid = 100 + random.u32(..5);
        tsc += 10;
        must(&mut p, |p| p.switch_in(tid, tsc));
        let piece = random.u64(1..=6000);
        let at = p.aux.position();
        let piece: Vec<u8> = (at..at + piece).map(|at| trace_byte(core, at)).collect();
        attempts += piece.len() as u64;
        let mut flags = 0;
        while p.aux.write(&piece).is_err() {
            if !stall {
                flags = aux_flags::TRUNCATED;
                losses += 1;
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        must(&mut p, |p| p.end_aux(tid, tsc + 1, flags));
        must(&mut p, |p| p.switch_out(tid, tsc + 2, false));
    }
    losses
}

/// Repeats an action until the data ring has room.
fn must<E>(p: &mut CoreProducer, mut action: impl FnMut(&mut CoreProducer) -> Result<(), E>) {
    while action(p).is_err() {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Runs `threads` VM threads, each committing `each` records that contain the thread's and the
/// record's number.
pub fn commit_from_threads(recorder: &Recorder, threads: u64, each: u64) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for n in 0..each {
                    assert!(recorder.write(KIND, &(thread << 32 | n).to_le_bytes()));
                }
            });
        }
    });
}

/// Checks that the capture holds exactly the trace of `FakeUnit` and that the AUX records of
/// one thread cover each of its bytes. Returns (trace bytes, TRUNCATED records) of the core.
pub fn check_core(reader: &CaptureReader, core: u32) -> (u64, u64) {
    let mut at = 0;
    for piece in reader.pt(Core(core)) {
        assert_eq!(piece.offset, at, "core {core}: the stream has a hole");
        for byte in reader.read(piece).unwrap() {
            assert_eq!(byte, trace_byte(core, at), "core {core}, byte {at}");
            at += 1;
        }
    }
    let (mut named, mut truncated, mut on_core) = (0, 0, None);
    for records in reader.sideband_bytes(Core(core)) {
        for record in RecordReader::new(&records.unwrap()) {
            let record = record.unwrap();
            assert_eq!(record.sample.cpu, core);
            match record.body {
                Body::Switch { out: false, .. } => {
                    assert_eq!(on_core.replace(record.sample.tid), None);
                }
                Body::Switch { out: true, .. } => assert_eq!(on_core.take(), Some(record.sample.tid)),
                Body::Aux { offset, size, flags } => {
                    assert_eq!((offset, on_core), (named, Some(record.sample.tid)));
                    named += size;
                    truncated += u64::from(flags & aux_flags::TRUNCATED != 0);
                }
                other => panic!("nobody wrote {other:?}"),
            }
        }
    }
    assert_eq!(named, at, "core {core}: bytes without an AUX record");
    (at, truncated)
}

/// Checks that the metadata is what [`commit_from_threads`] committed: per thread in order from
/// 0, and in order of time. Returns the number of records of each thread.
pub fn check_metadata(reader: &CaptureReader) -> HashMap<u64, u64> {
    let mut next = HashMap::new();
    let mut last = 0;
    for record in reader.metadata() {
        let record = record.unwrap();
        assert!(record.tsc >= last, "time runs backwards in commit order");
        last = record.tsc;
        let Record::MethodFreed(body) = record.record else { panic!("nobody wrote {:?}", record.record) };
        let (thread, n) = (body.method >> 32, body.method & 0xffff_ffff);
        let expected = next.entry(thread).or_insert(0);
        assert_eq!(n, *expected, "thread {thread}");
        *expected += 1;
    }
    next
}

/// A counter that tests use to name files.
pub fn fresh() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Relaxed)
}
