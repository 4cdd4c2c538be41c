// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Measures how much of the true execution a flow with lost trace contains: the figures of the
//! paper's section 7.2.
//!
//! The *truth* is the flow of a loss-free capture. The *tested* flow comes from a capture of
//! the same run that has lost trace. Methods, threads and clock are the same in both. The
//! comparison is of bytecodes (method and bci), whichever tier executed them.
//!
//! Comments speak of *placed* bytecodes (the paper's projected ones, `Provenance::Projected`)
//! and of *filled* bytecodes (the paper's recovered ones, `Provenance::Recovered`). The
//! *captured* bytecodes are the decoded and the placed ones.
//!
//! # The figures
//!
//! Table 3 gives six shares, Figure 7 the overall accuracy. The text (section 7.2) says "PMD
//! and PDC report, respectively, the percentages of data lost due to buffer overflow and data
//! captured successfully. PR and PD report, respectively, the percentages of the final control
//! flow profiles that are recovered […] as well as reconstructed from the captured data […]. RA
//! and DA report the accuracies of JPortal's recovery and decoding/reconstruction". The text
//! does not say of what PR and PD are percentages. The numbers do: in every column PR = PMD ·
//! RA and PD = PDC · DA, and Figure 7 shows PR + PD of the 128 MB columns (H2: 16.95 + 54.36 =
//! 71.3). So PR and PD count the bytecodes that are *right*, as shares of the whole true flow,
//! and RA and DA are shares of the lost and of the captured bytecodes. Let N be the number of
//! bytecodes of the truth, and L the number of those that ran while trace was being lost:
//!
//! | figure | definition |
//! |---|---|
//! | PMD, PDC | bytes of PT lost and captured, as shares of the truth's bytes (OVF packets, which the loss inserts, count as captured) |
//! | lost (`pmd_flow`) | L / N: the loss in bytecodes, because a byte of trace stands for one bytecode or for hundreds |
//! | PR | right filled bytecodes / N |
//! | RA | right filled bytecodes that ran while trace was being lost / L |
//! | PD | right captured bytecodes / N |
//! | DA | right captured bytecodes / (N − L) |
//! | overall | PD + PR |
//!
//! With L / N for PMD, the paper's two products hold, with one exception: filling may also add
//! bytecodes where trace was captured but could not be decoded. Those count in PR but not in
//! RA. DA is less than 1 if decoded bytecodes are wrong, and also if captured trace could not
//! be decoded, for example after a gap until the frames are known again. The share of the
//! decoded bytecodes that are right is a separate figure (`decoded_right`).
//!
//! A bytecode is *right* if it has a counterpart of its own in the truth, in order. Where the
//! truth itself is unresolved, no counterpart exists.
//!
//! # The alignment
//!
//! First, the captured bytecodes of a thread are aligned with the truth (module `walk`), in
//! these steps:
//!
//! * exactly, while both agree;
//! * where they disagree, from the next index at which both flows have the same time and agree,
//!   because both come from the same packets;
//! * between such indices, by the distance from the truth for which most grams vote, within the
//!   bounds that the times of both flows set;
//! * the rest, by longest common subsequences of bounded size.
//!
//! Then the filled bytecodes between two aligned ranges are aligned with the bytecodes that the
//! truth has between the counterparts of these ranges, by one longest common subsequence. Above
//! 2³⁴ pairs of bytecodes, both sides are divided into parts of equal share. So no bytecode
//! counts as right without a counterpart, no counterpart counts twice, and the number of right
//! bytecodes is at most the length of a longest common subsequence. It is less where the
//! heuristics miss something.
//!
//! In a loop, the bytecodes after a gap fit several rounds. They are aligned with the last of
//! these rounds (module `late`), so that the missing bytecodes are missing at the gap.
//!
//! A fill is anchored at both ends of its gap. If all of the truth's bytecodes there have
//! counterparts in a longer fill (for example, a fill with more rounds of the same loop), the
//! first half of them is aligned with the front of the fill and the other half with its end.
//! This choice does not change how many filled bytecodes are right, but it does change which
//! ones are, and so which confidences belong to the right ones.
//!
//! The times of the gap (`Gap::since`, `Gap::until`) decide which part of such a range was lost
//! and which part was captured but not decoded. That is exact to within one step of time events
//! (2¹⁸ TSC ticks) at either end of a gap: bytecodes that did not certainly run before or after
//! the gap count as lost, minus as many bytecodes as the capture has there as orphans. A break
//! that has filled bytecodes instead of a gap counts as lost.
//!
//! # Limits
//!
//! 4 bytes of [storage](Storage) for each bytecode of either flow, at most 1 MiB of it in
//! memory at a time. In addition, memory holds some 40 bytes per gap, at most 1 MiB of times
//! per thread, and some 30 MB for an alignment. Time grows with the length of the flows (module
//! `walk`). All methods together may have at most 134 million bytes of bytecode.

mod compare;
mod figures;
mod late;
mod meet;
mod spool;
mod times;
mod walk;
mod words;

#[cfg(test)]
mod accuracy_tests;
#[cfg(test)]
pub(crate) mod testing;

pub use compare::{BytesOfThreads, TraceBytes, compare};
pub use figures::{Accuracy, AccuracyFigures, Bin, Judged, Shares, ThreadAccuracy, WrongStretch};
pub use spool::Flows;
pub use words::Storage;

/// Why two flows cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The truth has lost trace, too.
    #[error(
        "the truth has lost trace itself: thread {tid}, after {at} bytecodes; compare with a loss-free recording of the run \
         (jportal run --on-full stall)"
    )]
    TruthIsLossy {
        /// OS thread id.
        tid: u32,
        /// Bytecodes of the thread before the first loss.
        at: u64,
    },
    /// The capture has a thread that the truth does not have.
    #[error(
        "thread {tid} \"{name}\", started at TSC {started}, ran in the capture and not in the truth: not the same run"
    )]
    OtherThread {
        /// OS thread id.
        tid: u32,
        /// Its name.
        name: String,
        /// When it started (TSC).
        started: u64,
    },
    /// The methods have more bytes of bytecode than words can number.
    #[error("the methods have more than {most} bytes of bytecode, the most that can be compared")]
    TooManyBytecodes {
        /// The largest number of bytes that can be compared.
        most: u64,
    },
    /// The storage of the flows failed.
    #[error("the flows cannot be kept in a temporary file: {0}; is there room where TMPDIR points?")]
    Spool(#[source] std::io::Error),
}
