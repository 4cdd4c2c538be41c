// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Algorithm 3 of the paper: data recovery, basic algorithm.

use super::suffix::SuffixContext;
use super::{Captured, Choose, FillWork, Parameters, Ranked, SegmentId, Tier};

/// Compares every complete segment instruction by instruction (Algorithm 3). Only the best one
/// is chosen, whatever [`Parameters::top`] says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Basic;

impl Choose for Basic {
    fn choose(
        &self,
        captured: &Captured,
        before: SegmentId,
        candidates: &[u32],
        parameters: &Parameters,
        work: &mut FillWork,
    ) -> Vec<Ranked> {
        let context = SuffixContext::new(captured, before, parameters);
        let mut best: Option<Ranked> = None;
        for position in candidates {
            work.compared += 1;
            let matched = context.common(Tier::Concrete, *position, work);
            if matched > best.map_or(0, |b| b.matched) {
                best = Some(Ranked { position: *position, matched });
            }
        }
        best.into_iter().collect()
    }
}
