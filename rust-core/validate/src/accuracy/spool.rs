// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The flows of a decode as words: one word of 4 bytes per bytecode, whatever the length of the
//! flow.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use jportal_bytecode::MethodTable;
use jportal_flow::{Analysis, Enough, Event, EventKind, Gap, Orphan, Provenance, Tally, ThreadInfo};
use jportal_units::{Bci, MethodId, Tsc};

use super::Error;
use super::figures::{BINS, bin};
use super::times::Times;
use super::words::{Storage, WORD_BITS, Words};

/// Numbers of the bytecodes of all methods, from 0 in the order of the methods.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// For each method, the number of its bci 0. One entry more at the end.
    first: Vec<u32>,
}

/// Bits of a word that hold the number of the bytecode. The bits above them say how the
/// bytecode is known: 1 is placed with one path, 2 is placed with several paths; for filled
/// bytecodes they hold the bin of the confidence.
const BITS: u32 = WORD_BITS;
/// See [`BITS`].
pub(crate) const ONE_PATH: u32 = 1;
pub(crate) const SEVERAL_PATHS: u32 = 2;
/// A bytecode of a method that was never described, in the reference and in the tested flow:
/// equal to no other word.
const UNKNOWN: [u32; 2] = [(1 << BITS) - 1, (1 << BITS) - 2];

impl Symbols {
    pub(crate) fn new(methods: &MethodTable) -> Result<Self, Error> {
        let mut next = 0u64;
        let mut first = Vec::with_capacity(methods.len() + 1);
        for m in methods.iter() {
            first.push(next as u32);
            next += m.code.len() as u64;
            if next >= u64::from(UNKNOWN[1]) {
                return Err(Error::TooManyBytecodes { most: UNKNOWN[1].into() });
            }
        }
        first.push(next as u32);
        Ok(Self { first })
    }
    fn of(&self, method: MethodId, bci: Bci) -> Option<u32> {
        let (&from, &to) = (self.first.get(method.0 as usize)?, self.first.get(method.0 as usize + 1)?);
        Some(from + u32::from(bci.get())).filter(|&s| s < to)
    }
    /// The bytecode of a word.
    pub(crate) fn name(&self, word: u32) -> Option<(MethodId, Bci)> {
        let symbol = word & UNKNOWN[0];
        let method = self.first.partition_point(|&f| f <= symbol).checked_sub(1)?;
        let bci = u16::try_from(symbol - self.first[method]).ok()?;
        (method + 1 < self.first.len()).then_some((MethodId(method as u32), Bci(bci)))
    }
}

/// Which of the two flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Truth = 0,
    Tested = 1,
}

/// A point at which the captured part of a flow is interrupted: by a gap, by filled bytecodes,
/// or by both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Break {
    /// Captured bytecodes before.
    pub(crate) at: u64,
    /// The break has a gap at which trace was lost.
    pub(crate) loss: bool,
    /// The point has filled bytecodes, or the end of a fill that was given up.
    pub(crate) filled: bool,
    /// The break consists only of the end of a fill that was given up. That end may be long
    /// after the lost trace, so both flows may simply continue here.
    pub(crate) given_up: bool,
    /// Last time known before, of all gaps here.
    pub(crate) since: Option<u64>,
    /// First time known after the last gap here.
    pub(crate) until: Option<u64>,
    /// Last time known before the captured bytecodes that follow.
    pub(crate) resumed: Option<u64>,
    /// The first time known after these, and the number of captured bytecodes before it.
    pub(crate) next: Option<(u64, u64)>,
    /// Number of filled bytecodes before this break, and up to its end.
    pub(crate) recovered: (u64, u64),
    /// Number of bytecodes after it of which only the opcode is known.
    pub(crate) orphans: u64,
}

impl Break {
    /// Adds a break that follows with no captured bytecode in between.
    fn merge(&mut self, behind: Self) {
        self.since = if self.loss { self.since } else { behind.since };
        self.until = if behind.loss { behind.until } else { self.until };
        self.loss |= behind.loss;
        self.filled |= behind.filled;
        self.given_up &= behind.given_up;
        self.resumed = self.resumed.max(behind.resumed);
        self.next = behind.next;
        self.recovered.1 = behind.recovered.1;
        self.orphans += behind.orphans;
    }
}

/// The flow of one thread.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) info: ThreadInfo,
    /// Decoded and placed bytecodes; for the truth, all bytecodes.
    pub(crate) captured: Words,
    /// Filled bytecodes.
    pub(crate) recovered: Words,
    /// Sum of the confidences of the filled bytecodes, by bin.
    pub(crate) confidence: [f64; BINS],
    /// Filled bytecodes, by bin.
    pub(crate) by_bin: [u64; BINS],
    pub(crate) breaks: Vec<Break>,
    /// Times, by number of captured bytecodes.
    pub(crate) times: Times,
    /// All bytecodes.
    pub(crate) counts: Tally,
    /// Gaps at which no trace was lost but the decoder could not continue.
    pub(crate) other_gaps: u64,
    /// Unresolved stretches.
    pub(crate) unresolved: u64,
    /// Orphan bytecodes.
    pub(crate) orphans: u64,
    /// Placed bytecodes with one path.
    pub(crate) certain: u64,
}

/// Returns an empty storage.
type OpenStorage = Box<dyn FnMut() -> io::Result<Box<dyn Storage>> + Send>;

/// Spools the flows of all threads of one decode. When the decode has ended, the caller passes it
/// to [`compare`](super::compare()).
pub struct Flows {
    symbols: Arc<Symbols>,
    role: Role,
    storage: Mutex<OpenStorage>,
    /// In a lock because storages cannot be shared.
    spools: Mutex<Vec<io::Result<Spool>>>,
}

impl Flows {
    /// For the truth. `methods`: the methods of the recording. `storage` returns an empty
    /// storage for bytecodes; it is called twice for each thread.
    ///
    /// # Errors
    /// [`Error::TooManyBytecodes`].
    pub fn of_truth(
        methods: &MethodTable,
        storage: impl FnMut() -> io::Result<Box<dyn Storage>> + Send + 'static,
    ) -> Result<Self, Error> {
        Self::new(methods, Role::Truth, Box::new(storage))
    }
    /// For the flow that is compared with the truth.
    ///
    /// # Errors
    /// [`Error::TooManyBytecodes`].
    pub fn of_capture(
        methods: &MethodTable,
        storage: impl FnMut() -> io::Result<Box<dyn Storage>> + Send + 'static,
    ) -> Result<Self, Error> {
        Self::new(methods, Role::Tested, Box::new(storage))
    }
    fn new(methods: &MethodTable, role: Role, storage: OpenStorage) -> Result<Self, Error> {
        let symbols = Arc::new(Symbols::new(methods)?);
        Ok(Self { symbols, role, storage: Mutex::new(storage), spools: Mutex::default() })
    }
    /// The flows, in order of start, and the meaning of their words.
    pub(crate) fn finish(self) -> Result<(Vec<Spool>, Arc<Symbols>), Error> {
        let all = self.spools.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut all = all.into_iter().collect::<Result<Vec<Spool>, _>>().map_err(Error::Spool)?;
        all.sort_by_key(|s| (s.info.started, s.info.tid));
        Ok((all, self.symbols))
    }
}

impl std::fmt::Debug for Flows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flows").field("role", &self.role).finish_non_exhaustive()
    }
}

/// One thread that is spooled. The first error replaces the spool.
pub struct SpooledThread(io::Result<Spool>);

impl Analysis for Flows {
    type Thread = SpooledThread;

    fn begin(&self, info: &ThreadInfo) -> SpooledThread {
        let mut storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        let storages = storage().and_then(|captured| Ok((captured, storage()?)));
        SpooledThread(storages.map(|(captured, recovered)| Spool {
            info: info.clone(),
            captured: Words::new(captured),
            recovered: Words::new(recovered),
            confidence: [0.0; BINS],
            by_bin: [0; BINS],
            breaks: Vec::new(),
            times: Times::default(),
            counts: Tally::default(),
            other_gaps: 0,
            unresolved: 0,
            orphans: 0,
            certain: 0,
        }))
    }
    fn events(&self, SpooledThread(thread): &mut SpooledThread, events: &[Event]) -> ControlFlow<Enough> {
        let Ok(spool) = thread else { return ControlFlow::Break(Enough::OfAll) };
        let taken = events.iter().try_for_each(|e| match e.kind {
            EventKind::Bytecode { method, bci, .. } => {
                let word = self.symbols.of(method, bci).unwrap_or(UNKNOWN[self.role as usize]);
                spool.bytecode(word, e.provenance, self.role)
            }
            EventKind::Time(tsc) => {
                spool.time(tsc);
                Ok(())
            }
            EventKind::Gap(ref gap) => {
                match e.provenance {
                    Provenance::Recovered { .. } => spool.give_up(),
                    _ => spool.gap(gap),
                }
                Ok(())
            }
            EventKind::Unresolved { .. } => {
                spool.unresolved += 1;
                Ok(())
            }
            EventKind::Orphan(Orphan::Bytecode { .. }) => {
                spool.orphan();
                Ok(())
            }
            _ => Ok(()),
        });
        if let Err(e) = taken {
            *thread = Err(e);
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, SpooledThread(thread): SpooledThread) {
        let flushed = thread.and_then(|mut spool| {
            spool.captured.flush()?;
            spool.recovered.flush()?;
            Ok(spool)
        });
        self.spools.get_mut().unwrap_or_else(PoisonError::into_inner).push(flushed);
    }
    fn takes_runs(&self) -> bool {
        false
    }
}

impl Spool {
    fn bytecode(&mut self, symbol: u32, provenance: Provenance, role: Role) -> io::Result<()> {
        self.counts.add(provenance);
        match provenance {
            Provenance::Recovered { confidence } if role == Role::Tested => {
                let bin = bin(confidence);
                self.by_bin[bin] += 1;
                self.confidence[bin] += f64::from(confidence);
                self.recovered.push(symbol | (bin as u32) << BITS)?;
                let so_far = self.recovered.len();
                let here = self.here();
                here.recovered.1 = so_far;
                (here.filled, here.given_up) = (true, false);
                Ok(())
            }
            Provenance::Projected { paths } => {
                self.certain += u64::from(paths == 1);
                self.captured.push(symbol | if paths == 1 { ONE_PATH } else { SEVERAL_PATHS } << BITS)
            }
            _ => self.captured.push(symbol),
        }
    }
    fn gap(&mut self, gap: &Gap) {
        let loss = gap.reason.is_loss();
        self.other_gaps += u64::from(!loss);
        let here = self.here();
        here.given_up = false;
        if loss {
            // Of gaps in a row, the first gives `since` and the last gives `until`.
            here.since = if here.loss { here.since } else { gap.since.map(Tsc::get) };
            here.until = gap.until.map(Tsc::get);
            here.resumed = here.resumed.max(here.until);
            here.loss = true;
        }
    }
    /// The fill was given up: it did not reach the flow after the gap.
    fn give_up(&mut self) {
        let at = self.captured.len();
        let new = self.breaks.last().is_none_or(|b| b.at != at);
        let here = self.here();
        here.filled = true;
        here.given_up |= new;
    }
    fn orphan(&mut self) {
        self.orphans += 1;
        let at = self.captured.len();
        if let Some(here) = self.breaks.last_mut().filter(|b| b.at == at) {
            here.orphans += 1;
        }
    }
    fn time(&mut self, tsc: Tsc) {
        let at = self.captured.len();
        self.times.push(at, tsc.get());
        // The first time after a gap without an end time is its end; the last time before the
        // next captured bytecode is when the flow resumes.
        if let Some(gap) = self.breaks.last_mut().filter(|b| b.at == at) {
            if gap.loss {
                gap.until = gap.until.or(Some(tsc.get()));
            }
            gap.resumed = gap.resumed.max(Some(tsc.get()));
        } else if let Some(gap) = self.breaks.last_mut() {
            gap.next = gap.next.or(Some((tsc.get(), at)));
        }
    }
    /// The break after the captured bytecodes so far.
    fn here(&mut self) -> &mut Break {
        let (at, recovered) = (self.captured.len(), self.recovered.len());
        if self.breaks.last().is_none_or(|b| b.at != at) {
            let from = self.breaks.last().map_or(0, |b| b.recovered.1);
            self.breaks.push(Break { at, recovered: (from, recovered), ..Break::default() });
        }
        let last = self.breaks.len() - 1;
        &mut self.breaks[last]
    }
    /// Appends the flow of a thread that followed on the same OS thread.
    pub(crate) fn append(&mut self, mut next: Self) -> io::Result<()> {
        let (captured, recovered) = (self.captured.len(), self.recovered.len());
        self.times.append(captured, &next.times);
        for b in next.breaks {
            let here = Break {
                at: captured + b.at,
                recovered: (recovered + b.recovered.0, recovered + b.recovered.1),
                next: b.next.map(|(tsc, at)| (tsc, captured + at)),
                ..b
            };
            match self.breaks.last_mut().filter(|last| last.at == here.at) {
                Some(last) => last.merge(here),
                None => self.breaks.push(here),
            }
        }
        self.captured.append(&mut next.captured)?;
        self.recovered.append(&mut next.recovered)?;
        self.confidence.iter_mut().zip(next.confidence).for_each(|(a, b)| *a += b);
        self.by_bin.iter_mut().zip(next.by_bin).for_each(|(a, b)| *a += b);
        self.counts.merge(&next.counts);
        self.other_gaps += next.other_gaps;
        self.unresolved += next.unresolved;
        self.orphans += next.orphans;
        self.certain += next.certain;
        Ok(())
    }
    /// The first break at which trace of the thread was lost.
    pub(crate) fn lossy(&self) -> Option<&Break> {
        self.breaks.iter().find(|b| b.loss)
    }
}
