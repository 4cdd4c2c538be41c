// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Results for segments that one thread has placed before. Loops repeat their stretches: where
//! every round ends in the same gap, one search answers for all rounds.

use crate::Segment;
use crate::project::Fit;
use hashbrown::HashMap;

/// The maximum number of symbols of a segment that is kept.
const LONGEST: usize = 1 << 10;
/// The maximum number of symbols of all segments that are kept, about 2 MB with their nodes.
const SYMBOLS: usize = 1 << 17;

/// The segments and their results.
#[derive(Debug, Default)]
pub(crate) struct KnownFits {
    found: HashMap<Segment, Fit>,
    /// The number of symbols of all segments, plus one for each segment.
    symbols: usize,
}

impl KnownFits {
    /// The result for `segment`, if it is known.
    pub(crate) fn get(&self, segment: &Segment) -> Option<&Fit> {
        self.found.get(segment)
    }
    /// Keeps a result. It must not depend on anything but `segment`: a search that the thread's
    /// budget cut short is not kept.
    pub(crate) fn insert(&mut self, segment: Segment, fit: &Fit) {
        let size = segment.len() + 1;
        if size > LONGEST {
            return;
        }
        if self.symbols + size > SYMBOLS {
            self.found.clear();
            self.symbols = 0;
        }
        self.symbols += size;
        self.found.insert(segment, fit.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Symbol;
    use jportal_bytecode::Opcode;

    fn segment(len: usize) -> Segment {
        Segment::new(vec![Symbol::open(Opcode::ICONST_0); len])
    }

    #[test]
    fn memory_is_bounded() {
        let mut known = KnownFits::default();
        for len in (1..LONGEST).chain(1..LONGEST) {
            known.insert(segment(len), &Fit::Nowhere { matched: len });
            assert!(matches!(known.get(&segment(len)), Some(Fit::Nowhere { matched }) if *matched == len));
            assert!(known.symbols <= SYMBOLS);
        }
        known.insert(segment(LONGEST), &Fit::Nowhere { matched: 0 });
        assert_eq!(known.get(&segment(LONGEST)), None);
    }
}
