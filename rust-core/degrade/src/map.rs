// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Offsets in a stream before and after parts of it were removed or replaced.

/// A part of a stream that is removed, and the bytes that replace it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// First byte.
    pub from: u64,
    /// First byte after it.
    pub to: u64,
    /// The bytes that replace it.
    pub insert: Vec<u8>,
}

/// The cuts of one stream, ascending and disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    cuts: Vec<Cut>,
    /// For each cut, its first offset in the new stream.
    begins: Vec<u64>,
}

impl Map {
    /// Maps offsets for `cuts`, which are ascending and do not overlap.
    pub fn new(cuts: Vec<Cut>) -> Self {
        let mut begins = Vec::with_capacity(cuts.len());
        let (mut old, mut new) = (0, 0);
        for cut in &cuts {
            debug_assert!(cut.from >= old && cut.to >= cut.from);
            new += cut.from - old;
            begins.push(new);
            new += cut.insert.len() as u64;
            old = cut.to;
        }
        Self { cuts, begins }
    }

    /// The cuts.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// The new offset of `old`; for a removed byte, where the cut begins.
    pub fn new_place(&self, old: u64) -> u64 {
        let behind = self.cuts.partition_point(|c| c.from <= old);
        let Some(i) = behind.checked_sub(1) else { return old };
        let (cut, begin) = (&self.cuts[i], self.begins[i]);
        match old < cut.to {
            true => begin,
            false => begin + cut.insert.len() as u64 + (old - cut.to),
        }
    }

    /// The old offset of `new`; for an inserted byte, where the cut begins.
    pub fn old_place(&self, new: u64) -> u64 {
        let behind = self.begins.partition_point(|&b| b <= new);
        let Some(i) = behind.checked_sub(1) else { return new };
        let (cut, begin) = (&self.cuts[i], self.begins[i]);
        match new < begin + cut.insert.len() as u64 {
            true => cut.from,
            false => cut.to + (new - begin - cut.insert.len() as u64),
        }
    }

    /// Whether the byte at `old` was removed.
    pub fn is_cut(&self, old: u64) -> bool {
        let behind = self.cuts.partition_point(|c| c.from <= old);
        behind.checked_sub(1).is_some_and(|i| old < self.cuts[i].to)
    }

    /// Hands the new stream to `put`, piece by piece.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn apply<E>(&self, old: &[u8], mut put: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut at = 0;
        for cut in &self.cuts {
            put(old.get(at..cut.from as usize).unwrap_or_default())?;
            put(&cut.insert)?;
            at = cut.to as usize;
        }
        put(old.get(at..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(from: u64, to: u64, insert: &[u8]) -> Cut {
        Cut { from, to, insert: insert.to_vec() }
    }

    #[test]
    fn places_go_there_and_back() {
        let map = Map::new(vec![cut(2, 5, b"xy"), cut(8, 9, b"")]);
        let mut new = Vec::new();
        map.apply(b"abcdefghij", |p| {
            new.extend_from_slice(p);
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(new, b"abxyfghj");
        let there: Vec<u64> = (0..=10).map(|o| map.new_place(o)).collect();
        assert_eq!(there, [0, 1, 2, 2, 2, 4, 5, 6, 7, 7, 8]);
        let back: Vec<u64> = (0..=8).map(|n| map.old_place(n)).collect();
        assert_eq!(back, [0, 1, 2, 2, 5, 6, 7, 9, 10]);
        assert!(!map.is_cut(1) && map.is_cut(2) && map.is_cut(4) && !map.is_cut(5));
    }

    proptest! {
        #[test]
        fn what_stays_is_found_again(lengths in prop::collection::vec((1u64..20, 0u64..20, 0usize..4), 0..20)) {
            let (mut at, mut cuts) = (0, Vec::new());
            for (keep, take, put) in lengths {
                at += keep;
                cuts.push(cut(at, at + take, &vec![0; put]));
                at += take;
            }
            let map = Map::new(cuts);
            for old in (0..at + 5).filter(|&o| !map.is_cut(o)) {
                // The first byte after a cut without insertion has the same new offset as the
                // cut.
                prop_assert_eq!(map.new_place(map.old_place(map.new_place(old))), map.new_place(old));
                prop_assert!(map.new_place(old) <= map.new_place(old + 1));
            }
        }
    }
}
