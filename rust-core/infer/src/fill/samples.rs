// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Fair samples of places, in a table.

use memmap2::{Advice, MmapMut};
use zerocopy::FromBytes;

/// Number of places kept per sample. With their count they take half a cache line.
pub(super) const WAYS: usize = 7;

/// Some of the places that were added to a sample, each plus 1 so that 0 means none, then the
/// number of places that were added.
type Sample = [u32; WAYS + 1];

/// A table of samples, in large pages if there are any. Samples are accessed in random order;
/// with small pages, the translation of the address would take as long as the access.
#[derive(Debug)]
pub(super) struct Samples(MmapMut);

impl Samples {
    /// `count` empty samples.
    ///
    /// # Panics
    /// If there is no memory for them, as with a [`Vec`].
    pub(super) fn new(count: usize) -> Self {
        let map = MmapMut::map_anon(count * size_of::<Sample>()).expect("no memory for samples of places");
        // Small pages are only slower.
        let _ = map.advise(Advice::HugePage);
        Self(map)
    }
    fn all(&self) -> &[Sample] {
        FromBytes::ref_from_bytes(&self.0).unwrap_or_default()
    }
    /// Number of samples.
    pub(super) fn len(&self) -> usize {
        self.0.len() / size_of::<Sample>()
    }
    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.len()
    }
    /// Adds each of `places` to the sample whose number is at the same index of `numbers`. No
    /// place may be `u32::MAX`. All samples are read before the first one is needed, so that
    /// the memory accesses overlap.
    pub(super) fn add(&mut self, numbers: &[usize], places: &[u32]) {
        let all: &mut [Sample] = FromBytes::mut_from_bytes(&mut self.0).unwrap_or_default();
        std::hint::black_box(numbers.iter().fold(0, |seen, number| seen | all[*number][WAYS]));
        numbers.iter().zip(places).for_each(|(number, place)| add(&mut all[*number], *place));
    }
    /// The places of a sample.
    pub(super) fn places(&self, number: usize) -> impl Iterator<Item = u32> + '_ {
        self.all()[number][..WAYS].iter().filter_map(|place| place.checked_sub(1))
    }
}

/// Keeps each of the places that were added with the same probability (reservoir sampling). The
/// random numbers are the same in every execution.
fn add([places @ .., seen]: &mut Sample, place: u32) {
    *seen = seen.saturating_add(1);
    let way = match *seen as usize {
        seen @ ..=WAYS => seen - 1,
        _ => ((scatter(place) * u64::from(*seen)) >> 32) as usize,
    };
    if let Some(kept) = places.get_mut(way) {
        *kept = place + 1;
    }
}

/// A pseudo-random number below 2³² for `place`.
const fn scatter(place: u32) -> u64 {
    let mixed = (place as u64 + 1).wrapping_mul(super::contexts::BASE);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_fair() {
        let mut early = 0;
        for start in 0..200 {
            let mut samples = Samples::new(2);
            (0..1000).for_each(|i| samples.add(&[1], &[start * 1000 + i]));
            assert_eq!((samples.places(0).count(), samples.places(1).count()), (0, WAYS));
            early += samples.places(1).filter(|p| *p % 1000 < 500).count();
        }
        assert!((700..900).contains(&early), "{early} of 1600");
    }

    #[test]
    fn few_places_are_all_kept() {
        let mut samples = Samples::new(4);
        samples.add(&[3, 0, 3], &[0, 5, 9]);
        let of = |number| samples.places(number).collect::<Vec<_>>();
        assert_eq!((of(0), of(1), of(3)), (vec![5], vec![], vec![0, 9]));
        assert_eq!((samples.len(), samples.memory()), (4, 128));
    }
}
