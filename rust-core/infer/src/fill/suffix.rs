// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The common suffix of an incomplete segment and the prefix of a complete one, at each tier.

use super::{Captured, FillWork, Parameters, SegmentId, Tier, common};
use std::ops::Range;

/// An IS that complete segments are compared with.
pub(super) struct SuffixContext<'a> {
    captured: &'a Captured,
    /// The part of the IS that is compared.
    range: Range<usize>,
}

impl<'a> SuffixContext<'a> {
    pub(super) fn new(captured: &'a Captured, before: SegmentId, parameters: &Parameters) -> Self {
        let mut range = captured.range(before);
        range.start = range.start.max(range.end.saturating_sub(parameters.context));
        Self { captured, range }
    }
    /// `|α_l(IS) ∘ α_l(CS)|` for the CS whose prefix ends before `position`.
    pub(super) fn common(&self, tier: Tier, position: u32, work: &mut FillWork) -> usize {
        let (nodes, rank) = self.captured.abstraction(tier);
        let position = position as usize;
        let prefix = self.captured.range(self.captured.segment_at(position)).start;
        let own = &nodes[rank(self.range.start)..rank(self.range.end)];
        let other = &nodes[rank(prefix)..rank(position)];
        let common = common::suffix(own, other);
        work.instructions[tier as usize] += common as u64 + 1;
        common
    }
    /// `|α_l(IS ∘ CS)|` if the concrete common suffix has `matched` instructions.
    pub(super) fn abstracted(&self, tier: Tier, matched: usize) -> usize {
        let (_, rank) = self.captured.abstraction(tier);
        rank(self.range.end) - rank(self.range.end - matched)
    }
}
