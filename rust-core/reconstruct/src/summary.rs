// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Figures of a whole decode.

use crate::batch::Batch;
use crate::machine::ThreadCounters;
use crate::recording::Recording;
use jportal_flow::{ThreadInfo, UnresolvedCounts};
use jportal_machine_flow::{Item, MachineGap, MachineGapReason};
use jportal_units::Core;

/// Figures of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSummary {
    /// The thread.
    pub info: ThreadInfo,
    /// The counters of its machine.
    pub counters: ThreadCounters,
    /// Bytes of PT recorded for it.
    pub pt_bytes: u64,
}

/// Gaps in the machine flow of all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineTotals {
    /// Contradictions: trace that contradicts itself or the code.
    pub errors: u64,
    /// OVF packets.
    pub overflows: u64,
    /// Losses that occurred while draining.
    pub truncations: u64,
    /// Bytes of trace skipped.
    pub skipped_bytes: u64,
    /// The first errors, with their core.
    pub first_errors: Vec<(Core, MachineGap)>,
}

impl MachineTotals {
    pub(crate) fn add(&mut self, batch: &Batch) {
        for index in &batch.gaps {
            if let Some(Item::Gap(gap)) = batch.items.get(*index as usize) {
                self.gap(batch.core, gap);
            }
        }
    }
    fn gap(&mut self, core: Core, gap: &MachineGap) {
        const KEPT: usize = 20;
        self.skipped_bytes += gap.bytes().unwrap_or(0);
        match gap.reason {
            MachineGapReason::Overflow => self.overflows += 1,
            MachineGapReason::Truncated => self.truncations += 1,
            MachineGapReason::Start | MachineGapReason::Sideband => {}
            _ => {
                self.errors += 1;
                if self.first_errors.len() < KEPT {
                    self.first_errors.push((core, gap.clone()));
                }
            }
        }
    }
}

/// Figures of the whole decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeSummary {
    /// One per thread, in order of start.
    pub threads: Vec<ThreadSummary>,
    /// The machine flow.
    pub native: MachineTotals,
    /// Bytes of PT in the capture.
    pub pt_bytes: u64,
    /// Bytes of PT that no AUX record covers, so that their thread is not known.
    pub unattributed_bytes: u64,
    /// Bytes of PT that were not decoded because nobody asked for them: of threads that are not
    /// selected, of threads whose sinks had enough, and before the time since which was decoded.
    pub not_asked_bytes: u64,
    /// Records that the data rings lost.
    pub lost_records: u64,
    /// Trace may have been left out because some sink had enough of its thread, or because threads
    /// cannot run bytecodes ([`DecodeOptions::leave_out`](crate::DecodeOptions)). The figures cover
    /// what was decoded.
    pub enough: bool,
}

impl DecodeSummary {
    pub(crate) fn new(threads: Vec<ThreadSummary>, native: MachineTotals, recording: &Recording) -> Self {
        Self {
            threads,
            native,
            pt_bytes: recording.pt_bytes(),
            unattributed_bytes: 0,
            not_asked_bytes: 0,
            lost_records: recording.lost_records(),
            enough: false,
        }
    }
    /// Contradictions between machine flow and bytecode, of all threads.
    pub fn contradictions(&self) -> u64 {
        self.threads.iter().map(|t| t.counters.contradictions).sum()
    }
    /// Unresolved stretches by tier and cause, of all threads.
    pub fn unresolved(&self) -> UnresolvedCounts {
        let mut all = UnresolvedCounts::default();
        self.threads.iter().for_each(|t| all.merge(&t.counters.unresolved));
        all
    }
    /// Bytecode events of all threads.
    pub fn bytecodes(&self) -> u64 {
        self.threads.iter().map(|t| t.counters.bytecodes).sum()
    }
    /// Bytes of PT that the decode should explain: those of the selected threads, and those of no
    /// known thread.
    pub const fn asked_bytes(&self) -> u64 {
        self.pt_bytes.saturating_sub(self.not_asked_bytes)
    }
    /// The share of the [bytes asked for](Self::asked_bytes) that was decoded; 1 for an empty
    /// trace. Bytes skipped after an error and bytes of no known thread count as not decoded.
    /// Bytes that were never recorded (truncation, overflow) are not in the denominator.
    pub fn completeness(&self) -> f64 {
        let asked = self.asked_bytes();
        if asked == 0 {
            return 1.0;
        }
        let missing = (self.native.skipped_bytes + self.unattributed_bytes).min(asked);
        1.0 - missing as f64 / asked as f64
    }
}
