// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The export ring with many producers, a slow consumer, records longer than the ring, and an
//! end while producers write.

use fastrand::Rng;
use jportal_capture::ring_file::{self, states};
use jportal_recorder::{CAPACITY, Error, Overrun, Ring};
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SIZE: u64 = 64 << 10;
/// A kind of record whose body means nothing.
const UNKNOWN: u16 = 9999;

struct RingFolder(tempfile::TempDir);
impl RingFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    /// A ring of `size` bytes, with the usual overflow.
    fn ring(&self, size: u64) -> Ring {
        Ring::create(self.0.path(), size, CAPACITY).unwrap()
    }
}

/// Reads until the ring is closed and empty, in pieces of random size, with an occasional
/// pause.
fn consume(ring: &Ring, seed: u64) -> Vec<u8> {
    ring.attach_consumer();
    let mut random = Rng::with_seed(seed);
    let mut stream = Vec::new();
    loop {
        let last = !ring.is_open();
        let n = ring.read(&mut stream, random.usize(1..=40_000)).unwrap();
        if random.u64(..50) == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
        ring.free(n);
        if n == 0 {
            if last {
                return stream;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// A frame of the stream: kind, TSC, body.
type Frame = (u16, u64, Vec<u8>);

fn frames(stream: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        assert!(len >= 16 && rest[6..8] == [0, 0]);
        let tsc = u64::from_le_bytes(rest[8..16].try_into().unwrap());
        frames.push((u16::from_le_bytes(rest[4..6].try_into().unwrap()), tsc, rest[16..len].to_vec()));
        rest = &rest[len..];
    }
    frames
}

/// The `n`-th body that producer `kind` commits.
fn body(kind: u16, n: u64, len: usize) -> Vec<u8> {
    let mut body = n.to_le_bytes().to_vec();
    body.extend((0..len).map(|i| (i as u64 ^ n ^ u64::from(kind)) as u8));
    body
}

fn many_producers(size: u64, producers: u16, each: u64, longest: u64, seed: u64) {
    let place = RingFolder::new();
    let ring = place.ring(size);
    let stream = std::thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(&ring, seed));
        std::thread::scope(|scope| {
            for kind in 0..producers {
                let ring = &ring;
                scope.spawn(move || {
                    let mut random = Rng::with_seed(seed ^ u64::from(kind) << 20);
                    for n in 0..each {
                        assert!(ring.write(kind, &body(kind, n, random.u64(..longest) as usize)));
                    }
                });
            }
        });
        ring.close();
        consumer.join().unwrap()
    });
    let mut next = vec![0; producers.into()];
    let mut last = 0;
    for (kind, tsc, found) in frames(&stream) {
        let n: &mut u64 = &mut next[usize::from(kind)];
        assert_eq!(found, body(kind, *n, found.len() - 8), "producer {kind}, record {n}");
        assert!(tsc >= last, "stream order is time order");
        (*n, last) = (*n + 1, tsc);
    }
    assert!(next.iter().all(|n| *n == each), "{next:?}");
    assert_eq!(ring.records(), u64::from(producers) * each);
}

#[test]
fn no_record_of_many_producers_is_lost_or_torn() {
    many_producers(SIZE, 8, 20_000, 200, 1);
}

#[test]
fn records_beyond_the_ring_proper_are_taken() {
    many_producers(SIZE, 4, 60, 100_000, 2);
}

#[test]
fn a_record_of_16_megabytes_passes_a_ring_of_64_kilobytes() {
    let place = RingFolder::new();
    let ring = place.ring(SIZE);
    let long = body(3, 7, 16 << 20);
    let stream = std::thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(&ring, 3));
        assert!(ring.write(3, &long) && ring.write(4, b""));
        ring.close();
        consumer.join().unwrap()
    });
    let frames = frames(&stream);
    assert_eq!(frames.len(), 2);
    assert!(frames[0].2 == long);
    assert_eq!((frames[1].0, frames[1].2.len()), (4, 0));
    assert!(ring.waits() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_mixture_passes(producers in 1u16..6, each in 1u64..300, longest in 1u64..20_000, seed: u64) {
        many_producers(SIZE, producers, each, longest, seed);
    }
}

/// A consumer that has stopped for ever, with producers that hold locks of the VM.
#[test]
fn a_full_ring_holds_nobody() {
    let place = RingFolder::new();
    let ring = place.ring(SIZE);
    let mut longest = Duration::ZERO;
    for n in 0..3000u64 {
        let start = Instant::now();
        assert!(ring.write(1, &body(1, n, 2000)));
        longest = longest.max(start.elapsed());
    }
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert_eq!((ring.waits(), ring.left()), (1, 3000 * 2024));
    // Read is not written: it stays in the ring.
    let (mut stream, mut twice) = (Vec::new(), Vec::new());
    let n = ring.read(&mut stream, 100_000).unwrap();
    assert_eq!((n, ring.read(&mut twice, 100_000).unwrap()), (100_000, 100_000));
    assert_eq!(stream, twice);
    ring.free(n);
    assert!(ring.write(2, b"later"));
    ring.close();
    stream.extend(consume(&ring, 1));
    let frames = frames(&stream);
    assert_eq!(frames.len(), 3001);
    for (n, (kind, _, found)) in frames.iter().enumerate().take(3000) {
        assert_eq!((*kind, found), (1, &body(1, n as u64, 2000)));
    }
    assert_eq!((frames[3000].0, &frames[3000].2[..]), (2, &b"later"[..]));
    assert!(frames.is_sorted_by_key(|f| f.1));
}

/// What is in the overflow has memory, and not much else. A ring whose consumer keeps up has no
/// other memory than its own.
#[test]
fn memory_of_the_overflow_is_given_back() {
    // A file system on a disk also counts its own tables.
    let place = RingFolder(tempfile::tempdir_in("/dev/shm").unwrap());
    let ring = place.ring(SIZE);
    let in_memory = || std::fs::metadata(ring.path().unwrap()).unwrap().blocks() * 512;
    assert_eq!(in_memory(), SIZE + 4096);
    let mut stream = Vec::new();
    let mut consume_all = || {
        while ring.left() > 0 {
            let n = ring.read(&mut stream, 300_000).unwrap();
            ring.free(n);
        }
    };
    for n in 0..100u64 {
        assert!(ring.write(1, &body(1, n, 1000)));
        consume_all();
        assert_eq!((in_memory(), ring.waits()), (SIZE + 4096, 0));
    }
    for round in 1..3u64 {
        for n in 0..100u64 {
            assert!(ring.write(1, &body(1, n, 100_000)));
        }
        assert!(in_memory() >= 10_000_000);
        consume_all();
        assert_eq!((in_memory(), ring.waits()), (SIZE + 4096, round));
    }
    assert_eq!(frames(&stream).len(), 300);
}

/// The VM may be killed at any time. A capture that ends at the tail, or a little later, is
/// completed from the ring's file.
#[test]
fn what_is_in_the_ring_is_recovered() {
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let place = RingFolder::new();
        let ring = Ring::create(place.0.path(), SIZE, 4 * SIZE).unwrap();
        let (mut stream, mut tail) = (Vec::new(), 0);
        for n in 0..random.u64(..400) {
            assert!(ring.write(UNKNOWN, &body(1, n, random.usize(..3000))), "{:?}", ring.overrun());
            if ring.left() as u64 > 2 * SIZE || random.u64(..9) == 0 {
                stream.truncate(tail);
                let n = ring.read(&mut stream, random.usize(1..=90_000)).unwrap();
                tail += n;
                ring.free(n);
            }
        }
        stream.truncate(tail);
        ring.read(&mut stream, usize::MAX).unwrap();
        let written = random.usize(tail..=stream.len());
        let capture = place.0.path().join("a.jportal");
        let mut writer = jportal_capture::CaptureWriter::create(&capture).unwrap();
        writer.header(&jportal_capture::Header::default()).unwrap();
        writer.metadata(&stream[..written]).unwrap();
        drop(writer);
        std::fs::copy(ring.path().unwrap(), ring_file::path_of(&capture)).unwrap();
        let bytes = (stream.len() - written) as u64;
        let recovered = ring_file::recover(&capture).unwrap();
        assert_eq!(recovered, ring_file::Recovery::Done { bytes, crashed: false }, "seed {seed}");
        let reader = jportal_capture::CaptureReader::open(&capture).unwrap();
        assert!(reader.metadata().all(|r| r.is_ok()), "seed {seed}");
        assert_eq!(reader.metadata().count() as u64, ring.records(), "seed {seed}");
    }
}

/// Round and round, with a consumer that is always a little late.
#[test]
fn a_ring_is_used_again_from_its_start() {
    let place = RingFolder::new();
    let ring = Ring::create(place.0.path(), SIZE, 4 * SIZE).unwrap();
    let mut random = Rng::with_seed(9);
    let (mut stream, mut written) = (Vec::new(), 0u64);
    for n in 0..5000u64 {
        let body = body(1, n, random.usize(..2000));
        assert!(ring.write(1, &body), "{:?}", ring.overrun());
        written += 16 + body.len() as u64;
        while ring.left() as u64 > 2 * SIZE {
            let n = ring.read(&mut stream, random.usize(1..=50_000)).unwrap();
            ring.free(n);
        }
    }
    assert!(written > 15 * 4 * SIZE);
    ring.close();
    stream.extend(consume(&ring, 4));
    let frames = frames(&stream);
    assert_eq!(frames.len(), 5000);
    for (n, (_, _, found)) in frames.iter().enumerate() {
        assert_eq!(*found, body(1, n as u64, found.len() - 8));
    }
}

/// The limit ends the recording, and everything committed by then can be read.
#[test]
fn the_ring_closes_when_it_is_full() {
    let place = RingFolder::new();
    let ring = place.ring(SIZE);
    let mut records = 0;
    while ring.write(1, &body(1, records, 100_000)) {
        assert_eq!(ring.overrun(), None);
        records += 1;
    }
    assert_eq!(ring.overrun(), Some(Overrun::Full));
    let bytes = records * 100_024;
    assert!(bytes > CAPACITY - 100_024 && bytes <= CAPACITY + SIZE, "{bytes} bytes were taken");
    assert!(!ring.is_open() && !ring.write(2, b"late"));
    assert_eq!(frames(&consume(&ring, 2)).len() as u64, records);
}

#[test]
fn producers_are_let_go_when_the_recording_ends() {
    for end in [Ring::close_now as fn(&Ring), Ring::mark_crashed] {
        let place = RingFolder::new();
        let ring = place.ring(SIZE);
        std::thread::scope(|scope| {
            let producers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| while ring.write(1, &[0; 500]) {})).collect();
            wait_until(|| ring.records() > 100);
            end(&ring);
            wait_until(|| producers.iter().all(|p| p.is_finished()));
            producers.into_iter().for_each(|p| p.join().unwrap());
        });
        assert!(!ring.is_open() && ring.overrun().is_none());
    }
}

#[test]
fn the_file_has_the_documented_layout() {
    let place = RingFolder::new();
    let ring = place.ring(SIZE);
    assert!(ring.write(9, b"body"));
    let path = ring.path().unwrap();
    let file = std::fs::read(path).unwrap();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    assert_eq!(file.len() as u64, ring_file::BYTES as u64 + SIZE + CAPACITY);
    assert_eq!(file[..8], ring_file::MAGIC);
    assert_eq!(word(8) as u32, ring_file::VERSION);
    assert_eq!(word(ring_file::STATE) as u32, states::OPEN);
    assert_eq!(word(ring_file::PID) as u32, std::process::id());
    assert_eq!((word(ring_file::SIZE), word(ring_file::OVERFLOW_SIZE)), (SIZE, CAPACITY));
    assert_eq!((word(ring_file::TAIL), word(ring_file::OVERFLOW_FROM)), (0, ring_file::NOWHERE));
    assert_eq!((word(ring_file::HEAD), word(ring_file::BOUNDARY)), (20, 20));
    assert_eq!(file[4096..4102], [20, 0, 0, 0, 9, 0]);
    assert_eq!(file[4112..4116], *b"body");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    ring.mark_crashed();
    let file = std::fs::read(path).unwrap();
    assert_eq!(u32::from_le_bytes(file[12..16].try_into().unwrap()), states::CRASHED);
}

/// Killed VMs leave files. Their captures may need them, but the memory has a limit.
#[test]
fn of_the_rings_of_dead_vms_the_newest_are_kept() {
    let place = RingFolder::new();
    let living = place.ring(SIZE);
    let dead: Vec<PathBuf> = (0..20).map(|_| place.ring(SIZE).path().unwrap().to_owned()).collect();
    for (n, path) in dead.iter().enumerate() {
        let file = std::fs::File::open(path);
        if let Ok(file) = file {
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(n as u64)).unwrap();
        }
    }
    std::fs::write(place.0.path().join("ring-of-another-kind"), "no ring").unwrap();
    let last = place.ring(SIZE);
    let left: Vec<&PathBuf> = dead.iter().filter(|path| path.exists()).collect();
    assert_eq!(left, dead[12..].iter().collect::<Vec<_>>());
    for path in [living.path().unwrap(), last.path().unwrap(), &place.0.path().join("ring-of-another-kind")] {
        assert!(path.exists(), "{}", path.display());
    }
}

#[test]
fn a_ring_without_a_place_is_refused() {
    let e = Ring::create(std::path::Path::new("/nowhere"), 4096, CAPACITY).unwrap_err();
    assert!(matches!(e, Error::Ring { allocated: 4096, bytes, .. } if bytes > CAPACITY), "{e}");
    assert!(e.to_string().contains("/nowhere/ring-"));
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}
