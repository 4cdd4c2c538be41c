// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::{Arc, Mutex};

use jportal_perf_abi::emulated::{EmulatedUnit, UnitConfig};

use super::*;
use crate::block::Block;
use crate::block::tests::block;
use crate::outlet::Outlet;

const KHZ: u64 = 1_000_000;

struct SchedulerRig {
    _dir: tempfile::TempDir,
    scheduler: Scheduler,
    filter: Filter,
    config: Config,
}

fn rig(cores: u32, quantum: u64, slice: u64) -> SchedulerRig {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { cores, quantum, slice, ..Config::default() };
    let sizes = UnitConfig { cores, aux_bytes: 8192, data_bytes: 4096, ..UnitConfig::default() };
    let shared = EmulatedUnit::create(&dir.path().join("rings"), sizes).unwrap();
    let core = |n| {
        let outlet = Outlet::new(shared.producer(n, 7).unwrap(), config.mode, None);
        Core::new(&config, n, 7, Arc::new(Mutex::new(outlet)))
    };
    let scheduler = Scheduler::new(&config, (0..cores).map(core).collect(), 16, KHZ);
    let filter = Filter::default();
    filter.activate(true);
    SchedulerRig { _dir: dir, scheduler, filter, config }
}

impl SchedulerRig {
    fn tenant(&self, number: ThreadNumber) -> Tenant {
        let mut tenant = Tenant::new(number, &self.config);
        tenant.tid = 100 + number;
        tenant
    }

    fn take(&self, tenant: &mut Tenant) -> usize {
        assert_eq!(
            self.scheduler.take(tenant, &mut None, &self.filter, clock::tsc(), |_| false),
            Taken::Core
        );
        assert!(self.scheduler.enter(tenant).is_some());
        tenant.core
    }
}

fn some_block() -> &'static Block {
    Box::leak(Box::new(block(0x1000, &[0xc3])))
}

#[test]
fn nothing_is_settled_after_a_need() {
    let r = rig(1, 0, 0);
    let (one, two) = (r.tenant(1), r.tenant(2));
    let before = clock::tsc();
    assert!(r.scheduler.settled().unwrap() >= before);
    let first = r.scheduler.need(&two);
    let second = r.scheduler.need(&one);
    assert_eq!(r.scheduler.settled(), Some(first.since));
    let since = second.since;
    drop(first);
    assert_eq!(r.scheduler.settled(), Some(since));
    r.scheduler.needs[2].store(READING, Relaxed);
    assert_eq!(r.scheduler.settled(), None);
    r.scheduler.needs[2].store(0, Relaxed);
    drop(second);
    assert!(r.scheduler.settled().unwrap() > since);
}

#[test]
fn free_cores_first_then_the_one_that_switched_longest_ago() {
    let r = rig(3, 0, 0);
    let mut t: Vec<_> = (1..=5).map(|n| r.tenant(n)).collect();
    let places: Vec<_> = t.iter_mut().map(|t| r.take(t)).collect();
    assert_eq!(places, [0, 1, 2, 0, 1]);
    assert!(r.scheduler.enter(&t[0]).is_none(), "thread 1 lost core 0 to thread 4");
    assert!(r.scheduler.enter(&t[2]).is_some());
    r.scheduler.release(&t[2]);
    assert!(r.scheduler.enter(&t[2]).is_none());
    assert_eq!(r.take(&mut t[0]), 2);
}

#[test]
fn whose_core_may_be_taken() {
    let r = rig(1, 0, 1000);
    let mut a = r.tenant(1);
    r.take(&mut a);
    let s = &r.scheduler;
    let switched = s.hints[0].switched.load(Relaxed);
    let slice = 1000 * (KHZ / 1000);
    // The owner is outside the range: at once.
    s.hint(&a, false);
    assert_eq!(s.choose(switched, false), Some(0));
    // The owner is inside: after its slice, or when the other thread's patience is over.
    s.hint(&a, true);
    assert_eq!(s.choose(switched + slice - 1, false), None);
    assert_eq!(s.choose(switched + slice, false), Some(0));
    assert_eq!(s.choose(switched, true), Some(0));
    // The core is free: at once.
    s.release(&a);
    assert_eq!(s.choose(switched, false), Some(0));
}

#[test]
fn a_thread_that_lost_its_core_ends_its_stay_with_its_next_event() {
    let r = rig(1, 0, 0);
    let (mut a, mut b) = (r.tenant(1), r.tenant(2));
    let mut thread = None;
    r.take(&mut a);
    r.scheduler.enter(&a).unwrap().begin_block(&mut thread, some_block());
    r.take(&mut b);
    let mut events = 0;
    let mut event = |core: &mut Core| {
        events += 1;
        core.leave(&mut thread, 0x9000);
    };
    assert_eq!(r.scheduler.take(&mut a, &mut None, &r.filter, clock::tsc(), |_| false), Taken::OpenStay);
    assert!(!r.scheduler.end_stay(&b, &mut event));
    assert!(r.scheduler.end_stay(&a, &mut event));
    assert!(!r.scheduler.end_stay(&a, &mut event), "once");
    assert_eq!(events, 1);
}

#[test]
fn stays_of_a_thread_follow_one_another() {
    let r = rig(2, 0, 0);
    let (mut a, mut b) = (r.tenant(1), r.tenant(2));
    r.take(&mut a);
    let needed = clock::tsc();
    // The clock was read before the core was given up.
    r.scheduler.release(&a);
    let left = r.scheduler.left(1);
    assert!(left > needed);
    assert_eq!(r.scheduler.take(&mut a, &mut None, &r.filter, needed, |_| false), Taken::Core);
    let came = r.scheduler.enter(&a).unwrap().latest();
    assert!(came > left, "{came} {left}");
    // Another thread has waited since an earlier time and takes the core at once.
    r.scheduler.hints[0].switched.store(u64::MAX, Relaxed);
    r.scheduler.hints[1].switched.store(0, Relaxed);
    r.take(&mut b);
    r.scheduler.release(&b);
    for core in 0..2 {
        let mut c = r.tenant(3);
        r.scheduler.hints[core].switched.store(0, Relaxed);
        assert_eq!(r.scheduler.take(&mut c, &mut None, &r.filter, needed, |_| false), Taken::Core);
    }
    assert!(r.scheduler.left(1) > left);
}

#[test]
fn stays_without_events_are_ended() {
    let r = rig(1, 0, 0);
    let (mut a, mut b) = (r.tenant(1), r.tenant(2));
    r.take(&mut a);
    r.scheduler.enter(&a).unwrap().begin_block(&mut None, some_block());
    let before = clock::tsc();
    r.take(&mut b);
    r.scheduler.end_stays_before(before);
    assert!(r.scheduler.stay(1).is_some());
    r.scheduler.end_stays_before(u64::MAX);
    assert!(r.scheduler.stay(1).is_none());
}

#[test]
fn nothing_is_taken_when_nothing_is_traced() {
    let r = rig(1, 0, 0);
    r.filter.activate(false);
    let mut unresolved = Some(some_block());
    assert_eq!(
        r.scheduler.take(&mut r.tenant(1), &mut unresolved, &r.filter, clock::tsc(), |_| false),
        Taken::Nothing
    );
    assert!(unresolved.is_none());
}

#[test]
fn stopping_takes_every_core() {
    let r = rig(2, 0, 0);
    let (mut a, mut b) = (r.tenant(1), r.tenant(2));
    r.take(&mut a);
    r.take(&mut b);
    let mut seen = Vec::new();
    r.scheduler.stop_all(|n, _| seen.push(n));
    assert_eq!(seen, [0, 1]);
    assert!(r.scheduler.enter(&a).is_none() && r.scheduler.enter(&b).is_none());
}

#[test]
fn quanta_vary_around_their_mean_and_repeat_with_the_seed() {
    let draw = |number| {
        let r = rig(1, 1000, 0);
        let mut t = r.tenant(number);
        let lengths: Vec<_> = (0..200)
            .map(|_| {
                r.take(&mut t);
                let mut n = 1;
                while !t.spend() {
                    n += 1;
                }
                n
            })
            .collect();
        lengths
    };
    let a = draw(1);
    assert!(a.iter().all(|n| (501..=1500).contains(n)));
    assert!((800..1200).contains(&(a.iter().sum::<u64>() / 200)));
    assert_eq!(a, draw(1));
    assert_ne!(a, draw(2));
}

/// No other thread can take the core away between the entry and the record about it.
#[test]
fn a_thread_that_enters_with_an_old_block_says_so_at_once() {
    let r = rig(1, 0, 0);
    let mut a = r.tenant(1);
    let mut thread = Some(some_block());
    let taken = r.scheduler.take(&mut a, &mut thread, &r.filter, clock::tsc(), |_| true);
    assert_eq!(taken, Taken::Core);
    assert_eq!(r.scheduler.enter(&a).unwrap().counts().stale, 1);
}
