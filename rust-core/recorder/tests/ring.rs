// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The export ring with many producers, a slow consumer, records longer than the ring, and an
//! end while producers write.

use fastrand::Rng;
use jportal_capture::ring_file::{self, states};
use jportal_recorder::{Error, OVERFLOW_LIMIT, Ring};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

const SIZE: u64 = 64 << 10;

struct RingFolder(tempfile::TempDir);
impl RingFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn capture(&self) -> PathBuf {
        self.0.path().join("a.jportal")
    }
    fn ring(&self, size: u64) -> Ring {
        Ring::create(&self.capture(), size).unwrap()
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
        let n = ring.read(&mut stream, random.usize(1..=40_000));
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
fn records_beyond_the_rings_size_pass_in_pieces() {
    many_producers(4096, 4, 60, 100_000, 2);
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
        many_producers(4096, producers, each, longest, seed);
    }
}

/// A consumer that has stopped for ever, with producers that hold locks of the VM.
#[test]
fn a_full_ring_holds_nobody() {
    let place = RingFolder::new();
    let ring = place.ring(4096);
    let mut longest = Duration::ZERO;
    for n in 0..3000u64 {
        let start = Instant::now();
        assert!(ring.write(1, &body(1, n, 2000)));
        longest = longest.max(start.elapsed());
    }
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert_eq!((ring.waits(), ring.left()), (1, 3000 * 2024));
    // What is in memory follows what is in the ring. Read is not written: it stays in the ring.
    let (mut stream, mut twice) = (Vec::new(), Vec::new());
    let n = ring.read(&mut stream, usize::MAX);
    assert_eq!((n, ring.read(&mut twice, usize::MAX)), (4048, 4048));
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

/// The limit of memory ends the recording, and everything committed by then can be read.
#[test]
fn memory_has_a_limit_and_then_the_ring_closes() {
    let place = RingFolder::new();
    let ring = place.ring(SIZE);
    let mut records = 0;
    while ring.write(1, &body(1, records, 100_000)) {
        assert!(!ring.is_overrun());
        records += 1;
    }
    assert!(ring.is_overrun() && !ring.is_open());
    let bytes = records * 100_024;
    // None of them fits into the ring.
    let limit = OVERFLOW_LIMIT as u64 - 100_024..=OVERFLOW_LIMIT as u64;
    assert!(limit.contains(&bytes), "{bytes} bytes were taken");
    assert!(!ring.write(2, b"late"));
    assert_eq!(frames(&consume(&ring, 2)).len() as u64, records);
}

#[test]
fn producers_are_let_go_when_the_recording_ends() {
    for end in [Ring::close_now as fn(&Ring), Ring::mark_crashed] {
        let place = RingFolder::new();
        let ring = place.ring(4096);
        std::thread::scope(|scope| {
            let producers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| while ring.write(1, &[0; 500]) {})).collect();
            wait_until(|| ring.waits() > 0);
            end(&ring);
            wait_until(|| producers.iter().all(|p| p.is_finished()));
            producers.into_iter().for_each(|p| p.join().unwrap());
        });
        assert!(!ring.is_open() && !ring.is_overrun());
    }
}

#[test]
fn the_file_has_the_documented_layout() {
    let place = RingFolder::new();
    let ring = place.ring(4096);
    assert!(ring.write(9, b"body"));
    let file = std::fs::read(ring_file::path_of(&place.capture())).unwrap();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    assert_eq!(file.len(), ring_file::BYTES + 4096);
    assert_eq!(file[..8], ring_file::MAGIC);
    assert_eq!(word(8) as u32, ring_file::VERSION);
    assert_eq!(word(ring_file::STATE) as u32, states::OPEN);
    assert_eq!(word(ring_file::PID) as u32, std::process::id());
    assert_eq!((word(ring_file::SIZE), word(ring_file::TAIL)), (4096, 0));
    assert_eq!((word(ring_file::HEAD), word(ring_file::BOUNDARY)), (20, 20));
    assert_eq!(word(ring_file::MEMORY), 0);
    assert_eq!(word(ring_file::BOUNDARY_TSC).to_le_bytes(), file[4104..4112]);
    assert_eq!(file[4096..4102], [20, 0, 0, 0, 9, 0]);
    assert_eq!(file[4112..4116], *b"body");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(place.0.path().join("a.jportal.ring")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    ring.mark_crashed();
    let file = std::fs::read(ring_file::path_of(&place.capture())).unwrap();
    assert_eq!(u32::from_le_bytes(file[12..16].try_into().unwrap()), states::CRASHED);
}

#[test]
fn a_ring_that_lives_is_not_replaced_and_one_that_is_dead_is() {
    let place = RingFolder::new();
    let first = place.ring(4096);
    assert!(matches!(Ring::create(&place.capture(), 4096), Err(Error::InUse { .. })));
    assert!(first.write(1, b"still works"));
    drop(first);
    place.ring(8192);
}

#[test]
fn a_ring_without_a_place_is_refused() {
    let e = Ring::create(&PathBuf::from("/nowhere/a.jportal"), 4096).unwrap_err();
    assert!(matches!(e, Error::Ring { bytes: 8192, .. }), "{e}");
    assert!(e.to_string().contains("/nowhere/a.jportal.ring"));
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}
