// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The perf device with a fake kernel: order of calls, every refusal, loss, and the content of
//! the capture.

mod common;
#[path = "common/fake_kernel.rs"]
mod fake_kernel;

use common::{check_core, play_on};
use fake_kernel::{FakeKernel, KernelCall, RefusableCall, Rules, switch};
use jportal_capture::header::{packet_flags, sources};
use jportal_capture::schema::{ThreadExited, ThreadStarted};
use jportal_capture::{CaptureReader, LossReason, ring_file};
use jportal_perf_abi::kernel::{Kernel, Linux};
use jportal_perf_abi::record::{Body, Record, RecordReader, Task, aux_flags};
use jportal_perf_abi::refusal::Cause;
use jportal_perf_abi::ring::CoreProducer;
use jportal_pt_packet::Encoder;
use jportal_recorder::{
    Error, Level, Log, Recorder, RecordingConfig, Source, StopReason, StorageLimits, Trimming, device,
};
use jportal_units::Core;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOW: u64 = 0x7f00_0000_0000;
const HIGH: u64 = LOW + (48 << 20);
const CORES: u32 = 4;

struct Setting {
    kernel: Arc<FakeKernel>,
    folder: tempfile::TempDir,
    log: Log,
    source: Source,
    buffer: u64,
    code_cache: Option<File>,
    snapshot: u64,
    trimming: Trimming,
    limits: StorageLimits,
    attach: bool,
}

impl Setting {
    fn of(kernel: FakeKernel) -> Self {
        Self {
            kernel: Arc::new(kernel),
            folder: tempfile::tempdir().unwrap(),
            log: Log::to_memory(),
            source: Source::Perf,
            buffer: 0,
            code_cache: None,
            snapshot: 0,
            trimming: Trimming::default(),
            limits: StorageLimits::default(),
            attach: false,
        }
    }
    fn new(rules: Rules) -> Self {
        Self::of(FakeKernel::new(rules, &[]))
    }
    fn path(&self) -> PathBuf {
        self.folder.path().join("a.jportal")
    }
    fn config(&self) -> RecordingConfig {
        RecordingConfig {
            path: self.path(),
            source: self.source,
            ring_bytes: 64 << 10,
            buffer_bytes: self.buffer,
            snapshot_bytes: self.snapshot,
            trimming: self.trimming,
            limits: self.limits,
            attach: self.attach,
            log: self.log.clone(),
            ..RecordingConfig::default()
        }
    }
    fn start(&self) -> Result<Recorder, Error> {
        let config = self.config();
        let kernel: Arc<dyn Kernel> = self.kernel.clone();
        let device = device::open_on(kernel, &config, None)?;
        Recorder::start_on(config, device)
    }
    /// Records into a pipe that nobody reads.
    fn run_into_a_pipe(&self) -> (Recorder, std::io::PipeReader) {
        let config = self.config();
        let kernel: Arc<dyn Kernel> = self.kernel.clone();
        let device = device::open_on(kernel, &config, None).unwrap();
        let (pipe, end) = std::io::pipe().unwrap();
        let recorder = Recorder::start_into(config, device, File::from(OwnedFd::from(end))).unwrap();
        self.set_code_cache(&recorder).unwrap();
        common::commit_from_threads(&recorder, 1, 100_000);
        (recorder, pipe)
    }
    /// Starts and makes the code cache known.
    fn run(&self) -> Result<Recorder, Error> {
        let recorder = self.start()?;
        self.set_code_cache(&recorder)?;
        Ok(recorder)
    }
    fn set_code_cache(&self, recorder: &Recorder) -> Result<(), Error> {
        recorder.set_code_cache(LOW, HIGH, self.code_cache.as_ref().map(AsFd::as_fd))
    }
    fn reader(&self) -> CaptureReader {
        CaptureReader::open(&self.path()).unwrap()
    }
    fn says(&self, level: Level, words: &str) -> bool {
        self.log.lines().iter().any(|(l, text)| *l == level && text.contains(words))
    }
}

fn records(reader: &CaptureReader, core: u32) -> Vec<Record> {
    let pieces = reader.sideband_bytes(Core(core)).map(Result::unwrap);
    pieces.flat_map(|p| RecordReader::new(&p).map(Result::unwrap).collect::<Vec<_>>()).collect()
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_steps_come_in_the_kernels_order() {
    let setting = Setting::new(Rules::default());
    let recorder = setting.start().unwrap();
    let opening = setting.kernel.calls();
    // What kernel and processor accept is tried first, and closed again.
    let tried = [
        KernelCall::Probe,
        KernelCall::Close,
        KernelCall::OpenPt(0),
        KernelCall::OpenSideband(0),
        KernelCall::Close,
        KernelCall::Close,
    ];
    let each = |core| {
        [
            KernelCall::OpenPt(core),
            KernelCall::MapData(core),
            KernelCall::MapAux(core),
            KernelCall::OpenSideband(core),
            KernelCall::SetOutput(core),
        ]
    };
    let expected: Vec<KernelCall> = tried.into_iter().chain((0..CORES).flat_map(each)).collect();
    assert_eq!(opening, expected);

    setting.kernel.forget_calls();
    setting.set_code_cache(&recorder).unwrap();
    let calls = setting.kernel.calls();
    let filter = |core| KernelCall::SetFilter(core, "filter 0x7f0000000000/0x3000000".into());
    let enable = |core| [KernelCall::Enable(core, false), KernelCall::Enable(core, true)];
    let expected: Vec<KernelCall> = (0..CORES).map(filter).chain((0..CORES).flat_map(enable)).collect();
    assert_eq!(calls[..expected.len()], expected);

    recorder.stop(StopReason::Exit);
    assert_eq!(setting.kernel.open_events(), 0);
    let calls = setting.kernel.calls();
    let last = calls.iter().rposition(|c| matches!(c, KernelCall::Disable(3, false))).unwrap();
    assert!(
        calls[last + 1..].iter().all(|c| *c == KernelCall::Close),
        "nothing is enabled behind the stop: {calls:?}"
    );
    let pt = calls.iter().rposition(|c| matches!(c, KernelCall::Disable(3, true))).unwrap();
    assert!(pt < last, "PT ends before the sideband that names its threads");
}

#[test]
fn streams_pass_through_rings_that_wrap_around_many_times() {
    let setting = Setting { buffer: 64 << 10, ..Setting::new(Rules::default()) };
    let recorder = setting.run().unwrap();
    let players: Vec<_> = (0..CORES)
        .map(|core| {
            let producer = setting.kernel.producer(core);
            std::thread::spawn(move || play_on(producer, core, 3_000_000, true))
        })
        .collect();
    for player in players {
        player.join().unwrap();
    }
    recorder.stop(StopReason::Exit);
    assert_eq!(recorder.failure(), None);
    let reader = setting.reader();
    for core in 0..CORES {
        let (bytes, truncated) = check_core(&reader, core);
        assert!(bytes >= 3_000_000 && truncated == 0);
    }
    assert!(reader.losses().is_empty());
    let counters = reader.completeness().end.clone().unwrap().counters;
    let counter = |name: &str| counters.iter().find(|c| c.name.text() == name).unwrap().value;
    assert_eq!((counter("unit.cores_opened"), counter("unit.cores_possible")), (4, 4));
    assert!(counter("unit.rearmed") > 0);
}

#[test]
fn the_header_holds_what_a_decoder_needs() {
    let setting = Setting::new(Rules::default());
    let recorder = setting.run().unwrap();
    let mut producer = setting.kernel.producer(2);
    let task = Task { pid: 7, parent_pid: 7, tid: 9, parent_tid: 7, time: 41_000 };
    producer.record(Body::Fork(task), 7, 41_000).unwrap();
    producer.switch_in(9, 42_000).unwrap();
    recorder.stop(StopReason::Exit);
    let reader = setting.reader();
    let header = reader.header();
    let pt = &header.pt;
    assert_eq!((pt.source_name(), pt.cores, pt.packets), ("perf", 4, packet_flags::TSC | packet_flags::MTC));
    assert_eq!((pt.mtc_period, pt.psb_period, pt.cyc_threshold), (6, 3, 0));
    assert_eq!((pt.tsc_ctc_numerator, pt.tsc_ctc_denominator, pt.nominal_ratio), (200, 2, 25));
    assert_eq!((pt.perf_config, pt.sample_type), (0x2c01 | 1 << 9 | 6 << 14 | 3 << 24, 0x10087));
    assert_eq!((pt.filter[0].low, pt.filter[0].high, pt.filter.len()), (LOW, HIGH, 1));
    assert_eq!((header.code_cache_low, header.code_cache_high), (LOW, HIGH));
    assert_eq!(
        (header.time.valid, header.time.shift, header.time.mult, header.time.zero),
        (1, 31, 0x3333_3333, 1_000)
    );
    assert_eq!(header.tsc_khz, 2_500_000);
    // The limit is 516 KiB for each of two online cores, and four cores are possible.
    assert_eq!(pt.aux_bytes, 128 << 10);
    let found = records(&reader, 2);
    let tsc = |ns| header.time.ns_to_tsc(ns).unwrap();
    assert_eq!(found[0].body, Body::Fork(Task { time: tsc(41_000), ..task }));
    assert_eq!(
        (found[0].sample.time, found[1].sample.time),
        (tsc(41_000), tsc(42_000)),
        "times are the TSC's"
    );
}

/// Starts and expects a refusal with this cause.
fn expect_refusal(setting: &Setting, cause: Cause, words: &str) {
    let error = setting.run().err().unwrap_or_else(|| panic!("{cause:?} was not refused"));
    let text = error.to_string();
    let Error::Refused(refusal) = &error else { panic!("{text}") };
    assert_eq!((refusal.cause, error.code()), (cause, 2), "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn every_refusal_is_reported_and_leaves_nothing_after() {
    let rows = [
        (RefusableCall::Probe, libc::ENOSYS, Cause::NoPerf, "--emulate"),
        (RefusableCall::Probe, libc::EPERM, Cause::Seccomp, "perf_event_open"),
        (RefusableCall::OpenPt, libc::ENOENT, Cause::NoPt, "hypervisor"),
        (RefusableCall::OpenPt, libc::EPERM, Cause::Seccomp, "--cap-add PERFMON"),
        (RefusableCall::OpenPt, libc::EACCES, Cause::Rights, "perf_event_paranoid"),
        (RefusableCall::OpenPt, libc::EINVAL, Cause::Configuration, "0x3"),
        (RefusableCall::OpenPt, libc::E2BIG, Cause::Internal, "report"),
        (RefusableCall::OpenPt, libc::EBUSY, Cause::Busy, "perf record -a"),
        (RefusableCall::OpenPt, libc::ESRCH, Cause::Internal, "report"),
        (RefusableCall::OpenPt, libc::ENODEV, Cause::NoCore, "core"),
        (RefusableCall::OpenPt, libc::EMFILE, Cause::Files, "ulimit -n"),
        (RefusableCall::OpenPt, libc::EOPNOTSUPP, Cause::Internal, "report"),
        (RefusableCall::OpenPt, libc::ENOMEM, Cause::Memory, "memory"),
        (RefusableCall::OpenSideband, libc::EACCES, Cause::Rights, "software event"),
        (RefusableCall::MapData, libc::EPERM, Cause::LockedMemory, "ulimit -l"),
        (RefusableCall::MapData, libc::EINVAL, Cause::Internal, "report"),
        (RefusableCall::MapAux, libc::EPERM, Cause::LockedMemory, "perf_event_mlock_kb"),
        (RefusableCall::MapAux, libc::ENOMEM, Cause::Memory, "JPortalBufferSize"),
        (RefusableCall::MapAux, libc::EINVAL, Cause::Internal, "report"),
        (RefusableCall::MapAux, libc::EOPNOTSUPP, Cause::Internal, "report"),
        (RefusableCall::SetOutput, libc::EINVAL, Cause::Internal, "report"),
    ];
    for (at, errno, cause, words) in rows {
        // Also on the last core, where all the others are open; the probe has no core.
        for core in if at == RefusableCall::Probe { vec![None] } else { vec![None, Some(3)] } {
            if cause == Cause::NoCore && core.is_some() {
                continue; // one core that is not there is no reason to refuse
            }
            let setting = Setting::new(Rules::default());
            setting.kernel.refuse(at, errno, core);
            expect_refusal(&setting, cause, words);
            assert_eq!(setting.kernel.open_events(), 0, "{at:?} {errno}");
            assert!(!setting.path().exists(), "a recording that does not start leaves nothing behind");
        }
    }
}

#[test]
fn refusals_after_the_start_end_the_recording() {
    for (at, errno, cause) in [
        (RefusableCall::PlainFilter, libc::ENOMEM, Cause::Memory),
        (RefusableCall::PlainFilter, libc::EOPNOTSUPP, Cause::Internal),
        (RefusableCall::FileFilter, libc::ENOENT, Cause::Path),
        (RefusableCall::FileFilter, libc::EACCES, Cause::Path),
        (RefusableCall::FileFilter, libc::ELOOP, Cause::Path),
        (RefusableCall::Enable, libc::EINVAL, Cause::Internal),
    ] {
        let rules = Rules { knows_plain_filters: at != RefusableCall::FileFilter, ..Rules::default() };
        let setting = Setting { code_cache: Some(tempfile::tempfile().unwrap()), ..Setting::new(rules) };
        setting.kernel.refuse(at, errno, Some(1));
        let recorder = setting.start().unwrap();
        let Err(Error::Refused(refusal)) = setting.set_code_cache(&recorder) else {
            panic!("{at:?} was not refused")
        };
        assert_eq!(refusal.cause, cause, "{refusal}");
        assert!((0..CORES).all(|core| !setting.kernel.is_on(core)), "{at:?}: nothing is left on");
        recorder.stop(StopReason::Exit);
    }
}

#[test]
fn an_older_kernel_gets_what_it_knows() {
    const INHERIT_THREAD: usize = 35;
    let has = |setting: &Setting| setting.kernel.pt_attr(0)._bitfield_1.get_bit(INHERIT_THREAD);
    let periods = 0xf << 14 | 0xf << 24 | 1 << 9;
    for (knows_inherit_thread, config) in
        [(true, u64::MAX), (false, u64::MAX), (true, !periods), (false, !periods)]
    {
        let setting = Setting::new(Rules { knows_inherit_thread, config, ..Rules::default() });
        let recorder = setting.run().unwrap();
        assert_eq!(has(&setting), knows_inherit_thread);
        assert_eq!(setting.says(Level::Warning, "inherit_thread"), !knows_inherit_thread);
        assert_eq!(setting.says(Level::Warning, "periods of MTC and PSB"), config != u64::MAX);
        recorder.stop(StopReason::Exit);
        let pt = &setting.reader().header().pt.clone();
        let periods = config == u64::MAX;
        assert_eq!((pt.mtc_period, pt.psb_period), if periods { (6, 3) } else { (0, 0) });
        assert_eq!(pt.has(packet_flags::MTC), periods);
        assert_eq!(pt.detail.text().contains("children"), !knows_inherit_thread);
    }
}

#[test]
fn cores_that_are_not_there_are_said() {
    let setting = Setting::new(Rules::default());
    setting.kernel.refuse(RefusableCall::OpenPt, libc::ENODEV, Some(0));
    setting.kernel.refuse(RefusableCall::OpenSideband, libc::ENODEV, Some(2));
    let recorder = setting.run().unwrap();
    assert!(setting.says(Level::Warning, "cores [0, 2] are not there"));
    setting.kernel.producer(3).switch_in(5, 10_000).unwrap();
    recorder.stop(StopReason::Exit);
    let reader = setting.reader();
    assert_eq!((reader.header().pt.cores, reader.cores()), (2, vec![Core(3)]), "a core keeps its number");
    assert!(reader.header().pt.detail.text().starts_with("2 of 4 cores"));
}

#[test]
fn rings_that_nobody_asked_for_shrink_until_they_fit() {
    let kib = |n: u64| n << 10;
    let aux = |rules, change: &[(&str, &str)]| {
        let setting = Setting::of(FakeKernel::new(rules, change));
        setting.run().unwrap().stop(StopReason::Exit);
        (setting.reader().header().pt.aux_bytes, setting.says(Level::Warning, "locked memory"))
    };
    let online = ("sys/devices/system/cpu/online", "0-3");
    assert_eq!(aux(Rules::default(), &[online]), (kib(256), false), "the size every user may have");
    let raised = ("proc/sys/kernel/perf_event_mlock_kb", "8192");
    assert_eq!(aux(Rules::default(), &[online, raised]), (kib(4096), false));
    let root = ("proc/self/status", "CapEff:\t000001ffffffffff");
    assert_eq!(aux(Rules::default(), &[root]), (kib(4096), false));
    // Another process uses a part of the limit, or the capability is valid in a container only.
    let short = Rules { locked: kib(1000), ..Rules::default() };
    assert_eq!(aux(short, &[online]), (kib(128), true));
    assert_eq!(aux(short, &[root]), (kib(128), true));
    let setting = Setting::new(Rules { locked: kib(100), ..Rules::default() });
    expect_refusal(&setting, Cause::LockedMemory, "112 KiB");
}

#[test]
fn rings_that_were_asked_for_are_had_or_refused() {
    let setting = Setting { buffer: 3 << 20, ..Setting::new(Rules { locked: 17 << 20, ..Rules::default() }) };
    expect_refusal(&setting, Cause::LockedMemory, "20496 KiB");
    assert_eq!(setting.kernel.open_events(), 0);
    let setting = Setting { buffer: 3 << 20, ..Setting::new(Rules::default()) };
    let recorder = setting.run().unwrap();
    assert_eq!(setting.kernel.pt_attr(1).aux_watermark, 1 << 20, "a quarter");
    recorder.stop(StopReason::Exit);
    assert_eq!(setting.reader().header().pt.aux_bytes, 4 << 20, "rounded up to a power of two");
}

#[test]
fn the_filter_has_the_form_that_the_kernel_takes() {
    let filters = |setting: &Setting| {
        let text = |c| if let KernelCall::SetFilter(0, text) = c { Some(text) } else { None };
        setting.kernel.calls().into_iter().filter_map(text).collect::<Vec<_>>()
    };
    let plain = "filter 0x7f0000000000/0x3000000".to_owned();
    let file = tempfile::tempfile().unwrap();
    let of_file = format!("filter 0x0/0x3000000@/proc/self/fd/{}", file.as_raw_fd());
    let old = Rules { knows_plain_filters: false, ..Rules::default() };

    let new = Setting { code_cache: Some(tempfile::tempfile().unwrap()), ..Setting::new(Rules::default()) };
    new.run().unwrap().stop(StopReason::Exit);
    assert_eq!(filters(&new), std::slice::from_ref(&plain), "the plain form first");

    let with_file = Setting { code_cache: Some(file), ..Setting::new(old) };
    with_file.run().unwrap().stop(StopReason::Exit);
    assert_eq!(filters(&with_file), [plain.clone(), of_file]);
    assert_eq!(with_file.reader().header().pt.filter.len(), 1);

    let without = Setting::new(old);
    without.run().unwrap().stop(StopReason::Exit);
    assert_eq!(filters(&without), [plain]);
    assert!(
        without.says(Level::Warning, "many times the data")
            && without.says(Level::Warning, "JPortalCodeCache")
    );
    assert!(without.reader().header().pt.filter.is_empty(), "the capture does not claim a filter");
}

/// Before anything runs, the kernel is tried with a range that the real one replaces.
#[test]
fn a_kernel_that_filters_files_only_is_known_before_the_code_cache_is() {
    let old = Rules { knows_plain_filters: false, ..Rules::default() };
    let without_filters = ("sys/bus/event_source/devices/intel_pt/nr_addr_filters", "0");
    let sideband = Setting { source: Source::Sideband, ..Setting::of(FakeKernel::without_pt(old)) };
    for (setting, expected) in [
        (Setting::new(Rules::default()), false),
        (Setting::new(old), true),
        (Setting::of(FakeKernel::new(old, &[without_filters])), false),
        (sideband, false),
    ] {
        let recorder = setting.start().unwrap();
        setting.kernel.forget_calls();
        assert_eq!(recorder.filters_files_only(), expected);
        let calls = setting.kernel.calls();
        assert!(
            calls.iter().all(|c| *c == KernelCall::SetFilter(0, "filter 0x1000/0x1000".into())),
            "{calls:?}"
        );
        assert!((0..CORES).all(|core| !setting.kernel.is_on(core)));
        recorder.stop(StopReason::Exit);
        assert!(!recorder.filters_files_only(), "nothing is recorded any more");
    }
    // Another refusal is not taken for this one: the call that sets the filter reports it.
    let setting = Setting::new(Rules::default());
    setting.kernel.refuse(RefusableCall::PlainFilter, libc::ENOMEM, None);
    assert!(!setting.start().unwrap().filters_files_only());
}

#[test]
fn a_processor_without_filters_is_not_asked_for_one() {
    let none = ("sys/bus/event_source/devices/intel_pt/nr_addr_filters", "0");
    let setting = Setting::of(FakeKernel::new(Rules::default(), &[none]));
    setting.run().unwrap().stop(StopReason::Exit);
    assert!(!setting.kernel.calls().iter().any(|c| matches!(c, KernelCall::SetFilter(..))));
    assert!(setting.says(Level::Warning, "no address filters"));
}

#[test]
fn a_full_buffer_is_noted_and_tracing_continues() {
    let setting = Setting { buffer: 64 << 10, ..Setting::new(Rules::default()) };
    let recorder = setting.run().unwrap();
    let mut producer = setting.kernel.producer(1);
    let mut time = 1_000_000;
    let mut write = |producer: &mut CoreProducer, bytes: &[u8], full: bool| {
        time += 100;
        producer.switch_in(5, time).unwrap();
        producer.aux.write(bytes).unwrap();
        if full {
            setting.kernel.overrun(producer, 1, 5, time + 1);
        } else {
            producer.end_aux(5, time + 1, 0).unwrap();
        }
        producer.switch_out(5, time + 2, false).unwrap();
    };
    for round in 0..20 {
        wait_until(|| setting.kernel.is_on(1) && producer.aux.room() > 60_000);
        setting.kernel.forget_calls();
        write(&mut producer, &vec![round; 50_000], true);
        // Only an enable after a disable brings back an event that overran (Linux before 6.16).
        // The timer may enable the event before the drain sees the record.
        wait_until(|| {
            let calls = setting.kernel.calls();
            let off = calls.iter().position(|c| *c == KernelCall::Disable(1, true));
            let on = calls.iter().rposition(|c| *c == KernelCall::Enable(1, true));
            off.is_some() && off < on && setting.kernel.is_on(1)
        });
        write(&mut producer, &[round; 10], false);
    }
    recorder.stop(StopReason::Exit);
    let reader = setting.reader();
    assert_eq!(reader.pt_bytes(Core(1)), 20 * 50_010);
    let notes = reader.losses();
    assert_eq!(notes.len(), 20);
    for (n, note) in (0..).zip(notes) {
        assert_eq!((note.core, note.reason), (1, LossReason::AuxFull));
        assert_eq!(note.offset, n * 50_010 + 50_000, "behind the last byte that was kept");
    }
}

#[test]
fn a_thread_that_begins_gets_events_of_its_own() {
    let setting = Setting::new(Rules::default());
    let recorder = setting.run().unwrap();
    setting.kernel.forget_calls();
    recorder.thread_started();
    let calls = setting.kernel.calls();
    let own: Vec<_> = calls.iter().filter(|c| matches!(c, KernelCall::Probe | KernelCall::Close)).collect();
    assert_eq!(own, [&KernelCall::Probe, &KernelCall::Close], "one event, open for a moment");
    setting.kernel.refuse(RefusableCall::Probe, libc::EMFILE, None);
    recorder.thread_started();
    recorder.thread_started();
    assert!(setting.says(Level::Warning, "an event of its own"));
    recorder.stop(StopReason::Exit);
    recorder.thread_started();
    let counters = setting.reader().completeness().end.clone().unwrap().counters;
    let counter = |name: &str| counters.iter().find(|c| c.name.text() == name).unwrap().value;
    assert_eq!((counter("unit.threads_own"), counter("unit.threads_copies")), (1, 2));
}

#[test]
fn an_event_that_went_off_unseen_is_enabled_by_the_clock() {
    let setting = Setting::new(Rules::default());
    let recorder = setting.run().unwrap();
    for core in (0..CORES).cycle().take(12) {
        setting.kernel.turn_off(core);
        wait_until(|| setting.kernel.is_on(core));
    }
    recorder.stop(StopReason::Exit);
}

#[test]
fn records_that_were_lost_are_noted() {
    let setting = Setting::new(Rules::default());
    let recorder = setting.run().unwrap();
    let mut producer = setting.kernel.producer(0);
    // A burst of threads that begin, run once and end, faster than any drain.
    let (mut written, mut dropped, mut lost) = (0u64, 0u64, 0u64);
    let mut tid = 1000;
    while lost < 3 {
        tid += 1;
        let task = Task { pid: 1, parent_pid: 1, tid, parent_tid: 1, time: u64::from(tid) };
        let before = dropped;
        for body in [Body::Fork(task), switch(false), switch(true), Body::Exit(task)] {
            if producer.record_or_count(body, tid, u64::from(tid)) { written += 1 } else { dropped += 1 }
        }
        if dropped > before && dropped % 50 < 4 {
            lost += 1;
            wait_until(|| producer.data.room() > 10_000);
            if producer.record_or_count(switch(false), tid, u64::from(tid)) {
                written += 1
            } else {
                dropped += 1
            }
        }
        assert!(tid < 50_000_000, "the drain keeps up with everything: {written} records");
    }
    recorder.stop(StopReason::Exit);
    let reader = setting.reader();
    let (mut found, mut counted) = (0, 0);
    for record in records(&reader, 0) {
        match record.body {
            Body::Lost { lost, .. } => counted += lost,
            _ => found += 1,
        }
    }
    assert_eq!((found, counted), (written, dropped), "what is not there is counted");
    let notes = reader.losses().iter().filter(|n| n.reason == LossReason::SidebandFull);
    assert!(notes.count() >= 1);
    assert!(reader.completeness().is_whole());
}

#[test]
fn without_a_relation_of_the_clocks_times_are_calibrated() {
    const USE_CLOCKID: usize = 25;
    const RAW: i32 = 4;
    let setting = Setting::new(Rules { time: None, ..Rules::default() });
    let recorder = setting.run().unwrap();
    let attr = setting.kernel.pt_attr(0);
    assert!(attr._bitfield_1.get_bit(USE_CLOCKID) && attr.clockid == RAW);
    let mut producer = setting.kernel.producer(0);
    let mut brackets = BTreeMap::new();
    for tid in 1..400 {
        let before = Linux.moment();
        let after = Linux.moment();
        producer.switch_in(tid, (before.ns + after.ns) / 2).unwrap();
        brackets.insert(tid, (before.tsc, after.tsc));
        std::thread::sleep(Duration::from_micros(500));
    }
    recorder.stop(StopReason::Exit);
    let reader = setting.reader();
    assert_eq!(reader.header().time.valid, 0, "there is none that a reader could use");
    let found = records(&reader, 0);
    assert_eq!(found.len(), 399);
    // 20 microseconds at 5 GHz: the two readings of the clocks are hundreds of nanoseconds
    // apart, unless interrupted.
    let slack = 100_000;
    let out = found.iter().filter(|r| {
        let (before, after) = brackets[&r.sample.tid];
        r.sample.time + slack < before || r.sample.time > after + slack
    });
    assert!(out.count() < 8, "times off by more than 20 us");
    assert!(found.is_sorted_by_key(|r| r.sample.time), "time runs backwards");
}

#[test]
fn nothing_stays_on_after_a_stop() {
    for round in 0..40 {
        let setting = Setting { buffer: 64 << 10, ..Setting::new(Rules::default()) };
        let recorder = setting.run().unwrap();
        let mut producer = setting.kernel.producer(0);
        for _ in 0..round {
            // The ring is full all the time: every pass of the drain disables and enables.
            let room = producer.aux.room() as usize;
            let _ = producer.aux.write(&vec![0; room]);
            setting.kernel.overrun(&mut producer, 0, 1, 1);
        }
        if round % 2 == 0 {
            recorder.stop(StopReason::Exit);
            assert_eq!(setting.kernel.open_events(), 0);
        } else {
            recorder.emergency();
            std::thread::sleep(Duration::from_millis(25));
            assert!((0..CORES).all(|core| !setting.kernel.is_on(core)));
        }
    }
}

/// A drain has decided to enable, and is stopped before it does.
#[test]
fn a_stop_in_the_middle_of_an_enable_wins() {
    let setting = Setting::new(Rules::default());
    let recorder = Arc::new(setting.run().unwrap());
    let (stopper, (done, happened)) = (Arc::clone(&recorder), std::sync::mpsc::channel());
    setting.kernel.before_enable(move || {
        stopper.emergency();
        let _ = done.send(());
    });
    happened.recv_timeout(Duration::from_secs(20)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!((0..CORES).all(|core| !setting.kernel.is_on(core)));
}

/// With hundreds of threads there are many thousands of events.
#[test]
fn a_crash_does_not_wait_for_many_events() {
    let threads: Vec<u32> = (100..300).collect();
    let setting = Setting { attach: true, ..Setting::new(Rules::default()) };
    setting.kernel.have_threads(&threads);
    let recorder = setting.run().unwrap();
    assert_eq!(setting.kernel.attached(0, true), (threads, true));
    // All of them would take 3 seconds.
    setting.kernel.disable_slowly(Duration::from_millis(2));
    let start = Instant::now();
    recorder.crash_begins();
    recorder.emergency();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!((0..CORES).any(|core| setting.kernel.is_on(core)), "too fast: this test shows nothing");
    setting.kernel.disable_slowly(Duration::ZERO);
    wait_until(|| (0..CORES).all(|core| !setting.kernel.is_on(core)));
}

#[test]
fn a_crash_disables_events_once() {
    let setting = Setting::new(Rules::default());
    let recorder = setting.run().unwrap();
    recorder.crash_begins();
    wait_until(|| (0..CORES).all(|core| !setting.kernel.is_on(core)));
    setting.kernel.forget_calls();
    recorder.emergency();
    let calls = setting.kernel.calls();
    let disables = calls.iter().filter(|c| matches!(c, KernelCall::Disable(..))).count();
    // A drain may be about to disable the events of the one core that it has just enabled.
    assert!(disables <= 2, "{calls:?}");
}

#[test]
fn a_unit_that_wrote_nothing_is_reported() {
    let setting = Setting::new(Rules::default());
    setting.run().unwrap().stop(StopReason::Exit);
    assert!(
        setting.says(
            Level::Warning,
            "wrote no trace: the filter 0x7f0000000000..0x7f0003000000 matched nothing"
        )
    );
}

#[test]
fn the_sideband_alone_needs_no_pt() {
    let setting =
        Setting { source: Source::Sideband, ..Setting::of(FakeKernel::without_pt(Rules::default())) };
    let recorder = setting.run().unwrap();
    let calls = setting.kernel.calls();
    assert!(!calls.iter().any(|c| matches!(
        c,
        KernelCall::OpenPt(_) | KernelCall::MapAux(_) | KernelCall::SetOutput(_) | KernelCall::SetFilter(..)
    )));
    let mut producer = setting.kernel.producer(1);
    producer.switch_in(5, 10_000).unwrap();
    producer.switch_out(5, 20_000, true).unwrap();
    recorder.stop(StopReason::Exit);
    let reader = setting.reader();
    assert_eq!(
        (reader.header().pt.source, reader.header().pt.source_name()),
        (sources::SIDEBAND, "sideband")
    );
    assert_eq!(
        (reader.pt_bytes(Core(1)), reader.header().pt.filter.len(), records(&reader, 1).len()),
        (0, 0, 2)
    );
    assert!(!setting.says(Level::Warning, "no trace"), "none was wanted");
}

#[test]
fn the_source_is_chosen_by_what_is_there() {
    let open = |kernel: FakeKernel, source, unit: Option<&str>| {
        let setting = Setting { source, ..Setting::of(kernel) };
        let kernel: Arc<dyn Kernel> = setting.kernel.clone();
        let device = device::open_on(kernel, &setting.config(), unit.map(Into::into));
        device.map(|d| d.config().source_name()).map_err(|e| (e.code(), e.to_string()))
    };
    let with = || FakeKernel::new(Rules::default(), &[]);
    let without = || FakeKernel::without_pt(Rules::default());
    assert_eq!(open(with(), Source::Auto, Some("/nowhere/unit")), Ok("perf"));
    // A unit that the environment names is not trusted unless it was selected.
    let (code, text) = open(without(), Source::Emulated, Some("/nowhere/unit")).unwrap_err();
    assert!(code == 2 && text.contains("/nowhere/unit"), "{text}");
    for unit in [Some("/nowhere/unit"), None] {
        let (code, text) = open(without(), Source::Auto, unit).unwrap_err();
        assert!(
            code == 2
                && text.contains("older than Broadwell")
                && text.contains("-XX:JPortalSource=emulated")
                && !text.contains("/nowhere"),
            "{text}"
        );
    }
    let (code, text) = open(without(), Source::Perf, Some("/nowhere/unit")).unwrap_err();
    assert!(
        code == 2 && text.contains("devices/intel_pt is missing") && text.contains("--emulate"),
        "{text}"
    );
    let amd = ("proc/cpuinfo", "vendor_id : AuthenticAMD");
    let kernel = FakeKernel::new(Rules::default(), &[amd]);
    std::fs::remove_dir_all(kernel.root().join(jportal_perf_abi::pmu::DIRECTORY)).unwrap();
    assert!(open(kernel, Source::Perf, None).unwrap_err().1.contains("only Intel's processors"));
    let kernel = with();
    std::fs::remove_file(kernel.root().join("sys/devices/system/cpu/possible")).unwrap();
    std::fs::remove_file(kernel.root().join("sys/devices/system/cpu/online")).unwrap();
    assert!(open(kernel, Source::Perf, None).unwrap_err().1.contains("names no core"));
}

/// Writes what the kernel's driver writes to an AUX ring that is mapped read-only: a stay of
/// thread `tid` that begins at `tsc`.
fn overwrite(p: &mut CoreProducer, tid: u32, tsc: u64, bytes: usize) {
    let mut packets = Encoder::new();
    packets.psb();
    packets.tsc(tsc + 1);
    packets.psbend();
    p.switch_in(tid, tsc).unwrap();
    p.aux.overwrite(packets.bytes());
    p.aux.overwrite(&vec![0; bytes]);
    p.switch_out(tid, tsc + 2, false).unwrap();
    let (offset, size) = (p.aux.publish_place(), p.aux.size());
    p.record(Body::Aux { offset, size, flags: aux_flags::OVERWRITE }, tid, tsc + 2).unwrap();
}

#[test]
fn a_flight_recorder_maps_aux_read_only_and_pauses_pt_for_a_dump() {
    let setting = Setting { snapshot: 256 << 10, ..Setting::new(Rules::default()) };
    let recorder = setting.run().unwrap();
    let calls = setting.kernel.calls();
    assert!((0..CORES).all(|core| calls.contains(&KernelCall::MapAuxReadOnly(core))), "{calls:?}");
    assert!(!calls.iter().any(|c| matches!(c, KernelCall::MapAux(_))));
    assert!(recorder.write(common::KIND, &[7; 8]));
    let mut producers: Vec<CoreProducer> = (0..CORES).map(|core| setting.kernel.producer(core)).collect();
    let now = setting.kernel.moment().tsc;
    for (core, p) in producers.iter_mut().enumerate() {
        for n in 0..100 {
            overwrite(p, 40 + core as u32, now + 1000 * n, 10_000);
        }
    }
    setting.kernel.forget_calls();
    let dump = setting.folder.path().join("dump.jportal");
    recorder.dump(&dump, "a test").unwrap();
    let calls: Vec<KernelCall> = setting.kernel.calls();
    let place = |call: &KernelCall| calls.iter().position(|c| c == call);
    for core in 0..CORES {
        // PT is off until every window is copied; the sideband records the switches all the
        // time.
        let (off, on) = (place(&KernelCall::Disable(core, true)), place(&KernelCall::Enable(0, true)));
        assert!(off.is_some() && !calls.contains(&KernelCall::Disable(core, false)), "{calls:?}");
        let last = calls.iter().rposition(|c| *c == KernelCall::Enable(core, true));
        assert!(last > off && on.is_some(), "{calls:?}");
    }
    let reader = CaptureReader::open(&dump).unwrap();
    assert!(reader.completeness().is_whole());
    assert_eq!(reader.metadata().count(), 1);
    for core in 0..CORES {
        let trace: Vec<u8> = reader.pt(Core(core)).iter().flat_map(|p| reader.read(p).unwrap()).collect();
        assert!(trace.starts_with(&jportal_pt_packet::PSB) && trace.len() > (256 << 10) - 11_000);
        let told = records(&reader, core);
        assert!(matches!(told[0].body, Body::Lost { .. }));
        let aux: Vec<u64> = told
            .iter()
            .filter_map(|r| if let Body::Aux { size, .. } = r.body { Some(size) } else { None })
            .collect();
        assert_eq!((aux.len(), aux.iter().sum::<u64>()), (26, trace.len() as u64));
    }
    // A second dump has no trace, and neither has the end of the recording.
    let refused = recorder.dump(&dump, "again").unwrap_err().to_string();
    assert!(refused.contains("is not replaced: it is an earlier capture"), "{refused}");
    // Numbered dumps, which the VM makes by itself, take the next free number.
    let numbered = |n: u32| setting.folder.path().join(format!("a.jportal.dump{n}"));
    std::fs::copy(&dump, numbered(1)).unwrap();
    assert_eq!(recorder.dump(&numbered(1), "again").unwrap(), numbered(2));
    assert_eq!(std::fs::read(&dump).unwrap(), std::fs::read(numbered(1)).unwrap());
    let dump = numbered(2);
    assert_eq!(CaptureReader::open(&dump).unwrap().completeness().end.as_ref().unwrap().pt_bytes, 0);
    overwrite(&mut producers[2], 50, setting.kernel.moment().tsc, 500);
    recorder.stop(StopReason::Exit);
    let reader = setting.reader();
    assert!(
        reader.completeness().is_whole() && reader.pt(Core(2)).len() == 1 && reader.pt(Core(1)).is_empty()
    );
    assert!(matches!(recorder.dump(&dump, "late"), Err(Error::Dump(_))));
}

#[test]
fn a_dump_that_cannot_be_written_is_left_by_its_caller() {
    let limits = StorageLimits {
        dump: Duration::from_secs(1),
        write: Duration::from_millis(300),
        ..StorageLimits::default()
    };
    let setting = Setting { snapshot: 256 << 10, limits, ..Setting::new(Rules::default()) };
    let (recorder, pipe) = setting.run_into_a_pipe();
    let refused = recorder.dump(&setting.folder.path().join("dump"), "a test").unwrap_err().to_string();
    assert!(refused.contains("not complete after 1 s"), "{refused}");
    wait_until(|| (0..CORES).all(|core| setting.kernel.is_on(core)));
    recorder.stop(StopReason::Exit);
    assert!(recorder.failure().unwrap().contains("has taken nothing"));
    drop(pipe);
}

/// Writes the records of fifty threads that start and end at once.
fn short_threads(recorder: &Recorder, first: u32) -> u64 {
    let mut bytes = 0;
    for tid in first..first + 50 {
        let started = ThreadStarted { tid, name: "short".into(), ..ThreadStarted::default() };
        let exited = ThreadExited { tid, ..ThreadExited::default() };
        for record in
            [jportal_capture::Record::ThreadStarted(started), jportal_capture::Record::ThreadExited(exited)]
        {
            let mut body = Vec::new();
            record.encode(&mut body);
            assert!(recorder.write(record.kind(), &body));
            bytes += 16 + body.len() as u64;
        }
    }
    bytes
}

/// The capture holds what a dump needs, however long the recording lasts.
#[test]
fn the_metadata_of_a_flight_recorder_is_bounded() {
    let (reach, margin) = (Duration::from_millis(30), Duration::from_millis(10));
    let setting = Setting {
        snapshot: 256 << 10,
        trimming: Trimming { above: 64 << 10, reach, margin, ..Trimming::default() },
        ..Setting::new(Rules::default())
    };
    let recorder = setting.run().unwrap();
    let main = jportal_capture::Record::ThreadStarted(ThreadStarted { tid: 40, ..ThreadStarted::default() });
    let mut body = Vec::new();
    main.encode(&mut body);
    assert!(recorder.write(main.kind(), &body));
    // Core 1 was traced at the beginning only.
    let mut producer = setting.kernel.producer(1);
    overwrite(&mut producer, 40, setting.kernel.moment().tsc, 1000);
    let (mut written, mut first) = (0, 100);
    let len = || std::fs::metadata(setting.path()).unwrap().len();
    wait_until(|| {
        written += short_threads(&recorder, first);
        first += 50;
        written > 2 << 20 && setting.says(Level::Info, "trimmed ") && len() < written / 4
    });
    let now = setting.kernel.moment().tsc;
    overwrite(&mut setting.kernel.producer(2), 40, now, 1000);
    let dump = setting.folder.path().join("dump.jportal");
    recorder.dump(&dump, "a test").unwrap();
    let reader = CaptureReader::open(&dump).unwrap();
    assert!(reader.completeness().is_whole() && reader.check().is_empty());
    let records_of = |reader: &CaptureReader| -> Vec<_> { reader.metadata().map(Result::unwrap).collect() };
    assert_eq!(records_of(&reader)[0].record, main, "it still runs");
    assert!(reader.header().metadata_from.0 > written / 2);
    assert!(reader.pt(Core(1)).is_empty() && !reader.pt(Core(2)).is_empty(), "core 1 was forgotten");
    assert!(matches!(records(&reader, 1)[0].body, Body::Lost { .. }));
    // The ring completes the file that has the name now.
    let ring = File::open(std::ffi::OsStr::from_bytes(&reader_of_ring(&setting))).unwrap();
    let word = |at: usize| {
        let mut bytes = [0; 8];
        ring.read_exact_at(&mut bytes, at as u64).unwrap();
        u64::from_le_bytes(bytes)
    };
    let meta = std::fs::metadata(setting.path()).unwrap();
    assert_eq!((word(ring_file::DEVICE), word(ring_file::INODE)), (meta.dev(), meta.ino()));
    recorder.stop(StopReason::Exit);
    let reader = setting.reader();
    assert!(reader.completeness().is_whole() && reader.check().is_empty());
    assert_eq!(records_of(&reader)[0].record, main);
    let files = std::fs::read_dir(setting.folder.path()).unwrap();
    let names: Vec<_> = files.map(|f| f.unwrap().file_name()).collect();
    assert!(!names.iter().any(|n| n.as_bytes().ends_with(b".trim")), "{names:?}");
}

/// The path of the ring file, which the header of the recording names.
fn reader_of_ring(setting: &Setting) -> Vec<u8> {
    setting.reader().header().ring.0.0.to_vec()
}

/// A file that somebody put under the capture's name is not replaced.
#[test]
fn a_capture_whose_name_was_taken_is_not_trimmed() {
    let setting = Setting {
        snapshot: 256 << 10,
        trimming: Trimming {
            above: 64 << 10,
            reach: Duration::ZERO,
            margin: Duration::ZERO,
            ..Trimming::default()
        },
        ..Setting::new(Rules::default())
    };
    let recorder = setting.run().unwrap();
    let moved = setting.folder.path().join("moved");
    std::fs::rename(setting.path(), &moved).unwrap();
    std::fs::write(setting.path(), "mine").unwrap();
    let (mut written, mut first) = (0, 100);
    wait_until(|| {
        written += short_threads(&recorder, first);
        first += 50;
        written > 1 << 20
    });
    wait_until(|| setting.says(Level::Warning, "it is no longer at"));
    recorder.stop(StopReason::Exit);
    assert_eq!(std::fs::read(setting.path()).unwrap(), b"mine");
    let reader = CaptureReader::open(&moved).unwrap();
    assert!(reader.completeness().is_whole() && reader.metadata_bytes() == written);
}

#[test]
fn a_window_without_psbs_is_refused() {
    let setting = Setting { snapshot: 16 << 10, ..Setting::new(Rules::default()) };
    let error = setting.start().err().unwrap().to_string();
    assert!(error.starts_with("JPortalSnapshot: "), "{error}");
}

/// The program needs its file descriptors more than the recording does.
#[test]
fn a_recording_takes_no_more_than_a_quarter_of_the_files() {
    // Two events for each of four cores.
    let rules = |files| Rules { files, ..Rules::default() };
    let few = Setting::new(rules(31));
    let error = few.start().err().unwrap();
    assert!(error.code() == 2 && error.to_string().contains("`ulimit -n 32`"), "{error}");
    assert!(!few.kernel.calls().iter().any(|c| matches!(c, KernelCall::MapData(_))));
    Setting::new(rules(32)).start().unwrap().stop(StopReason::Exit);
    // For four threads as many each.
    let attached = |files| {
        let setting = Setting { attach: true, ..Setting::new(rules(files)) };
        setting.kernel.have_threads(&[61, 62, 63]);
        setting
    };
    let few = attached(127);
    let error = few.start().err().unwrap().to_string();
    assert!(error.contains("needs 32 file descriptors (4 threads, 4 cores)"), "{error}");
    assert!(error.contains("`ulimit -n 128`") && error.contains("-XX:+JPortalStart"), "{error}");
    assert_eq!(few.kernel.attached(0, true).0, []);
    attached(128).run().unwrap().stop(StopReason::Exit);
}

/// What a core's rings are said to contain allows for the error of the calibrated clock, too.
#[test]
fn a_calibrated_clock_has_its_slack() {
    for time in [Rules::default().time, None] {
        let setting = Setting::new(Rules { time, ..Rules::default() });
        let kernel: Arc<dyn Kernel> = setting.kernel.clone();
        let device = device::open_on(kernel, &setting.config(), None).unwrap();
        device.rings(&[]).unwrap();
        for _ in 0..3 {
            let before = setting.kernel.moment();
            std::thread::sleep(Duration::from_millis(20));
            let now = setting.kernel.moment();
            (0..CORES).for_each(|core| device.translate(core, &mut []));
            let rate = (now.tsc - before.tsc) * 1_000_000 / (now.ns - before.ns);
            let slack = setting.kernel.moment().tsc.abs_diff(device.complete_until());
            assert!(slack > rate / 4, "{slack} of {rate} ticks per millisecond");
        }
    }
}

/// A VM that is already running, with threads 61, 62 and 63 beside the one that starts the
/// recording.
fn running() -> Setting {
    let setting = Setting { attach: true, ..Setting::new(Rules::default()) };
    setting.kernel.have_threads(&[61, 62, 63]);
    setting
}

fn check_attached(setting: &Setting, threads: &[u32]) {
    for core in 0..CORES {
        for pt in [true, false] {
            assert_eq!(setting.kernel.attached(core, pt), (threads.to_vec(), true), "core {core}, PT {pt}");
        }
    }
}

#[test]
fn threads_that_are_there_get_events_of_their_own() {
    let setting = running();
    let recorder = setting.start().unwrap();
    assert_eq!(setting.kernel.attached(0, true), (vec![61, 62, 63], false), "not enabled yet");
    let calls = setting.kernel.calls();
    // The output of a thread's events is set to the core's ring before anything runs.
    let each = |tid, core| {
        [
            KernelCall::AttachPt(tid, core),
            KernelCall::SetOutput(core),
            KernelCall::AttachSideband(tid, core),
            KernelCall::SetOutput(core),
        ]
    };
    let expected: Vec<KernelCall> =
        [61, 62, 63].iter().flat_map(|&tid| (0..CORES).flat_map(move |core| each(tid, core))).collect();
    assert_eq!(calls[calls.len() - expected.len()..], expected);
    setting.kernel.forget_calls();
    setting.set_code_cache(&recorder).unwrap();
    check_attached(&setting, &[61, 62, 63]);
    let calls = setting.kernel.calls();
    assert!(!calls.iter().any(|c| matches!(c, KernelCall::AttachPt(..))), "{calls:?}");
    let filters = calls.iter().filter(|c| matches!(c, KernelCall::SetFilter(..))).count();
    let enables = |pt| calls.iter().filter(|c| matches!(c, KernelCall::Enable(_, p) if *p == pt)).count();
    // A drain may have enabled an event again meanwhile.
    assert!(filters == 16 && enables(true) >= 16 && enables(false) >= 16, "{calls:?}");
    assert!(recorder.status().contains("state: recording"));
    recorder.stop(StopReason::Asked);
    assert_eq!(setting.kernel.open_events(), 0);
    let counters = setting.reader().completeness().end.clone().unwrap().counters;
    assert_eq!(counters.iter().find(|c| c.name.text() == "unit.threads_attached").unwrap().value, 3);
}

#[test]
fn only_a_running_vm_is_attached_to() {
    let setting = Setting { attach: false, ..running() };
    let recorder = setting.run().unwrap();
    assert_eq!(setting.kernel.attached(0, true).0, []);
    recorder.stop(StopReason::Exit);
}

#[test]
fn events_of_all_threads_run_again_after_a_loss() {
    let setting = running();
    let recorder = setting.run().unwrap();
    let mut producer = setting.kernel.producer(1);
    setting.kernel.overrun(&mut producer, 1, 62, 5_000);
    wait_until(|| setting.kernel.attached(1, true).1 && setting.kernel.is_on(1));
    recorder.stop(StopReason::Asked);
    assert_eq!(setting.kernel.open_events(), 0);
}

#[test]
fn a_thread_that_comes_meanwhile_begins_it_anew() {
    let setting = running();
    // Thread 70 inherits its events or does not: all are opened again when it is seen.
    setting.kernel.change_thread(9, 70);
    let recorder = setting.run().unwrap();
    check_attached(&setting, &[61, 62, 63, 70]);
    recorder.stop(StopReason::Asked);
    assert_eq!(setting.kernel.open_events(), 0);
}

/// Between the opening of the events and the safepoint.
#[test]
fn a_thread_that_comes_before_the_safepoint_begins_it_anew() {
    let setting = running();
    let recorder = setting.start().unwrap();
    setting.kernel.have_threads(&[70]);
    setting.set_code_cache(&recorder).unwrap();
    check_attached(&setting, &[61, 62, 63, 70]);
    recorder.stop(StopReason::Asked);
    assert_eq!(setting.kernel.open_events(), 0);
}

/// The ids may belong to other threads by then.
#[test]
fn events_that_were_opened_long_ago_are_opened_anew() {
    let setting = running();
    let recorder = setting.start().unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    setting.kernel.forget_calls();
    setting.set_code_cache(&recorder).unwrap();
    assert!(setting.kernel.calls().contains(&KernelCall::AttachPt(61, 0)));
    check_attached(&setting, &[61, 62, 63]);
}

#[test]
fn events_that_were_opened_ahead_end_with_the_recording() {
    let setting = running();
    let recorder = setting.start().unwrap();
    recorder.stop(StopReason::Asked);
    assert_eq!(setting.kernel.open_events(), 0);
}

#[test]
fn a_thread_that_ends_meanwhile_is_left_out() {
    let setting = running();
    setting.kernel.change_thread(9, 62);
    let recorder = setting.run().unwrap();
    check_attached_but(&setting, 62);
    recorder.stop(StopReason::Asked);
    assert_eq!(setting.kernel.open_events(), 0);
}

/// All other threads have events; the one that has ended may have some.
fn check_attached_but(setting: &Setting, gone: u32) {
    for core in 0..CORES {
        let mut all = setting.kernel.attached(core, true).0;
        all.retain(|tid| *tid != gone);
        assert_eq!(all, [61, 63], "core {core}");
    }
}

#[test]
fn threads_that_do_not_stop_coming_are_an_error() {
    let setting = running();
    // Each comes when the one before goes, so each attempt sees another one.
    for n in 0..100 {
        setting.kernel.change_thread(n * 24, 100 + n as u32);
        setting.kernel.change_thread((n + 1) * 24, 100 + n as u32);
    }
    let recorder = setting.start().unwrap();
    let error = setting.set_code_cache(&recorder).unwrap_err();
    assert!(matches!(error, Error::ThreadsComing { .. }), "{error}");
    assert!(error.to_string().contains("-XX:+JPortalStart"), "{error}");
    recorder.stop(StopReason::Asked);
    assert_eq!(setting.kernel.open_events(), 0);
}

#[test]
fn what_a_thread_is_refused_ends_the_start() {
    let cases = [
        (RefusableCall::AttachPt, libc::EBUSY, Cause::Busy, "stop the other one"),
        (RefusableCall::AttachPt, libc::EMFILE, Cause::Files, "ulimit -n"),
        (RefusableCall::AttachSideband, libc::ENOMEM, Cause::Memory, "free memory"),
    ];
    for (at, errno, cause, remedy) in cases {
        let setting = running();
        setting.kernel.refuse(at, errno, Some(2));
        let error = setting.start().err().unwrap();
        assert!(matches!(&error, Error::Refused(r) if r.cause == cause), "{error}");
        assert!(error.to_string().contains(remedy), "{error}");
        assert_eq!(setting.kernel.open_events(), 0);
    }
}

#[test]
fn a_vm_that_will_record_later_learns_what_filters_there_are() {
    let config = |source| RecordingConfig { source, ..RecordingConfig::default() };
    let ask = |rules: Rules, source| {
        let kernel = Arc::new(FakeKernel::new(rules, &[]));
        let answer = device::will_filter_files_only(kernel.clone(), &config(source));
        assert_eq!(kernel.open_events(), 0);
        answer
    };
    let older = Rules { knows_plain_filters: false, ..Rules::default() };
    assert!(ask(older, Source::Auto) && ask(older, Source::Perf));
    assert!(!ask(older, Source::Sideband) && !ask(Rules::default(), Source::Auto));
    let without = Arc::new(FakeKernel::without_pt(older));
    assert!(!device::will_filter_files_only(without.clone(), &config(Source::Auto)));
    assert_eq!(without.calls(), [], "nothing is tried where there is no PT");
}
