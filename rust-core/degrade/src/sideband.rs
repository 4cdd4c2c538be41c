// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The data ring is full: records of the sideband are missing, and a LOST record has their
//! number.
//!
//! `PERF_RECORD_LOST` precedes the first record that fits again and has its time
//! (`kernel/events/ring_buffer.c`, `__perf_output_begin`).
//! Records that are lost after the last record that fits leave no LOST record, so the model
//! loses nothing there.

use crate::random::Random;
use jportal_perf_abi::{Body, Record};
use jportal_units::{Core, StreamOffset, Tsc};

/// How often and how many records are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRecords {
    /// Mean distance, in records.
    pub every: u64,
    /// Mean number of records per loss.
    pub records: u64,
}

/// Consecutive records that are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidebandTruth {
    /// Number of records.
    pub records: u64,
    /// In the degraded stream, first byte whose owner one of them named; if none named an
    /// owner, equal to `to`.
    pub from: StreamOffset,
    /// First byte after the bytes whose owner they named.
    pub to: StreamOffset,
    /// Time of the last record before.
    pub since: Tsc,
    /// Time of the first record after.
    pub until: Tsc,
    /// The threads that the missing records name, ascending.
    pub threads: Vec<u32>,
}

/// Removes records from `all` and inserts a LOST record with their number in their place.
pub(crate) fn lose(all: &mut Vec<Record>, lost: LostRecords, seed: u64, core: Core) -> Vec<SidebandTruth> {
    let mut random = Random::new(seed, 4, core.0);
    let around = |random: &mut Random, mean: u64| (mean / 2 + random.below(mean + 1)).max(1) as usize;
    let mut left: Vec<Record> = Vec::with_capacity(all.len());
    let (mut truth, mut covered) = (Vec::new(), 0);
    let mut records = std::mem::take(all).into_iter();
    loop {
        for record in records.by_ref().take(around(&mut random, lost.every)) {
            covered = behind(&record).unwrap_or(covered);
            left.push(record);
        }
        let gone: Vec<Record> = records.by_ref().take(around(&mut random, lost.records)).collect();
        let Some(next) = records.next() else {
            left.extend(gone);
            *all = left;
            return truth;
        };
        let mut threads: Vec<u32> = gone.iter().map(|r| r.sample.tid).collect();
        threads.sort_unstable();
        threads.dedup();
        let to = gone.iter().filter_map(behind).next_back().unwrap_or(covered);
        truth.push(SidebandTruth {
            records: gone.len() as u64,
            from: StreamOffset(covered),
            to: StreamOffset(to),
            since: Tsc(left.last().map_or(0, |r| r.sample.time)),
            until: Tsc(next.sample.time),
            threads,
        });
        let body = Body::Lost { id: next.sample.id, lost: gone.len() as u64 };
        left.push(Record { body, sample: next.sample });
        covered = behind(&next).unwrap_or(to);
        left.push(next);
    }
}

/// First byte after those whose owner the record names.
fn behind(record: &Record) -> Option<u64> {
    match record.body {
        Body::Aux { offset, size, .. } => Some(offset + size),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_perf_abi::SampleId;

    #[test]
    fn what_is_missing_is_counted_and_named() {
        let record = |n: u64| {
            let body = Body::Aux { offset: 10 * n, size: 10, flags: 0 };
            Record { body, sample: SampleId { tid: n as u32 % 3, time: 100 + n, ..SampleId::default() } }
        };
        let whole: Vec<Record> = (0..10_000).map(record).collect();
        let lost = LostRecords { every: 100, records: 8 };
        let (mut left, mut again) = (whole.clone(), whole.clone());
        let truth = lose(&mut left, lost, 5, Core(1));
        assert_eq!((lose(&mut again, lost, 5, Core(1)), &again), (truth.clone(), &left));
        assert!((80..110).contains(&truth.len()), "{}", truth.len());
        let said = left.iter().filter_map(|r| match r.body {
            Body::Lost { lost, .. } => Some((lost, r.sample.time)),
            _ => None,
        });
        let made: Vec<_> = truth.iter().map(|t| (t.records, t.until.0)).collect();
        assert_eq!(said.collect::<Vec<_>>(), made);
        for t in &truth {
            assert_eq!((t.to.0 - t.from.0, t.until.0 - t.since.0), (10 * t.records, t.records + 1));
            assert_eq!(t.threads.len() as u64, t.records.min(3));
        }
        let kept = left.iter().filter(|r| behind(r).is_some()).count() as u64;
        assert_eq!(kept + made.iter().map(|m| m.0).sum::<u64>(), 10_000);
    }
}
