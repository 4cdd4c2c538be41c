// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Algorithm 4 of the paper: abstraction-guided search for complete segments.

use super::suffix::SuffixContext;
use super::{Captured, Choose, FillWork, Parameters, Ranked, SegmentId, Tier};

/// Compares call structure, then control structure, then instructions, and continues only while
/// a complete segment may still be one of the best (Algorithm 4, with the top N of §5,
/// *Recovery*).
///
/// The paper remembers the lengths `⟨m1, m2, m3⟩` of the best complete segment; here they are
/// those of the N-th best. Theorem 5.5 holds for any complete segment that was found, so what
/// it prunes is worse than N others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiered;

/// Lengths of the common suffix of the N-th best at tiers 1 to 3: `⟨mg1, mg2, mg3⟩`.
type Least = [usize; 3];

impl Choose for Tiered {
    fn choose(
        &self,
        captured: &Captured,
        before: SegmentId,
        candidates: &[u32],
        parameters: &Parameters,
        work: &mut FillWork,
    ) -> Vec<Ranked> {
        let context = SuffixContext::new(captured, before, parameters);
        let mut best: Vec<Ranked> = Vec::new();
        let mut least = Least::default();
        for position in candidates {
            let Some(matched) = suffix_length(&context, *position, &least, work) else { continue };
            if matched <= least[2] {
                continue;
            }
            let at = best.partition_point(|b| b.matched >= matched);
            best.insert(at, Ranked { position: *position, matched });
            best.truncate(parameters.top.max(1));
            if let Some(last) = best.get(parameters.top.max(1) - 1) {
                least = lengths(&context, last.matched);
            }
        }
        best
    }
}

/// `ComputeSuffixLength`: the concrete length, or `None` if a tier shows that it is less than
/// `least`.
fn suffix_length(
    context: &SuffixContext<'_>,
    position: u32,
    least: &Least,
    work: &mut FillWork,
) -> Option<usize> {
    for (tier, least) in [Tier::Calls, Tier::Control].into_iter().zip(least) {
        if context.common(tier, position, work) < *least {
            return None;
        }
    }
    work.compared += 1;
    Some(context.common(Tier::Concrete, position, work))
}

fn lengths(context: &SuffixContext<'_>, matched: usize) -> Least {
    [context.abstracted(Tier::Calls, matched), context.abstracted(Tier::Control, matched), matched]
}
