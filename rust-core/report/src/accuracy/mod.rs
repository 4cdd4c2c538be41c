// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How much of what really ran a flow with lost trace tells: the figures of the paper's section 7.2.
//!
//! The *truth* is the flow of a loss-free capture, the *tested* flow that of a capture of the same run that has lost
//! trace. Methods, threads and clock are the same in both; compared are the bytecodes (method and bci), whoever
//! executed them.
//!
//! # The figures
//!
//! Table 3 gives six shares, Figure 7 the overall accuracy. The text (section 7.2) says "PMD and PDC report,
//! respectively, the percentages of data lost due to buffer overflow and data captured successfully. PR and PD report,
//! respectively, the percentages of the final control flow profiles that are recovered […] as well as reconstructed
//! from the captured data […]. RA and DA report the accuracies of JPortal's recovery and decoding/reconstruction". It
//! does not say of what PR and PD are percentages; the numbers do: in every column PR = PMD · RA, PD = PDC · DA, and
//! Figure 7 shows PR + PD of the 128 MB columns (H2: 16.95 + 54.36 = 71.3). So PR and PD count what is *right*, in
//! parts of the whole true flow, and RA and DA are shares of what was lost and of what was captured. Here, with N the
//! bytecodes of the truth and L those of them that ran while trace was being lost:
//!
//! | figure | is |
//! |---|---|
//! | PMD, PDC | bytes of PT lost and captured, of the truth's bytes (bytes that the loss puts in, OVF packets, count as captured) |
//! | lost (`pmd_flow`) | L / N: what was lost in bytecodes, for a byte of trace stands for one bytecode or for hundreds |
//! | PR | recovered bytecodes that are right / N |
//! | RA | recovered bytecodes that are right and ran while trace was being lost / L |
//! | PD | decoded and projected bytecodes that are right / N |
//! | DA | decoded and projected bytecodes that are right / (N − L) |
//! | overall | PD + PR |
//!
//! With L / N for PMD the paper's two products hold, except that recovery may also fill what was captured and could not be
//! decoded: that counts in PR and in no RA. DA is less than 1 if decoded bytecodes are wrong, but also if captured
//! trace could not be decoded, as behind a gap until the frames are known again; the share of the decoded bytecodes that
//! is right stands beside it (`decoded_right`).
//!
//! A bytecode is *right* if it has a counterpart of its own in the truth, in order. Where the truth itself is unresolved
//! there is none.
//!
//! # The alignment
//!
//! First the captured bytecodes (decoded, projected) of a thread are aligned with the truth (module `walk`): exactly,
//! as long as they agree; elsewhere from where both flows tell the very same time and agree, for both come from the same packets;
//! between such places by the distance from the truth for which most grams speak, within the bounds that the times of either set;
//! the rest by longest common subsequences of bounded size. Then the recovered bytecodes between two aligned
//! stretches are aligned with what the truth has between their counterparts, by a longest common subsequence of both (above 2³⁴ pairs of
//! bytecodes, of parts of equal share). So a bytecode is never counted
//! right without a counterpart, no counterpart twice, and the number of right ones is never more than a longest common subsequence
//! has; where the heuristics miss something it is less. In a loop the bytecodes behind a gap fit in many rounds; they are put in the
//! last one (module `late`), so that what is missing is missing at the gap.
//! A fill hangs on both ends of its gap: where all of the truth has counterparts in one that is longer, as of more rounds of the same loop,
//! those from the front to the middle are in front and the others at the end. How many are right is the same wherever they are, but
//! not which, and so not how sure the right ones were.
//!
//! Which part of such a hole was lost and which was captured but not decoded, the times of the gap tell
//! (`Gap::since`, `Gap::until`). That is exact to within a step of time events (2¹⁸ TSC ticks) at either end of a gap: what
//! did not run before or behind it for certain is lost, but for as many bytecodes as the capture has there as orphans. A break
//! without a gap (recovered bytecodes stand there) is a lost one.
//!
//! # Limits
//!
//! 4 bytes of [storage](Storage) for each bytecode of either flow, 1 MiB of it in memory; in memory besides some 40 bytes a gap
//! and at most 1 MiB of times a thread, and some 30 MB for an alignment. Time grows with the
//! length of the flows (module `walk`). At most 134 million bytes of bytecode in all methods together.

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
pub use figures::{Accuracy, Bin, Figures, Judged, Shares, ThreadAccuracy, WrongStretch};
pub use spool::Flows;
pub use words::Storage;

/// Why two flows cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The truth has lost trace, too.
    #[error(
        "the truth has lost trace itself: thread {tid}, behind {at} bytecodes; compare with a loss-free recording of the run \
         (jportal run --on-full stall)"
    )]
    TruthIsLossy {
        /// OS thread id.
        tid: u32,
        /// Bytecodes of the thread before the first loss.
        at: u64,
    },
    /// The capture has a thread that the truth has not.
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
    /// Words have room for so many.
    #[error("the methods have more than {most} bytes of bytecode, the most that can be compared")]
    TooManyBytecodes {
        /// Limit.
        most: u64,
    },
    /// The storage of the flows failed.
    #[error("the flows cannot be kept in a temporary file: {0}; is there room where TMPDIR points?")]
    Spool(#[source] std::io::Error),
}
