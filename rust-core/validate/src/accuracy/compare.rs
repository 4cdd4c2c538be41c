// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares the flow with the truth, thread by thread.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use jportal_bytecode::{Method, MethodTable};

use super::Error;
use super::figures::{Accuracy, AccuracyFigures, Reliability, ThreadAccuracy, WrongStretch};
use super::spool::{Break, Flows, ONE_PATH, Spool, Symbols};
use super::times::{Guide, Times};
use super::walk::{Cut, Match, Matches, align, subsequence};
use super::words::{WORD_BITS, Words};

/// Wrong stretches that are kept, and bytecodes shown of each.
const KEPT: usize = 10;
const SHOWN: u64 = 6;

/// Bytes of PT by thread; the key is OS thread id and start (TSC).
pub type BytesOfThreads = BTreeMap<(u32, u64), u64>;

/// Bytes of PT of one capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceBytes {
    /// Of all threads.
    pub total: u64,
    /// Of each thread.
    pub threads: BytesOfThreads,
}

/// Compares the flow of a capture with the truth.
///
/// `methods`: the methods of the recording, which must be the same for both. `progress` is
/// called with the number of bytecodes done and of all bytecodes.
///
/// # Errors
/// [`Error::TruthIsLossy`], [`Error::OtherThread`], [`Error::Spool`].
pub fn compare(
    (truth, truth_bytes): (Flows, &TraceBytes),
    (capture, capture_bytes): (Flows, &TraceBytes),
    methods: &MethodTable,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Accuracy, Error> {
    let (mut truth, symbols) = truth.finish()?;
    let (capture, _) = capture.finish()?;
    for t in &truth {
        if let Some(gap) = t.lossy() {
            return Err(Error::TruthIsLossy { tid: t.info.tid.get(), at: gap.at });
        }
    }
    let mut tested: BTreeMap<(u64, u32), Spool> = capture.into_iter().map(|s| (key(&s), s)).collect();
    let successors = join_successors(&truth, &mut tested).map_err(Error::Spool)?;
    let mut all = Accuracy::default();
    let mut reliability = Reliability::default();
    let total: u64 = truth.iter().map(|t| t.captured.len()).sum();
    let mut done = 0;
    for t in &mut truth {
        let name = (t.info.tid.get(), t.info.started.get());
        let own = t.captured.len();
        let mut run =
            ComparedThread::new(t, tested.remove(&key(t)), WordNames { methods, symbols: &symbols });
        run.compare(&mut |n| progress(done + n, total)).map_err(Error::Spool)?;
        done += own;
        let mut figures = run.figures;
        figures.truth_bytes = truth_bytes.threads.get(&name).copied().unwrap_or(0);
        let joined = successors.iter().filter(|(_, to)| *to == name).map(|(of, _)| *of);
        let bytes = joined.chain([name]).filter_map(|of| capture_bytes.threads.get(&of));
        figures.capture_bytes = bytes.sum();
        all.total.merge(&figures);
        reliability.merge(&run.reliability);
        all.wrong_stretches += run.wrong_stretches;
        run.worst.into_iter().for_each(|w| keep(&mut all.worst, w));
        let (tid, started) = name;
        let name = t.info.name.clone();
        all.threads.push(ThreadAccuracy { tid, name, started, figures, shares: figures.shares() });
    }
    if let Some(other) = tested.into_values().find(|s| s.counts.total() > 0) {
        let name = other.info.name.clone();
        return Err(Error::OtherThread {
            tid: other.info.tid.get(),
            name,
            started: other.info.started.get(),
        });
    }
    all.total.truth_bytes = truth_bytes.total;
    all.total.capture_bytes = capture_bytes.total;
    all.shares = all.total.shares();
    Ok(all.calibrated(&reliability))
}

/// OS thread id and start (TSC).
type Name = (u32, u64);

/// Joins the flows of two Java threads that share an OS thread in turn (`main` and
/// `DestroyJavaVM`). If neither a switch away from the core nor lost trace lies between them,
/// the first thread's flow holds the trace of both. So where the truth knows only the first
/// thread, `tested` may have both, and the second is appended to the first. Returns the pairs
/// (joined thread, thread that it was appended to).
fn join_successors(
    truth: &[Spool],
    tested: &mut BTreeMap<(u64, u32), Spool>,
) -> io::Result<Vec<(Name, Name)>> {
    let alone: Vec<_> = tested.keys().copied().filter(|k| !truth.iter().any(|t| key(t) == *k)).collect();
    let mut joined = Vec::new();
    for (started, tid) in alone {
        let before = truth.iter().map(key).filter(|k| k.1 == tid && k.0 < started).max();
        if let Some(to) = before
            && let Some(second) = tested.remove(&(started, tid))
        {
            match tested.get_mut(&to) {
                Some(first) => first.append(second)?,
                None => drop(tested.insert(to, second)),
            }
            joined.push(((tid, started), (to.1, to.0)));
        }
    }
    Ok(joined)
}

fn key(s: &Spool) -> (u64, u32) {
    (s.info.started.get(), s.info.tid.get())
}

/// Translates words to names.
#[derive(Clone, Copy)]
struct WordNames<'a> {
    methods: &'a MethodTable,
    symbols: &'a Symbols,
}

impl WordNames<'_> {
    fn of(&self, words: &mut Words, range: Range<u64>) -> io::Result<Vec<String>> {
        let shown = range.start..range.end.min(range.start + SHOWN);
        let name = |word| match self.symbols.name(word) {
            Some((method, bci)) => {
                let name =
                    self.methods.get(method).map_or_else(|| method.to_string(), Method::qualified_name);
                format!("{name} @{bci}")
            }
            None => "a bytecode of an unknown method".into(),
        };
        Ok(words.range(shown)?.into_iter().map(name).collect())
    }
}

/// The comparison of one thread.
struct ComparedThread<'a> {
    truth: &'a mut Spool,
    tested: Option<Spool>,
    names: WordNames<'a>,
    figures: AccuracyFigures,
    reliability: Reliability,
    wrong_stretches: u64,
    worst: Vec<WrongStretch>,
}

impl<'a> ComparedThread<'a> {
    fn new(truth: &'a mut Spool, tested: Option<Spool>, names: WordNames<'a>) -> Self {
        let figures = AccuracyFigures {
            truth: truth.captured.len(),
            unresolved_truth: truth.unresolved,
            flow: tested.as_ref().map(|t| t.counts).unwrap_or_default(),
            orphans: tested.as_ref().map_or(0, |t| t.orphans),
            other_gaps: tested.as_ref().map_or(0, |t| t.other_gaps),
            ..AccuracyFigures::default()
        };
        let (reliability, worst) = (Reliability::default(), Vec::new());
        Self { truth, tested, names, figures, reliability, wrong_stretches: 0, worst }
    }

    fn compare(&mut self, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        let all = self.figures.truth;
        let Some(mut tested) = self.tested.take() else {
            // Nothing was captured.
            (self.figures.lost, self.figures.missing_lost) = (all, all);
            return Ok(());
        };
        (self.reliability.all, self.reliability.claimed) = (tested.by_bin, tested.confidence);
        let times = &self.truth.times;
        let cuts = tested.breaks.iter().filter(|b| !b.given_up);
        let cuts: Vec<Cut> = cuts.map(|b| cut(b, times, all)).collect();
        let captured = tested.captured.len();
        let guide = Guide::new(times, all, &tested.times);
        let mut found = Found {
            breaks: &tested.breaks,
            times,
            length: all,
            recovered: &mut tested.recovered,
            any_projected: tested.counts.projected > 0,
            names: self.names,
            tid: (self.truth.info.tid.get(), self.truth.info.started.get()),
            end: (0, 0),
            broken: 0,
            figures: &mut self.figures,
            reliability: &mut self.reliability,
            wrong_stretches: &mut self.wrong_stretches,
            worst: &mut self.worst,
            progress,
        };
        align(
            (&mut self.truth.captured, 0..all),
            (&mut tested.captured, 0..captured),
            (&cuts, &guide),
            &mut found,
        )?;
        found.hole(&mut self.truth.captured, &mut tested.captured, (all, captured))?;
        let f = &mut self.figures;
        f.wrong.decoded = f.flow.decoded - f.right.decoded;
        f.wrong.projected = f.flow.projected - f.right.projected;
        f.certain.wrong = tested.certain - f.certain.right;
        f.wrong.recovered = f.flow.recovered - f.right.recovered;
        Ok(())
    }
}

/// The range of the truth in which a break lies, by its times.
fn cut(b: &Break, times: &Times, length: u64) -> Cut {
    let since = b.since.map(|t| times.around(t, length));
    let until = b.resumed.map(|t| times.around(t, length));
    // Without a time there is no bound.
    let (from, to) = until.or(since).unwrap_or((0, length));
    // The bytecodes up to the next known time had run by then.
    let next = b.next.map(|(tsc, at)| times.around(tsc, length).1.saturating_sub(at - b.at));
    Cut { at: b.at, before: since.or(until).map_or(length, |s| s.1), from, to: next.unwrap_or(to).max(from) }
}

/// Takes the aligned stretches of captured bytecodes, and compares the ranges between them.
struct Found<'a> {
    breaks: &'a [Break],
    times: &'a Times,
    /// Bytecodes of the truth.
    length: u64,
    recovered: &'a mut Words,
    any_projected: bool,
    names: WordNames<'a>,
    tid: (u32, u64),
    /// Where the last aligned stretch ends, in the truth and in the capture.
    end: (u64, u64),
    /// Number of breaks before `end`.
    broken: usize,
    figures: &'a mut AccuracyFigures,
    reliability: &'a mut Reliability,
    wrong_stretches: &'a mut u64,
    worst: &'a mut Vec<WrongStretch>,
    progress: &'a mut dyn FnMut(u64),
}

impl Matches for Found<'_> {
    fn found(&mut self, truth: &mut Words, tested: &mut Words, m: Match) -> io::Result<()> {
        self.hole(truth, tested, (m.reference, m.tested))?;
        let (mut projected, mut certain) = (0, 0);
        if self.any_projected {
            for at in m.tested..m.tested + m.len {
                let known = tested.raw(at)? >> WORD_BITS;
                projected += u64::from(known != 0);
                certain += u64::from(known == ONE_PATH);
            }
        }
        self.figures.certain.right += certain;
        self.figures.right.projected += projected;
        self.figures.right.decoded += m.len - projected;
        self.end = (m.reference + m.len, m.tested + m.len);
        (self.progress)(self.end.0);
        Ok(())
    }
}

impl Found<'_> {
    /// Handles the range between the last aligned stretch and the next, which begins at `next`.
    fn hole(&mut self, truth: &mut Words, tested: &mut Words, next: (u64, u64)) -> io::Result<()> {
        let (expected, found) = (self.end.0..next.0, self.end.1..next.1);
        // Both flows continued together across these breaks.
        let inside = |b: &&Break| b.given_up && b.at < found.start;
        self.broken += self.breaks[self.broken..].iter().take_while(inside).count();
        let first = self.broken;
        while self.breaks.get(self.broken).is_some_and(|b| b.at <= next.1) {
            self.broken += 1;
        }
        let breaks = &self.breaks[first..self.broken];
        let lost = self.lost(breaks, &expected);
        let recovered = match breaks {
            [first, .., last] => first.recovered.0..last.recovered.1,
            [only] => only.recovered.0..only.recovered.1,
            [] => 0..0,
        };
        let mut right =
            Recovered { lost: lost.clone(), all: 0, of_lost: 0, by_bin: &mut self.reliability.right };
        subsequence((truth, expected.clone()), (self.recovered, recovered), &mut right)?;
        let (all, of_lost) = (right.all, right.of_lost);
        let f = &mut *self.figures;
        f.right.recovered += all;
        f.recovered_of_lost += of_lost;
        let lost = lost.end - lost.start;
        f.lost += lost;
        f.missing_lost += lost - of_lost;
        f.missing_captured += (expected.end - expected.start) - lost - (all - of_lost);
        if found.is_empty() {
            return Ok(());
        }
        *self.wrong_stretches += 1;
        if is_kept(self.worst, found.end - found.start) {
            let stretch = WrongStretch {
                tid: self.tid.0,
                started: self.tid.1,
                at: found.start,
                truth_at: expected.start,
                bytecodes: found.end - found.start,
                instead: expected.end - expected.start,
                at_gap: !breaks.is_empty(),
                found: self.names.of(tested, found)?,
                expected: self.names.of(truth, expected)?,
            };
            keep(self.worst, stretch);
        }
        Ok(())
    }

    /// The part of the truth's range that ran while trace was being lost: the bytecodes that
    /// did not certainly run before or after the loss, minus as many bytecodes as were captured
    /// there as orphans. Without times and orphans, the whole range.
    fn lost(&self, breaks: &[Break], hole: &Range<u64>) -> Range<u64> {
        let mut losses = breaks.iter().filter(|b| b.loss || b.filled);
        let Some(first) = losses.next() else { return hole.start..hole.start };
        let last = losses.next_back().unwrap_or(first);
        let from = first.since.map_or(hole.start, |t| self.times.before(t)).clamp(hole.start, hole.end);
        let to = last.until.map_or(hole.end, |t| self.times.behind(t, self.length)).min(hole.end);
        let orphans: u64 = breaks.iter().map(|b| b.orphans).sum();
        from..to.min(hole.end.saturating_sub(orphans)).max(from)
    }
}

/// Whether a stretch with this number of bytecodes would be among the longest.
fn is_kept(worst: &[WrongStretch], bytecodes: u64) -> bool {
    worst.len() < KEPT || worst.last().is_some_and(|w| w.bytecodes < bytecodes)
}

/// Keeps the longest stretches, the longest first; among equally long ones, the first.
fn keep(worst: &mut Vec<WrongStretch>, stretch: WrongStretch) {
    if is_kept(worst, stretch.bytecodes) {
        worst.insert(worst.partition_point(|w| w.bytecodes >= stretch.bytecodes), stretch);
        worst.truncate(KEPT);
    }
}

/// Takes the aligned stretches of filled bytecodes in one range.
struct Recovered<'a> {
    lost: Range<u64>,
    all: u64,
    of_lost: u64,
    by_bin: &'a mut [u64],
}

impl Matches for Recovered<'_> {
    fn found(&mut self, _: &mut Words, recovered: &mut Words, m: Match) -> io::Result<()> {
        self.all += m.len;
        let (from, to) = (m.reference.max(self.lost.start), (m.reference + m.len).min(self.lost.end));
        self.of_lost += to.saturating_sub(from);
        for at in m.tested..m.tested + m.len {
            if let Some(right) = self.by_bin.get_mut((recovered.raw(at)? >> WORD_BITS) as usize) {
                *right += 1;
            }
        }
        Ok(())
    }
}
