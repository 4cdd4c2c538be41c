// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use proptest::prelude::*;

fn sample() -> SampleId {
    SampleId { pid: 1, tid: 2, time: 0x0102_0304_0506_0708, cpu: 3, id: 4 }
}

/// Bytes as `perf report -D` shows them for an AUX record of this sample type.
#[test]
fn an_aux_record_has_the_kernels_bytes() {
    let aux = Body::Aux { offset: 0x1000, size: 0x20, flags: aux_flags::TRUNCATED };
    let expected: Vec<u8> = [
        &[11, 0, 0, 0, 2, 0, 64, 0][..],
        &[0, 0x10, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 2, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(Record { body: aux, sample: sample() }.to_bytes(), expected);
}

#[test]
fn a_switch_is_forty_bytes_with_its_direction_in_misc() {
    let bytes =
        |out, preempted| Record { body: Body::Switch { out, preempted }, sample: sample() }.to_bytes();
    assert_eq!(bytes(false, false)[..8], [14, 0, 0, 0, 0, 0, 40, 0]);
    assert_eq!(bytes(true, false)[..8], [14, 0, 0, 0, 0, 0x20, 40, 0]);
    assert_eq!(bytes(true, true)[..8], [14, 0, 0, 0, 0, 0x60, 40, 0]);
    assert_eq!(bytes(true, true).len(), 40);
}

#[test]
fn an_overlong_name_is_cut_to_a_valid_record() {
    let body = Body::Comm { pid: 1, tid: 2, exec: false, name: vec![b'x'; 100_000] };
    let bytes = Record { body, sample: sample() }.to_bytes();
    let back: Vec<_> = RecordReader::new(&bytes).collect::<Result<_, _>>().unwrap();
    assert_eq!(back.len(), 1);
    assert_eq!(back[0].sample, sample());
    assert!(matches!(&back[0].body, Body::Comm { name, .. } if name.len() > 65_000));
}

#[test]
fn a_record_too_short_for_its_type_is_skipped_and_reported() {
    let mut bytes =
        Record { body: Body::Switch { out: true, preempted: false }, sample: sample() }.to_bytes();
    bytes[0] = 11; // an AUX record without offset, size, flags
    let second = Record { body: Body::ItraceStart { pid: 5, tid: 6 }, sample: sample() };
    second.encode(&mut bytes);
    let mut reader = RecordReader::new(&bytes);
    assert!(matches!(reader.next(), Some(Err(Error::RecordBody { at: 0, kind: 11, size: 40 }))));
    assert_eq!(reader.next().unwrap().unwrap(), second);
    assert!(reader.next().is_none());
}

#[test]
fn an_impossible_size_ends_the_reading() {
    let good = Record { body: Body::ItraceStart { pid: 5, tid: 6 }, sample: sample() }.to_bytes();
    for size in [0u16, 7, 41, 0xfff8] {
        let mut bytes = [good.clone(), good.clone()].concat();
        let second = good.len();
        bytes[second + 6..second + 8].copy_from_slice(&size.to_le_bytes());
        let mut reader = RecordReader::new(&bytes);
        assert!(reader.next().unwrap().is_ok());
        assert!(matches!(reader.next(), Some(Err(Error::RecordSize { .. }))), "size {size}");
        assert!(reader.next().is_none());
        assert_eq!(reader.position(), second);
    }
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1u8.., 0..40)
}
fn task() -> impl Strategy<Value = Task> {
    any::<(u32, u32, u32, u32, u64)>().prop_map(|(pid, parent_pid, tid, parent_tid, time)| Task {
        pid,
        parent_pid,
        tid,
        parent_tid,
        time,
    })
}
fn mapping() -> impl Strategy<Value = Mapping> {
    (any::<(u32, u32, u64, u64, u64)>(), any::<([u8; 24], u32, u32, u16)>(), name()).prop_map(
        |((pid, tid, address, len, file_offset), (identity, protection, flags, misc), name)| Mapping {
            pid,
            tid,
            address,
            len,
            file_offset,
            identity,
            protection,
            flags,
            misc,
            name,
        },
    )
}
fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(id, lost)| Body::Lost { id, lost }),
        (any::<(u32, u32, bool)>(), name()).prop_map(|((pid, tid, exec), name)| Body::Comm {
            pid,
            tid,
            exec,
            name
        }),
        task().prop_map(Body::Exit),
        task().prop_map(Body::Fork),
        mapping().prop_map(Body::Mmap2),
        any::<(u64, u64, u64)>().prop_map(|(offset, size, flags)| Body::Aux { offset, size, flags }),
        any::<(u32, u32)>().prop_map(|(pid, tid)| Body::ItraceStart { pid, tid }),
        any::<(bool, bool)>().prop_map(|(out, preempted)| Body::Switch { out, preempted }),
        any::<(bool, bool, u32, u32)>().prop_map(|(out, preempted, pid, tid)| Body::SwitchCpuWide {
            out,
            preempted,
            pid,
            tid
        }),
        (any::<(u64, u64)>(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|((offset, address), bytes)| Body::StaleBlock { offset, address, bytes }),
        (100u32.., any::<u16>(), prop::collection::vec(any::<[u8; 8]>(), 0..9))
            .prop_map(|(kind, misc, words)| Body::Unknown { kind, misc, bytes: words.concat() }),
    ]
}
prop_compose! {
    fn record()(body in body(), (pid, tid, time, cpu, id) in any::<(u32, u32, u64, u32, u64)>()) -> Record {
        Record { body, sample: SampleId { pid, tid, time, cpu, id } }
    }
}

proptest! {
    #[test]
    fn records_survive_the_round_trip(records in prop::collection::vec(record(), 0..20)) {
        let mut bytes = Vec::new();
        records.iter().for_each(|r| r.encode(&mut bytes));
        let back: Vec<Record> = RecordReader::new(&bytes).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(back, records);
    }

    #[test]
    fn garbage_is_read_to_its_end_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let n = RecordReader::new(&bytes).count();
        prop_assert!(n <= bytes.len() / 8 + 1);
    }

    #[test]
    fn damaged_records_do_not_panic(
        records in prop::collection::vec(record(), 1..8),
        damage in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6),
    ) {
        let mut bytes = Vec::new();
        records.iter().for_each(|r| r.encode(&mut bytes));
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let mut reader = RecordReader::new(&bytes);
        while reader.next().is_some() {}
        prop_assert!(reader.position() <= bytes.len());
    }
}

#[test]
fn times_are_replaced_wherever_a_record_has_one() {
    let sample = SampleId { pid: 1, tid: 2, time: 100, cpu: 3, id: 4 };
    let task = Task { pid: 1, parent_pid: 1, tid: 5, parent_tid: 2, time: 90 };
    let bodies = [
        Body::Fork(task),
        Body::Switch { out: true, preempted: true },
        Body::Comm { pid: 1, tid: 2, exec: false, name: b"java".to_vec() },
        Body::Exit(task),
        Body::Lost { id: 4, lost: 100 },
    ];
    let mut bytes: Vec<u8> =
        bodies.iter().flat_map(|b| Record { body: b.clone(), sample }.to_bytes()).collect();
    let behind = bytes.len();
    bytes.extend_from_slice(&[0; 16]); // a record of size 0: nothing after it is touched
    map_times(&mut bytes, |ns| ns * 2);
    let records: Vec<_> = RecordReader::new(&bytes[..behind]).map(Result::unwrap).collect();
    let moved = Task { time: 180, ..task };
    assert_eq!(records.iter().map(|r| r.sample.time).collect::<Vec<_>>(), [200; 5]);
    assert_eq!((&records[0].body, &records[3].body), (&Body::Fork(moved), &Body::Exit(moved)));
    assert_eq!(records[4].body, bodies[4], "numbers that are no times stay");
    assert_eq!(records[2].body, bodies[2]);
    assert_eq!(bytes[behind..], [0; 16]);
}

/// Every type is described. A new variant of [`Body`] must be added here and to [`LAYOUTS`].
#[test]
fn every_type_of_record_is_described() {
    let task = Task { pid: 1, parent_pid: 1, tid: 1, parent_tid: 1, time: 1 };
    let all = [
        Body::Lost { id: 1, lost: 1 },
        Body::Comm { pid: 1, tid: 1, exec: false, name: Vec::new() },
        Body::Exit(task),
        Body::Fork(task),
        Body::Mmap2(Mapping::default()),
        Body::Aux { offset: 1, size: 1, flags: 1 },
        Body::ItraceStart { pid: 1, tid: 1 },
        Body::Switch { out: false, preempted: false },
        Body::SwitchCpuWide { out: false, preempted: false, pid: 1, tid: 1 },
        Body::StaleBlock { offset: 1, address: 1, bytes: Vec::new() },
    ];
    for body in &all {
        let name = match body {
            Body::Comm { .. } | Body::Mmap2(_) => 1,
            Body::Lost { .. }
            | Body::Exit(_)
            | Body::Fork(_)
            | Body::Aux { .. }
            | Body::ItraceStart { .. }
            | Body::Switch { .. }
            | Body::SwitchCpuWide { .. }
            | Body::StaleBlock { .. }
            | Body::Unknown { .. } => 0,
        };
        let layout = LAYOUTS.iter().find(|l| l.kind == body.kind()).expect("a layout");
        let mut bytes = Vec::new();
        body.encode(&mut bytes);
        let described: usize = layout.fields.iter().map(|f| f.1).sum();
        assert_eq!(described + name, bytes.len(), "{}", layout.name);
    }
    assert_eq!(LAYOUTS.len(), all.len());
    assert_eq!(TRAILER.iter().map(|f| f.1).sum::<usize>(), SAMPLE_ID_BYTES);
}
