// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads a complete segment until it joins what follows the gap.

use super::{Captured, Fill, FillSource, FillWork, Hole, Parameters, Ranked};
use jportal_bytecode::Node;

/// The fill from the first of `chosen` that joins.
pub(super) fn first_that_joins(
    captured: &Captured,
    hole: &Hole,
    chosen: &[Ranked],
    parameters: &Parameters,
    work: &mut FillWork,
) -> Option<Fill> {
    for (rank, cs) in chosen.iter().enumerate() {
        work.tried += 1;
        let from = cs.position as usize;
        if let Some(len) = length(captured, hole, from, parameters, work) {
            let segment = captured.segment_at(from);
            let at = from - captured.range(segment).start;
            let source = FillSource::Captured { segment, at, matched: cs.matched, rank };
            return Some(Fill { nodes: captured.nodes()[from..from + len].to_vec(), source });
        }
    }
    None
}

/// The number of instructions of the CS, from `from` on, before the first `y` instructions that
/// follow the gap. `None` if these do not occur within the allowed length.
fn length(
    captured: &Captured,
    hole: &Hole,
    from: usize,
    parameters: &Parameters,
    work: &mut FillWork,
) -> Option<usize> {
    let after = captured.segment(hole.after);
    let join = &after[..after.len().min(parameters.join.max(1))];
    let suffix = &captured.nodes()[from..captured.range(captured.segment_at(from)).end];
    let end = allowed(captured, hole, from, suffix, parameters);
    if join.is_empty() {
        return None;
    }
    let found = suffix.windows(join.len()).take(end + 1).position(|w| w == join);
    work.read += found.unwrap_or(end.min(suffix.len())) as u64 + join.len() as u64;
    found
}

/// How much of `suffix`, which begins at `from`, executed within the time that the gap took.
fn allowed(captured: &Captured, hole: &Hole, from: usize, suffix: &[Node], parameters: &Parameters) -> usize {
    let longest = suffix.len().min(parameters.longest);
    let (Some(d), Some(start)) = (hole.time.filter(|_| parameters.time), captured.time_at(from)) else {
        return longest;
    };
    let late = |len: usize| captured.time_at(from + len).is_some_and(|t| t.saturating_sub(start) > d);
    let (mut low, mut high) = (0, longest);
    while low < high {
        let middle = low + (high - low) / 2;
        if late(middle) { high = middle } else { low = middle + 1 }
    }
    low
}
