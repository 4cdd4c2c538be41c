// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Made-up times: threads, durations of calls, compilations.

use super::super::{
    ActivationTime, Bucket, Jit, JitEvent, JitKind, Latency, LatencyRow, Overview, OverviewThread,
};
use super::tree::{class, name};
use super::{HZ, MadeUpNumbers, THREADS};

const BUCKETS: u32 = 1900;
const WIDTH: u64 = 1 << 22;

pub(super) fn overview() -> Overview {
    let mut random = MadeUpNumbers::new(3);
    let thread = |(i, name): (usize, &&str)| {
        let mut row = OverviewThread {
            tid: 4711 + i as u32,
            java_tid: 1 + i as u64,
            name: (*name).to_owned(),
            started: HZ / 10 * (i as u64 + 1),
            ..OverviewThread::default()
        };
        let begin = 60 * i as u32;
        let mut busy = true;
        for n in begin..BUCKETS - 20 * i as u32 {
            if random.below(if busy { 90 } else { 25 + 40 * i as u64 }) == 0 {
                busy = !busy;
            }
            let bucket = bucket(&mut random, (n - begin, i), busy || i == 0);
            if !bucket.is_empty() {
                row.buckets.push((n, bucket));
            }
        }
        row
    };
    let threads = THREADS.iter().enumerate().map(thread).collect();
    Overview { start: HZ / 10, width: WIDTH, buckets: BUCKETS, on_core: true, threads }
}

/// What the thread `i` does `n` buckets after its start.
fn bucket(random: &mut MadeUpNumbers, (n, i): (u32, usize), busy: bool) -> Bucket {
    let mut b = Bucket::default();
    if i == 3 && (700..730).contains(&n) {
        (b.lost, b.on_core, b.gaps) = (WIDTH, WIDTH, u64::from(n == 700));
    } else if busy {
        // The share of compiled code grows.
        let warm = u64::from(n.min(900)) * 1000 / 900;
        let all = 20_000 + random.below(15_000) + 60 * warm;
        let interpreter = all * (1000 - warm).max(30) / 1000;
        let c2 = (all - interpreter) * warm / 1100;
        b.tiers = [interpreter / 4, all - interpreter - c2, c2 * 2];
        b.native_calls = random.below(40);
        b.on_core = WIDTH - random.below(WIDTH / 8);
        b.unresolved = u64::from(random.below(120) == 0);
        if i == 4 && (300..420).contains(&n) {
            b.inferred = all / 4;
        }
    }
    b
}

pub(super) fn latency(methods: usize) -> Latency {
    let mut random = MadeUpNumbers::new(11);
    let row = |i: usize| {
        let center = 9 + random.below(9);
        let mut buckets = Vec::new();
        for e in 0..26 {
            for half in 0..2u64 {
                let distance = center.abs_diff(e);
                let n = (1 << 14 >> (2 * distance).min(20)) * (3 - half) / 2;
                let n = n + if e == center + 7 { random.below(90) } else { 0 };
                let lower = (1 << (e + 2)) + (half << (e + 1));
                if n > 0 {
                    buckets.push((lower, n));
                }
            }
        }
        let calls = buckets.iter().map(|b| b.1).sum();
        let sum = buckets.iter().map(|b| b.0 * b.1).sum();
        let mid = 1u64 << (center + 2);
        let (low, last) = (buckets.first().map_or(0, |b| b.0), buckets.last().map_or(0, |b| b.0 * 5 / 4));
        let slow = |n: u64| ActivationTime { at: HZ / 3 * (n + 1), ticks: last - n * (last / 40), tid: 4711 };
        LatencyRow {
            name: format!("{}.{}", class(i * 37 % methods.max(1)), name(i * 37 % methods.max(1))),
            calls,
            unmeasured: if i == 2 { 3 } else { 0 },
            sum,
            quantiles: [low, mid, mid * 3, mid * 9, last],
            buckets,
            slowest: (0..5).map(slow).collect(),
            exact: i != 2,
        }
    };
    let rows = (0..methods.min(24)).map(row).collect();
    Latency { measure: "wall time".into(), resolution: Some(250), rows }
}

pub(super) fn jit(methods: usize) -> Jit {
    let mut random = MadeUpNumbers::new(5);
    let mut events = Vec::new();
    for id in 1..=(methods as u32 * 2) {
        let method = random.below(methods as u64) as usize;
        let level = [1, 2, 3, 3, 3, 4, 4][random.below(7) as usize];
        let span = HZ * 3;
        let at = HZ / 10 + span * u64::from(id) / (methods as u64 * 2) + random.below(HZ / 20);
        let event = JitEvent {
            at,
            kind: JitKind::Installed,
            method: format!("{}.{}", class(method), name(method)),
            level,
            compile_id: id,
            osr_bci: (random.below(20) == 0).then_some(2),
            size: 200 + random.below(9000) as u32,
            detail: String::new(),
        };
        if level == 3 && random.below(3) > 0 {
            let at = at + random.below(HZ / 2);
            events.push(JitEvent { at, kind: JitKind::NotEntrant, ..event.clone() });
            events.push(JitEvent { at: at + HZ / 9, kind: JitKind::Unloaded, ..event.clone() });
        }
        if level == 4 && random.below(12) == 0 {
            let detail = "class_check".to_owned();
            events.push(JitEvent { at: at + HZ / 7, kind: JitKind::Deoptimised, detail, ..event.clone() });
        }
        events.push(event);
    }
    events.sort_by_key(|e| e.at);
    Jit { events, unknown: Vec::new() }
}
