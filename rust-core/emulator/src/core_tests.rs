// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests what a core sends and records when threads enter and leave it, on decoded packets.

use jportal_perf_abi::Body;
use jportal_perf_abi::emulated::{EmulatedUnit, UnitConfig};
use jportal_perf_abi::record::RecordReader;
use jportal_perf_abi::ring::CoreConsumer;
use jportal_pt_packet::{LastIp, Packet, PacketDecoder};

use super::*;
use crate::block::tests::block;
use crate::config::{OnFull, Timing};

/// `nop; jne +0x10`: taken to 0x1013, else 0x1003.
const BRANCH: &[u8] = &[0x90, 0x75, 0x10];
const START: [&str; 4] = ["PSB", "TSC", "CBR", "PSBEND"];

struct Rig {
    _dir: tempfile::TempDir,
    core: Core,
    consumer: CoreConsumer,
    last_ip: LastIp,
}

fn rig_with(config: Config) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let sizes = UnitConfig { cores: 1, aux_bytes: 8192, data_bytes: 4096, ..UnitConfig::default() };
    let shared = EmulatedUnit::create(&dir.path().join("rings"), sizes).unwrap();
    let outlet = Arc::new(Mutex::new(Outlet::new(shared.producer(0, 7).unwrap(), config.mode, None)));
    Rig {
        core: Core::new(&config, 0, 7, outlet),
        consumer: shared.consumer(0).unwrap(),
        last_ip: LastIp::default(),
        _dir: dir,
    }
}

fn config() -> Config {
    Config { timing: Timing::Tsc, ..Config::default() }
}

fn rig() -> Rig {
    rig_with(config())
}

fn leak(at: u64, code: &[u8]) -> &'static Block {
    Box::leak(Box::new(block(at, code)))
}

impl Rig {
    /// The packets that reached the ring since the last call.
    fn packets(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        self.consumer.aux.drain(&mut bytes, usize::MAX).unwrap();
        let mut list = Vec::new();
        let mut decoder = PacketDecoder::new(&bytes);
        while let Some((_, packet)) = decoder.next_packet().unwrap() {
            list.push(self.shown(packet));
        }
        list
    }

    fn shown(&mut self, packet: Packet) -> String {
        match packet {
            Packet::Tip(ip) | Packet::TipPge(ip) | Packet::TipPgd(ip) | Packet::Fup(ip) => {
                match self.last_ip.update(ip) {
                    Some(a) => format!("{} {a:x}", packet.name()),
                    None => format!("{} -", packet.name()),
                }
            }
            Packet::TntShort(t) => format!("TNT {t}"),
            _ => {
                if matches!(packet, Packet::Psb | Packet::Ovf) {
                    self.last_ip.reset();
                }
                packet.name().into()
            }
        }
    }

    fn records(&mut self) -> Vec<(Body, u32)> {
        let mut bytes = Vec::new();
        self.consumer.data.drain(&mut bytes, usize::MAX).unwrap();
        RecordReader::new(&bytes).map(|r| r.unwrap()).map(|r| (r.body, r.sample.tid)).collect()
    }
}

fn behind(list: &[String], skip: &[&str]) -> Vec<String> {
    assert_eq!(list[..skip.len()], *skip);
    list[skip.len()..].to_vec()
}

#[test]
fn preemption_interrupts_the_block_that_has_begun_and_another_core_continues_with_it() {
    let (mut a, mut b) = (rig(), rig());
    let mut thread = None;
    a.core.switch_in(11, &mut thread, clock::tsc());
    a.core.begin_block(&mut thread, leak(0x1000, BRANCH));
    a.core.begin_block(&mut thread, leak(0x1013, BRANCH));
    a.core.switch_out(true);
    let sent = ["MODE.Exec", "TIP.PGE 1000", "TNT T", "FUP 1013", "TIP.PGD -"];
    assert_eq!(behind(&a.packets(), &START), sent);
    assert!(thread.is_some(), "the unresolved block stays with the thread");

    b.core.switch_in(11, &mut thread, clock::tsc());
    b.core.begin_block(&mut thread, leak(0x1016, BRANCH));
    b.core.leave(&mut thread, 0x1029);
    b.core.switch_out(false);
    let sent = ["MODE.Exec", "TIP.PGE 1013", "TNT N", "TIP.PGD 1029"];
    assert_eq!(behind(&b.packets(), &START), sent);
}

#[test]
fn after_the_end_of_tracing_each_thread_begins_with_a_psb_again() {
    let mut r = rig();
    let stay = |r: &mut Rig| {
        let mut thread = None;
        r.core.switch_in(11, &mut thread, clock::tsc());
        r.core.begin_block(&mut thread, leak(0x1000, BRANCH));
        r.core.leave(&mut thread, 0x1013);
        r.core.switch_out(false);
        r.packets()
    };
    assert_eq!(stay(&mut r)[..4], START);
    assert_ne!(stay(&mut r)[..4], START);
    r.core.forget_threads();
    assert_eq!(stay(&mut r)[..4], START);
    let announced = r.records().iter().filter(|(b, _)| matches!(b, Body::ItraceStart { .. })).count();
    assert_eq!(announced, 2);
}

#[test]
fn a_stale_block_is_reported_with_the_place_where_its_stay_began() {
    let mut r = rig();
    r.core.switch_in(11, &mut None, clock::tsc());
    r.core.switch_out(false);
    let begun = leak(0x1000, BRANCH);
    r.core.switch_in(12, &mut None, clock::tsc());
    r.core.begin_block(&mut None, begun);
    r.core.stale(begun);
    r.core.switch_out(false);
    assert_eq!(r.core.counts().stale, 1);
    let all = r.records();
    let size = |(b, tid): &(Body, u32)| match b {
        Body::Aux { size, .. } if *tid == 11 => Some(*size),
        _ => None,
    };
    let offset = all.iter().find_map(size).unwrap();
    // After the PSB+ of each of the two stays.
    let stale = Body::StaleBlock { offset: 2 * offset, address: 0x1000, bytes: BRANCH.to_vec() };
    assert!(all.contains(&(stale, 12)), "{all:?}");
}

#[test]
fn a_stale_block_in_the_middle_of_a_stay_is_entered_anew() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x1000, BRANCH));
    let begun = leak(0x1013, BRANCH);
    r.core.begin_block(&mut thread, begun);
    r.core.enter_anew(&mut thread, begun);
    r.core.stale(begun);
    r.core.leave(&mut thread, 0x1026);
    r.core.switch_out(false);
    let sent = r.packets();
    let first = ["MODE.Exec", "TIP.PGE 1000", "TNT T", "FUP 1013", "TIP.PGD -"];
    let second = ["TSC", "CBR", "MODE.Exec", "TIP.PGE 1013", "TIP.PGD 1026"];
    assert_eq!(behind(&behind(&sent, &START), &first), second);
    let all = r.records();
    let closed = all.iter().find_map(|(b, _)| match b {
        Body::Aux { size, .. } => Some(*size),
        _ => None,
    });
    let told = all.iter().find_map(|(b, _)| match b {
        Body::StaleBlock { offset, address: 0x1013, .. } => Some(*offset),
        _ => None,
    });
    assert!(closed.is_some() && told > closed, "behind the first stay and its successor's TSC: {all:?}");
}

#[test]
fn bytes_and_records_of_a_stay() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.switch_out(false);
    r.core.switch_in(12, &mut None, clock::tsc());
    r.core.switch_out(true);
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.switch_out(false);
    let switch = |out, preempted| Body::Switch { out, preempted };
    let all = r.records();
    let aux: Vec<_> = all
        .iter()
        .filter_map(|(b, tid)| match b {
            Body::Aux { offset, size, .. } => Some((*offset, *size, *tid)),
            _ => None,
        })
        .collect();
    let psb_plus = aux[0].1;
    assert_eq!(aux, [(0, psb_plus, 11), (psb_plus, psb_plus, 12), (2 * psb_plus, 12, 11)]);
    let others: Vec<_> = all.into_iter().filter(|(b, _)| !matches!(b, Body::Aux { .. })).collect();
    assert_eq!(
        others,
        [
            (Body::ItraceStart { pid: 7, tid: 11 }, 11),
            (switch(false, false), 11),
            (switch(true, false), 11),
            (Body::ItraceStart { pid: 7, tid: 12 }, 12),
            (switch(false, false), 12),
            (switch(true, true), 12),
            (switch(false, false), 11),
            (switch(true, false), 11),
        ]
    );
    // A thread's first stay begins with PSB+, later stays with the time.
    let list = r.packets();
    assert_eq!(behind(&behind(&list, &START), &START), ["TSC", "CBR"]);
}

#[test]
fn a_fault_inside_a_block() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x1000, BRANCH));
    r.core.signal(&mut thread, 0x1001, true, true);
    assert!(thread.is_none());
    r.core.begin_block(&mut thread, leak(0x2000, BRANCH));
    r.core.switch_out(false);
    let sent = ["FUP 1001", "TIP.PGD -", "TIP.PGE 2000", "FUP 2000", "TIP.PGD -"];
    assert_eq!(behind(&behind(&r.packets(), &START), &["MODE.Exec", "TIP.PGE 1000"]), sent);
    assert_eq!((r.core.counts().faults, r.core.counts().anomalies), (1, 0));
}

#[test]
fn an_asynchronous_signal_comes_after_the_outcome() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x1000, BRANCH));
    r.core.signal(&mut thread, 0x1013, false, true);
    r.core.switch_out(false);
    let sent = ["TNT T", "FUP 1013", "TIP.PGD -"];
    assert_eq!(behind(&behind(&r.packets(), &START), &["MODE.Exec", "TIP.PGE 1000"]), sent);
}

#[test]
fn a_signal_after_a_branch_out_of_the_range() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x1000, BRANCH));
    r.core.signal(&mut thread, 0x1013, false, false);
    r.core.switch_out(false);
    assert_eq!(behind(&r.packets(), &START), ["MODE.Exec", "TIP.PGE 1000", "TIP.PGD 1013"]);
}

#[test]
fn a_signal_at_the_entry_into_the_range() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.signal(&mut thread, 0x1000, false, true);
    r.core.switch_out(false);
    assert_eq!(behind(&r.packets(), &START), ["MODE.Exec", "TIP.PGE 1000", "FUP 1000", "TIP.PGD -"]);
    assert_eq!(r.core.counts().at_entry, 1);
}

#[test]
fn what_nothing_explains_is_counted_and_stays_decodable() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x1000, &[0x90, 0x90]));
    r.core.begin_block(&mut thread, leak(0x5000, BRANCH));
    r.core.leave(&mut thread, 0x7777);
    r.core.switch_out(false);
    let sent = ["FUP 1000", "TIP.PGD -", "TIP.PGE 5000", "FUP 5000", "TIP.PGD -"];
    assert_eq!(behind(&behind(&r.packets(), &START), &["MODE.Exec", "TIP.PGE 1000"]), sent);
    assert_eq!(r.core.counts().anomalies, 2);
    let texts = r.core.take_anomalies();
    assert!(texts[0].contains("0x1000..0x1002") && texts[0].contains("0x5000"), "{texts:?}");
}

#[test]
fn a_block_whose_end_cannot_be_found_out() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x1000, BRANCH));
    r.core.abandon(&mut thread);
    r.core.switch_out(false);
    let sent = ["MODE.Exec", "TIP.PGE 1000", "FUP 1000", "TIP.PGD -"];
    assert_eq!(behind(&r.packets(), &START), sent);
    assert_eq!(r.core.counts().anomalies, 1);
}

#[test]
fn a_system_call_inside_the_range() {
    let mut r = rig();
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x1000, &[0x0f, 0x05]));
    r.core.begin_block(&mut thread, leak(0x1002, BRANCH));
    r.core.leave(&mut thread, 0x1005);
    r.core.switch_out(false);
    let sent = ["TIP.PGD -", "TIP.PGE 1002", "TIP.PGD 1005"];
    assert_eq!(behind(&behind(&r.packets(), &START), &["MODE.Exec", "TIP.PGE 1000"]), sent);
}

#[test]
fn an_overflow_swallows_blocks_and_ends_before_a_switch() {
    let mut r = rig_with(Config { overflow: 1, overflow_blocks: 1000, ..config() });
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    for at in [0x1000, 0x1013, 0x1026] {
        r.core.begin_block(&mut thread, leak(at, BRANCH));
    }
    r.core.switch_out(true);
    let sent = ["MODE.Exec", "TIP.PGE 1000", "OVF", "FUP 1026", "FUP 1026", "TIP.PGD -"];
    assert_eq!(behind(&r.packets(), &START), sent);
}

#[test]
fn injected_interrupts_at_and_inside_blocks() {
    let mut r = rig_with(Config { irq: 2, irq_inside: 2, ..config() });
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    for i in 0..9 {
        r.core.begin_block(&mut thread, leak(0x1000 + i * 0x13, BRANCH));
    }
    r.core.switch_out(false);
    let list = r.packets();
    let count = |name: &str| list.iter().filter(|p| p.starts_with(name)).count();
    // Interrupts: before every second of 9 blocks, inside every second of 8 ended blocks, and
    // at the switch.
    assert_eq!((count("FUP"), count("TIP.PGD"), count("TIP.PGE")), (9, 9, 9));
    let outcomes: String = list.iter().filter_map(|p| p.strip_prefix("TNT ")).collect();
    assert_eq!(outcomes, "TTTTTTTT");
}

#[test]
fn output_stops_when_the_ring_is_full_and_begins_again_with_psb() {
    let mut r = rig_with(Config { mode: OnFull::Drop, ..config() });
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    let jump = leak(0x1000, &[0xff, 0xe0]);
    for _ in 0..10_000 {
        r.core.begin_block(&mut thread, jump);
    }
    assert!(thread.is_none(), "nothing is remembered while output is off");
    let records = r.records();
    let truncated = |b: &Body| matches!(b, Body::Aux { flags: 1, .. });
    assert_eq!(records.iter().filter(|(b, _)| truncated(b)).count(), 1);
    let mut cut = Vec::new();
    r.consumer.aux.drain(&mut cut, usize::MAX).unwrap();
    assert_eq!(cut.len(), 8192 / 4 * 3);
    for _ in 0..2 * RESUME_INTERVAL {
        r.core.begin_block(&mut thread, jump);
    }
    r.core.switch_out(false);
    r.last_ip.reset();
    let again = behind(&r.packets(), &START);
    assert_eq!(again[..3], ["MODE.Exec", "TIP.PGE 1000", "TIP 1000"]);
}

/// Each switch record as (whether the thread enters, time).
fn switches(r: &mut Rig) -> Vec<(bool, u64)> {
    let mut bytes = Vec::new();
    r.consumer.data.drain(&mut bytes, usize::MAX).unwrap();
    let switch = |r: jportal_perf_abi::record::Record| match r.body {
        Body::Switch { out, .. } => Some((!out, r.sample.time)),
        _ => None,
    };
    RecordReader::new(&bytes).map(Result::unwrap).filter_map(switch).collect()
}

/// A thread is suspended between two blocks that send no packet of their own. Blocks that it
/// executed before the pause are not recorded as executed after it, nor the reverse, although
/// the unit sends the next packet much later.
#[test]
fn a_stay_ends_with_the_block_before_a_pause() {
    let khz = clock::measure_tsc_khz();
    let stay = || {
        let mut r = rig_with(Config { timing: Timing::Mtc, tsc_khz: khz, ..Config::default() });
        let mut thread = None;
        let falls: Vec<_> = (0..6).map(|n| leak(0x1000 + 3 * n, BRANCH)).collect();
        r.core.switch_in(11, &mut thread, clock::tsc());
        falls[..3].iter().for_each(|block| _ = r.core.begin_block(&mut thread, block));
        std::thread::sleep(std::time::Duration::from_millis(2));
        falls[3..].iter().for_each(|block| _ = r.core.begin_block(&mut thread, block));
        r.core.switch_out(false);
        r.packets()
    };
    let wanted = ["TNT NNN", "FUP 1009", "TIP.PGD -", "TIP.PGE 1009", "TNT NN", "FUP 100f", "TIP.PGD -"];
    let is_flow = |p: &String| ["TNT ", "FUP ", "TIP."].iter().any(|name| p.starts_with(name));
    let mut found = Vec::new();
    // The host may suspend the thread elsewhere as well, but not in every attempt.
    let as_wanted = |_| {
        found = stay().into_iter().filter(is_flow).collect();
        found[1..] == wanted
    };
    assert!((0..50).any(as_wanted), "{found:?}");
}

/// Another thread has waited for the core while the owner continued to execute.
#[test]
fn a_stay_does_not_end_before_its_last_block() {
    for (detached, timing) in [false, true].into_iter().flat_map(|d| [(d, Timing::Tsc), (d, Timing::Mtc)]) {
        let mut r = rig_with(Config { timing, ..Config::default() });
        let mut thread = None;
        r.core.switch_in(11, &mut thread, clock::tsc());
        r.core.begin_block(&mut thread, leak(0x1000, BRANCH));
        let needed = clock::tsc();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let began = clock::tsc();
        r.core.begin_block(&mut thread, leak(0x1003, BRANCH));
        if detached {
            r.core.detach(needed).finish();
        } else {
            r.core.leave(&mut thread, 0x9000);
            r.core.evict(needed);
        }
        let left = switches(&mut r).last().copied();
        assert!(left.is_some_and(|(came, time)| !came && time >= began), "{left:?} {needed} {began}");
    }
}

/// `jmp rax`.
const INDIRECT: &[u8] = &[0xff, 0xe0];
/// `jne +0x0ffe`: not taken, unless the next block is at the next multiple of 0x1000.
const DIRECT: &[u8] = &[0x0f, 0x85, 0xfa, 0x0f, 0, 0];

/// Runs four blocks, each of which ends in `branch`. The thread calls `what` between the second
/// and the third.
fn stay_of(branch: &'static [u8], what: impl FnOnce()) -> (Rig, u64) {
    let config = Config { timing: Timing::Mtc, tsc_khz: clock::measure_tsc_khz(), ..Config::default() };
    let mut r = rig_with(config);
    let mut thread = None;
    let jump = |at: u64| leak(at, branch);
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, jump(0x1000));
    r.core.begin_block(&mut thread, jump(0x2000));
    what();
    r.core.begin_block(&mut thread, jump(0x3000));
    r.core.begin_block(&mut thread, jump(0x4000));
    r.core.switch_out(false);
    let held = r.core.counts().held_up;
    (r, held)
}

fn stay_with(what: impl FnOnce()) -> (Rig, u64) {
    stay_of(INDIRECT, what)
}

#[test]
fn a_thread_that_the_host_does_not_run_has_no_core() {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
    let (mut r, held) = stay_of(DIRECT, || std::thread::sleep(PAUSE));
    assert!(held >= 1);
    let switches = switches(&mut r);
    // The switches are: in; out and in around the pause, and around every other time without a
    // processor; out.
    let away = switches[1..switches.len() - 1].chunks(2).map(|pair| {
        assert_eq!((pair[0].0, pair[1].0), (false, true), "{switches:?}");
        pair[1].1 - pair[0].1
    });
    let ms = r.core.config.tsc_khz;
    assert!(away.max().unwrap() > 19 * ms, "{switches:?}");
    let packets = r.packets();
    assert!(packets.contains(&"TIP.PGE 3000".to_owned()), "{packets:?}");
}

#[test]
fn a_target_may_have_been_read_after_the_thread_was_held_up() {
    let (mut r, _) = stay_with(|| std::thread::sleep(std::time::Duration::from_millis(20)));
    let packets = r.packets();
    let at = |packet: &str| packets.iter().position(|p| p == packet).unwrap_or_else(|| panic!("{packets:?}"));
    assert!(at("FUP 2000") < at("TIP.PGE 2000") && at("TIP.PGE 2000") < at("TIP 3000"), "{packets:?}");
    assert!(r.core.take_resumed().is_some());
    assert!(r.core.take_resumed().is_none());
}

#[test]
fn a_detached_stay_does_not_have_a_target_that_may_be_younger() {
    let mut r = rig_with(Config { mode: OnFull::Stall, ..Config::default() });
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x1000, INDIRECT));
    let mut stay = r.core.detach(clock::tsc());
    assert!(!stay.end_with(&mut thread, leak(0x3000, DIRECT)));
    stay.finish();
    assert_eq!(thread.map(|block| block.start), Some(0x1000), "it is still to be encoded");
    let packets = r.packets();
    assert_eq!(packets[packets.len() - 2..], ["FUP 1000", "TIP.PGD -"]);
    // The end of other blocks does not depend on the time.
    let mut thread = None;
    r.core.switch_in(12, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, leak(0x2000, DIRECT));
    let mut stay = r.core.detach(clock::tsc());
    assert!(stay.end_with(&mut thread, leak(0x3000, DIRECT)));
    assert_eq!(thread.map(|block| block.start), Some(0x3000));
    stay.finish();
}

/// Spins for `ms` milliseconds.
fn work(ms: u64) {
    let begin = std::time::Instant::now();
    while begin.elapsed().as_millis() < u128::from(ms) {
        std::hint::spin_loop();
    }
}

/// Plays QEMU's translation of a block on the calling thread.
fn translate(ms: u64) {
    translation::told();
    work(ms);
    translation::ends();
}

#[test]
fn a_thread_that_works_keeps_its_core() {
    // The host may take the processor away at any time, but not in every attempt.
    assert!((0..50).any(|_| stay_with(|| work(3)).1 == 0));
    // Earlier translations do not count again: they were recorded, or were too short to be
    // recorded.
    let worked = || {
        let mut r =
            rig_with(Config { timing: Timing::Mtc, tsc_khz: clock::measure_tsc_khz(), ..Config::default() });
        let [one, two, three, four] = [0x1000, 0x2000, 0x3000, 0x4000].map(|at| leak(at, &[0xff, 0xe0]));
        let mut thread = None;
        r.core.switch_in(11, &mut thread, clock::tsc());
        r.core.begin_block(&mut thread, one);
        translate(5);
        r.core.begin_block(&mut thread, two);
        r.core.begin_block(&mut thread, three);
        let before = r.core.counts().held_up;
        work(3);
        r.core.begin_block(&mut thread, four);
        (before, r.core.counts().held_up - before)
    };
    assert!((0..50).any(|_| worked() == (1, 0)));
}

#[test]
fn a_thread_whose_code_is_translated_has_no_core() {
    assert!(stay_with(|| translate(3)).1 >= 1);
}

#[test]
fn a_thread_that_is_held_up_and_loses_its_core_is_not_recorded_longer() {
    let ms = clock::measure_tsc_khz();
    let mut r =
        rig_with(Config { timing: Timing::Mtc, mode: OnFull::Stall, tsc_khz: ms, ..Config::default() });
    let pause = || std::thread::sleep(std::time::Duration::from_millis(3));
    let [one, two, three, four] = [0x1000, 0x2000, 0x3000, 0x4000].map(|at| leak(at, &[0xff, 0xe0]));
    let (mut first, mut second, mut third) = (None, Some(two), Some(four));
    // The first thread reads the clock now, is outside the range, and is recorded as having
    // lost the core before that reading.
    let begin = clock::tsc() - ms / 8;
    r.core.switch_in(11, &mut first, begin);
    r.core.begin_block(&mut first, one);
    r.core.leave(&mut first, 0x9000);
    r.core.switch_out_at(true, begin + 10);
    // The second thread reads the clock when it enters, is held up, and is recorded as having
    // lost the core before the first thread's reading.
    pause();
    r.core.switch_in(12, &mut second, begin + 20);
    pause();
    let mut stay = r.core.detach(begin + 30);
    r.core.switch_in(13, &mut third, begin + 30);
    stay.begin_block(&mut second, three);
    stay.finish();
    r.core.switch_out(false);
    let mut bytes = Vec::new();
    r.consumer.data.drain(&mut bytes, usize::MAX).unwrap();
    let times: Vec<u64> = RecordReader::new(&bytes).map(|r| r.unwrap().sample.time).collect();
    assert!(times.is_sorted(), "{:?}", times.iter().map(|t| t - begin).collect::<Vec<_>>());
}

#[test]
fn who_loses_the_core_while_the_host_does_not_run_it_had_left_it_before() {
    let ms = clock::measure_tsc_khz();
    let mut r =
        rig_with(Config { timing: Timing::Mtc, mode: OnFull::Stall, tsc_khz: ms, ..Config::default() });
    let [one, two, three] = [0x1000, 0x2000, 0x3000].map(|at| leak(at, &[0xff, 0xe0]));
    let mut thread = None;
    r.core.switch_in(11, &mut thread, clock::tsc());
    r.core.begin_block(&mut thread, one);
    r.core.begin_block(&mut thread, two);
    let before = clock::tsc();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let mut stay = r.core.detach(clock::tsc());
    stay.begin_block(&mut thread, three);
    stay.finish();
    let mut bytes = Vec::new();
    r.consumer.data.drain(&mut bytes, usize::MAX).unwrap();
    let last = RecordReader::new(&bytes).map(|r| r.unwrap().sample.time).max().unwrap();
    assert!(last < before + 19 * ms, "{} ms", last.saturating_sub(before) / ms);
    let packets = r.packets();
    assert_eq!(packets[packets.len() - 2..], ["FUP 3000", "TIP.PGD -"]);
}
