// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How fast threads that drain rings fill a capture, and how long a thread with metadata waits for
//! its turn meanwhile.
//!
//! usage: drain_speed [--json] MIB ROUNDS FOLDER...
//!
//! Each thread copies pieces out of memory, as from a ring, and writes them to one capture in
//! `FOLDER`, `MIB` MiB in all. Three ways are compared:
//!
//! * *in the turn*: the checksum is computed while other threads wait;
//! * *before it*: the checksum is computed before the turn, as the recorder does;
//! * *no turns*: each thread reserves a range of the file and writes it with `pwrite(2)`. No
//!   recorder does that: see `docs/speed.md`.
//!
//! The measure is `dd` to the same folder. The fastest of `ROUNDS` rounds counts.

use jportal_capture::chunk::{HEAD, Head, Kind};
use jportal_capture::schema::MethodFreed;
use jportal_capture::{CaptureReader, CaptureWriter, Header, Record, Sealer, Stamped, encode_frame};
use jportal_recorder::{Cargo, Turns};
use jportal_units::{Core, StreamOffset};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// Bytes of a ring; the pieces are taken from it in turn.
const RING: usize = 4 << 20;
/// Pause between two pieces of metadata.
const PAUSE: Duration = Duration::from_millis(1);

const WAYS: [(Way, &str); 3] =
    [(Way::InTheTurn, "in the turn"), (Way::BeforeTheTurn, "before it"), (Way::NoTurns, "no turns")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    InTheTurn,
    BeforeTheTurn,
    NoTurns,
}

/// A load: the number of threads, the length of their pieces, and how checksums are computed.
#[derive(Clone, Copy)]
struct DrainLoad {
    threads: u64,
    piece: usize,
    sealer: Sealer,
}

/// The capture, and the way in which it is written.
enum DrainTarget {
    Turns(Box<Turns<Option<CaptureWriter>>>, Way),
    /// The end of what was reserved.
    Reserved(File, AtomicU64),
}

/// The figures of one run.
#[derive(Clone, Copy)]
struct DrainFigures {
    rate: f64,
    longest_wait: Duration,
}

impl DrainTarget {
    fn new(path: &Path, way: Way, sealer: Sealer) -> Self {
        let mut writer = CaptureWriter::create(path).unwrap();
        writer.seal_with(sealer);
        writer.header(&Header::default()).unwrap();
        if way == Way::NoTurns {
            let end = writer.written().file;
            return Self::Reserved(OpenOptions::new().write(true).open(path).unwrap(), AtomicU64::new(end));
        }
        let turns = Turns::default();
        *turns.take(Cargo::Metadata) = Some(writer);
        Self::Turns(Box::new(turns), way)
    }

    /// Writes a piece. `room` begins with room for a chunk head.
    fn put(&self, cargo: Cargo, core: u32, offset: u64, room: &mut [u8], sealer: Sealer) {
        let (head, bytes) = room.split_at_mut(HEAD);
        let (core, at) = (Core(core), StreamOffset(offset));
        match self {
            Self::Turns(turns, Way::InTheTurn) => {
                let mut turn = turns.take(cargo);
                let writer = turn.as_mut().unwrap();
                match cargo {
                    Cargo::Metadata => writer.metadata(bytes),
                    Cargo::Trace => writer.pt(core, at, bytes),
                }
                .unwrap();
            }
            Self::Turns(turns, _) if cargo == Cargo::Metadata => sealer
                .metadata(bytes)
                .for_each(|piece| turns.take(cargo).as_mut().unwrap().append(&piece).unwrap()),
            Self::Turns(turns, _) => sealer
                .pt(core, at, bytes)
                .for_each(|piece| turns.take(cargo).as_mut().unwrap().append(&piece).unwrap()),
            Self::Reserved(file, end) => {
                let (kind, aux) = match cargo {
                    Cargo::Metadata => (Kind::Metadata, 0),
                    Cargo::Trace => (Kind::Pt, core.get()),
                };
                let (len, payload_crc) = (bytes.len() as u32, sealer.crc(bytes));
                head.copy_from_slice(&Head { kind, len, aux, offset, payload_crc }.to_bytes());
                let place = end.fetch_add(room.len() as u64, Relaxed);
                file.write_all_at(room, place).unwrap();
            }
        }
    }
}

/// 4 KiB of records.
fn records() -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    while bytes.len() < 4096 {
        encode_frame(&Stamped { tsc: 1, record: Record::MethodFreed(MethodFreed { method: 1 }) }, &mut bytes);
    }
    bytes
}

fn run(path: &Path, way: Way, load: DrainLoad, total: u64, ring: &[u8]) -> DrainFigures {
    let target = DrainTarget::new(path, way, load.sealer);
    let pieces = total / load.threads / load.piece as u64;
    let (barrier, over) = (Barrier::new(load.threads as usize), AtomicBool::new(false));
    let drain = |core: u32| {
        let mut room = vec![0; HEAD];
        barrier.wait();
        let begin = Instant::now();
        for n in 0..pieces {
            let from = n as usize * load.piece % RING;
            room.truncate(HEAD);
            room.extend_from_slice(&ring[from..from + load.piece]);
            target.put(Cargo::Trace, core, n * load.piece as u64, &mut room, load.sealer);
        }
        (begin, Instant::now())
    };
    let metadata = || {
        let (mut room, mut offset, mut longest) = (records(), 0, Duration::ZERO);
        while !over.load(Relaxed) {
            std::thread::sleep(PAUSE);
            let begin = Instant::now();
            target.put(Cargo::Metadata, 0, offset, &mut room, load.sealer);
            longest = longest.max(begin.elapsed());
            offset += (room.len() - HEAD) as u64;
        }
        longest
    };
    let (time, longest_wait) = std::thread::scope(|scope| {
        let drains: Vec<_> = (0..load.threads as u32).map(|core| scope.spawn(move || drain(core))).collect();
        let metadata = scope.spawn(metadata);
        let times: Vec<_> = drains.into_iter().map(|thread| thread.join().unwrap()).collect();
        over.store(true, Relaxed);
        // This thread may have been the last to run on a busy machine.
        let begin = times.iter().map(|t| t.0).min().unwrap();
        let end = times.iter().map(|t| t.1).max().unwrap();
        (end - begin, metadata.join().unwrap())
    });
    drop(target);
    let reader = CaptureReader::open(path).unwrap();
    let written: u64 = reader.cores().into_iter().map(|core| reader.pt_bytes(core)).sum();
    assert_eq!(written, pieces * load.piece as u64 * load.threads);
    assert!(reader.completeness().damaged.is_empty() && reader.completeness().torn.is_none());
    std::fs::remove_file(path).unwrap();
    DrainFigures { rate: written as f64 / 1e6 / time.as_secs_f64(), longest_wait }
}

fn dd(folder: &Path, mib: u64) -> f64 {
    let path = folder.join("drain_speed.dd");
    let begin = Instant::now();
    let status = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", &format!("count={mib}"), &format!("of={}", path.display())])
        .stderr(Stdio::null())
        .status();
    let time = begin.elapsed();
    assert!(status.unwrap().success(), "dd to {}", path.display());
    std::fs::remove_file(path).unwrap();
    (mib << 20) as f64 / 1e6 / time.as_secs_f64()
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let json = words.first().is_some_and(|word| word == "--json").then(|| words.remove(0)).is_some();
    let [mib, rounds, folders @ ..] = &words[..] else { panic!("drain_speed [--json] MIB ROUNDS FOLDER...") };
    let (mib, rounds): (u64, u32) = (mib.parse().unwrap(), rounds.parse().unwrap());
    let mut state = 1_u64;
    let ring: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    })
    .take(RING)
    .collect();
    let mut loads = Vec::new();
    for threads in [1, 2, 8, 64] {
        for (piece, table) in [(256 << 10, false), (1 << 20, false), (1 << 20, true)] {
            loads.push((threads, piece, table));
        }
    }
    let mut rows = Vec::new();
    for folder in folders.iter().map(PathBuf::from) {
        let mut fastest_dd: f64 = 0.0;
        let mut all: Vec<[Option<DrainFigures>; 3]> = vec![[None; 3]; loads.len()];
        for _ in 0..rounds {
            for (best, &(threads, piece, table)) in all.iter_mut().zip(&loads) {
                fastest_dd = fastest_dd.max(dd(&folder, mib));
                let load = DrainLoad {
                    threads,
                    piece,
                    sealer: if table { Sealer::by_table() } else { Sealer::default() },
                };
                for (best, (way, _)) in best.iter_mut().zip(WAYS) {
                    let path = folder.join("drain_speed.jportal");
                    let now = run(&path, way, load, mib << 20, &ring);
                    if best.is_none_or(|best| best.rate < now.rate) {
                        *best = Some(now);
                    }
                }
            }
        }
        if !json {
            println!("{}: dd {fastest_dd:.0} MB/s; MB/s and the longest wait of metadata", folder.display());
            let heads = WAYS.map(|(_, name)| format!("{name:>21}"));
            println!("  threads  piece  checksum    {}", heads.concat());
        }
        for (best, (threads, piece, table)) in all.into_iter().zip(&loads) {
            let (checksum, kib) = (if *table { "table" } else { "instruction" }, piece >> 10);
            let figures = best.map(Option::unwrap);
            let ms = |f: DrainFigures| f.longest_wait.as_secs_f64() * 1e3;
            if json {
                let ways = figures.iter().zip(WAYS).map(|(f, (_, name))| {
                    format!(
                        "{{\"way\": \"{name}\", \"mb_per_s\": {:.1}, \"longest_wait_ms\": {:.2}}}",
                        f.rate,
                        ms(*f)
                    )
                });
                rows.push(format!(
                    "{{\"folder\": {:?}, \"dd_mb_per_s\": {fastest_dd:.1}, \"threads\": {threads}, \"piece_kib\": {kib}, \
                     \"checksum\": \"{checksum}\", \"ways\": [{}]}}",
                    folder.display().to_string(),
                    ways.collect::<Vec<_>>().join(", ")
                ));
            } else {
                let figures = figures.map(|f| format!("{:>9.0} {:>8.1} ms", f.rate, ms(f)));
                println!("  {threads:>7} {kib:>5}K  {checksum:<12}{}", figures.concat());
            }
        }
    }
    if json {
        println!("[{}]", rows.join(", "));
    }
}
