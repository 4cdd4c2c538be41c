// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::record::{Body, RecordReader, aux_flags};

fn small() -> UnitConfig {
    UnitConfig { cores: 2, data_bytes: 4096, aux_bytes: 8192, tsc_khz: 2_500_000, ..UnitConfig::default() }
}

#[test]
fn both_sides_see_the_same_unit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("unit");
    let config = UnitConfig {
        mode: Mode::Drop,
        packets: PacketConfig {
            ret_compression: true,
            mtc_period: Some(3),
            cyc_threshold: None,
            psb_period: 1,
            return_pop: ReturnPop::CompressedOnly,
        },
        tsc_ctc: (176, 2),
        ..small()
    };
    let unit = EmulatedUnit::create(&path, config).unwrap();
    let vm = EmulatedUnit::open(&path).unwrap();
    assert_eq!(*vm.config(), config);

    assert_eq!(unit.command(), Command { generation: 0, enabled: false, low: 0, high: 0, overwrite: false });
    assert_eq!(vm.enable(0x1000, 0x2000), 1);
    assert_eq!(
        unit.command(),
        Command { generation: 1, enabled: true, low: 0x1000, high: 0x2000, overwrite: false }
    );

    vm.set_overwrite(true);
    vm.disable();
    assert_eq!(vm.enable(0x1000, 0x2000), 3);
    assert!(unit.command().overwrite && unit.command().enabled);

    let mut producer = unit.producer(1, 77).unwrap();
    producer.switch_in(78, 10).unwrap();
    producer.aux.write(b"trace").unwrap();
    let mut consumer = vm.consumer(1).unwrap();
    assert_eq!(consumer.aux.available().unwrap(), 0, "nothing is visible before the AUX record");
    producer.end_aux(78, 20, aux_flags::TRUNCATED).unwrap();
    producer.switch_out(78, 21, true).unwrap();

    let (mut trace, mut records) = (Vec::new(), Vec::new());
    consumer.aux.drain(&mut trace, usize::MAX).unwrap();
    consumer.data.drain(&mut records, usize::MAX).unwrap();
    assert_eq!(trace, b"trace");
    let records: Vec<_> = RecordReader::new(&records).map(Result::unwrap).collect();
    let bodies: Vec<_> = records.iter().map(|r| r.body.clone()).collect();
    assert_eq!(
        bodies,
        [
            Body::Switch { out: false, preempted: false },
            Body::Aux { offset: 0, size: 5, flags: aux_flags::TRUNCATED },
            Body::Switch { out: true, preempted: true },
        ]
    );
    assert!(records.iter().all(|r| (r.sample.pid, r.sample.tid, r.sample.cpu) == (77, 78, 1)));
    assert_eq!(records.iter().map(|r| r.sample.time).collect::<Vec<_>>(), [10, 20, 21]);

    unit.set_detail("seed 7");
    assert_eq!((vm.detail(), vm.owner()), ("seed 7".into(), std::process::id()));
    unit.set_counter(Counter::Blocks, 9);
    assert_eq!(vm.counter(Counter::Blocks), 9);
    assert!(!unit.is_finished());
    vm.finish();
    assert!(unit.is_finished());
}

#[test]
fn a_disable_is_acknowledged_or_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("unit");
    let unit = EmulatedUnit::create(&path, small()).unwrap();
    let vm = EmulatedUnit::open(&path).unwrap();
    vm.enable(1, 2);
    let generation = vm.disable();
    assert!(!vm.wait_for(generation, Duration::from_millis(5), || {}), "nobody has answered");
    let mut calls = 0;
    assert!(vm.wait_for(generation, Duration::from_secs(10), || {
        calls += 1;
        unit.acknowledge(unit.generation());
    }));
    assert_eq!(calls, 2, "work goes on once after the acknowledgement");
}

/// Found by fuzzing: the file of a unit may hold anything.
#[test]
fn the_last_generation_is_followed_by_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let unit = EmulatedUnit::create(&dir.path().join("unit"), small()).unwrap();
    unit.header().generation.store(u64::MAX - 1, Relaxed);
    assert_eq!((unit.enable(1, 2), unit.disable()), (u64::MAX, 0));
}

#[test]
fn the_first_failure_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("unit");
    let unit = EmulatedUnit::create(&path, small()).unwrap();
    let vm = EmulatedUnit::open(&path).unwrap();
    assert_eq!(vm.failure(), None);
    let long = "queue limit reached ".repeat(100);
    unit.fail(&long);
    unit.fail("later");
    assert_eq!(vm.failure().unwrap(), long[..TEXT_BYTES]);
    assert!(!vm.wait_for(1, Duration::from_secs(60), || {}));
}

#[test]
fn foreign_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("unit");
    assert!(matches!(EmulatedUnit::open(&path), Err(Error::Io { action: "open", .. })));
    std::fs::write(&path, b"short").unwrap();
    assert!(matches!(EmulatedUnit::open(&path), Err(Error::Configuration { field: "file length", .. })));
    std::fs::write(&path, vec![7; 8192]).unwrap();
    assert!(matches!(EmulatedUnit::open(&path), Err(Error::Magic { .. })));

    EmulatedUnit::create(&path, small()).unwrap();
    let good = std::fs::read(&path).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&path, bad).unwrap();
        EmulatedUnit::open(&path).map(|_| ())
    };
    assert!(with(0, &good[..8]).is_ok());
    assert!(matches!(with(8, &[9]), Err(Error::Version { found: 9, .. })));
    assert!(matches!(with(12, &[3, 0, 0, 0]), Err(Error::Configuration { field: "file length", .. })));
    assert!(matches!(with(12, &[0, 0, 0, 0]), Err(Error::Configuration { field: "cores", .. })));
    assert!(matches!(with(16, &[1]), Err(Error::Configuration { field: "data ring bytes", .. })));
    assert!(matches!(with(24, &[0xff; 8]), Err(Error::Configuration { field: "AUX ring bytes", .. })));
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert!(matches!(EmulatedUnit::open(&path), Err(Error::Configuration { field: "file length", .. })));
}

#[test]
fn impossible_configurations_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("unit");
    let refused = |c: UnitConfig| {
        matches!(EmulatedUnit::create(&path, c), Err(Error::Configuration { .. })) && !path.exists()
    };
    assert!(refused(UnitConfig { cores: 0, ..small() }));
    assert!(refused(UnitConfig { cores: MAX_CORES + 1, ..small() }));
    assert!(refused(UnitConfig { aux_bytes: 5000, ..small() }));
    assert!(refused(UnitConfig { data_bytes: 2048, ..small() }));
    let unit = EmulatedUnit::create(&path, small()).unwrap();
    assert!(matches!(unit.core(2), Err(Error::NoSuchCore { core: 2, cores: 2 })));
}
