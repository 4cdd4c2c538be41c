// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::record::RecordReader;
use memmap2::MmapRaw;
use proptest::prelude::*;
use std::sync::atomic::AtomicBool;

fn memory(data: usize, aux: usize) -> CoreMemory {
    let all = Block::new(MmapRaw::from(memmap2::MmapMut::map_anon(PAGE_SIZE + data + aux).unwrap()));
    let core = CoreMemory::new(
        all.part(0, PAGE_SIZE).unwrap(),
        all.part(PAGE_SIZE, data).unwrap(),
        all.part(PAGE_SIZE + data, aux).unwrap(),
    )
    .unwrap();
    core.initialize();
    core
}

#[test]
fn a_piece_outside_of_its_block_does_not_exist() {
    let all = Block::new(MmapRaw::from(memmap2::MmapMut::map_anon(4096).unwrap()));
    assert!(all.part(4096, 0).is_some());
    assert!(all.part(4096, 1).is_none());
    assert!(all.part(usize::MAX, 2).is_none());
}

#[test]
fn sizes_must_be_powers_of_two() {
    let all = Block::new(MmapRaw::from(memmap2::MmapMut::map_anon(4 * 4096).unwrap()));
    let part = |at, len| all.part(at, len).unwrap();
    assert!(CoreMemory::new(part(0, 4096), part(4096, 4096), part(8192, 4096)).is_ok());
    assert!(CoreMemory::new(part(0, 4096), part(4096, 2048), part(8192, 4096)).is_err());
    assert!(CoreMemory::new(part(0, 4096), part(4096, 4096), part(4096, 12288)).is_err());
}

#[test]
fn the_control_page_tells_the_kernels_offsets() {
    let core = memory(8192, 16384);
    let at = |o| core.page.u64_at(o).load(Relaxed);
    assert_eq!((at(1040), at(1048), at(1072), at(1080)), (4096, 8192, 12288, 16384));
}

#[test]
fn a_full_data_ring_counts_and_tells_its_losses() {
    let core = memory(4096, 4096);
    let (mut producer, mut consumer) = (core.producer(1, 0), core.consumer());
    let switch = Body::Switch { out: true, preempted: false };
    let mut written = 0;
    while producer.record_or_count(switch.clone(), 9, written) {
        written += 1;
    }
    assert_eq!(written, 4096 / 40);
    assert!(!producer.record_or_count(switch.clone(), 9, 0));
    assert_eq!(producer.switch_out(9, 0, false), Err(RingFull));
    let mut bytes = Vec::new();
    consumer.data.drain(&mut bytes, usize::MAX).unwrap();
    assert_eq!(RecordReader::new(&bytes).count() as u64, written);
    assert!(producer.record_or_count(switch.clone(), 9, 7));
    bytes.clear();
    consumer.data.drain(&mut bytes, usize::MAX).unwrap();
    let bodies: Vec<_> = RecordReader::new(&bytes).map(|r| r.unwrap().body).collect();
    assert_eq!(bodies, [Body::Lost { id: 1, lost: 2 }, switch]);
}

#[test]
fn a_full_aux_ring_takes_all_or_nothing() {
    let core = memory(4096, 4096);
    let (mut producer, mut consumer) = (core.producer(1, 0), core.consumer());
    assert_eq!(producer.aux.write(&[1; 4096]), Err(RingFull), "one byte stays free");
    assert_eq!(producer.aux.position(), 0);
    producer.aux.write(&[1; 4095]).unwrap();
    assert_eq!(producer.aux.write(&[2]), Err(RingFull));
    producer.end_aux(5, 1, aux_flags::TRUNCATED).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(consumer.aux.drain(&mut bytes, 100).unwrap(), 100);
    assert_eq!(producer.aux.room(), 100);
    assert_eq!(consumer.aux.position(), 100);
    assert_eq!(consumer.aux.discard().unwrap(), 3995);
}

#[test]
fn the_watermark_is_a_quarter() {
    let mut producer = memory(4096, 4096).producer(1, 0);
    producer.aux.write(&[0; 1023]).unwrap();
    assert!(!producer.at_watermark());
    producer.aux.write(&[0]).unwrap();
    assert!(producer.at_watermark());
    producer.end_aux(1, 1, 0).unwrap();
    assert!(!producer.at_watermark());
}

#[test]
fn an_aux_record_waits_for_room_and_an_empty_one_is_not_written() {
    let core = memory(4096, 4096);
    let mut producer = core.producer(1, 0);
    producer.end_aux(1, 1, 0).unwrap();
    assert_eq!(producer.data.room(), 4096, "nothing happened, nothing is told");
    while producer.switch_in(1, 1).is_ok() {}
    producer.aux.write(b"abc").unwrap();
    assert_eq!(producer.end_aux(1, 1, 0), Err(RingFull));
    assert_eq!(producer.aux.pending(), 3);
    let mut consumer = core.consumer();
    assert_eq!(consumer.aux.available().unwrap(), 0);
    consumer.data.discard().unwrap();
    producer.end_aux(1, 1, 0).unwrap();
    assert_eq!(consumer.aux.available().unwrap(), 3);
}

#[test]
fn impossible_positions_are_errors_not_accesses() {
    let core = memory(4096, 4096);
    let mut consumer = core.consumer();
    core.page.u64_at(AUX_HEAD).store(4097, Release);
    core.page.u64_at(DATA_HEAD).store(u64::MAX, Release);
    let mut bytes = Vec::new();
    assert!(matches!(
        consumer.aux.drain(&mut bytes, usize::MAX),
        Err(Error::CorruptRing { ring: "AUX", head: 4097, .. })
    ));
    assert!(matches!(consumer.data.available(), Err(Error::CorruptRing { ring: "data", .. })));
    assert!(bytes.is_empty());
    core.page.u64_at(AUX_TAIL).store(5, Release);
    let producer = memory(4096, 4096).producer(0, 0);
    producer.aux.ring.page.u64_at(AUX_TAIL).store(5, Release);
    assert_eq!(producer.aux.room(), 0, "a tail ahead of the head gives no room");
}

/// Positions wrap at 2^64, as the kernel's do in theory. Both halves must agree.
#[test]
fn positions_may_wrap_around() {
    let core = memory(4096, 4096);
    for word in [DATA_HEAD, DATA_TAIL, AUX_HEAD, AUX_TAIL] {
        core.page.u64_at(word).store(u64::MAX - 7, Release);
    }
    let (mut producer, mut consumer) = (core.producer(1, 0), core.consumer());
    producer.aux.write(b"0123456789").unwrap();
    producer.end_aux(3, 4, 0).unwrap();
    let (mut aux, mut data) = (Vec::new(), Vec::new());
    consumer.aux.drain(&mut aux, usize::MAX).unwrap();
    consumer.data.drain(&mut data, usize::MAX).unwrap();
    assert_eq!(aux, b"0123456789");
    let record = RecordReader::new(&data).next().unwrap().unwrap();
    assert_eq!(record.body, Body::Aux { offset: u64::MAX - 7, size: 10, flags: 0 });
}

#[test]
fn a_core_without_an_aux_ring_has_records_alone() {
    let all = Block::anonymous(2 * PAGE_SIZE).unwrap();
    let core =
        CoreMemory::without_aux(all.part(0, PAGE_SIZE).unwrap(), all.part(PAGE_SIZE, PAGE_SIZE).unwrap())
            .unwrap();
    let (mut producer, mut consumer) = (core.producer(1, 0), core.consumer());
    assert_eq!(producer.aux.write(&[1]), Err(RingFull));
    producer.switch_in(5, 6).unwrap();
    let mut bytes = Vec::new();
    assert_eq!((consumer.aux.available().unwrap(), consumer.aux.size()), (0, 0));
    assert_eq!(consumer.aux.drain(&mut bytes, usize::MAX).unwrap(), 0);
    assert_eq!(consumer.data.drain(&mut bytes, usize::MAX).unwrap(), 40);
}

#[test]
fn perfs_time_is_taken_only_when_the_kernel_vouches_for_it() {
    let page = Block::anonymous(PAGE_SIZE).unwrap();
    assert_eq!(PerfTime::read(&page), None);
    let time = PerfTime { shift: 31, mult: 0x2fa0_0000, zero: 77 };
    time.write(&page);
    assert_eq!(PerfTime::read(&page), Some(time));
    page.u32_at(LOCK).store(1, Release);
    assert_eq!(PerfTime::read(&page), None, "a writer that never ends");
    page.u32_at(LOCK).store(2, Release);
    page.u64_at(CAPABILITIES).store(1 << 3, Release);
    assert_eq!(PerfTime::read(&page), None, "user_time alone is not enough");
}

fn value_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Two threads, small rings, random sizes: every byte arrives once and in order, each AUX
/// record is there before its bytes, and their union is the stream.
fn stream_through(sizes: &[u16], reads: &[u16]) {
    let core = memory(4096, 4096);
    let (mut producer, mut consumer) = (core.producer(1, 0), core.consumer());
    let total: u64 = sizes.iter().map(|s| u64::from(s % 3000)).sum();
    let finished = AtomicBool::new(false);
    let (mut aux, mut data) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (i, size) in sizes.iter().enumerate() {
                let at = producer.aux.position();
                let bytes: Vec<u8> = (at..at + u64::from(size % 3000)).map(value_at).collect();
                while producer.aux.write(&bytes).is_err() {
                    std::thread::yield_now();
                }
                while producer.end_aux(i as u32, at, 0).is_err() {
                    std::thread::yield_now();
                }
            }
            finished.store(true, Release);
        });
        for turn in 0.. {
            let last = finished.load(Acquire);
            let limit = usize::from(reads[turn % reads.len()]) % 2000 + 1;
            let ready = consumer.aux.available().unwrap() as usize;
            consumer.data.drain(&mut data, usize::MAX).unwrap();
            consumer.aux.drain(&mut aux, ready.min(limit)).unwrap();
            if last && consumer.aux.available().unwrap() == 0 {
                break;
            }
        }
        consumer.data.drain(&mut data, usize::MAX).unwrap();
    });
    assert_eq!(aux.len() as u64, total);
    assert!(aux.iter().zip(0..).all(|(b, at)| *b == value_at(at)));
    let mut end = 0;
    for record in RecordReader::new(&data) {
        let Body::Aux { offset, size, .. } = record.unwrap().body else {
            panic!("only AUX records were written")
        };
        assert_eq!(offset, end);
        end += size;
    }
    assert_eq!(end, total);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_stream_passes_unchanged(
        sizes in prop::collection::vec(any::<u16>(), 1..60),
        reads in prop::collection::vec(any::<u16>(), 1..10),
    ) {
        stream_through(&sizes, &reads);
    }
}
